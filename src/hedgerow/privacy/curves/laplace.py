"""The exact curve of Laplace noise."""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, isfinite, log1p

from hedgerow.core.rounding import outward, rounded_up
from hedgerow.core.validate import between, expect


@dataclass(frozen=True)
class LaplaceDP:
    """The curve of Laplace noise: it shifts by `bound` times its scale between the two worlds.

    delta(epsilon) = 1 - exp((epsilon - bound) / 2) for |epsilon| < bound. Laplace noise has this
    curve in every dimension (`proofs/mechanisms.md#laplace`).

    Parameters
    ----------
    bound
        Sensitivity in the l1 norm divided by the scale of the noise, >= 0 and finite.

    Examples
    --------
    >>> from hedgerow.privacy import LaplaceDP
    >>> round(LaplaceDP(1.0).delta(0.0), 6), LaplaceDP(1.0).epsilon(0.0)
    (0.393469, 1.0)
    """

    bound: float

    def __post_init__(self) -> None:
        expect(isfinite(self.bound) and self.bound >= 0, "bound", self.bound, ">= 0 and finite")

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.bound:
            return 0.0
        return -expm1((epsilon - self.bound) / 2) if epsilon > -self.bound else -expm1(epsilon)

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        return (
            outward(max(0.0, self.bound + 2 * log1p(-delta)), self.bound, delta, self.delta)
            if delta < 1
            else 0.0
        )

    def stated(self) -> tuple[float, float]:
        return self.bound, 0.0

    def words(self) -> str:
        return f"epsilon = {rounded_up(self.bound)}, delta = 0 (Laplace)"

"""A curve quoted at a chosen delta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hedgerow.core.rounding import rounded_up
from hedgerow.core.validate import expect

if TYPE_CHECKING:
    from hedgerow.core.certificate import PrivacyCurve


@dataclass(frozen=True)
class Quoted:
    """The same curve, quoted at `at_delta`.

    >>> from hedgerow.privacy.curves import GaussianDP
    >>> Quoted(GaussianDP(0.5), 1e-5).words()
    'epsilon = 1.994, delta = 1e-5'
    """

    curve: PrivacyCurve
    at_delta: float

    def __post_init__(self) -> None:
        expect(0 < self.at_delta < 1, "at_delta", self.at_delta, "in (0, 1)")

    def delta(self, epsilon: float) -> float:
        return self.curve.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        return self.curve.epsilon(delta)

    def stated(self) -> tuple[float, float]:
        return self.curve.epsilon(self.at_delta), self.at_delta

    def words(self) -> str:
        epsilon = self.curve.epsilon(self.at_delta)
        return f"epsilon = {rounded_up(epsilon)}, delta = {rounded_up(self.at_delta)}"

"""A guarantee that holds except with a small probability."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf

from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.rounding import round_down, rounded_up
from hedgerow.core.validate import between, expect
from hedgerow.privacy.curves.base import QUOTED_DELTA, Composed
from hedgerow.privacy.curves.pure import ApproximateDP


@dataclass(frozen=True)
class WithFailure(Composed):
    """`curve`, except with probability `at_delta`, when everything may be revealed.

    In both worlds the output comes with probability at least 1 - at_delta from a pair with `curve`,
    so delta(epsilon) = at_delta + (1 - at_delta) curve.delta(epsilon)
    (`proofs/odometer.md#approximate-costs`). With a pure curve this is `ApproximateDP`.

    >>> from hedgerow.privacy.curves import GaussianDP
    >>> curve = WithFailure(GaussianDP(0.5), 1e-6)
    >>> curve.epsilon(1e-7), round(curve.epsilon(2e-6), 4), round(GaussianDP(0.5).epsilon(1e-6), 4)
    (inf, 2.2541, 2.2541)
    """

    curve: PrivacyCurve
    at_delta: float

    def __post_init__(self) -> None:
        expect(0 <= self.at_delta <= 1, "at_delta", self.at_delta, "in [0, 1]")

    def composed_of(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        return (ApproximateDP(0.0, self.at_delta), 1), (self.curve, 1)

    def delta(self, epsilon: float) -> float:
        return min(
            1.0, (self.at_delta + (1 - self.at_delta) * self.curve.delta(epsilon)) * (1 + 2.0**-51)
        )

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        if delta == 1:
            return 0.0
        rest = Fraction(delta) * (1 - Fraction(1, 2**50)) - Fraction(self.at_delta)
        if rest < 0:
            return inf
        return self.curve.epsilon(round_down(rest / (1 - Fraction(self.at_delta))))

    def stated(self) -> tuple[float, float]:
        delta = min(1.0, self.at_delta + max(QUOTED_DELTA, self.at_delta))
        return self.epsilon(delta), delta

    def words(self) -> str:
        return f"{self.curve.words()}, except with probability {rounded_up(self.at_delta)}"

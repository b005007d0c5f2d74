"""Privacy curves: delta as a function of epsilon."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from math import exp, expm1, inf, log1p

from hedgerow.core.checks import between, expect


def rounded_up(value: float, digits: int = 4) -> str:
    """A number for people: so many significant digits, never below the value (but for a floating-point residue of 1e-12).

    >>> rounded_up(1.00049), rounded_up(0.75), rounded_up(0.7500000000000001), rounded_up(123449.0)
    ('1.001', '0.75', '0.75', '123500')
    """
    if value == 0:
        return "0"
    least = Decimal(value) * (1 - Decimal("1e-12"))
    step = Decimal(1).scaleb(least.adjusted() - digits + 1)
    text = f"{(least / step).to_integral_value(ROUND_CEILING) * step:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True)
class PureDP:
    """epsilon-DP: no event is more than e^epsilon times likelier in one world than in the other.

    The curve is that of randomised response, the worst mechanism with this claim.

    >>> round(PureDP(1.0).delta(0.0), 6), PureDP(1.0).epsilon(0.0)
    (0.462117, 1.0)
    """

    bound: float

    def __post_init__(self) -> None:
        expect(self.bound >= 0, "epsilon", self.bound, ">= 0")

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.bound:
            return 0.0
        return -expm1(epsilon - self.bound) / (1 + exp(-self.bound)) if epsilon > -self.bound else -expm1(epsilon)

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        lost = delta * (1 + exp(-self.bound))
        return max(0.0, self.bound + log1p(-lost)) if lost < 1 else 0.0

    def stated(self) -> tuple[float, float]:
        return self.bound, 0.0

    def words(self) -> str:
        return "unbounded epsilon" if self.bound == inf else f"epsilon = {rounded_up(self.bound)}, delta = 0"

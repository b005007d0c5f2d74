"""Base classes of curves: how a curve is quoted, and its values at negative epsilon."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal
from math import exp, expm1, inf, isnan, nextafter

from hedgerow.core.curve import PrivacyCurve
from hedgerow.core.validate import expect

QUOTED_DELTA = 1e-6  # where curves that have no delta are quoted


def rounded_up(value: float, digits: int = 4) -> str:
    """The value as text with `digits` significant digits, rounded up.

    A floating-point residue of 1e-12 is ignored. Otherwise the text is never below the value.

    >>> rounded_up(1.00049), rounded_up(0.75), rounded_up(0.7500000000000001)
    ('1.001', '0.75', '0.75')
    >>> rounded_up(123449.0), rounded_up(1e-6)
    ('123500', '1e-6')
    """
    if value == 0:
        return "0"
    least = Decimal(value) * (1 - Decimal("1e-12"))
    step = Decimal(1).scaleb(least.adjusted() - digits + 1)
    raised = (least / step).to_integral_value(ROUND_CEILING) * step
    if raised < Decimal("1e-4"):
        return f"{raised.normalize():e}"
    text = f"{raised:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def outward(found: float, bound: float, delta: float, curve: Callable[[float], float]) -> float:
    """The first float from `found` on, at most `bound`, at which the curve is `delta` or less."""
    while found < bound and curve(found) > delta:
        found = nextafter(found, inf)
    return min(found, bound)


class Composed(ABC):
    """A curve of several steps, which a budget can count one by one."""

    @abstractmethod
    def composed_of(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        """The curve of each kind of step, and how often it occurs."""


class QuotedAtDelta:
    """A curve that has no delta and is quoted at `QUOTED_DELTA`."""

    def epsilon(self, delta: float) -> float:
        raise NotImplementedError

    def stated(self) -> tuple[float, float]:
        return self.epsilon(QUOTED_DELTA), QUOTED_DELTA

    def _quote(self) -> str:
        return f"epsilon = {rounded_up(self.epsilon(QUOTED_DELTA))} at delta = {QUOTED_DELTA:g}"


class Symmetric(QuotedAtDelta):
    """A curve that is the same in both directions, computed for epsilon >= 0.

    Negative epsilon follows from `proofs/mechanisms.md#curves`, (exchange).
    """

    def _delta(self, epsilon: float) -> float:
        """delta for epsilon >= 0."""
        raise NotImplementedError

    def delta(self, epsilon: float) -> float:
        expect(not isnan(epsilon), "epsilon", epsilon, "to be a number")
        if epsilon >= 0:
            return self._delta(epsilon)
        return min(1.0, (-expm1(epsilon) + exp(epsilon) * self._delta(-epsilon)) * (1 + 2.0**-47))

"""Base classes of curves: how a curve is quoted, and its values at negative epsilon."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import exp, expm1, isnan
from typing import Any

from hedgerow.core.errors import InvalidValue
from hedgerow.core.mechanism import PrivacyCurve
from hedgerow.core.rounding import rounded_up

QUOTED_DELTA = 1e-6  # where curves that have no delta are quoted


class Curve:
    """A curve of one record, which gives the curve of several."""

    def of_records(self, count: int, separate: bool, at_delta: float = 0.0) -> PrivacyCurve:
        from hedgerow.privacy.composition.groups import of_one_person

        curve: Any = self
        return of_one_person(curve, count, separate_reports=separate)


class Composed(Curve, ABC):
    """A curve of several steps, which a budget can count one by one."""

    @abstractmethod
    def composed_of(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        """The curve of each kind of step, and how often it occurs."""


class QuotedAtDelta(Curve):
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
        if isnan(epsilon):
            raise InvalidValue(f"Expected epsilon={epsilon!r} to be a number.")
        if epsilon >= 0:
            return self._delta(epsilon)
        return min(1.0, (-expm1(epsilon) + exp(epsilon) * self._delta(-epsilon)) * (1 + 2.0**-47))

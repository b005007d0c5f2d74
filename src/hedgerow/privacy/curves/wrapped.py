"""Curves made of others: quoted at a delta, except with a small probability, largest, smallest.

The largest: one of several cases happens, and anyone may know which. The smallest: all curves hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf

from hedgerow.core.errors import InvalidValue
from hedgerow.core.mechanism import PrivacyCurve
from hedgerow.core.rounding import round_down, rounded_up
from hedgerow.core.validate import between
from hedgerow.privacy.curves.base import QUOTED_DELTA, Composed, Curve, QuotedAtDelta
from hedgerow.privacy.curves.pure import ApproximateDP


@dataclass(frozen=True)
class Quoted(Curve):
    """The same curve, quoted at `at_delta`.

    >>> from hedgerow.privacy.curves import GaussianDP
    >>> Quoted(GaussianDP(0.5), 1e-5).words()
    'epsilon = 1.994, delta = 1e-5'
    """

    curve: PrivacyCurve
    at_delta: float

    def __post_init__(self) -> None:
        if not 0 < self.at_delta < 1:
            raise InvalidValue(f"Expected at_delta={self.at_delta!r} in (0, 1).")

    def delta(self, epsilon: float) -> float:
        return self.curve.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        return self.curve.epsilon(delta)

    def stated(self) -> tuple[float, float]:
        return self.curve.epsilon(self.at_delta), self.at_delta

    def of_records(self, count: int, separate: bool, at_delta: float = 0.0) -> Quoted:
        return Quoted(self.curve.of_records(count, separate), at_delta or self.at_delta)

    def words(self) -> str:
        epsilon = self.curve.epsilon(self.at_delta)
        return f"epsilon = {rounded_up(epsilon)}, delta = {rounded_up(self.at_delta)}"


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
        if not 0 <= self.at_delta <= 1:
            raise InvalidValue(f"Expected at_delta={self.at_delta!r} in [0, 1].")

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


@dataclass(frozen=True)
class LargestOf(QuotedAtDelta):
    """A record falls into one of several cases before it matters; each case has its own curve.

    Which case it is has the same law in both worlds. So delta(epsilon) is at most the largest
    delta, not a sum (`proofs/sparse_vector.md#columns-with-delta`).

    >>> from hedgerow.privacy import GaussianDP, PureDP
    >>> curve = LargestOf((GaussianDP(0.1), PureDP(0.25)))
    >>> curve.delta(0.0) == PureDP(0.25).delta(0.0), curve.delta(0.5) == GaussianDP(0.1).delta(0.5)
    (True, True)
    >>> round(curve.epsilon(1e-3), 4)
    0.2482
    """

    curves: tuple[PrivacyCurve, ...]

    def __post_init__(self) -> None:
        if len(self.curves) == 0:
            raise InvalidValue(f"Expected curves={self.curves!r} to be at least one.")

    def delta(self, epsilon: float) -> float:
        return max(curve.delta(epsilon) for curve in self.curves)

    def epsilon(self, delta: float) -> float:
        return max(curve.epsilon(delta) for curve in self.curves)

    def words(self) -> str:
        return f"{self._quote()} (the dearest of {len(self.curves)} cases)"


@dataclass(frozen=True)
class SmallestOf(QuotedAtDelta):
    """Several curves hold for the same releases, so the smallest does at every epsilon.

    A rounded composition may be above its exact pure bound by a float; with a tiny delta this float
    decides.

    >>> from hedgerow.privacy import GaussianDP, PureDP
    >>> curve = SmallestOf((GaussianDP(0.5), PureDP(1.0)))
    >>> curve.delta(1.0), curve.epsilon(0.0), curve.delta(0.9) == GaussianDP(0.5).delta(0.9)
    (0.0, 1.0, True)
    """

    curves: tuple[PrivacyCurve, ...]

    def __post_init__(self) -> None:
        if len(self.curves) == 0:
            raise InvalidValue(f"Expected curves={self.curves!r} to be at least one.")

    def delta(self, epsilon: float) -> float:
        return min(curve.delta(epsilon) for curve in self.curves)

    def epsilon(self, delta: float) -> float:
        return min(curve.epsilon(delta) for curve in self.curves)

    def words(self) -> str:
        return self._quote()

"""The largest and the smallest of several curves.

The largest: one of several cases happens, and anyone may know which. The smallest: all curves hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.core.curve import PrivacyCurve
from hedgerow.core.validate import expect
from hedgerow.privacy.curves.base import QuotedAtDelta


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
        expect(len(self.curves) > 0, "curves", self.curves, "to be at least one")

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
        expect(len(self.curves) > 0, "curves", self.curves, "to be at least one")

    def delta(self, epsilon: float) -> float:
        return min(curve.delta(epsilon) for curve in self.curves)

    def epsilon(self, delta: float) -> float:
        return min(curve.epsilon(delta) for curve in self.curves)

    def words(self) -> str:
        return self._quote()

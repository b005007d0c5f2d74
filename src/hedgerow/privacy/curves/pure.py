"""Curves in closed form: pure DP, approximate DP, bounded range and Laplace noise.

Each but the last is the curve of the worst mechanism with that guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, expm1, inf, isfinite, log1p, sqrt

from hedgerow.core.errors import InvalidValue
from hedgerow.core.rounding import outward, rounded_up
from hedgerow.core.validate import between
from hedgerow.privacy.curves.base import Curve

BOUNDED_RANGE = (
    "bounded range: the largest factor by which an output can become more likely, times the "
    "largest factor by which an output can become less likely, is at most e^epsilon; "
    "epsilon alone would allow e^epsilon for each of them"
)


@dataclass(frozen=True)
class PureDP(Curve):
    """epsilon-DP: no event is more than e^epsilon times likelier in one world than in the other.

    With b = bound, delta(epsilon) = (1 - e^(epsilon - b)) / (1 + e^-b) for |epsilon| < b. This is
    the curve of randomised response, the worst mechanism with this guarantee.

    Parameters
    ----------
    bound
        The epsilon of the guarantee, >= 0; infinite means no protection.

    Examples
    --------
    >>> from hedgerow.privacy import PureDP
    >>> round(PureDP(1.0).delta(0.0), 6), PureDP(1.0).epsilon(0.0)
    (0.462117, 1.0)
    """

    bound: float

    def __post_init__(self) -> None:
        if not self.bound >= 0:
            raise InvalidValue(f"Expected epsilon={self.bound!r} >= 0.")

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.bound:
            return 0.0
        return (
            -expm1(epsilon - self.bound) / (1 + exp(-self.bound))
            if epsilon > -self.bound
            else -expm1(epsilon)
        )

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        lost = delta * (1 + exp(-self.bound))
        return (
            outward(max(0.0, self.bound + log1p(-lost)), self.bound, delta, self.delta)
            if lost < 1
            else 0.0
        )

    def stated(self) -> tuple[float, float]:
        return self.bound, 0.0

    def words(self) -> str:
        return (
            "unbounded epsilon"
            if self.bound == inf
            else f"epsilon = {rounded_up(self.bound)}, delta = 0"
        )


@dataclass(frozen=True)
class ApproximateDP(Curve):
    """(epsilon, delta)-DP: pure DP, except for events of probability delta that may reveal all.

    With e = at_epsilon and d = at_delta, the worst mechanism reveals everything with probability d
    and otherwise answers by randomised response:
    delta(epsilon) = d + (1 - d) PureDP(e).delta(epsilon).

    Parameters
    ----------
    at_epsilon
        The epsilon of the guarantee, >= 0.
    at_delta
        The delta of the guarantee, in [0, 1].

    Examples
    --------
    >>> from hedgerow.privacy import ApproximateDP
    >>> curve = ApproximateDP(1.0, 1e-6)
    >>> curve.delta(1.0), curve.epsilon(1e-6), curve.epsilon(1e-7)
    (1e-06, 1.0, inf)
    """

    at_epsilon: float
    at_delta: float

    def __post_init__(self) -> None:
        if not self.at_epsilon >= 0:
            raise InvalidValue(f"Expected at_epsilon={self.at_epsilon!r} >= 0.")
        between("at_delta", self.at_delta, 0.0, 1.0)

    def delta(self, epsilon: float) -> float:
        return self.at_delta + (1 - self.at_delta) * PureDP(self.at_epsilon).delta(epsilon)

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        if delta < self.at_delta:
            return inf
        return (
            0.0
            if delta == 1
            else PureDP(self.at_epsilon).epsilon((delta - self.at_delta) / (1 - self.at_delta))
        )

    def stated(self) -> tuple[float, float]:
        return self.at_epsilon, self.at_delta

    def words(self) -> str:
        return f"epsilon = {rounded_up(self.at_epsilon)}, delta = {rounded_up(self.at_delta)}"


@dataclass(frozen=True)
class BoundedRange(Curve):
    """The largest and the smallest log-ratio of two worlds are at most `range` apart.

    The exponential mechanism has this guarantee. With r = range,
    delta(epsilon) = (1 - exp((epsilon - r) / 2))^2 / (1 - exp(-r)) for |epsilon| <= r.
    At epsilon = 0 this is tanh(r / 4), where the pure curve is tanh(r / 2): for small r, about
    half. It holds for one step; k steps have no curve of this family.

    Parameters
    ----------
    range
        The largest distance of two log-ratios, >= 0 and finite.

    Examples
    --------
    >>> from hedgerow.privacy import BoundedRange
    >>> round(BoundedRange(1.0).delta(0.0), 6), BoundedRange(1.0).epsilon(0.0)
    (0.244919, 1.0)
    """

    range: float

    def __post_init__(self) -> None:
        if not isfinite(self.range) or not self.range >= 0:
            raise InvalidValue(f"Expected range={self.range!r} >= 0 and finite.")

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.range:
            return 0.0
        return (
            expm1((epsilon - self.range) / 2) ** 2 / -expm1(-self.range)
            if epsilon > -self.range
            else -expm1(epsilon)
        )

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        lost = sqrt(delta * -expm1(-self.range))
        return (
            outward(max(0.0, self.range + 2 * log1p(-lost)), self.range, delta, self.delta)
            if lost < 1
            else 0.0
        )

    def stated(self) -> tuple[float, float]:
        return self.range, 0.0

    def words(self) -> str:
        return f"epsilon = {rounded_up(self.range)}, delta = 0 (bounded range)"


@dataclass(frozen=True)
class LaplaceDP(Curve):
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
        if not isfinite(self.bound) or not self.bound >= 0:
            raise InvalidValue(f"Expected bound={self.bound!r} >= 0 and finite.")

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


def promise(epsilon: float, delta: float) -> PureDP | ApproximateDP:
    """Return the curve of a bare (epsilon, delta): pure if delta = 0.

    >>> promise(1.0, 0.0), promise(1.0, 1e-6)
    (PureDP(bound=1.0), ApproximateDP(at_epsilon=1.0, at_delta=1e-06))
    """
    return ApproximateDP(epsilon, delta) if delta > 0 else PureDP(epsilon)


def bounded_range_words(texts: Iterable[str]) -> str:
    """The meaning of "bounded range" if one of the texts uses it; otherwise nothing."""
    return (
        f"{BOUNDED_RANGE[0].upper()}{BOUNDED_RANGE[1:]}."
        if any("(bounded range)" in text for text in texts)
        else ""
    )

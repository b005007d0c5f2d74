"""Composition of pure guarantees, and of a pure step with any other curve.

The rules are proven in `proofs/composition.md`. Adaptive bounded-range steps and fixed plans have
their own files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp, inf, isfinite, isnan, log, log1p
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hedgerow.core.errors import InvalidValue
from hedgerow.core.rounding import round_up, rounded_up, sum_down
from hedgerow.core.validate import at_least, between
from hedgerow.privacy.curves import PureDP
from hedgerow.privacy.curves.base import Composed, QuotedAtDelta, Symmetric
from hedgerow.privacy.search import closest

if TYPE_CHECKING:
    from hedgerow.core.certificate import PrivacyCurve


def pure_sum(parts: Iterable[PrivacyCurve]) -> PureDP:
    """The sum of pure guarantees, valid even if each step is chosen after seeing the earlier ones.

    Each curve counts by its pure guarantee, epsilon(0) (`proofs/composition.md#pure-sum`).

    Parameters
    ----------
    parts
        The curves of the steps.

    Examples
    --------
    >>> from hedgerow.privacy import PureDP, pure_sum
    >>> pure_sum([PureDP(0.5), PureDP(0.25)]).bound
    0.75
    >>> pure_sum([PureDP(0.1)] * 3).bound
    0.30000000000000004
    """
    bounds = [part.epsilon(0.0) for part in parts]
    return PureDP(inf if inf in bounds else round_up(sum(map(Fraction, bounds), Fraction(0))))


@dataclass(frozen=True)
class AfterPureStep(QuotedAtDelta, Composed):
    """One pure step, then steps that have `curve` whatever the first one released.

    delta(epsilon) = q curve.delta(epsilon - pure) + (1 - q) curve.delta(epsilon + pure) with
    q = 1 / (1 + e^-pure). Randomised response is the worst first step
    (`proofs/composition.md#one-pure-step-first`). Steps that are the same in both worlds may lie
    between.

    Parameters
    ----------
    curve
        The curve of the later steps together.
    pure
        The epsilon of the first step, >= 0 and finite.

    Examples
    --------
    >>> from hedgerow.privacy import AfterPureStep, GaussianDP
    >>> both = AfterPureStep(GaussianDP(1.0), 0.5)
    >>> round(both.delta(1.5), 6), round(GaussianDP(1.0).delta(1.0), 6)
    (0.086912, 0.126937)
    """

    curve: PrivacyCurve
    pure: float

    def __post_init__(self) -> None:
        if not isfinite(self.pure) or not self.pure >= 0:
            raise InvalidValue(f"Expected pure={self.pure!r} >= 0 and finite.")

    def composed_of(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        return (*(((PureDP(self.pure), 1),) if self.pure > 0 else ()), (self.curve, 1))

    def delta(self, epsilon: float) -> float:
        if isnan(epsilon):
            raise InvalidValue(f"Expected epsilon={epsilon!r} to be a number.")
        if not isfinite(epsilon):
            return self.curve.delta(epsilon)
        at_low, at_high = (
            self.curve.delta(sum_down(epsilon, shift)) for shift in (-self.pure, self.pure)
        )
        likely = (1 + 2.0**-50) / (1 + exp(-self.pure))
        return min(1.0, at_low, (at_high + likely * (at_low - at_high)) * (1 + 2.0**-50))

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        if self.delta(0.0) <= delta:
            return 0.0
        rest = self.curve.epsilon(delta)
        if rest == inf:
            return inf
        high = max(1e-12, round_up(Fraction(rest) + Fraction(self.pure)))
        while self.delta(high) > delta:  # the roundings of the two curves may differ by some floats
            high *= 1 + 2.0**-50
        return closest(lambda at: self.delta(at) <= delta, high, 0.0, 1e-12) if delta > 0 else high

    def words(self) -> str:
        first = f"a step of epsilon = {rounded_up(self.pure)}"
        return f"{self._quote()} ({first}, then: {self.curve.words()})"


@dataclass(frozen=True)
class PureComposition(Symmetric, Composed):
    """The least curve of `steps` pure steps, each chosen after seeing the earlier ones.

    With k = steps and b = bound, delta(epsilon) is the sum over l of
    Pr(l) (1 - exp(epsilon - (k - 2l) b))_+ with l binomial(k, 1 / (1 + e^b)). This is the curve of
    randomised response k times (`proofs/composition.md#optimal-composition-of-pure-mechanisms`).

    Parameters
    ----------
    bound
        The epsilon of each step, >= 0 and finite.
    steps
        The number of steps, >= 0.

    Examples
    --------
    >>> from hedgerow.privacy import PureComposition
    >>> curve = PureComposition(0.125, 100)
    >>> round(curve.epsilon(1e-6), 4), curve.epsilon(0.0)
    (6.169, 12.5)

    References
    ----------
    Kairouz, Oh and Viswanath 2015.
    """

    bound: float
    steps: int

    def __post_init__(self) -> None:
        if not isfinite(self.bound) or not self.bound >= 0:
            raise InvalidValue(f"Expected bound={self.bound!r} >= 0 and finite.")
        at_least("steps", self.steps, 0)

    def composed_of(self) -> tuple[tuple[PureDP, int], ...]:
        return ((PureDP(self.bound), self.steps) if self.steps else (PureDP(0.0), 1),)

    @property
    def pure(self) -> float:
        return round_up(Fraction(self.bound) * self.steps)

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.pure:
            return 0.0
        losses, log_first, _, _, margin = _randomised_responses(self.bound, self.steps)
        counted = losses > epsilon
        with np.errstate(under="ignore"):
            total = float(np.sum(np.exp(log_first[counted]) * -np.expm1(epsilon - losses[counted])))
        return min(1.0, total * float(margin))

    def epsilon(self, delta: float) -> float:
        """Invert delta(epsilon).

        Between two losses delta is linear in exp(epsilon), so the inverse has a closed form.
        """
        between("delta", delta, 0.0, 1.0)
        if self.delta(0.0) <= delta:
            return 0.0
        if delta == 0.0:
            return self.pure
        losses, _, log_first_sum, log_second_sum, _ = _randomised_responses(self.bound, self.steps)
        # losses fall; the last loss in the sum is the last one whose delta is at most `delta`
        low, high = 0, len(losses) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (
                (middle, high) if self.delta(float(losses[middle])) <= delta else (low, middle - 1)
            )
        rest = exp(log_first_sum[low]) - delta
        found = max(0.0, log(rest) - float(log_second_sum[low])) if rest > 0 else 0.0
        found, nudge = (
            max(found, float(losses[low + 1]) if low + 1 < len(losses) else 0.0),
            2.0**-51,
        )
        while found < self.pure and self.delta(found) > delta:
            found, nudge = found * (1 + nudge) if found > 0 else nudge, 2 * nudge
        return min(found, self.pure)

    def words(self) -> str:
        return (
            f"{self._quote()} ({self.steps} adaptive steps of epsilon = {rounded_up(self.bound)})"
        )


@lru_cache(maxsize=64)
def _randomised_responses(bound: float, steps: int) -> tuple[npt.NDArray[np.float64], ...]:
    """The law of the privacy loss of `steps` randomised responses.

    Returns the losses (falling), their log-probabilities in the first world, the log cumulative
    sums in both worlds, and a factor for rounding.
    """
    from scipy.special import gammaln

    wrong = np.arange(steps + 1.0)
    losses = (steps - 2 * wrong) * bound
    losses += np.abs(losses) * 2.0**-51  # not below the true loss
    log_first = (
        gammaln(steps + 1.0)
        - gammaln(wrong + 1)
        - gammaln(steps - wrong + 1)
        - wrong * bound
        - steps * log1p(exp(-bound))
    )
    size = 3 * steps * log(steps + 2) + 2 * steps * (bound + 1) + 4
    # sixteen units in the last place of everything that was added
    margin = np.asarray(1 + 16 * 2.0**-53 * size)
    first, second = np.logaddexp.accumulate(log_first), np.logaddexp.accumulate(log_first - losses)
    return losses, log_first, first, second, margin

"""Composition of guarantees. The rules are proven in `proofs/composition.md`; adaptive bounded-range steps have their own file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, exp, expm1, floor, fsum, inf, isfinite, isnan, log, log1p, nextafter, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.checks import at_least, between, expect
from hedgerow.core.errors import Unsupported
from hedgerow.privacy.curves import BoundedRange, GaussianDP, PureDP
from hedgerow.privacy.curves.pure import QUOTED_DELTA, rounded_up

if TYPE_CHECKING:
    from hedgerow.core.certificate import PrivacyCurve


def round_up(exact: Fraction) -> float:
    """The smallest float that is not below an exact value: a certificate never rounds in its own favour."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else nextafter(nearest, inf)


def _round_down(exact: Fraction) -> float:
    """The largest float that is not above an exact value; curves fall, so a smaller epsilon gives a larger delta."""
    return -round_up(-exact)


def pure_sum(parts: Iterable[PureDP]) -> PureDP:
    """Pure guarantees add, also when each step is chosen after seeing the earlier ones (`proofs/composition.md#pure-sum`).

    >>> pure_sum([PureDP(0.5), PureDP(0.25)]).bound
    0.75
    >>> pure_sum([PureDP(0.1)] * 3).bound
    0.30000000000000004
    """
    bounds = [part.bound for part in parts]
    return PureDP(inf if inf in bounds else round_up(sum(map(Fraction, bounds), Fraction(0))))


@dataclass(frozen=True)
class AfterPureStep:
    """One step that is `pure`-DP, then steps which have `curve` whatever the first one gave away.

    delta(epsilon) = q curve.delta(epsilon - pure) + (1 - q) curve.delta(epsilon + pure), q = 1 / (1 + e^-pure): randomised response
    is the worst first step (`proofs/composition.md#one-pure-step-first`). Common steps may lie between.

    >>> both = AfterPureStep(GaussianDP(1.0), 0.5)
    >>> round(both.delta(1.5), 6), round(GaussianDP(1.0).delta(1.0), 6)
    (0.086912, 0.126937)
    """

    curve: PrivacyCurve
    pure: float

    def __post_init__(self) -> None:
        expect(isfinite(self.pure) and self.pure >= 0, "pure", self.pure, ">= 0 and finite")

    def delta(self, epsilon: float) -> float:
        expect(not isnan(epsilon), "epsilon", epsilon, "to be a number")
        if not isfinite(epsilon):
            return self.curve.delta(epsilon)
        told, hidden = (self.curve.delta(_round_down(Fraction(epsilon) + sign * Fraction(self.pure))) for sign in (-1, 1))
        likely = (1 + 2.0**-50) / (1 + exp(-self.pure))
        return min(1.0, told, (hidden + likely * (told - hidden)) * (1 + 2.0**-50))

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        if self.delta(0.0) <= delta:
            return 0.0
        rest = self.curve.epsilon(delta)
        if rest == inf:
            return inf
        low, high = 0.0, round_up(Fraction(rest) + Fraction(self.pure))
        while self.delta(high) > delta:  # the roundings of the two curves may differ by a few floats
            low, high = high, high * (1 + 2.0**-50)
        while delta > 0 and high - low > 1e-12 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high

    def stated(self) -> tuple[float, float]:
        return self.epsilon(QUOTED_DELTA), QUOTED_DELTA

    def words(self) -> str:
        quoted = f"epsilon = {rounded_up(self.epsilon(QUOTED_DELTA))} at delta = {QUOTED_DELTA:g}"
        return f"{quoted} (a step of epsilon = {rounded_up(self.pure)}, then: {self.curve.words()})"


@dataclass(frozen=True)
class PureComposition:
    """`steps` steps, each `bound`-DP and chosen after seeing the earlier ones: the least curve that holds for all of them.

    delta(epsilon) = sum over l of Pr(l) (1 - exp(epsilon - (k - 2l) b))_+ with l binomial(k, 1 / (1 + e^b)): randomised response
    k times (Kairouz, Oh and Viswanath 2015; `proofs/composition.md#optimal-composition-of-pure-mechanisms`).

    >>> curve = PureComposition(0.125, 100)
    >>> round(curve.epsilon(1e-6), 4), curve.epsilon(0.0)
    (6.169, 12.5)
    """

    bound: float
    steps: int

    def __post_init__(self) -> None:
        expect(isfinite(self.bound) and self.bound >= 0, "bound", self.bound, ">= 0 and finite")
        at_least("steps", self.steps, 0)

    @property
    def pure(self) -> float:
        return round_up(Fraction(self.bound) * self.steps)

    def delta(self, epsilon: float) -> float:
        expect(not isnan(epsilon), "epsilon", epsilon, "to be a number")
        if epsilon >= self.pure:
            return 0.0
        if epsilon < 0:  # randomised response is symmetric
            return min(1.0, -expm1(epsilon) + exp(epsilon) * self.delta(-epsilon))
        losses, log_first, _, _, margin = _randomised_responses(self.bound, self.steps)
        counted = losses > epsilon
        with np.errstate(under="ignore"):
            total = float(np.sum(np.exp(log_first[counted]) * -np.expm1(epsilon - losses[counted])))
        return min(1.0, total * float(margin))

    def epsilon(self, delta: float) -> float:
        """On each interval between two losses delta is linear in exp(epsilon), so its inverse is a closed form."""
        between("delta", delta, 0.0, 1.0)
        if self.delta(0.0) <= delta:
            return 0.0
        if delta == 0.0:
            return self.pure
        losses, _, log_first_sum, log_second_sum, _ = _randomised_responses(self.bound, self.steps)
        low, high = 0, len(losses) - 1  # losses fall; the last loss in the sum is the last one whose delta is at most `delta`
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.delta(float(losses[middle])) <= delta else (low, middle - 1)
        rest = exp(log_first_sum[low]) - delta
        found = max(0.0, log(rest) - float(log_second_sum[low])) if rest > 0 else 0.0
        found, nudge = max(found, float(losses[low + 1]) if low + 1 < len(losses) else 0.0), 2.0**-51
        while found < self.pure and self.delta(found) > delta:
            found, nudge = found * (1 + nudge) if found > 0 else nudge, 2 * nudge
        return min(found, self.pure)

    def stated(self) -> tuple[float, float]:
        return self.epsilon(QUOTED_DELTA), QUOTED_DELTA

    def words(self) -> str:
        quoted = f"epsilon = {rounded_up(self.epsilon(QUOTED_DELTA))} at delta = {QUOTED_DELTA:g}"
        return f"{quoted} ({self.steps} adaptive steps of epsilon = {rounded_up(self.bound)})"


@lru_cache(maxsize=64)
def _randomised_responses(bound: float, steps: int) -> tuple[npt.NDArray[np.float64], ...]:
    """Losses (falling), log-probabilities in the first world, log cumulative sums in both worlds, and a factor for rounding."""
    from scipy.special import gammaln

    wrong = np.arange(steps + 1.0)
    losses = (steps - 2 * wrong) * bound
    losses += np.abs(losses) * 2.0**-51  # not below the true loss
    log_first = gammaln(steps + 1.0) - gammaln(wrong + 1) - gammaln(steps - wrong + 1) - wrong * bound - steps * log1p(exp(-bound))
    size = 3 * steps * log(steps + 2) + 2 * steps * (bound + 1) + 4
    margin = np.asarray(1 + 16 * 2.0**-53 * size)  # sixteen units in the last place of everything that was added
    first, second = np.logaddexp.accumulate(log_first), np.logaddexp.accumulate(log_first - losses)
    return losses, log_first, first, second, margin


@dataclass(frozen=True)
class LaplaceDP:
    """Laplace noise on one number, bound = sensitivity / scale: delta(epsilon) = 1 - exp((epsilon - bound) / 2), |epsilon| < bound.

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
        return max(0.0, self.bound + 2 * log1p(-delta)) if delta < 1 else 0.0

    def stated(self) -> tuple[float, float]:
        return self.bound, 0.0

    def words(self) -> str:
        return f"epsilon = {rounded_up(self.bound)}, delta = 0 (Laplace)"


Part = PureDP | LaplaceDP | BoundedRange | GaussianDP


@dataclass(frozen=True)
class Numerical:
    """A plan of steps fixed in advance, composed through privacy-loss distributions (dp-accounting, pessimistic rounding).

    The list of curves and their numbers may not depend on any answer; what each step asks may. Loss values are rounded to multiples
    of `interval` by chords of the curve, which lie above it; `slack` covers the arithmetic and is added to every delta
    (`proofs/composition.md#fixed-plans`).
    """

    parts: tuple[tuple[Part, int], ...]
    interval: float

    @property
    def slack(self) -> float:
        return 1e-12 + 4e-15 * sum(count for _, count in self.parts)

    @property
    def pure(self) -> float:
        bounds = [(_pure_bound(part), count) for part, count in self.parts]
        return inf if any(bound == inf for bound, _ in bounds) else round_up(sum((Fraction(b) * n for b, n in bounds), Fraction(0)))

    @cached_property
    def _distribution(self) -> Any:
        gaussian = sqrt(fsum(count * part.mu**2 for part, count in self.parts if isinstance(part, GaussianDP)))
        plds = [_bounded(part, self.interval).self_compose(count) for part, count in self.parts if not isinstance(part, GaussianDP)]
        if gaussian > 0:  # adaptive Gaussian steps with fixed mu are one Gaussian step, exactly
            from dp_accounting.pld import privacy_loss_distribution as library

            plds.append(library.from_gaussian_mechanism(1 / (gaussian * (1 + 1e-12)), value_discretization_interval=self.interval))
        whole = plds[0]
        for each in plds[1:]:
            whole = whole.compose(each)
        return whole

    def delta(self, epsilon: float) -> float:
        expect(not isnan(epsilon), "epsilon", epsilon, "to be a number")
        if epsilon >= self.pure:
            return 0.0
        if epsilon < 0:  # every part has the same curve in both directions, and so has the composition
            return min(1.0, -expm1(epsilon) + exp(epsilon) * self.delta(-epsilon))
        return 0.0 if epsilon == inf else min(1.0, max(0.0, float(self._distribution.get_delta_for_epsilon(epsilon))) + self.slack)

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        if self.delta(0.0) <= delta:
            return 0.0
        if delta <= self.slack:
            return self.pure
        found = max(0.0, float(self._distribution.get_epsilon_for_delta(delta - self.slack)))
        nudge = 1e-12
        while found < self.pure and self.delta(found) > delta:
            found, nudge = found + nudge, 2 * nudge
        return min(found, self.pure)

    def stated(self) -> tuple[float, float]:
        return self.epsilon(QUOTED_DELTA), QUOTED_DELTA

    def words(self) -> str:
        steps = sum(count for _, count in self.parts)
        return f"epsilon = {rounded_up(self.epsilon(QUOTED_DELTA))} at delta = {QUOTED_DELTA:g} ({steps} steps, a plan fixed in advance)"


def _pure_bound(part: Part) -> float:
    match part:
        case GaussianDP():
            return inf if part.mu > 0 else 0.0
        case BoundedRange():
            return part.range
        case _:
            return part.bound


def _bounded(part: PureDP | LaplaceDP | BoundedRange, interval: float) -> Any:
    """The privacy-loss distribution of a part with bounded losses, from its curve: chords between grid points (connect the dots)."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as library

    bound = _pure_bound(part)
    rounded = np.arange(floor(-bound / interval) - 1, ceil(bound / interval) + 2)
    deltas = np.array([part.delta(float(at)) for at in rounded * interval])
    return library.PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(interval, rounded, deltas))


def fixed_plan(parts: Iterable[tuple[PrivacyCurve, int]], interval: float | None = None) -> Numerical:
    """The curve of a plan: (curve of one step, how many such steps), fixed before the first answer.

    Knows pure, Laplace, bounded-range and Gaussian steps and refuses everything else. For equal pure steps `PureComposition`,
    for bounded-range steps alone `AdaptiveBoundedRange` are sharper.

    >>> plan = fixed_plan([(GaussianDP(0.1), 20), (LaplaceDP(0.05), 20), (BoundedRange(0.05), 20)])
    >>> round(plan.epsilon(1e-6), 2)
    2.32
    """
    known: list[tuple[Part, int]] = []
    for part, count in parts:
        if not isinstance(part, Part):
            raise Unsupported(f"Expected part={part!r} to be one of PureDP, LaplaceDP, BoundedRange, GaussianDP.")
        expect(isinstance(part, GaussianDP) or isfinite(_pure_bound(part)), "part", part, "to have a finite bound")
        at_least("count", count, 0)
        scale = part.mu if isinstance(part, GaussianDP) else _pure_bound(part)
        if count > 0 and scale > 0:
            known.append((part, count))
    scales = [(part.mu if isinstance(part, GaussianDP) else _pure_bound(part), count) for part, count in known]
    expect(bool(known), "plan", [], "to have a step that costs something")
    # losses spread over about ten standard deviations; a million cells is what a fast Fourier transform does in a second
    spread = sqrt(fsum(count * scale**2 for scale, count in scales))
    finest = (10 * spread + spread**2) / 2**19
    chosen = max(finest, min(1e-3, min(scale for scale, _ in scales) / 64)) if interval is None else interval
    expect(isfinite(chosen) and chosen > 0, "interval", chosen, "> 0 and finite")
    return Numerical(tuple(known), chosen)

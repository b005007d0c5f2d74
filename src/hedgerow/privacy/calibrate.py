"""Calibration: the least noise or the largest rate that a budget allows, and the cost of a curve.

One search serves every mechanism. It returns only a parameter at which it has seen the curve fit.
Closed forms shorten it for Gaussian and Laplace noise.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import inf, isfinite, log1p, nextafter, sqrt

from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.rounding import root_down, round_down, round_up
from hedgerow.core.validate import at_least, between, positive
from hedgerow.privacy.budget import LARGEST, UNIT_BITS, Budget, event_of, price, steps_of
from hedgerow.privacy.composition.bounded_range import WIDEST, AdaptiveBoundedRange
from hedgerow.privacy.composition.steps import AfterPureStep
from hedgerow.privacy.curves import GaussianDP, LaplaceDP, ZeroConcentratedDP
from hedgerow.privacy.search import closest

CurveAt = Callable[[float], PrivacyCurve]
TOLERANCE = 1e-9


class NothingFits(HedgerowError, ValueError):
    """No parameter in the requested range fits the budget."""


def cost(curve: PrivacyCurve, delta: float) -> float:
    """The least epsilon that a curve gives at `delta`; infinite if it gives none.

    Parameters
    ----------
    curve
        The guarantee to read.
    delta
        In [0, 1].

    Examples
    --------
    >>> from hedgerow.privacy import GaussianDP, cost
    >>> round(cost(GaussianDP(0.5), 1e-6), 4)
    2.2541
    """
    between("delta", delta, 0.0, 1.0)
    epsilon = curve.epsilon(delta)
    if not epsilon >= 0:
        raise InvalidValue(
            f"Expected epsilon={epsilon!r} >= 0 at delta={delta!r} from the curve {curve!r}."
        )
    return epsilon


def fits(curve: PrivacyCurve, budget: Budget) -> bool:
    """Whether the curve is within the budget.

    A mu or rho budget is compared by exact prices. It refuses curves without one.

    >>> fits(GaussianDP(0.5), Budget(rho=0.125)), fits(GaussianDP(0.6), Budget(rho=0.125))
    (True, False)
    """
    if budget.epsilon is None:
        costs = [
            (step, count) for step, count in steps_of(curve) if count > 0 and event_of(step)[1] > 0
        ]
        if any(event_of(step)[1] > LARGEST for step, _ in costs):
            return False
        return sum(count * price(step, budget.currency) for step, count in costs) <= exact_capacity(
            budget
        )
    if budget.failure == 0:  # a delta(epsilon) that underflows to 0 is no pure guarantee
        return curve.epsilon(0.0) <= budget.epsilon
    return curve.delta(budget.epsilon) <= budget.failure


def exact_capacity(budget: Budget) -> int:
    """A pure, mu or rho budget in units of its currency, rounded down; mu counts squared."""
    value = next(value for value in (budget.mu, budget.rho, budget.epsilon) if value is not None)
    top, bottom = float(value).as_integer_ratio()
    if budget.mu is not None:
        top, bottom = top * top, bottom * bottom
    return (top << UNIT_BITS) // bottom


def least_noise(
    mechanism_at: CurveAt, budget: Budget, low: float, high: float, tolerance: float = TOLERANCE
) -> float:
    """Find the smallest noise scale in [low, high] whose curve fits the budget.

    The result always fits the budget. Raises `NothingFits` if no scale in [low, high] does.

    Parameters
    ----------
    mechanism_at
        A function from the noise scale to the curve of the mechanism.
    budget
        The budget to keep.
    low
        The smallest scale to consider, > 0.
    high
        The largest scale to consider, finite.
    tolerance
        Relative tolerance of the search, in [0, 1). Default: 1e-9.

    Examples
    --------
    >>> from hedgerow.privacy import Budget, PureDP, least_noise
    >>> round(least_noise(lambda scale: PureDP(1 / scale), Budget(0.5), 0.01, 100.0), 6)
    2.0
    """
    return _search(mechanism_at, budget, low, high, tolerance, "least_noise")


def largest_rate(
    mechanism_at: CurveAt, budget: Budget, low: float, high: float, tolerance: float = TOLERANCE
) -> float:
    """Find the largest rate in [low, high] whose curve fits the budget.

    A rate is, for example, a learning rate or an inverse temperature. The result always fits the
    budget. Raises `NothingFits` if no rate in [low, high] does.

    Parameters
    ----------
    mechanism_at
        A function from the rate to the curve of the mechanism.
    budget
        The budget to keep.
    low
        The smallest rate to consider, > 0.
    high
        The largest rate to consider, finite.
    tolerance
        Relative tolerance of the search, in [0, 1). Default: 1e-9.

    Examples
    --------
    >>> from hedgerow.privacy import Budget, ZeroConcentratedDP, largest_rate
    >>> round(largest_rate(lambda rate: ZeroConcentratedDP(rate), Budget(rho=0.25), 1e-6, 1.0), 6)
    0.25
    """
    return _search(mechanism_at, budget, low, high, tolerance, "largest_rate")


def _search(
    mechanism_at: CurveAt, budget: Budget, low: float, high: float, tolerance: float, name: str
) -> float:
    positive("low", low)
    positive("high", high)
    if not low <= high:
        raise InvalidValue(f"Expected low={low!r} <= high={high!r}.")
    if not 0 <= tolerance < 1:
        raise InvalidValue(f"Expected tolerance={tolerance!r} >= 0 and < 1.")

    def fit(at: float) -> bool:
        return fits(mechanism_at(at), budget)

    easy, hard = (high, low) if name == "least_noise" else (low, high)
    if fit(hard):
        return hard
    if not fit(easy):
        raise NothingFits(
            f"Nothing in [{low!r}, {high!r}] fits the budget {budget.words()}: "
            f"at {easy!r} the mechanism has {mechanism_at(easy).words()}."
        )
    return closest(fit, easy, hard, tolerance)


@lru_cache(maxsize=1024)
def largest_mu(budget: Budget) -> float:
    """The largest Gaussian parameter within the budget.

    Exact for mu and rho. For (epsilon, delta) it uses the analytic Gaussian curve.

    >>> round(1 / largest_mu(Budget(1.0, 1e-6)), 5)
    4.22468
    """
    if budget.mu is not None:
        return budget.mu
    if budget.rho is not None:
        return root_down(2 * Fraction(budget.rho))
    if budget.failure == 0:
        raise NothingFits(
            f"Nothing fits the budget {budget.words()}: Gaussian noise has no pure guarantee. "
            "Allow a delta > 0."
        )
    return _outermost(GaussianDP, budget)


@lru_cache(maxsize=1024)
def largest_rho(budget: Budget) -> float:
    """The largest rho whose zero-concentrated guarantee implies the budget."""
    if budget.rho is not None:
        return budget.rho
    if budget.epsilon is None or budget.failure == 0:
        raise NothingFits(
            f"Nothing fits the budget {budget.words()}: "
            "zero-concentrated DP does not imply it for any rho > 0."
        )
    return _outermost(ZeroConcentratedDP, budget)


def _outermost(curve_at: CurveAt, budget: Budget) -> float:
    """Double or halve until two values bracket the budget, then search down to adjacent floats."""
    good = bad = 1.0
    while fits(curve_at(good), budget):
        bad, good = good, 2 * good
    good, bad = bad, good
    while not fits(curve_at(good), budget):
        good, bad = good / 2, good
        if good < 1e-150:
            raise NothingFits(
                f"Nothing fits the budget {budget.words()}: a parameter of {good!r} exceeds it."
            )
    return closest(lambda at: fits(curve_at(at), budget), good, bad, 0.0)


def gaussian_scale(budget: Budget, sensitivity: float = 1.0) -> float:
    """The least standard deviation of Gaussian noise that fits the budget.

    An (epsilon, delta) budget uses the exact curve, without a conversion through rho.

    Parameters
    ----------
    budget
        The budget of the release. A pure budget is refused: Gaussian noise has no pure guarantee.
    sensitivity
        The largest change of the value in the l2 norm. Default: 1.

    Examples
    --------
    >>> from hedgerow.privacy import Budget, gaussian_scale
    >>> round(gaussian_scale(Budget(1.0, 1e-6)), 5)
    4.22468

    References
    ----------
    Balle and Wang 2018.
    """
    positive("sensitivity", sensitivity)
    return _scale(GaussianDP, largest_mu(budget), budget, sensitivity)


def laplace_scale(budget: Budget, sensitivity: float = 1.0) -> float:
    """The least scale of Laplace noise that fits the budget, by the exact curve.

    With s = sensitivity / scale, delta(epsilon) = 1 - exp((epsilon - s) / 2), so
    s = epsilon - 2 ln(1 - delta). For mu and rho the pure price of s is used, an upper bound.

    Parameters
    ----------
    budget
        The budget of the release.
    sensitivity
        The largest change of the value in the l1 norm. Default: 1.

    Examples
    --------
    >>> from hedgerow.privacy import Budget, laplace_scale
    >>> laplace_scale(Budget(0.5)), round(laplace_scale(Budget(1.0, 0.01)), 5)
    (2.0, 0.9803)
    """
    positive("sensitivity", sensitivity)
    if budget.epsilon is None:
        shift = largest_rate(LaplaceDP, budget, 1e-75, LARGEST, tolerance=0.0)
    else:
        shift = budget.epsilon - 2 * log1p(-budget.failure)
    return _scale(LaplaceDP, shift, budget, sensitivity)


def _scale(curve_at: CurveAt, shift: float, budget: Budget, sensitivity: float) -> float:
    """sensitivity / shift, settled with the curve computed as the mechanism computes it."""
    scale = round_up(Fraction(sensitivity) / Fraction(shift))
    return settled(
        scale, lambda at: curve_at(round_up(Fraction(sensitivity) / Fraction(at))), budget
    )


def settled(scale: float, curve_at: CurveAt, budget: Budget) -> float:
    """The scale, raised by a few roundings if needed, at which the curve fits and is quoted to fit.

    delta(epsilon) and epsilon(delta) are each rounded outward. The first may be within the budget
    and the second just above it.

    >>> budget = Budget(1.0, 0.9)
    >>> scale = settled(1 / largest_mu(budget), lambda at: GaussianDP(1 / at), budget)
    >>> GaussianDP(1 / scale).epsilon(0.9) <= 1.0
    True
    """
    step = 2.0**-53
    while not (
        fits(curve := curve_at(scale), budget)
        and (budget.epsilon is None or curve.epsilon(budget.failure) <= budget.epsilon)
    ):
        scale, step = nextafter(scale * (1 + step), inf), 2 * step
    return scale


def surrogate_mu(epsilon: float, delta: float, pure: float = 0.0) -> float:
    """The mu whose Gaussian curve, after one `pure`-DP step, has this delta at this epsilon.

    It is for searches and certifies nothing. The normal approximation of `steps` steps of one range
    has mu = range sqrt(steps) / 2.
    """

    def enough(mu: float) -> bool:
        return AfterPureStep(GaussianDP(mu), pure).delta(epsilon) >= delta

    high = 1.0
    while not enough(high):
        high *= 2
    return closest(enough, high, 0.0, 1e-6)


def largest_range(
    steps: int, budget: Budget, *, pure: float = 0.0, tolerance: float = 0.005
) -> float:
    """Find the largest range that `steps` adaptive steps may have within the budget.

    The result is certified. For (epsilon, delta) the search runs on a Gaussian surrogate, corrected
    by the ratio found at the last certified point, so the recursion runs two or three times.

    Parameters
    ----------
    steps
        The number of adaptive steps of bounded range, >= 1.
    budget
        The budget for all steps together.
    pure
        The epsilon of one pure step that comes first (`AfterPureStep`). Default: 0, no such step.
    tolerance
        Relative tolerance of the search, in [1e-4, 0.1]. Default: 0.005.

    Examples
    --------
    >>> from hedgerow.privacy import AdaptiveBoundedRange, Budget, largest_range
    >>> r = largest_range(10, Budget(1.0, 1e-6))
    >>> round(r, 3), AdaptiveBoundedRange(r, 10).epsilon(1e-6) <= 1.0
    (0.153, True)
    """
    at_least("steps", steps, 1)
    between("tolerance", tolerance, 1e-4, 0.1)
    if budget.epsilon is None:
        if not isfinite(pure) or not pure >= 0:
            raise InvalidValue(f"Expected pure={pure!r} >= 0 and finite.")
        return largest_rate(
            lambda at: AfterPureStep(AdaptiveBoundedRange(at, steps), pure),
            budget,
            1e-75,
            WIDEST,
            tolerance,
        )
    epsilon, delta = budget.epsilon, budget.failure
    between("pure", pure, 0.0, epsilon)
    good = min(WIDEST, round_down((Fraction(epsilon) - Fraction(pure)) / steps))
    if delta == 0.0:
        return good
    scale = 2 / sqrt(steps)
    aim = scale * surrogate_mu(epsilon, delta, pure)
    bad, guess = inf, min(WIDEST, max(0.975 * aim, good * (1 + tolerance)))
    while good < guess < bad:
        certified = AfterPureStep(AdaptiveBoundedRange(guess, steps), pure).delta(epsilon)
        if certified <= delta:
            good = guess
        else:
            bad = guess
        if good >= min(bad, WIDEST) * (1 - tolerance):
            break
        if certified > 0.0:  # the surrogate is off by about the same factor nearby
            guess *= aim / (scale * surrogate_mu(epsilon, certified, pure)) * (1 - tolerance / 3)
            if good * (1 - tolerance / 3) <= guess <= good * (1 + tolerance / 3):
                break
        guess = min(guess, WIDEST)
        if not good < guess < bad:
            guess = sqrt(max(good, bad / 4) * bad) if bad < inf else min(WIDEST, 1.5 * good)
    return good

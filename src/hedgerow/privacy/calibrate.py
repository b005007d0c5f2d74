"""Calibration: the least noise (or the largest rate) that a budget allows, and the reverse question, what a curve costs.

One search serves every mechanism. It only ever returns a parameter at which it has seen the curve fit; closed forms shorten it for
Gaussian and Laplace noise.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import isqrt, log1p, nextafter, sqrt

from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.checks import between, expect, positive
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.privacy.budget import LARGEST, UNIT_BITS, Budget, event_of, price
from hedgerow.privacy.composition import round_up
from hedgerow.privacy.curves import GaussianDP, PureDP, ZeroConcentratedDP

CurveAt = Callable[[float], PrivacyCurve]
TOLERANCE = 1e-9


class NothingFits(HedgerowError, ValueError):
    """No parameter of the range asked for keeps within the budget."""


def cost(curve: PrivacyCurve, delta: float) -> float:
    """The least epsilon that a curve gives at `delta`; infinite where it gives none.

    >>> round(cost(GaussianDP(0.5), 1e-6), 4)
    2.2541
    """
    between("delta", delta, 0.0, 1.0)
    epsilon = curve.epsilon(delta)
    if not epsilon >= 0:
        raise InvalidValue(f"Expected epsilon={epsilon!r} >= 0 at delta={delta!r} from the curve {curve!r}.")
    return epsilon


def fits(curve: PrivacyCurve, budget: Budget) -> bool:
    """Is the curve within the budget? A mu or rho budget is compared by exact prices, and refuses curves without one.

    >>> fits(GaussianDP(0.5), Budget(rho=0.125)), fits(GaussianDP(0.6), Budget(rho=0.125))
    (True, False)
    """
    if budget.epsilon is None:
        _, value = event_of(curve)
        return value == 0 or (value <= LARGEST and price(curve, budget.currency) <= exact_capacity(budget))
    if budget.failure == 0:  # not delta(epsilon) == 0: a tail that underflows is no pure guarantee
        return curve.epsilon(0.0) <= budget.epsilon
    return curve.delta(budget.epsilon) <= budget.failure


def exact_capacity(budget: Budget) -> int:
    """A pure, mu or rho budget in units of its own currency: mu counts squared. Rounded down."""
    value = next(value for value in (budget.mu, budget.rho, budget.epsilon) if value is not None)
    top, bottom = float(value).as_integer_ratio()
    if budget.mu is not None:
        top, bottom = top * top, bottom * bottom
    return (top << UNIT_BITS) // bottom


def least_noise(mechanism_at: CurveAt, budget: Budget, low: float, high: float, tolerance: float = TOLERANCE) -> float:
    """The smallest noise scale in [low, high] whose curve fits the budget, within a relative `tolerance` and never on its far side.

    >>> round(least_noise(lambda scale: PureDP(1 / scale), Budget(0.5), 0.01, 100.0), 6)
    2.0
    """
    return _search(mechanism_at, budget, low, high, tolerance, "least_noise")


def largest_rate(mechanism_at: CurveAt, budget: Budget, low: float, high: float, tolerance: float = TOLERANCE) -> float:
    """The largest rate in [low, high] (a learning rate, an inverse temperature) whose curve fits the budget.

    >>> round(largest_rate(lambda rate: ZeroConcentratedDP(rate), Budget(rho=0.25), 1e-6, 1.0), 6)
    0.25
    """
    return _search(mechanism_at, budget, low, high, tolerance, "largest_rate")


def _search(mechanism_at: CurveAt, budget: Budget, low: float, high: float, tolerance: float, name: str) -> float:
    positive("low", low)
    positive("high", high)
    expect(low <= high, "low", low, f"<= high={high!r}")
    expect(0 <= tolerance < 1, "tolerance", tolerance, ">= 0 and < 1")

    def fit(at: float) -> bool:
        return fits(mechanism_at(at), budget)

    easy, hard = (high, low) if name == "least_noise" else (low, high)
    if fit(hard):
        return hard
    if not fit(easy):
        raise NothingFits(
            f"Nothing in [{low!r}, {high!r}] fits the budget {budget.words()}: at {easy!r} the mechanism has {mechanism_at(easy).words()}."
        )
    return _closest(fit, easy, hard, tolerance)


def _closest(fit: Callable[[float], bool], good: float, bad: float, tolerance: float) -> float:
    """Bisection between a value that fits and one that does not; the side that fits is returned.

    Geometric means, so that a bracket over many powers of ten costs a few steps; the end comes at adjacent floats at the latest.
    """
    while max(good, bad) > min(good, bad) * (1 + tolerance):
        middle = sqrt(good) * sqrt(bad)
        if not min(good, bad) < middle < max(good, bad):
            break
        good, bad = (middle, bad) if fit(middle) else (good, middle)
    return good


@lru_cache(maxsize=1024)
def largest_mu(budget: Budget) -> float:
    """The largest Gaussian parameter within the budget: exact for mu and rho, the analytic Gaussian curve for (epsilon, delta).

    >>> round(1 / largest_mu(Budget(1.0, 1e-6)), 5)
    4.22468
    """
    if budget.mu is not None:
        return budget.mu
    if budget.rho is not None:
        return float_root_below(2 * Fraction(budget.rho))
    if budget.failure == 0:
        raise NothingFits(f"Nothing fits the budget {budget.words()}: Gaussian noise has no pure guarantee; allow a delta > 0.")
    return _outermost(GaussianDP, budget)


@lru_cache(maxsize=1024)
def largest_rho(budget: Budget) -> float:
    """The largest rho whose zero-concentrated guarantee implies the budget."""
    if budget.rho is not None:
        return budget.rho
    if budget.epsilon is None or budget.failure == 0:
        raise NothingFits(f"Nothing fits the budget {budget.words()}: zero-concentrated DP does not imply it for any rho > 0.")
    return _outermost(ZeroConcentratedDP, budget)


def _outermost(curve_at: CurveAt, budget: Budget) -> float:
    """Double or halve until the budget lies between two values, then search down to adjacent floats."""
    good = bad = 1.0
    while fits(curve_at(good), budget):
        bad, good = good, 2 * good
    good, bad = bad, good
    while not fits(curve_at(good), budget):
        good, bad = good / 2, good
        if good < 1e-150:
            raise NothingFits(f"Nothing fits the budget {budget.words()}: even a parameter of {good!r} exceeds it.")
    return _closest(lambda at: fits(curve_at(at), budget), good, bad, 0.0)


def float_root_below(square: Fraction) -> float:
    """The largest float whose square is at most an exact positive number."""
    root = float(Fraction(isqrt((square.numerator << 2 * UNIT_BITS) // square.denominator), 1 << UNIT_BITS))
    while Fraction(root) ** 2 > square:
        root = nextafter(root, 0.0)
    return root


def gaussian_scale(budget: Budget, sensitivity: float = 1.0) -> float:
    """The least standard deviation of Gaussian noise, by the exact curve (Balle and Wang, 2018), not by way of rho.

    >>> round(gaussian_scale(Budget(1.0, 1e-6)), 5)
    4.22468
    """
    positive("sensitivity", sensitivity)
    return round_up(Fraction(sensitivity) / Fraction(largest_mu(budget)))


def laplace_scale(budget: Budget, sensitivity: float = 1.0) -> float:
    """The least scale of Laplace noise for one number with this sensitivity.

    Shift s in units of the scale: delta(epsilon) = 1 - exp((epsilon - s)/2), so s = epsilon - 2 ln(1 - delta). For mu and rho the
    pure price of s is used, which is an upper bound.

    >>> laplace_scale(Budget(0.5)), round(laplace_scale(Budget(1.0, 0.01)), 5)
    (2.0, 0.9803)
    """
    positive("sensitivity", sensitivity)
    if budget.epsilon is None:
        shift = largest_rate(PureDP, budget, 1e-75, LARGEST, tolerance=0.0)
    elif budget.failure == 0:
        shift = budget.epsilon
    else:  # log1p and the subtraction are off by a unit or two in the last place: step inwards by more than that
        shift = max(budget.epsilon, (budget.epsilon - 2 * log1p(-budget.failure)) * (1 - 1e-15))
    return round_up(Fraction(sensitivity) / Fraction(shift))

"""Trade-off functions: the least miss rate of any attack, given its false-alarm rate."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import exp, sqrt

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: they are large

from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.errors import InvalidValue
from hedgerow.privacy.curves.gaussian import GaussianDP
from hedgerow.privacy.curves.pure import ApproximateDP, BoundedRange, LaplaceDP, PureDP
from hedgerow.privacy.curves.wrapped import Quoted

_GOLDEN = (sqrt(5) - 1) / 2
_LARGEST_EPSILON = 700.0


def trade_off(curve: PrivacyCurve, alpha: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The least type-II error of a test between neighbouring inputs with type-I error alpha.

    f(alpha) is the supremum over epsilon >= 0 of
    max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)) with delta = delta(epsilon).
    Pure, approximate, bounded-range, Laplace and Gaussian curves have a closed form. Other curves
    need a search. Every epsilon gives a valid lower bound, so an imperfect search can only
    understate the protection.

    Parameters
    ----------
    curve
        The guarantee.
    alpha
        False-alarm rates in [0, 1], one or many.

    Examples
    --------
    >>> from hedgerow.privacy import GaussianDP, trade_off
    >>> trade_off(GaussianDP(1.0), [0.0, 0.05, 1.0]).round(6).tolist()
    [1.0, 0.740489, 0.0]
    """
    alpha = np.asarray(alpha, float)
    inside = (alpha >= 0) & (alpha <= 1)
    if not inside.all():
        raise InvalidValue(f"Expected alpha={float(alpha[~inside].flat[0])!r} in [0, 1].")
    match curve:
        case Quoted(inner, _):
            least = trade_off(inner, alpha)
        case PureDP(bound):
            least = _two_lines(bound, 0.0, alpha)
        case ApproximateDP(epsilon, delta):
            least = _two_lines(epsilon, delta, alpha)
        case BoundedRange(width):
            least = _bounded_range(width, alpha)
        case LaplaceDP(bound):
            least = _laplace(bound, alpha)
        case GaussianDP(mu):
            least = scipy.special.ndtr(-scipy.special.ndtri(alpha) - mu)
        case _:
            delta = cache(curve.delta)  # the searches share many points
            least = np.vectorize(lambda a: _search(delta, a), otypes=[float])(alpha)
    return least


def _two_lines(
    epsilon: float, delta: float, alpha: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    shrink = exp(-epsilon)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steep = np.where(alpha > 0, 1 - delta - alpha / shrink, 1 - delta)
    return np.maximum(0.0, np.maximum(steep, shrink * (1 - delta - alpha)))


def _bounded_range(width: float, alpha: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(1 - alpha) / (1 - alpha + e^width alpha)."""
    shrink = exp(-width)
    with np.errstate(invalid="ignore"):
        return np.where(alpha > 0, shrink * (1 - alpha) / (shrink * (1 - alpha) + alpha), 1.0)


def _laplace(bound: float, alpha: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """1 - e^bound alpha, then e^-bound / (4 alpha), then e^-bound (1 - alpha)."""
    shrink = exp(-bound)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        middle = (
            np.where(alpha < shrink / 2, 1 - alpha / shrink, shrink / (4 * alpha))
            if shrink > 0
            else np.where(alpha > 0, 0.0, 1.0)
        )
    return np.where(alpha > 0.5, shrink * (1 - alpha), middle)


def _search(delta: Callable[[float], float], alpha: float) -> float:
    """Both families of lines are concave in e^epsilon or e^-epsilon, so each has one peak."""
    steep = _peak(lambda e: 1 - delta(e) - exp(e) * alpha)
    flat = _peak(lambda e: exp(-e) * (1 - delta(e) - alpha))
    return min(1 - alpha, max(0.0, steep, flat))


def _peak(height: Callable[[float], float]) -> float:
    """The largest value found by golden-section search."""
    low, high = 0.0, _LARGEST_EPSILON
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = height(left), height(right)
    best = max(height(low), at_left, at_right)
    for _ in range(70):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = height(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = height(right)
        best = max(best, at_left, at_right)
    return best

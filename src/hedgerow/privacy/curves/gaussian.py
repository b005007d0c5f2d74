"""The exact curve of Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, isfinite, log, pi, sqrt, ulp

import numpy as np
import scipy  # its parts are imported when they are used: they are large

from hedgerow.core.errors import InvalidValue
from hedgerow.core.rounding import rounded_up
from hedgerow.core.validate import between
from hedgerow.privacy.curves.base import Symmetric
from hedgerow.privacy.search import closest, root

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LOG_PEAK = -0.5 * log(2 * pi)
_SMALLEST = ulp(0.0)
_UP = 1 + 2.0**-40  # more than the error of the logarithms


def mills(x: float) -> float:
    """Pr(Z > x) / density(x) of a standard normal Z, without underflow for large x."""
    return sqrt(pi / 2) * float(scipy.special.erfcx(x / sqrt(2)))


def _mills_difference(x: float, width: float) -> float:
    """mills(x) - mills(x + width).

    For a small width it is the integral of -mills'(y) = 1 - y mills(y), which avoids cancellation.
    """
    if width > 1:
        return mills(x) - mills(x + width)
    y = x + width * (_NODES + 1) / 2
    return width / 2 * float(_WEIGHTS @ (1 - y * sqrt(pi / 2) * scipy.special.erfcx(y / sqrt(2))))


@dataclass(frozen=True)
class GaussianDP(Symmetric):
    """mu-GDP: the two worlds are as hard to distinguish as N(0, 1) and N(mu, 1).

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), computed through
    logarithms. For mu > 0 no finite epsilon has delta = 0, so the least value returned is the
    smallest positive float.

    Parameters
    ----------
    mu
        Sensitivity divided by the standard deviation of the noise, >= 0 and finite.

    Examples
    --------
    >>> from hedgerow.privacy import GaussianDP
    >>> round(GaussianDP(1.0).delta(1.0), 6), round(GaussianDP(1.0).epsilon(1e-5), 6)
    (0.126937, 4.377178)
    """

    mu: float

    def __post_init__(self) -> None:
        if not isfinite(self.mu) or not self.mu >= 0:
            raise InvalidValue(f"Expected mu={self.mu!r} >= 0 and finite.")

    def _log_delta(self, epsilon: float) -> float:
        """ln delta(epsilon) for epsilon >= 0, where delta is at least the smallest float.

        With low = epsilon/mu - mu/2 and high = low + mu, e^epsilon density(high) = density(low), so
        both terms share a factor.
        """
        low = epsilon / self.mu - self.mu / 2
        if low < 0 and self.mu > 1:
            return log(
                float(scipy.special.ndtr(-low))
                - exp(_LOG_PEAK - low * low / 2) * mills(low + self.mu)
            )
        return _LOG_PEAK - low * low / 2 + log(_mills_difference(low, self.mu))

    def _delta(self, epsilon: float) -> float:
        if self.mu == 0 or epsilon == inf:
            return 0.0
        return (
            _SMALLEST
            if epsilon > self.mu * (self.mu / 2 + 39)
            else min(1.0, max(exp(self._log_delta(epsilon)) * _UP, _SMALLEST))
        )

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        if self.delta(0.0) <= delta:
            return 0.0
        if delta == 0:
            return inf
        # at `high` the first term of the formula alone is delta
        high = max(_SMALLEST, self.mu * (self.mu / 2 - float(scipy.special.ndtri(delta))))
        step = 1e-9
        while self.delta(high) > delta:
            high, step = high * (1 + step), 2 * step
        if self._log_delta(high) >= log(delta):
            return high
        if self._log_delta(0.0) <= log(delta):  # delta(0) exceeds delta only by rounding
            return closest(lambda e: self.delta(e) <= delta, high, 0.0, 0.0)

        def excess(e: float) -> float:
            return self._log_delta(e) - log(delta)

        found = root(excess, 0.0, high, xtol=1e-300, rtol=1e-15)
        found, step = max(found, 1e-300), 2.0**-52
        below = found
        while self.delta(found) > delta:  # never on the wrong side
            below, found, step = found, found * (1 + step), 2 * step
        return closest(lambda e: self.delta(e) <= delta, found, below, 0.0)

    def words(self) -> str:
        return f"mu = {rounded_up(self.mu)} (Gaussian)"

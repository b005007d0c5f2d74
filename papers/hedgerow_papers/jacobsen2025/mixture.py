"""Gaussian noise whose size is random and visible."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, pi, sqrt, ulp

import numpy as np
import scipy  # its parts are imported when they are used: they are large

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import between
from hedgerow.privacy.curves import GaussianDP
from hedgerow.privacy.curves.base import Symmetric
from hedgerow.privacy.search import closest

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_UP = 1 + 2.0**-36  # more than the error of the sum
_LARGEST_EPSILON = 700.0


def _mills(x: Array) -> Array:
    """Pr(Z > x) / density(x) of a standard normal Z."""
    return sqrt(pi / 2) * scipy.special.erfcx(x / sqrt(2))


def _deltas(mu: Array, epsilon: float) -> Array:
    """The delta of `GaussianDP` for many mu > 0 at one epsilon >= 0, by the same formulas."""
    low = epsilon / mu - mu / 2
    density = np.exp(-low * low / 2) / sqrt(2 * pi)
    narrow = np.minimum(mu, 1.0)
    points = np.maximum(low, -0.5)[:, None] + narrow[:, None] * (_NODES + 1) / 2
    small = density * narrow / 2 * ((1 - points * _mills(points)) @ _WEIGHTS)
    large = np.where(low < 0, scipy.special.ndtr(-low), density * _mills(np.maximum(low, 0.0)))
    return np.where(mu > 1, large - density * _mills(low + mu), small)


@dataclass(frozen=True)
class GaussianMixture(Symmetric):
    """mu-GDP with a random mu that the attacker sees and that does not depend on the record.

    delta(epsilon) is the mean of the deltas of `GaussianDP(mu)`
    (`proofs/walk_batches.md#random-sizes`).

    Parameters
    ----------
    parts
        Pairs (mu, probability). The probabilities are > 0 and add up to 1 or, to be safe, to a
        little more.

    Examples
    --------
    >>> from hedgerow.privacy import GaussianDP
    >>> from hedgerow_papers.jacobsen2025.mixture import GaussianMixture
    >>> curve = GaussianMixture(((1.0, 0.25), (0.5, 0.75)))
    >>> round(curve.delta(1.0), 6), round(curve.epsilon(1e-5), 6)
    (0.036856, 4.041427)
    >>> GaussianMixture(((1.0, 1.0),)).epsilon(1e-5) >= GaussianDP(1.0).epsilon(1e-5)
    True
    """

    parts: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        for mu, probability in self.parts:
            if not isfinite(mu) or not mu >= 0:
                raise InvalidValue(f"Expected mu={mu!r} >= 0 and finite.")
            if not 0 < probability <= 1:
                raise InvalidValue(f"Expected probability={probability!r} in (0, 1].")
        total = sum((Fraction(probability) for _, probability in self.parts), Fraction(0))
        if not 1 <= total < 1 + Fraction(1, 2**20):
            raise InvalidValue(f"Expected sum of probabilities={float(total)!r} to be 1.")

    @classmethod
    def of(cls, parts: Iterable[tuple[float, float]]) -> GaussianMixture:
        """The mixture of these pairs, without those of probability 0."""
        return cls(tuple((mu, probability) for mu, probability in parts if probability > 0))

    def _delta(self, epsilon: float) -> float:
        mu, probability = np.array([part for part in self.parts if part[0] > 0]).reshape(-1, 2).T
        if epsilon == inf or not len(mu):
            return 0.0
        found = float(probability @ _deltas(mu, epsilon))
        return min(1.0, found * _UP + ulp(0.0))

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        if self.delta(0.0) <= delta:
            return 0.0
        largest = max(mu for mu, _ in self.parts)
        high = GaussianDP(largest).epsilon(delta)
        if high == inf:
            return inf
        step = 2.0**-30
        while self.delta(high) > delta:  # only by rounding
            high, step = high * (1 + step), 2 * step
        return closest(lambda e: self.delta(e) <= delta, high, 0.0, 1e-12)

    def trade_off(self, alpha: Array) -> Array:
        """The least miss rate by false-alarm rate: the line that touches the function at alpha.

        It follows from the errors of the best test there, which answers yes if the log-ratio is
        above a threshold, found by bisection. With threshold s the line has slope -e^s. Every
        threshold gives a valid line.
        """
        mu, probability = np.array([part for part in self.parts if part[0] > 0]).reshape(-1, 2).T
        idle = sum(part[1] for part in self.parts if part[0] == 0)  # its log-ratio is 0
        largest = mu.max(initial=0.0)
        ends = min(_LARGEST_EPSILON, largest * (largest / 2 + 40))

        def errors(threshold: Array, side: int) -> Array:
            at = side * threshold[..., None] / mu - mu / 2
            return scipy.special.ndtr(at) @ probability + idle * ((threshold >= 0) == (side > 0))

        low, high = np.full(alpha.shape, -ends), np.full(alpha.shape, ends)
        for _ in range(60):
            middle = (low + high) / 2
            more = errors(middle, -1) > alpha
            low, high = np.where(more, middle, low), np.where(more, high, middle)
        least = errors(high, 1) + np.exp(high) * (errors(high, -1) - alpha)
        return np.clip(least - (probability.sum() + idle - 1), 0.0, 1 - alpha)

    def words(self) -> str:
        return f"{self._quote()} (Gaussian, random noise)"

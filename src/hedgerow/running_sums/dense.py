"""The dense factorisation with the smallest rms error, by a fixed point.

The dual of the problem (Denisov et al. 2022) asks for v > 0 with

    v = diag( (D^1/2 A^T A D^1/2)^1/2 ),   D = diag(v),

and then X = C^T C = D^-1/2 (D^1/2 A^T A D^1/2)^1/2 D^-1/2 has a diagonal of ones. Iterating this
equation converges. Whatever the iteration returns, C and B = A C^-1 are a factorisation, and its
sensitivity and errors are computed from the matrices themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy  # its parts are imported when they are used: they are large

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least
from hedgerow.privacy.composition import table_cache
from hedgerow.running_sums.factorisation import Factorisation, fixed
from hedgerow.running_sums.filters import Filter, MatrixFilter

COARSEST = 64  # rounds below which the iteration starts from scratch
TOLERANCE = 1e-5  # relative change of v at which the iteration stops
MOST_STEPS = 200
MOST_ROUNDS = 10_000  # a matrix has 800 MB there, and finding it takes hours


@dataclass(frozen=True)
class Dense(Factorisation):
    """The factorisation with the smallest rms error, for horizons up to a few thousand.

    Finding it takes seconds for 1000 rounds and grows with the cube of the rounds; the result is
    cached on disk. Streaming needs the whole history: memory and time of a step grow with the
    round.

    Parameters
    ----------
    rounds
        The horizon.

    Examples
    --------
    >>> errors = Dense(rounds=16).scaled_errors()
    >>> round(errors.rms, 2)
    1.69
    """

    rounds: int

    def __post_init__(self) -> None:
        at_least("rounds", self.rounds, 1)
        if not self.rounds <= MOST_ROUNDS:
            raise InvalidValue(
                f"Expected rounds={self.rounds!r} <= {MOST_ROUNDS:,} with 'dense', whose matrices "
                "have rounds^2 numbers: use 'blt'."
            )

    @cached_property
    def _matrices(self) -> tuple[Array, Array]:
        encoding = cached_encoding(self.rounds)
        ones = np.tril(np.ones((self.rounds, self.rounds)))
        return encoding, fixed(np.tril(scipy.linalg.solve_triangular(encoding.T, ones.T).T))

    @property
    def encoder(self) -> Filter:
        return MatrixFilter(self.rounds, self._matrices[0])

    @property
    def decoder(self) -> Filter:
        return MatrixFilter(self.rounds, self._matrices[1])

    def roundings(self, rounds: int | None = None) -> int:
        return self.count(rounds) + 1

    def matrix(self, rounds: int | None = None) -> Array:
        count = self.count(rounds)
        return self._matrices[0][:count, :count]

    def decoding(self, rounds: int | None = None) -> Array:
        count = self.count(rounds)
        return self._matrices[1][:count, :count]


@lru_cache(maxsize=4)
def cached_encoding(rounds: int) -> Array:
    """Return C from the cache on disk; compute and store it where it is missing."""
    key = f"correlated/dense/1/{rounds}/{TOLERANCE}"
    stored = table_cache.load(key)
    lower = np.tril_indices(rounds)
    if stored is None or stored.shape != lower[0].shape:
        stored = _encoding(rounds)[lower]
        table_cache.store(key, stored)
    found = np.zeros((rounds, rounds))
    found[lower] = stored
    return fixed(found)


def _encoding(rounds: int) -> Array:
    """Return C without negative entries, from the fixed point."""
    scales = np.sqrt(fixed_point(rounds))
    products = _root(rounds, scales) / scales[:, None] / scales
    # C^T C = X with a lower triangular C: a Cholesky factor from the last round to the first
    backward = np.linalg.cholesky(products[::-1, ::-1])
    return np.maximum(np.tril(backward.T[::-1, ::-1]), 0.0)


def _root(rounds: int, scales: Array) -> Array:
    after = np.arange(rounds, 0, -1.0)
    workload = np.minimum(after[:, None], after)  # A^T A
    values, vectors = scipy.linalg.eigh(scales[:, None] * workload * scales, driver="evd")
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


@lru_cache(maxsize=4)
def fixed_point(rounds: int) -> Array:
    """Return v, starting from that of half as many rounds."""
    if rounds <= COARSEST:
        found = np.sqrt(np.arange(rounds, 0, -1.0))
    else:
        half = fixed_point(rounds // 2)
        place = (np.arange(rounds) + 0.5) / rounds
        known = (np.arange(len(half)) + 0.5) / len(half)
        found = np.exp(np.interp(place, known, np.log(half)))
    before: list[tuple[Array, Array]] = []
    for _ in range(MOST_STEPS):
        image = np.diag(_root(rounds, np.sqrt(found)))
        change = np.log(image / found)
        if np.abs(change).max() < TOLERANCE:
            return image.copy()
        before = [*before[-4:], (np.log(found), change)]
        found = np.exp(_mixed(before))
    return found


def _mixed(before: list[tuple[Array, Array]]) -> Array:
    """Return the next point of Anderson's method: the mixture with the smallest change."""
    point, change = before[-1]
    if len(before) == 1:
        return point + change
    points = np.stack([point - p for p, _ in before[:-1]], axis=1)
    changes = np.stack([change - c for _, c in before[:-1]], axis=1)
    share = np.linalg.lstsq(changes, change, rcond=1e-10)[0]
    return point + change - (points + changes) @ share

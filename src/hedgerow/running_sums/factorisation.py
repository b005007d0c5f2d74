"""A factorisation of running sums, A = B C: release C g plus noise, decode with B.

A is the matrix of ones on and below the diagonal. In every round the encoder turns the new vector
into a filtered one, (C g)_r. Fresh Gaussian noise is added to it, and the decoder turns the noisy
releases into running sums, B (C g + z) = A g + B z. The proofs are in
`proofs/correlated_noise.md`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least
from hedgerow.running_sums.filters import Filter

UNIT = 2.0**-53  # the largest relative error of one rounding


@dataclass(frozen=True)
class Errors:
    """Standard deviations of the decoded sums in each coordinate: the largest and the rms.

    Parameters
    ----------
    max
        The largest over the rounds.
    rms
        The root of the mean square over the rounds.

    Examples
    --------
    >>> Errors(max=3.0, rms=2.0).times(2.0)
    Errors(max=6.0, rms=4.0)
    """

    max: float
    rms: float

    def times(self, factor: float) -> Errors:
        """Return the errors for noise of another scale."""
        return Errors(self.max * factor, self.rms * factor)


@dataclass(frozen=True)
class Factorisation(ABC):
    """Base class of factorisations A = B C with a lower triangular C without negative entries.

    Parameters
    ----------
    rounds
        The horizon; None means none. Methods that need a number of rounds take it as an argument.

    Examples
    --------
    >>> from hedgerow.running_sums import ToeplitzRoot
    >>> root = ToeplitzRoot(rounds=1000)
    >>> round(root.scaled_errors().max, 3)
    3.265
    >>> filtered, state = root.encoder.step(root.encoder.start((2,)), [1.0, 2.0])
    >>> filtered.tolist()
    [1.0, 2.0]
    """

    rounds: int | None

    @property
    @abstractmethod
    def encoder(self) -> Filter:
        """The stream g -> C g."""

    @property
    @abstractmethod
    def decoder(self) -> Filter:
        """The stream y -> B y."""

    @abstractmethod
    def matrix(self, rounds: int | None = None) -> Array:
        """Return the whole C for this number of rounds (None: all)."""

    @abstractmethod
    def decoding(self, rounds: int | None = None) -> Array:
        """Return the whole B for this number of rounds (None: all)."""

    @property
    def whole(self) -> bool:
        """Whether all entries of C are whole numbers, so that C g stays on the lattice of g."""
        return False

    @abstractmethod
    def roundings(self, rounds: int | None = None) -> int:
        """Return the most roundings on a way from a vector to a filtered one, in these rounds."""

    def row_sum(self, rounds: int | None = None) -> float:
        """Return the largest sum of a row of C, in these rounds."""
        return float(self.matrix(rounds).sum(axis=1).max())

    def sensitivity(self, times: int = 1, apart: int = 1) -> float:
        """Return the largest change of C g in the l2 norm, rounded upward.

        One person changes the vectors of at most `times` rounds, any two of them at least
        `apart` rounds apart, each by a vector of norm at most 1. The worst case is found
        exactly (`proofs/correlated_noise.md#sensitivity`).
        """
        at_least("times", times, 1)
        at_least("apart", apart, 1)
        shared = self._shared(times, apart)
        return rounded_up(sqrt(shared), (self.rounds or 1) + times)

    def _shared(self, times: int, apart: int) -> float:
        """Return the largest sum of entries of C^T C over pairs of rounds."""
        matrix = self.matrix()
        return most_shared(matrix.T @ matrix, times, apart)

    def error_by_round(self, rounds: int | None = None) -> Array:
        """Return the standard deviation of each decoded sum, for noise of scale 1."""
        return np.sqrt((self.decoding(rounds) ** 2).sum(axis=1))

    def errors(self, rounds: int | None = None) -> Errors:
        """Return the largest and the rms error over the rounds, for noise of scale 1."""
        each = self.error_by_round(rounds)
        return Errors(float(each.max()), sqrt(float((each**2).mean())))

    def scaled_errors(self, times: int = 1, apart: int = 1, rounds: int | None = None) -> Errors:
        """Return the errors times the sensitivity: for noise that gives 1-GDP."""
        return self.errors(rounds).times(self.sensitivity(times, apart))

    def count(self, rounds: int | None) -> int:
        """Return the number of rounds that is meant; refuse more than the horizon."""
        found = self.rounds if rounds is None else rounds
        if found is None:
            raise InvalidValue("Expected rounds: this factorisation has no last round.")
        at_least("rounds", found, 1)
        if found > (inf if self.rounds is None else self.rounds):
            raise InvalidValue(f"Expected rounds={found!r} <= {self.rounds}, the horizon.")
        return found


def rounded_up(value: float, terms: int) -> float:
    """Return the value, raised by more than the rounding errors of a sum of products."""
    return value * (1 + (8 * terms + 64) * UNIT)


def fixed(values: Array) -> Array:
    """Return the array, closed to writing: noise is calibrated to it."""
    values.setflags(write=False)
    return values


MOST_BRANCHES = 20_000


def most_shared(products: Array, times: int, apart: int) -> float:
    """Return the largest sum of `products` over all pairs of a pattern of rounds.

    A pattern has at most `times` indices, any two at least `apart` apart. Entries
    must not be negative: then all vectors of a person may point the same way in the worst case.

    >>> most_shared(np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 1.0]]), 2, 1)
    6.0
    """
    if not np.isfinite(products).all() or products.min() < 0:
        raise InvalidValue("Expected products of columns to be finite and >= 0.")
    if times == 1:
        return float(np.diag(products).max())
    if apart == 1 and times >= len(products):
        return float(products.sum())
    return _Search(products, times, apart).best


class _Search:
    """Depth first. A branch is left when the bound on its best pattern is no better.

    The bound counts each later participation with its products with those chosen, and with the
    best pattern that could follow it, without asking that these patterns agree.
    """

    def __init__(self, products: Array, times: int, apart: int) -> None:
        size = len(products)
        self.products, self.gap = products, apart
        self.own = np.diag(products).copy()
        later = np.where(np.arange(size) >= np.arange(size)[:, None] + apart, products, 0.0)
        follow = np.zeros((size, size + 1))
        self.following = [np.zeros(size)]  # by how many more may follow
        for _ in range(times - 1):
            follow = self._best_from(2 * later, follow)
            self.following.append(follow[:, 0].copy())
        self.best, self.branches = self._evenly(times), 0
        self._extend(0.0, self.own, 0, times)

    def _best_from(self, gains: Array, rest: Array) -> Array:
        """Return the best gain of a participation at or after each index, and of the rest."""
        size = gains.shape[-1]
        after = np.zeros_like(gains)
        kept = max(0, size - self.gap)
        after[..., :kept] = rest[..., self.gap : size] if kept else 0.0
        ahead = np.maximum.accumulate((gains + after)[..., ::-1], axis=-1)[..., ::-1]
        return np.concatenate([ahead, np.zeros((*ahead.shape[:-1], 1))], axis=-1)

    def _evenly(self, times: int) -> float:
        """Return the best of the patterns with equal gaps: where the search begins."""
        size, found = len(self.own), 0.0
        for first in range(size):
            chosen = np.arange(first, size, self.gap)[:times]
            found = max(found, float(self.products[np.ix_(chosen, chosen)].sum()))
        return found

    def _extend(self, value: float, gains: Array, start: int, left: int) -> None:
        self.branches += 1
        if self.branches > MOST_BRANCHES:
            raise Unsupported(
                "This pattern of records has too many cases. "
                "Use fewer records, more rounds apart or a Toeplitz factorisation."
            )
        self.best = max(self.best, value)
        size = len(gains)
        if not left or start >= size:
            return
        rest = np.zeros(size + 1)
        for more in range(left - 1):
            rest = self._best_from(gains + self.following[more], rest)
        after = np.zeros(size)
        kept = max(0, size - self.gap)
        after[:kept] = rest[self.gap : size]
        bounds = value + gains + self.following[left - 1] + after
        bounds[:start] = -np.inf
        for index in np.argsort(-bounds, kind="stable"):
            if bounds[index] <= self.best * (1 + 1e-15):
                return
            self._extend(
                value + float(gains[index]),
                gains + 2 * self.products[index],
                int(index) + self.gap,
                left - 1,
            )

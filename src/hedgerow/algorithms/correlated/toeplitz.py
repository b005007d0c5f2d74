"""Toeplitz factorisations: the entries of C and B depend only on the age of a vector."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its parts are imported when they are used: they are large

from hedgerow.algorithms.correlated.factorisation import Factorisation, fixed
from hedgerow.algorithms.correlated.filters import Filter, RunningSum, ToeplitzFilter, Unchanged
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least


class Toeplitz(Factorisation):
    """Base class: coefficients of C and of B by age. Those of C must not be negative."""

    @abstractmethod
    def coefficients(self, rounds: int | None = None) -> Array:
        """Return the first column of C."""

    @abstractmethod
    def decoding_coefficients(self, rounds: int | None = None) -> Array:
        """Return the first column of B."""

    def matrix(self, rounds: int | None = None) -> Array:
        return _lower(self.coefficients(rounds))

    def decoding(self, rounds: int | None = None) -> Array:
        return _lower(self.decoding_coefficients(rounds))

    def row_sum(self, rounds: int | None = None) -> float:
        return float(self.coefficients(rounds).sum())

    def error_by_round(self, rounds: int | None = None) -> Array:
        return np.sqrt(np.cumsum(self.decoding_coefficients(rounds) ** 2))

    def _shared(self, participations: int, separation: int) -> float:
        """Where coefficients never rise, participations as early and close as can be are worst."""
        column = self.coefficients()
        if participations > 1 and (np.diff(column) > 0).any():
            return super()._shared(participations, separation)
        total = column.copy()
        for start in range(separation, len(column), separation)[: participations - 1]:
            total[start:] += column[:-start]
        return float(total @ total)


def _lower(column: Array) -> Array:
    return scipy.linalg.toeplitz(column, np.zeros(len(column)))


@dataclass(frozen=True)
class Independent(Toeplitz):
    """C = I: independent noise on every vector, and all of it in every sum.

    Parameters
    ----------
    rounds
        The horizon; None means none.

    Examples
    --------
    >>> Independent(rounds=100).errors().max
    10.0
    """

    rounds: int | None

    def __post_init__(self) -> None:
        at_least("rounds", 1 if self.rounds is None else self.rounds, 1)

    @property
    def encoder(self) -> Filter:
        return Unchanged(self.rounds)

    @property
    def decoder(self) -> Filter:
        return RunningSum(self.rounds)

    @property
    def whole(self) -> bool:
        return True

    def roundings(self, rounds: int | None = None) -> int:
        return 0

    def row_sum(self, rounds: int | None = None) -> float:
        return 1.0

    def coefficients(self, rounds: int | None = None) -> Array:
        return np.eye(1, self.count(rounds))[0]

    def decoding_coefficients(self, rounds: int | None = None) -> Array:
        return np.ones(self.count(rounds))

    def _shared(self, participations: int, separation: int) -> float:
        if self.rounds is None:
            return float(participations)
        return float(min(participations, -(-self.rounds // separation)))


def root_coefficients(rounds: int) -> Array:
    """Return the coefficients of the square root of A: binomial(2k, k) / 4^k.

    >>> root_coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    ages = np.arange(1, rounds)
    return np.concatenate([[1.0], np.cumprod(1 - 0.5 / ages)])


@dataclass(frozen=True)
class ToeplitzRoot(Toeplitz):
    """B = C = the square root of A: the smallest largest error of all Toeplitz factorisations.

    Streaming needs the whole history: memory and time of a step grow with the round. Use
    `BufferedToeplitz` for the same error with a few buffers.

    Parameters
    ----------
    rounds
        The horizon.

    Examples
    --------
    >>> round(ToeplitzRoot(rounds=1000).scaled_errors().max, 3)
    3.265
    """

    rounds: int

    def __post_init__(self) -> None:
        at_least("rounds", self.rounds, 1)

    @cached_property
    def _root(self) -> Array:
        return fixed(root_coefficients(self.rounds))

    @property
    def encoder(self) -> Filter:
        return ToeplitzFilter(self.rounds, self._root)

    @property
    def decoder(self) -> Filter:
        return ToeplitzFilter(self.rounds, self._root)

    def roundings(self, rounds: int | None = None) -> int:
        return self.count(rounds) + 1

    def coefficients(self, rounds: int | None = None) -> Array:
        return self._root[: self.count(rounds)]

    def decoding_coefficients(self, rounds: int | None = None) -> Array:
        return self._root[: self.count(rounds)]

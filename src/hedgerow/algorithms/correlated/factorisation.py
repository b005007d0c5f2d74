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

from hedgerow.algorithms.correlated.filters import Filter
from hedgerow.algorithms.correlated.participation import most_shared
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least

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
    >>> from hedgerow.algorithms.correlated import ToeplitzRoot
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

    def sensitivity(self, participations: int = 1, separation: int | None = None) -> float:
        """Return the largest change of C g in the l2 norm, rounded upward.

        One person changes the vectors of at most `participations` rounds, any two of them at least
        `separation` rounds apart (None: 1), each by a vector of norm at most 1. The worst case is
        found exactly (`proofs/correlated_noise.md#sensitivity`).
        """
        at_least("participations", participations, 1)
        at_least("separation", 1 if separation is None else separation, 1)
        gap = 1 if separation is None else separation
        # every way to add the products has fewer roundings than this
        roundings = 8 * ((self.rounds or 1) + participations) + 64
        return sqrt(self._shared(participations, gap)) * (1 + roundings * UNIT)

    def _shared(self, participations: int, separation: int) -> float:
        """Return the largest sum of entries of C^T C over pairs of participations."""
        matrix = self.matrix()
        return most_shared(matrix.T @ matrix, participations, separation)

    def error_by_round(self, rounds: int | None = None) -> Array:
        """Return the standard deviation of each decoded sum, for noise of scale 1."""
        return np.sqrt((self.decoding(rounds) ** 2).sum(axis=1))

    def errors(self, rounds: int | None = None) -> Errors:
        """Return the largest and the rms error over the rounds, for noise of scale 1."""
        each = self.error_by_round(rounds)
        return Errors(float(each.max()), sqrt(float((each**2).mean())))

    def scaled_errors(
        self, participations: int = 1, separation: int | None = None, rounds: int | None = None
    ) -> Errors:
        """Return the errors times the sensitivity: for noise that gives 1-GDP."""
        return self.errors(rounds).times(self.sensitivity(participations, separation))

    def count(self, rounds: int | None) -> int:
        """Return the number of rounds that is meant; refuse more than the horizon."""
        found = self.rounds if rounds is None else rounds
        if found is None:
            raise InvalidValue("Expected rounds: this factorisation has no last round.")
        at_least("rounds", found, 1)
        if found > (inf if self.rounds is None else self.rounds):
            raise InvalidValue(f"Expected rounds={found!r} <= {self.rounds}, the horizon.")
        return found


def fixed(values: Array) -> Array:
    """Return the array, closed to writing: noise is calibrated to it."""
    values.setflags(write=False)
    return values

"""Toeplitz factorisations: the entries of C and B depend only on the age of a vector."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import scipy  # its parts are imported when they are used: they are large

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least
from hedgerow.running_sums.factorisation import Factorisation, fixed
from hedgerow.running_sums.filters import (
    Filter,
    RunningSum,
    SolvingFilter,
    ToeplitzFilter,
    Unchanged,
    WindowFilter,
)


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

    def _shared(self, times: int, apart: int) -> float:
        """Where coefficients never rise, rounds as early and close as can be are worst."""
        column = self.coefficients()
        if times > 1 and (np.diff(column) > 0).any():
            return super()._shared(times, apart)
        total = column.copy()
        for start in range(apart, len(column), apart)[: times - 1]:
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

    def _shared(self, times: int, apart: int) -> float:
        if self.rounds is None:
            return float(times)
        return float(min(times, -(-self.rounds // apart)))


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


@dataclass(frozen=True)
class Banded(Toeplitz):
    """A Toeplitz C with few coefficients: rounds that are further apart share nothing.

    Parameters
    ----------
    rounds
        The horizon.
    bands
        The coefficients c_0, c_1, ...; c_0 > 0, none negative. `Banded.truncated` takes those of
        the square root, `Banded.optimised` those with the smallest error.

    Examples
    --------
    >>> Banded.truncated(rounds=100, width=3).bands
    (1.0, 0.5, 0.375)
    """

    rounds: int
    bands: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "bands", tuple(map(float, self.bands)))
        at_least("rounds", self.rounds, 1)
        at_least("width", len(self.bands), 1)
        if len(self.bands) > self.rounds:
            raise InvalidValue(f"Expected width={len(self.bands)!r} <= rounds.")
        if not bool(np.isfinite(self.bands).all()):
            raise InvalidValue(f"Expected bands={self.bands!r} to be finite.")
        if not self.bands[0] > 0:
            raise InvalidValue(f"Expected bands[0]={self.bands[0]!r} > 0.")
        if not min(self.bands) >= 0:
            raise InvalidValue(f"Expected bands={self.bands!r} >= 0.")

    @classmethod
    def truncated(cls, rounds: int, width: int) -> Banded:
        """Return the first coefficients of the square root."""
        at_least("width", width, 1)
        return cls(rounds, tuple(root_coefficients(width).tolist()))

    @classmethod
    def optimised(cls, rounds: int, width: int, error: Literal["max", "rms"] = "max") -> Banded:
        """Return falling coefficients with a small error times sensitivity, for one participation.

        A local search from the square root (L-BFGS on the logarithms of the falls).
        """
        if error not in ("max", "rms"):
            raise InvalidValue(f"Expected error={error!r} to be 'max' or 'rms'.")
        falls = -np.diff(cls.truncated(rounds, width).bands, append=0.0)
        age = np.arange(rounds)
        ramp = np.ones(rounds) if error == "max" else (rounds - age) / rounds

        def objective(logs: Array) -> tuple[float, Array]:
            return banded_objective(logs, ramp)

        found = scipy.optimize.minimize(objective, np.log(falls), jac=True, method="L-BFGS-B")
        bands = np.cumsum(np.exp(found.x)[::-1])[::-1]
        return cls(rounds, tuple((bands / bands[0]).tolist()))

    @property
    def encoder(self) -> Filter:
        return WindowFilter(self.rounds, self.bands)

    @property
    def decoder(self) -> Filter:
        return SolvingFilter(self.rounds, self.bands)

    def roundings(self, rounds: int | None = None) -> int:
        return len(self.bands) + 1

    def coefficients(self, rounds: int | None = None) -> Array:
        column = np.zeros(self.count(rounds))
        column[: len(self.bands)] = self.bands[: len(column)]
        return column

    def decoding_coefficients(self, rounds: int | None = None) -> Array:
        return np.cumsum(inverse_series(np.array(self.bands), self.count(rounds)))


def inverse_series(bands: Array, rounds: int) -> Array:
    """Return the first coefficients of 1 / (c_0 + c_1 z + ...).

    >>> inverse_series(np.array([1.0, -1.0]), 4).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    from scipy.signal import lfilter  # slow to import

    return np.asarray(lfilter([1.0], bands, np.eye(1, rounds)[0]))


def banded_objective(logs: Array, ramp: Array) -> tuple[float, Array]:
    """Return the log of squared sensitivity times squared error, and its gradient.

    With p the inverse series of C and b its running sums, db/dc_i = -(b * p) shifted by i, where *
    is the convolution.
    """
    from scipy.signal import fftconvolve  # slow to import

    falls, rounds = np.exp(logs), len(ramp)
    bands = np.cumsum(falls[::-1])[::-1]
    inverse = inverse_series(bands, rounds)
    sums = np.cumsum(inverse)
    squared, error = float(bands @ bands), float(ramp @ sums**2)
    slope = fftconvolve(sums, inverse)[:rounds]
    weighted = 2 * ramp * sums
    by_band = (
        2 * bands / squared
        - np.array([weighted[i:] @ slope[: rounds - i] for i in range(len(bands))]) / error
    )
    return float(np.log(squared) + np.log(error)), np.cumsum(by_band) * falls

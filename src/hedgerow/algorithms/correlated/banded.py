"""Toeplitz factorisations whose C has few coefficients, and their optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy  # its parts are imported when they are used: they are large

from hedgerow.algorithms.correlated.filters import Filter, SolvingFilter, WindowFilter
from hedgerow.algorithms.correlated.toeplitz import Toeplitz, root_coefficients
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least, expect


@dataclass(frozen=True)
class Banded(Toeplitz):
    """A Toeplitz C with few coefficients: participations that are further apart share nothing.

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
        expect(len(self.bands) <= self.rounds, "width", len(self.bands), "<= rounds")
        expect(bool(np.isfinite(self.bands).all()), "bands", self.bands, "to be finite")
        expect(self.bands[0] > 0, "bands[0]", self.bands[0], "> 0")
        expect(min(self.bands) >= 0, "bands", self.bands, ">= 0")

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
        expect(error in ("max", "rms"), "error", error, "to be 'max' or 'rms'")
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

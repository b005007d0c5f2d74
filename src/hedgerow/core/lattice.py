"""Losses live on the lattice 2^-20 Z, so that every sum is exact and no engine differs from another by a rounding.

A loss in [0, 1] is rounded once, where it enters. A float64 holds any sum below 2^33 of such losses exactly, whatever the
order of addition; sums that outlive a block are kept as int64 lattice units, exact up to 2^43 losses.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.core.errors import InvalidValue

Array = npt.NDArray[np.float64]
Units = npt.NDArray[np.int64]

UNITS_PER_LOSS = 2**20
MOST_LOSSES = 2**43 - 1


def round_to_lattice(losses: npt.ArrayLike) -> Array:
    """The nearest lattice points.

    >>> float(round_to_lattice(0.3)), float(round_to_lattice(1.0))
    (0.3000001907348633, 1.0)
    """
    rounded = np.asarray(np.multiply(losses, UNITS_PER_LOSS, dtype=np.float64))
    np.rint(rounded, out=rounded)
    rounded *= 1.0 / UNITS_PER_LOSS
    return rounded


def to_units(sums: npt.ArrayLike) -> Units:
    """Exact integer lattice units of sums of lattice losses; refuses values that are off the lattice."""
    scaled = np.multiply(sums, UNITS_PER_LOSS, dtype=np.float64)
    units = scaled.astype(np.int64)
    if (units != scaled).any():
        off = float(np.ravel(sums)[np.ravel(units != scaled).argmax()])
        raise InvalidValue(f"Expected a sum of losses={off!r} on the lattice 2^-20 (environments round losses with round_to_lattice).")
    return units


def from_units(units: Units | int) -> Array:
    """Back to losses."""
    return np.multiply(units, 1.0 / UNITS_PER_LOSS)

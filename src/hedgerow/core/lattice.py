"""Losses on the lattice 2^-20 Z: every sum is exact, so all engines give the same numbers.

A loss in [0, 1] is rounded once, when it enters. A float64 holds any sum of such losses below 2^33
exactly, in any order of addition. Sums that outlive a block are int64 lattice units, exact for up
to 2^43 losses.

`_sums.c` adds rows in one pass, where a compiler was at hand when the package was installed.
Otherwise, or with HEDGEROW_COMPILED=0, numpy does it. The bits are the same.
"""

from __future__ import annotations

import os
from importlib import import_module
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hedgerow.core.errors import InvalidValue

Array = npt.NDArray[np.float64]
Units = npt.NDArray[np.int64]

UNITS_PER_LOSS = 2**20
MOST_LOSSES = 2**43 - 1
COARSEST = 8.0  # lattice steps: a smaller scale of noise would leave too few values to hide in
# lattice steps: noise reaches 2^53, where floats stop being exact, with probability exp(-128)
WIDEST = 2.0**46
MOST_EXACT = 2**33  # sums below it are exact in float64, where secure noise is added
ONE = np.float64(1.0).view(np.uint64)
_AT_ONCE = 2**13  # numbers that stay in the cache; arrays of them need no new pages


def round_to_lattice(losses: npt.ArrayLike) -> Array:
    """Round to the nearest lattice points.

    >>> float(round_to_lattice(0.3)), float(round_to_lattice(1.0))
    (0.3000001907348633, 1.0)
    """
    rounded = np.asarray(np.multiply(losses, UNITS_PER_LOSS, dtype=np.float64))
    np.rint(rounded, out=rounded)
    rounded *= 1.0 / UNITS_PER_LOSS
    return rounded


def round_into(losses: np.ndarray, target: Array) -> None:
    """Round to the nearest lattice points, into a contiguous array of the same shape.

    A few at a time stay in the cache.

    >>> target = np.empty(2)
    >>> round_into(np.array([0.3, 1.0]), target)
    >>> target.tolist()
    [0.3000001907348633, 1.0]
    """
    given, flat = losses.reshape(-1), target.reshape(-1)
    for first in range(0, len(flat), _AT_ONCE):
        part = flat[first : first + _AT_ONCE]
        np.multiply(given[first : first + _AT_ONCE], UNITS_PER_LOSS, out=part)
        np.rint(part, out=part)
        part *= 1.0 / UNITS_PER_LOSS


def clip_to_lattice(
    values: npt.ArrayLike, bound: float, norm: Literal["l1", "l2", "linf"] = "l2"
) -> Array:
    """Move vectors (last axis) to lattice points with norm at most `bound`, exactly.

    The sensitivity then holds to the last bit. A vector that is short enough is rounded to the
    nearest points. A longer one is scaled down and its coordinates are rounded towards zero. The
    scale factor is reduced by more than all rounding errors together, so the integer coordinates
    obey the bound.

    >>> clip_to_lattice([3.0, 4.0], bound=1.0).round(5).tolist()
    [0.6, 0.8]
    """
    given = np.asarray(values, float)
    if not np.isfinite(given).all() or not given.ndim:
        raise InvalidValue("Expected vectors of finite numbers.")
    if norm not in ("l1", "l2", "linf"):
        raise InvalidValue(f"Expected norm={norm!r} in ('l1', 'l2', 'linf').")
    if not 1 <= bound * UNITS_PER_LOSS <= 2**50:
        raise InvalidValue(
            f"Expected bound={bound!r} in [2^-20, 2^30]: "
            "at least one step, and small enough for exact numbers."
        )
    limit = np.floor(bound * UNITS_PER_LOSS)
    peak = np.abs(given).max(axis=-1, keepdims=True, initial=0.0)
    # scaled so that no square overflows; a warning about a tiny vector would show it
    safe = given * np.minimum(1.0, 2.0**20 * bound / np.maximum(peak, bound))
    units = np.rint(safe * UNITS_PER_LOSS)
    if norm == "linf":
        return np.clip(units, -limit, limit) / UNITS_PER_LOSS
    power, most = (1, 2.0**52) if norm == "l1" else (2, 2.0**26)
    totals = (np.abs(units) ** power).sum(axis=-1, keepdims=True)
    sizes, slack = totals ** (1 / power), 1 + (given.shape[-1] + 16) * 2.0**-51
    # whole numbers below 2^53 are added without error
    long = totals > limit**power if limit < most else sizes * slack > limit
    shrunk = np.trunc(units * (limit / np.where(long, sizes * slack * slack, 1.0)))
    return np.where(long, shrunk, units) / UNITS_PER_LOSS


def to_units(sums: npt.ArrayLike) -> Units:
    """Convert sums of lattice losses to exact integer units; refuse values off the lattice."""
    given = np.asarray(sums, np.float64)
    if given.size > _AT_ONCE:
        whole, flat = np.empty(given.shape, np.int64), given.reshape(-1)
        for first in range(0, len(flat), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            whole.reshape(-1)[part] = to_units(flat[part])
        return whole
    scaled = given * UNITS_PER_LOSS
    units = scaled.astype(np.int64)
    if (units != scaled).any():
        raise InvalidValue(
            "Expected every loss, and every sum of them, on the lattice 2^-20 "
            "(environments round losses with round_to_lattice)."
        )
    return units


def require_lattice(losses: Array) -> None:
    """Refuse losses off the lattice."""
    flat = losses.reshape(-1)
    for first in range(0, len(flat), _AT_ONCE):
        scaled = flat[first : first + _AT_ONCE] * UNITS_PER_LOSS
        if (np.rint(scaled) != scaled).any():
            to_units(losses)  # raises


def from_units(units: Units | int) -> Array:
    """Convert lattice units back to losses."""
    return np.multiply(units, 1.0 / UNITS_PER_LOSS)


def check_unit_range(name: str, values: Array, first_round: int = 0) -> None:
    """Refuse NaN, infinite values and values outside [0, 1], and name the first one.

    Non-negative floats have the same order as their bit patterns, and negative values and NaN have
    larger patterns than 1.0. So one integer maximum is the whole test. The wrong value is searched
    for only when the test fails.
    """
    if not values.size:
        return
    contiguous = values if values.flags.c_contiguous else np.ascontiguousarray(values)
    if np.maximum.reduce(contiguous.reshape(-1).view(np.uint64)) <= ONE:
        return
    bad = np.argwhere(~((values >= 0.0) & (values <= 1.0)))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        place = (
            f"round {where[0] + first_round}, client {where[1]}, expert {where[2]}"
            if len(where) == 3
            else f"{where}"
        )
        raise InvalidValue(f"Expected every {name} in [0, 1] ({place}).")  # it may be private


def exact_scales(law: str, width: int) -> tuple[float, float]:
    """The least and the largest scale of secure noise, in the units of losses.

    `width` is how many numbers a value has; only the law "cube" depends on it.

    >>> exact_scales("laplace", 3)
    (7.62939453125e-06, 67108864.0)
    """
    widest = WIDEST
    if law == "cube":  # a radius is longer than this with probability exp(-128)
        widest = 2.0**52 / (width + 1 + (256 * (width + 1)) ** 0.5 + 128)
    return COARSEST / UNITS_PER_LOSS, widest / UNITS_PER_LOSS


def load_compiled() -> Any:
    """The compiled module, or None."""
    if os.environ.get("HEDGEROW_COMPILED") == "0":
        return None
    try:
        return import_module("hedgerow.core._sums")
    except ImportError:  # no compiler, or one for another system
        return None


compiled: Any = load_compiled()
LONG = 256  # numbers in a row


def few() -> int:
    """As many numbers as are worth a call: adding them takes longer than the call itself."""
    return 2**15 if compiled is None else 2**13


def sum_rows(
    rows: Array, starts: np.ndarray, stops: np.ndarray, out: Array, first: Array | None = None
) -> None:
    """Write the sums of `rows[starts[i]:stops[i]]` to `out[i]`; both are arrays of int64.

    With `first` sums run on: each begins with the one before it, and `out[0]` with `first`. Then
    rows are added one after the other, also if they are not on the lattice.

    >>> rows, starts, stops = np.array([[0.5], [0.25], [1.0]]), np.array([0, 1]), np.array([2, 3])
    >>> out = np.empty((2, 1))
    >>> sum_rows(rows, starts, stops, out)
    >>> out.tolist()
    [[0.75], [1.25]]
    >>> sum_rows(rows, starts, stops, out, first=np.ones(1))
    >>> out.tolist()
    [[1.75], [3.0]]
    """
    if _fits(rows, out):
        compiled.sum_rows(rows, starts, stops, out, rows[0].size, first)
        return
    size = int(stops[0] - starts[0]) if len(starts) else 0
    small = 0 < size * rows[:1].size < few()
    if small and (stops - starts == size).all() and (starts[1:] == stops[:-1]).all():
        equal = rows[starts[0] : stops[-1]].reshape(len(starts), size, *rows.shape[1:])
        np.einsum("gi...->g...", equal, out=out)  # the fastest sum over a middle axis
    else:
        for start, stop, total in zip(starts.tolist(), stops.tolist(), out, strict=True):
            np.add.reduce(rows[start:stop], axis=0, initial=0.0, out=total)
    if first is not None and len(out):
        out[0] += first
        _run_on(out)


def _run_on(sums: Array) -> None:
    """Add to each row all rows before it; numpy is slow where rows are long."""
    if sums[0].size < LONG:
        np.cumsum(sums, axis=0, out=sums)
        return
    for before, row in pairwise(sums):
        row += before


def sum_unit_rows(rows: Array, starts: np.ndarray, stops: np.ndarray, out: Array) -> bool:
    """Do the same if one pass can also tell that these rows lie in [0, 1].

    False: it cannot, and `out` holds nothing. That is so for numpy, and for -0.0.
    """
    return _fits(rows, out) and compiled.sum_rows(rows, starts, stops, out, rows[0].size, None)


def _fits(rows: Array, out: Array) -> bool:
    """Whether compiled code can add these rows."""
    if compiled is None or not rows[:1].size:
        return False
    return all(each.flags.c_contiguous and each.flags.aligned for each in (rows, out))

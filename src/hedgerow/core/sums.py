"""Sums of consecutive rows of losses, for checks and for fast paths.

`_sums.c` does this in one pass, where a compiler was at hand when the package was installed.
Otherwise, or with HEDGEROW_COMPILED=0, numpy does it. The bits are the same: sums of losses on the
lattice are exact.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from hedgerow.core.lattice import Array


def load() -> Any:
    """The compiled module, or None."""
    if os.environ.get("HEDGEROW_COMPILED") == "0":
        return None
    try:
        return import_module("hedgerow.core._sums")
    except ImportError:  # no compiler, or one for another system
        return None


compiled: Any = load()
LONG = 256  # numbers in a row


def few() -> int:
    """As many numbers as are worth a call: adding them takes longer than the call itself."""
    return 2**15 if compiled is None else 2**13


@contextmanager
def by_numpy() -> Iterator[None]:
    """Add by numpy alone for a while, to compare both ways."""
    global compiled  # noqa: PLW0603
    before, compiled = compiled, None
    try:
        yield
    finally:
        compiled = before


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

"""An append-only buffer for states that keep records.

A state must not change, so appending returns a new buffer. Both share one array with room to grow:
an append costs only the new rows. The array is copied when it is full, or when two buffers append
to the same one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array

LEAST_ROOM = 16


class _Store:
    """The shared array (*batch, room, width), of which the first `used` rows are taken."""

    __slots__ = ("array", "seen", "used")

    def __init__(self, array: Array, used: int) -> None:
        self.array, self.used = array, used
        self.seen = array.view()
        self.seen.flags.writeable = False


class Buffer:
    """Rows of shape (*batch, count, width) that are only ever appended to.

    Parameters
    ----------
    rows
        The first rows. Use `Buffer.empty(batch, width)` to begin without any.

    Examples
    --------
    >>> empty = Buffer.empty((), 2)
    >>> one = empty.append([1.0, 2.0])
    >>> len(empty), len(one), one.append([3.0, 4.0]).rows.tolist()
    (0, 1, [[1.0, 2.0], [3.0, 4.0]])
    """

    __slots__ = ("_count", "_store")

    def __init__(self, rows: npt.ArrayLike) -> None:
        given = np.array(rows, np.float64)
        if given.ndim < 2:
            raise InvalidValue(f"Expected rows (*batch, count, width), got shape {given.shape}.")
        self._store, self._count = _Store(given, given.shape[-2]), given.shape[-2]

    @classmethod
    def empty(cls, batch: tuple[int, ...], width: int) -> Buffer:
        """Return a buffer without rows."""
        return cls(np.zeros((*batch, 0, width)))

    @property
    def rows(self) -> Array:
        """All rows, as a view that cannot be written to."""
        return self._store.seen[..., : self._count, :]

    def append(self, row: npt.ArrayLike) -> Buffer:
        """Return the buffer with one more row (*batch, width)."""
        return self.extend(np.asarray(row, np.float64)[..., None, :])

    def extend(self, rows: npt.ArrayLike) -> Buffer:
        """Return the buffer with more rows (*batch, more, width)."""
        given, store, start = np.asarray(rows, np.float64), self._store, self._count
        *batch, room, width = store.array.shape
        if given.ndim < 2 or given.shape != (*batch, given.shape[-2], width):
            expected = (*batch, "more", width)
            raise InvalidValue(f"Expected rows of shape {expected}, got {given.shape}.")
        stop = start + given.shape[-2]
        if store.used != start or stop > room:
            grown = np.empty((*batch, max(LEAST_ROOM, stop, 2 * start), width))
            grown[..., :start, :] = store.array[..., :start, :]
            store = _Store(grown, start)
        store.array[..., start:stop, :] = given
        store.used = stop
        after = object.__new__(Buffer)
        after._store, after._count = store, stop
        return after

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Buffer) and np.array_equal(self.rows, other.rows)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"Buffer{self.rows.shape}"

    def __reduce__(self) -> Any:
        return Buffer, (self.rows,)

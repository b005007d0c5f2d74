"""What a field of a message or state may hold, as its annotation declares it.

A field is declared as `int`, `float`, `bool`, None, `Buffer`, an array, or a union of these. The
names below also declare the number of axes of an array. They are for one client: a record of all
clients at once may have one axis more. Floats are finite. `Any` declares nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array, Units

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


@dataclass(frozen=True)
class Rank:
    """The number of axes of an array, in `Annotated[Array, Rank(1)]`."""

    axes: int


class Infinite:
    """In `Annotated[float, Infinite]`: infinities are allowed, NaN is not."""


Extended = Annotated[float, Infinite]
"""A number that may be infinite."""
Value = Annotated[Array, Rank(0)]
"""One float."""
Vector = Annotated[Array, Rank(1)]
"""A float for every expert or coordinate."""
Matrix = Annotated[Array, Rank(2)]
"""Rows of floats."""
Whole = Annotated[npt.NDArray[np.int64], Rank(0)]
"""One whole number."""
WholeVector = Annotated[npt.NDArray[np.int64], Rank(1)]
"""A vector of whole numbers."""
UnitVector = Annotated[Units, Rank(1)]
"""A sum of losses in lattice units for every expert."""
UnitRows = Annotated[Units, Rank(2)]
"""Rows of such sums."""
Flag = Annotated[npt.NDArray[np.bool_], Rank(0)]
"""One truth value."""

NONE = "~<i8"  # None takes the room of a number


@dataclass(frozen=True)
class Form:
    """One thing that a field may hold.

    Parameters
    ----------
    words
        What it is called in errors.
    tag
        Its mark and dtype on the wire: `=` before a number, `+` before a buffer, nothing before an
        array. None: any.
    rank
        The number of axes. None: any.
    values
        Which floats are allowed: finite ones, infinite ones too, or NaN as well.
    """

    words: str
    tag: str | None
    rank: int | None = None
    values: Literal["finite", "infinite", "all"] = "finite"

    def fits(self, tag: str, rank: int, stacked: bool) -> bool:
        """Whether a value with this tag and rank has this form; one more axis if `stacked`."""
        if self.tag is None:
            return True
        named = tag == self.tag if self.tag else tag[:1] not in "=+~"
        return named and (self.rank is None or rank - self.rank in ((0, 1) if stacked else (0,)))


_PLAIN: dict[Any, Form] = {
    Any: Form("a number or an array", None, values="all"),
    NoneType: Form("None", NONE, 0),
    bool: Form("a Python bool", "=|b1", 0),
    int: Form("a Python int", "=<i8", 0),
    float: Form("a Python float", "=<f8", 0),
    Buffer: Form("a buffer", "+<f8"),
    np.ndarray: Form("an array", ""),
}


@lru_cache(maxsize=1024)
def layout(kind: type[Any]) -> tuple[tuple[str, tuple[Form, ...]], ...]:
    """The name of every field of a dataclass, and what the field may hold."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise InvalidValue(
            f"Cannot read the annotations of {kind.__name__}: {error}. Declare it in a module."
        ) from error
    return tuple((f.name, _forms(hints[f.name], f"{kind.__name__}.{f.name}")) for f in fields(kind))


def _forms(hint: Any, where: str) -> tuple[Form, ...]:
    origin, given = get_origin(hint), get_args(hint)
    if hasattr(origin, "__value__"):  # newer versions of numpy name the type of an array
        return _forms(origin.__value__[given], where)
    if origin in (Union, UnionType):
        return tuple(form for one in given for form in _forms(one, where))
    if origin is Annotated:
        rank = next((note.axes for note in given[1:] if isinstance(note, Rank)), None)
        forms = tuple(_ranked(form, rank) for form in _forms(given[0], where))
        return tuple(replace(f, values="infinite") for f in forms) if Infinite in given else forms
    if origin is np.ndarray and (element := get_args(given[1])[0]) is not Any:
        dtype = np.dtype(element)
        return (Form(f"an array of {dtype}", dtype.newbyteorder("<").str),)
    plain = np.ndarray if origin is np.ndarray else hint
    if plain not in _PLAIN:
        raise InvalidValue(
            f"Expected {where} to be declared as a number, an array, a Buffer or None, got {hint}."
        )
    return (_PLAIN[plain],)


def _ranked(form: Form, rank: int | None) -> Form:
    if rank is None:
        return form
    axes = "1 axis" if rank == 1 else f"{rank} axes"
    return replace(form, words=f"{form.words} with {axes}", rank=rank)

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

from hedgerow.core.buffer import Buffer
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array, Units


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

"""Messages and states, and their wire format.

A message is a frozen dataclass of numbers and arrays. Everything that leaves a client is in an
`Upload`, and everything that comes back is in a `Broadcast`. The certificate maps each field to a
channel. The codec is versioned and self-describing: magic, version, length of a JSON header (type,
field names, dtypes, shapes), header, raw little-endian data. States have the same format.

A class declares what its fields hold (`core.layout`), and the codec checks it on both sides. A
record has exactly one encoding. All other bytes raise `InvalidMessage`, and nothing else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any, TypeVar

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.layout import NONE, Buffer, Form, layout

MAGIC = b"HR"
VERSION = 1
_LENGTH = 4
_START = len(MAGIC) + 1 + _LENGTH

DTYPES = frozenset(np.dtype(code).newbyteorder("<").str for code in "?bhilqBHILQefd")

MOST_AXES, LONGEST_AXIS, LONGEST_HEADER = 32, 2**40, 2**14
CACHED = 512  # layouts that are remembered

Record = TypeVar("Record")


class InvalidMessage(InvalidValue):
    """Bytes or values that are not a message of the declared type."""


@dataclass(frozen=True)
class Upload:
    """Base class of what a client sends; an algorithm adds its fields."""


@dataclass(frozen=True)
class Broadcast:
    """Base class of what the server sends; an algorithm adds its fields.

    Clients play `rounds` rounds and then upload. 0 means upload again at once, None means never
    again.
    """

    rounds: int | None


def field_names(message: type[Any]) -> tuple[str, ...]:
    """Return `Type.field` for every field of a message type."""
    return tuple(f"{message.__name__}.{f.name}" for f in fields(message))


def scalars(message: Any) -> int:
    """Count the numbers in a message."""
    return sum(int(np.size(getattr(message, f.name))) for f in fields(message))


@dataclass(frozen=True)
class _Plan:
    """How the fields of one layout are written: the bytes before the data, and each field."""

    start: bytes
    fields: tuple[_Placed, ...]


@dataclass(frozen=True)
class _Placed:
    """One field on the wire: its mark, dtype and shape, and which floats it may hold."""

    name: str
    mark: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    values: str

    @cached_property
    def free(self) -> bool:
        """Whether every number of its dtype is declared."""
        return self.values == "all" or self.dtype.kind != "f"

    @cached_property
    def whole(self) -> bool:
        """Whether it is one whole number."""
        return self.mark == "=" and self.dtype.kind in "iu"

    def check(self, array: np.ndarray, owner: str) -> None:
        """Refuse floats that are not declared."""
        if self.free:
            return
        if not np.isfinite(array).all() and (self.values == "finite" or np.isnan(array).any()):
            raise InvalidMessage(
                f"Expected {owner}.{self.name} to be {self.values}, got NaN or an infinity."
            )


def encode(message: Any) -> bytes:
    """Encode a flat dataclass whose fields are numbers, booleans, arrays, buffers or None.

    None takes the space of a number.
    """
    kind = type(message)
    found = [_tagged(getattr(message, name), kind, name) for name, _ in layout(kind)]
    plan = _plan(kind, tuple((mark, array.dtype, array.shape) for mark, array in found))
    parts = [plan.start]
    for (_, array), placed in zip(found, plan.fields, strict=True):
        placed.check(array, kind.__name__)
        parts.append(array.astype(placed.dtype, copy=False).tobytes())
    return b"".join(parts)


@lru_cache(maxsize=CACHED)
def _plan(kind: type[Any], found: tuple[tuple[str, Any, tuple[int, ...]], ...]) -> _Plan:
    """How to write fields with these marks, dtypes and shapes; refuse what is not declared."""
    name, header, placed = kind.__name__, [], []
    for (field, forms), (mark, dtype, shape) in zip(layout(kind), found, strict=True):
        little = dtype.newbyteorder("<")
        tag = mark + little.str
        form = _form(forms, tag, len(shape), f"{name}.{field}", stacked=True)
        header.append((field, tag, shape))
        placed.append(_placed(field, tag, shape, form, name))
    head = _header(name, header)
    if len(head) > LONGEST_HEADER:
        raise InvalidMessage(f"{name} has too many fields to be sent.")
    start = [MAGIC, bytes([VERSION]), len(head).to_bytes(_LENGTH, "little"), head]
    return _Plan(b"".join(start), tuple(placed))


def _header(name: Any, header: Any) -> bytes:
    return json.dumps([name, header], separators=(",", ":")).encode()


def _tagged(value: Any, kind: type[Any], field: str) -> tuple[str, np.ndarray]:
    """A value as an array, and the mark for what it is."""
    if value is None:
        return "~", np.zeros((), np.int64)
    if type(value) is np.ndarray and value.dtype.kind in "bifu":
        return "", value
    mark = "" if isinstance(value, np.ndarray) else "="
    if isinstance(value, Buffer):
        mark, value = "+", value.rows
    array = np.asarray(value)
    if array.dtype.kind not in "bifu" or (mark == "=" and array.ndim):
        what = array.dtype if array.dtype.kind not in "bifu" else type(value).__name__
        raise InvalidMessage(
            f"Expected {kind.__name__}.{field} to be a number or a NumPy array of numbers, "
            f"got {what}."
        )
    return mark, array


def _form(forms: tuple[Form, ...], tag: str, rank: int, where: str, *, stacked: bool) -> Form:
    """The declared form that a value has."""
    for form in forms:
        if form.fits(tag, rank, stacked):
            return form
    declared = " or ".join(form.words for form in forms)
    got = "None" if tag == NONE else f"{tag[:40]} with {rank} axes"
    raise InvalidMessage(f"Expected {where} to be {declared}, got {got}.")


def decode(kind: type[Record], data: bytes, *, stacked: bool = False) -> Record:
    """Decode a message of type `kind`; refuse anything unexpected and never guess.

    Parameters
    ----------
    kind
        The class that declares the fields.
    data
        The bytes that arrived. They raise `InvalidMessage` unless they are what `encode` writes.
    stacked
        Whether arrays may have one axis more than declared, as in a record of all clients.
    """
    if not is_dataclass(kind):
        raise TypeError(f"{kind} is not a dataclass")
    name = kind.__name__
    if len(data) < _START or data[: len(MAGIC)] != MAGIC:
        raise InvalidMessage(
            f"Expected a {name} message, got {len(data)} bytes that do not start with {MAGIC!r}."
        )
    if data[len(MAGIC)] != VERSION:
        raise InvalidMessage(f"Expected message version {VERSION}, got {data[len(MAGIC)]}.")
    end = _START + int.from_bytes(data[_START - _LENGTH : _START], "little")
    if end - _START > LONGEST_HEADER:
        raise InvalidMessage(f"The header of this {name} message is too long. Send it again.")
    values: dict[str, Any] = {}
    for placed in _read_header(kind, bytes(data[_START:end]), stacked):
        if placed.whole:
            values[placed.name], end = _number(data, end, placed, name)
            continue
        array, end = _array(data, end, placed, name)
        placed.check(array, name)
        if placed.mark == "~":
            values[placed.name] = None
        elif placed.mark == "=":
            values[placed.name] = array.item()
        else:
            values[placed.name] = Buffer(array) if placed.mark == "+" else array
    if end != len(data):
        raise InvalidMessage(f"Expected {name} of {end} bytes, got {len(data)}.")
    try:
        return kind(**values)
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise InvalidMessage(f"This {name} message is refused: {error}") from error


@lru_cache(maxsize=CACHED)
def _read_header(kind: type[Any], head: bytes, stacked: bool) -> tuple[_Placed, ...]:
    """The fields that a header announces, if the class declares them so."""
    name, expected = kind.__name__, layout(kind)
    try:
        written, header = json.loads(head.decode("ascii"))
        sent = [
            (str(field), str(tag), tuple(int(n) for n in shape)) for field, tag, shape in header
        ]
        canonical = _header(written, sent) == head
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidMessage(
            f"The header of this {name} message is damaged. Send it again."
        ) from error
    known, found = [field for field, _ in expected], [field for field, _, _ in sent]
    if written != name or found != known:
        raise InvalidMessage(f"Expected {name}{known}, got {str(written)[:80]}{str(found)[:200]}.")
    if not canonical:
        raise InvalidMessage(f"The header of this {name} message is not as it is written here.")
    return tuple(
        _placed(
            field,
            tag,
            shape,
            _form(forms, tag, len(shape), f"{name}.{field}", stacked=stacked),
            name,
        )
        for (field, tag, shape), (_, forms) in zip(sent, expected, strict=True)
    )


def _placed(field: str, tag: str, shape: tuple[int, ...], form: Form, owner: str) -> _Placed:
    """Where a field is on the wire; refuse what has no place there, on both sides."""
    mark = tag[:1] if tag[:1] in ("=", "+", "~") else ""
    plain = tag.removeprefix(mark)
    if (
        plain not in DTYPES
        or (mark in ("=", "~") and shape)
        or (mark == "~" and tag != NONE)
        or (mark == "+" and len(shape) < 2)
        or len(shape) > MOST_AXES
        or not all(0 <= n < LONGEST_AXIS for n in shape)
    ):
        got = f"{tag[:40]} of shape {str(shape)[:80]}"
        raise InvalidMessage(
            f"Expected {owner}.{field} to be numeric, of at most 64 bits, got {got}."
        )
    return _Placed(field, mark, np.dtype(plain), shape, form.values)


def _number(data: bytes, start: int, placed: _Placed, owner: str) -> tuple[int, int]:
    """The whole number at `start`, read without an array, and where it ends."""
    end = start + placed.dtype.itemsize
    if end > len(data):
        raise _truncated(placed, end - start, owner)
    return int.from_bytes(data[start:end], "little", signed=placed.dtype.kind == "i"), end


def _truncated(placed: _Placed, size: int, owner: str) -> InvalidMessage:
    return InvalidMessage(
        f"This message is truncated: {owner}.{placed.name} needs {size} bytes. Send it again."
    )


def _array(data: bytes, start: int, placed: _Placed, owner: str) -> tuple[np.ndarray, int]:
    """The array at `start`, in native byte order, and where it ends."""
    numeric, shape = placed.dtype, placed.shape
    count = prod(shape)
    size = numeric.itemsize * count
    room = size or numeric.itemsize * prod(n for n in shape if n)  # of an empty array, too
    if start + size > len(data) or room >= 2**63:
        raise _truncated(placed, size, owner)
    raw = np.frombuffer(data, numeric, count, start)
    if placed.mark == "~" or numeric.kind == "b":  # None and truth values have one form each
        largest = raw.view(np.uint8).max(initial=0)
        if largest > (placed.mark != "~"):
            raise InvalidMessage(
                f"The bytes of {owner}.{placed.name} are not as they are written here."
            )
    return raw.reshape(shape).astype(numeric.newbyteorder("=")), start + size


@dataclass(frozen=True)
class _NoState:
    """What is written for the state None."""


def hidden(record: Any) -> list[str]:
    """Return the attributes of a dataclass that are neither fields nor cached properties.

    Slots of base classes count. So does a cached property whose number, text or array was
    overwritten; other cached objects are taken to be what their property returns.
    """
    kind = type(record)
    known, slots = _attributes(kind)
    if not slots and record.__dict__.keys() == known:
        return []
    set_slots = (name for name in slots if hasattr(record, name))
    return sorted(
        name
        for name in {*getattr(record, "__dict__", {}), *set_slots} - known
        if not _is_cached(record, getattr(kind, name, None), name)
    )


@lru_cache(maxsize=CACHED)
def _attributes(kind: type[Any]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The fields of a dataclass, and its slots and those of its base classes."""
    known = frozenset(f.name for f in fields(kind))
    return known, tuple(name for base in kind.__mro__ for name in _slots(base))


def _slots(kind: type[Any]) -> list[str]:
    """The names of the slots of one class, as attributes of its instances."""
    own = kind.__dict__.get("__slots__", ())
    names = [own] if isinstance(own, str) else list(own)
    private = [name.startswith("__") and not name.endswith("__") for name in names]
    prefix = f"_{kind.__name__.lstrip('_')}"
    return [
        prefix + name if mangled else name
        for name, mangled in zip(names, private, strict=True)
        if name not in ("__dict__", "__weakref__")
    ]


def _is_cached(record: Any, descriptor: Any, name: str) -> bool:
    if not isinstance(descriptor, cached_property):
        return False
    kept = getattr(record, name)
    if not isinstance(kept, np.ndarray | np.generic | int | float | str):
        return True
    one, other = np.asarray(descriptor.func(record)), np.asarray(kept)
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def encode_state(state: Any) -> bytes:
    """Encode the state of a role: None, or a flat dataclass as in `encode`."""
    if state is None:
        return encode(_NoState())
    if not is_dataclass(state):
        raise InvalidValue(f"Expected a dataclass or None as state, got {type(state).__name__}.")
    lost = hidden(state)
    if lost:
        raise InvalidValue(
            f"{type(state).__name__}.{lost[0]} would be lost. Declare it as a field."
        )
    return encode(state)


def decode_state(kind: type[Any], data: bytes) -> Any:
    """Decode a state of the type `kind` that a role declares; `type(None)` gives None.

    It may be the state of one client or of all clients at once.
    """
    if kind is type(None):
        decode(_NoState, data)
        return None
    return decode(kind, data, stacked=True)

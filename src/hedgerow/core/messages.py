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
from functools import cached_property
from math import prod
from typing import Any, TypeVar

import numpy as np

from hedgerow.core.buffer import Buffer
from hedgerow.core.errors import InvalidValue
from hedgerow.core.layout import NONE, Form, layout

MAGIC = b"HR"
VERSION = 1
_LENGTH = 4
_START = len(MAGIC) + 1 + _LENGTH

DTYPES = frozenset(np.dtype(code).newbyteorder("<").str for code in "?bhilqBHILQefd")

MOST_AXES, LONGEST_AXIS = 32, 2**40

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


def encode(message: Any) -> bytes:
    """Encode a flat dataclass whose fields are numbers, booleans, arrays, buffers or None.

    None takes the space of a number.
    """
    header: list[Any] = []
    body: list[bytes] = []
    name = type(message).__name__
    for field, forms in layout(type(message)):
        tag, array = _tagged(getattr(message, field), f"{name}.{field}")
        _check_form(forms, tag, array.ndim, f"{name}.{field}", stacked=True)
        _check_finite(forms, array, f"{name}.{field}")
        header.append([field, tag, list(array.shape)])
        body.append(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    head = _header(name, header)
    return b"".join([MAGIC, bytes([VERSION]), len(head).to_bytes(_LENGTH, "little"), head, *body])


def _header(name: Any, header: Any) -> bytes:
    return json.dumps([name, header], separators=(",", ":")).encode()


def _tagged(value: Any, where: str) -> tuple[str, np.ndarray]:
    """A value as an array, and what the header says of it: a mark for its kind, and its dtype."""
    if value is None:
        return NONE, np.zeros((), np.int64)
    mark = "" if isinstance(value, np.ndarray) else "="
    if isinstance(value, Buffer):
        mark, value = "+", value.rows
    array = np.asarray(value)
    if array.dtype.kind not in "bifu" or (mark == "=" and array.ndim):
        what = array.dtype if array.dtype.kind not in "bifu" else type(value).__name__
        raise InvalidMessage(
            f"Expected {where} to be a number or a NumPy array of numbers, got {what}."
        )
    return mark + array.dtype.newbyteorder("<").str, array


def _check_form(forms: tuple[Form, ...], tag: str, rank: int, where: str, *, stacked: bool) -> None:
    if not any(form.fits(tag, rank, stacked) for form in forms):
        declared = " or ".join(form.words for form in forms)
        got = "None" if tag == NONE else f"{tag[:40]} with {rank} axes"
        raise InvalidMessage(f"Expected {where} to be {declared}, got {got}.")


def _check_finite(forms: tuple[Form, ...], array: np.ndarray, where: str) -> None:
    if array.dtype.kind == "f" and forms[0].finite and not np.isfinite(array).all():
        raise InvalidMessage(f"Expected {where} to be finite, got NaN or an infinity.")


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
    written, sent, end = _sent(name, data)
    expected = layout(kind)
    known, found = [field for field, _ in expected], [field for field, _, _ in sent]
    if written != name or found != known:
        raise InvalidMessage(f"Expected {name}{known}, got {str(written)[:80]}{str(found)[:200]}.")
    values: dict[str, Any] = {}
    for (field, tag, shape), (_, forms) in zip(sent, expected, strict=True):
        where = f"{name}.{field}"
        _check_form(forms, tag, len(shape), where, stacked=stacked)
        array, end = _array(data, end, tag, shape, where)
        _check_finite(forms, array, where)
        if tag == NONE:
            values[field] = None
        elif tag[:1] == "=":
            values[field] = array[()].item()
        else:
            values[field] = Buffer(array) if tag[:1] == "+" else array
    if end != len(data):
        raise InvalidMessage(f"Expected {name} of {end} bytes, got {len(data)}.")
    try:
        return kind(**values)
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise InvalidMessage(f"This {name} message is refused: {error}") from error


def _sent(name: str, data: bytes) -> tuple[Any, list[tuple[str, str, tuple[int, ...]]], int]:
    """What the header of a message calls itself, its fields, and where the header ends."""
    if len(data) < _START or data[: len(MAGIC)] != MAGIC:
        raise InvalidMessage(
            f"Expected a {name} message, got {len(data)} bytes that do not start with {MAGIC!r}."
        )
    if data[len(MAGIC)] != VERSION:
        raise InvalidMessage(f"Expected message version {VERSION}, got {data[len(MAGIC)]}.")
    end = _START + int.from_bytes(data[_START - _LENGTH : _START], "little")
    head = bytes(data[_START:end])
    try:
        written, header = json.loads(head.decode("ascii"))
        sent = [
            (str(field), str(tag), tuple(int(n) for n in shape)) for field, tag, shape in header
        ]
        canonical = _header(written, [[*field] for field in sent]) == head
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidMessage(
            f"The header of this {name} message is damaged. Send it again."
        ) from error
    if not canonical:
        raise InvalidMessage(f"The header of this {name} message is not as it is written here.")
    return written, sent, end


def _array(
    data: bytes, start: int, tag: str, shape: tuple[int, ...], where: str
) -> tuple[np.ndarray, int]:
    """The array at `start`, in native byte order, and where it ends."""
    mark = tag[:1] if tag[:1] in ("=", "+", "~") else ""
    plain = tag.removeprefix(mark)
    if (
        plain not in DTYPES
        or (mark in ("=", "~") and shape)
        or (mark == "+" and len(shape) < 2)
        or len(shape) > MOST_AXES
        or not all(0 <= n < LONGEST_AXIS for n in shape)
    ):
        got = f"{tag[:40]} of shape {str(shape)[:80]}"
        raise InvalidMessage(f"Expected {where} to be numeric, got {got}.")
    numeric = np.dtype(plain)
    size = numeric.itemsize * prod(shape)
    room = numeric.itemsize * prod(n for n in shape if n)  # of an empty array, too
    if start + size > len(data) or room >= 2**63:
        raise InvalidMessage(
            f"This message is truncated: {where} needs {size} bytes. Send it again."
        )
    raw = np.frombuffer(data, numeric, prod(shape), start)
    if (mark == "~" and raw[0]) or (plain == "|b1" and raw.view(np.uint8).max(initial=0) > 1):
        raise InvalidMessage(f"The bytes of {where} are not as they are written here.")
    return raw.reshape(shape).astype(numeric.newbyteorder("=")), start + size


@dataclass(frozen=True)
class _NoState:
    """What is written for the state None."""


def hidden(record: Any) -> list[str]:
    """Return the attributes of a dataclass that are neither fields nor cached properties.

    Slots of base classes count. So does a cached property whose number, text or array was
    overwritten; other cached objects are taken to be what their property returns.
    """
    known = {f.name for f in fields(record)}
    kind = type(record)
    slots = (name for base in kind.__mro__ for name in _slots(base) if hasattr(record, name))
    return sorted(
        name
        for name in {*getattr(record, "__dict__", {}), *slots} - known
        if not _is_cached(record, getattr(kind, name, None), name)
    )


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

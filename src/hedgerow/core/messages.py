"""Messages and states, and their wire format.

A message is a frozen dataclass of numbers and arrays. Everything that leaves a client is in an
`Upload`, and everything that comes back is in a `Broadcast`. The certificate maps each field to a
channel. The codec is versioned and self-describing: magic, version, length of a JSON header (type,
field names, dtypes, shapes), header, raw little-endian data. States have the same format.
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

MAGIC = b"HR"
VERSION = 1
_LENGTH = 4
_START = len(MAGIC) + 1 + _LENGTH

DTYPES = frozenset(np.dtype(code).newbyteorder("<").str for code in "?bhilqBHILQefd")

Record = TypeVar("Record")


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
    for f in fields(message):  # each kind of field has its mark before the dtype
        value = getattr(message, f.name)
        mark = "" if isinstance(value, np.ndarray) else "="
        if isinstance(value, Buffer):
            mark, value = "+", value.rows
        if value is None:
            header.append([f.name, "~<i8", []])
            body.append(bytes(8))
            continue
        array = np.asarray(value)
        if array.dtype.kind not in "bifu" or (mark == "=" and array.ndim):
            what = array.dtype if array.dtype.kind not in "bifu" else type(value).__name__
            raise InvalidValue(
                f"Expected {type(message).__name__}.{f.name} to be a number or a NumPy array of "
                f"numbers, got {what}."
            )
        header.append([f.name, mark + array.dtype.newbyteorder("<").str, list(array.shape)])
        body.append(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    head = json.dumps([type(message).__name__, header], separators=(",", ":")).encode()
    return b"".join([MAGIC, bytes([VERSION]), len(head).to_bytes(_LENGTH, "little"), head, *body])


def decode(kind: type[Record], data: bytes) -> Record:
    """Decode a message of type `kind`; refuse anything unexpected and never guess."""
    if not is_dataclass(kind):
        raise TypeError(f"{kind} is not a dataclass")
    name = kind.__name__
    if len(data) < _START or data[: len(MAGIC)] != MAGIC:
        raise InvalidValue(
            f"Expected a {name} message, got {len(data)} bytes that do not start with {MAGIC!r}."
        )
    if data[len(MAGIC)] != VERSION:
        raise InvalidValue(f"Expected message version {VERSION}, got {data[len(MAGIC)]}.")
    end = _START + int.from_bytes(data[_START - _LENGTH : _START], "little")
    try:
        sent, header = json.loads(data[_START:end])
        layout = [
            (str(field), str(dtype), tuple(int(n) for n in shape)) for field, dtype, shape in header
        ]
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidValue(
            f"The header of this {name} message is damaged. Send it again."
        ) from error
    expected = [f.name for f in fields(kind)]
    if sent != name or [field for field, _, _ in layout] != expected:
        raise InvalidValue(
            f"Expected {name}{expected}, got {sent}{[field for field, _, _ in layout]}."
        )
    values: dict[str, Any] = {}
    for field, dtype, shape in layout:
        if dtype == "~<i8":
            values[field] = None
            end += 8
            continue
        mark = dtype[:1] if dtype[:1] in ("=", "+") else ""
        plain = dtype.removeprefix(mark)
        if plain not in DTYPES or (mark == "=" and shape) or (mark == "+" and len(shape) < 2):
            raise InvalidValue(
                f"Expected {name}.{field} to be numeric, got {dtype} of shape {shape}."
            )
        numeric = np.dtype(plain)
        size = numeric.itemsize * prod(shape)
        if min(shape, default=0) < 0 or max(shape, default=0) > len(data) or end + size > len(data):
            raise InvalidValue(
                f"This {name} message is truncated: {field} needs {size} bytes. Send it again."
            )
        array = (
            np.frombuffer(data, numeric, prod(shape), end)
            .reshape(shape)
            .astype(numeric.newbyteorder("="))
        )
        values[field] = array[()].item() if mark == "=" else Buffer(array) if mark == "+" else array
        end += size
    if end != len(data):
        raise InvalidValue(f"Expected {name} of {end} bytes, got {len(data)}.")
    return kind(**values)


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
    """Decode a state of the type `kind` that a role declares; `type(None)` gives None."""
    if kind is type(None):
        decode(_NoState, data)
        return None
    return decode(kind, data)

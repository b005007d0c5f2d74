"""Damage to messages that knows their format: names, tags, shapes, data, and the bytes themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from hedgerow.core.messages import VERSION

Field = tuple[Any, Any, Any, bytes]
"""Name, tag, shape and data."""

TAGS = ("<f8", "<i8", "|b1", "<f4", "=<f8", "=<i8", "=|b1", "~<i8", "+<f8", ">f8", "O", "<U4", "")
ODD = (None, True, -1, 0, 1, 2, 2**31, 2**63, 10**30, 0.5, float("nan"), "", "x", [], [[]], {})


def message(name: Any, sent: Iterable[Sequence[Any]]) -> bytes:
    """The bytes of a message with these fields, whatever they are."""
    sent = list(sent)
    head = json.dumps(
        [name, [[field, tag, shape] for field, tag, shape, _ in sent]], separators=(",", ":")
    ).encode()
    return framed(head, b"".join(body for *_, body in sent))


def framed(head: bytes, body: bytes) -> bytes:
    """Magic, version and length before a header and data."""
    return b"HR" + bytes([VERSION]) + len(head).to_bytes(4, "little") + head + body


@dataclass(frozen=True)
class Letter:
    """A message in its parts."""

    name: Any
    fields: tuple[Field, ...]

    @classmethod
    def read(cls, data: bytes) -> Letter:
        """The parts of a message that `encode` wrote."""
        end = 7 + int.from_bytes(data[3:7], "little")
        name, header = json.loads(data[7:end])
        found = []
        for field, tag, shape in header:
            size = np.dtype(tag.lstrip("=+~")).itemsize * int(np.prod(shape, dtype=int))
            found.append((field, tag, shape, data[end : end + size]))
            end += size
        return cls(name, tuple(found))


def letters(records: list[Any]) -> list[Any]:
    """One record of each type and layout that is not a stack of all clients and has fields."""
    kept: dict[Any, Any] = {}
    for record in records:
        if fields(record):
            kept.setdefault((type(record), len(kept) % 2), record)
    return list(kept.values())


def _pick(generator: np.random.Generator, values: Sequence[Any]) -> Any:
    return values[int(generator.integers(len(values)))]


def _change_field(letter: Letter, generator: np.random.Generator) -> Letter:
    """Another name, tag, shape or data of one field."""
    at = int(generator.integers(len(letter.fields)))
    name, tag, shape, body = letter.fields[at]
    kind, old = int(generator.integers(7)), shape if isinstance(shape, list) else []
    if kind == 0:
        name = _pick(generator, ("rounds", "", str(name).upper(), *ODD))
    elif kind == 1:
        tag = _pick(generator, (*TAGS, *ODD))
    elif kind == 2:
        shape = _pick(generator, ([], [1], [0, 3], [1, *old], [*old, 1], [2**40], *ODD))
    elif kind == 3:
        shape = [_pick(generator, ODD) if generator.random() < 0.5 else n for n in [*old, 1]]
    elif kind == 4:  # other data of the same size
        body = generator.bytes(len(body))
    elif kind == 5:  # a value that is not finite
        body = np.array([np.nan, np.inf, -np.inf]).tobytes()[: len(body)].ljust(len(body), b"\0")
    else:
        tag, body = "~<i8", _pick(generator, (bytes(8), b"\1" * 8, body))
    altered = list(letter.fields)
    altered[at] = (name, tag, shape, body)
    return replace(letter, fields=tuple(altered))


def _change_list(letter: Letter, generator: np.random.Generator) -> Letter:
    """A field left out, sent twice, or in another place."""
    found = list(letter.fields)
    field = found.pop(int(generator.integers(len(found))))
    return replace(
        letter, fields=tuple(_pick(generator, (found, [*found, field], [field, *found])))
    )


def _change_bytes(data: bytes, generator: np.random.Generator) -> bytes:
    """A byte flipped, a tail cut off or added, or a header in another encoding."""
    end = 7 + int.from_bytes(data[3:7], "little")
    head, body = data[7:end], data[end:]
    at = int(generator.integers(len(data)))
    changes: tuple[Callable[[], bytes], ...] = (
        lambda: data[:at] + generator.bytes(1) + data[at + 1 :],
        lambda: data[:at],
        lambda: data + generator.bytes(1 + at % 9),
        lambda: framed(head.decode("ascii", "replace").encode("utf-16"), body),
        lambda: framed(b"\xef\xbb\xbf" + head, body),
        lambda: framed(head.replace(b",", b", ", 1), body),
        lambda: framed(b"[" * (1 + at * 40) + head, body),
        lambda: framed(head.replace(b"[]", b"[" * 2000 + b"]" * 2000, 1), body),
        lambda: framed(head.replace(b"1", b"1" * (1 + at * 20), 1), body),
        lambda: data[:3] + generator.bytes(4) + data[7:],
    )
    return _pick(generator, changes)()


def damaged(
    sent: Sequence[tuple[type[Any], bytes]], generator: np.random.Generator
) -> tuple[type[Any], bytes]:
    """The type and the bytes of one of these messages, after one to three changes."""
    kind, data = _pick(generator, sent)
    letter = Letter.read(data)
    if generator.random() < 0.05:
        letter = replace(letter, name=_pick(generator, ("Upload", *ODD)))
    for _ in range(int(generator.integers(3))):
        change = _change_list if generator.random() < 0.1 and letter.fields else _change_field
        letter = change(letter, generator) if letter.fields else letter
    data = message(letter.name, letter.fields)
    return kind, _change_bytes(data, generator) if generator.random() < 0.3 else data

"""Canonical fingerprints: one hash for equal values, in every process and on every machine.

A value is described by its contents alone: numbers exactly, dataclasses by their qualified name and
their fields, functions by name, mappings and sets in sorted order: the order of a mapping does not
count. Code counts by name, not by its text. Anything else is refused by name, because an address or
a `repr` may change from run to run.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial, reduce
from types import MethodType
from typing import Any

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.messages import hidden
from hedgerow.core.registry import module_name

FORMAT = 1
"""Changes whenever the same value gets another description."""


def fingerprint(value: Any, name: str) -> str:
    """Return the SHA-256 of the canonical description of a value.

    `name` is what error messages call the value.

    >>> fingerprint({"rate": 0.5, "every": 2}, "a") == fingerprint({"every": 2, "rate": 0.5}, "b")
    True
    >>> fingerprint(object(), "client")
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: client has no fingerprint: object is not a dataclass. ...
    """
    return hashlib.sha256(_text([FORMAT, _described(value, name)]).encode()).hexdigest()


def _text(described: Any) -> str:
    return json.dumps(described, separators=(",", ":"))


def _described(value: Any, path: str) -> list[Any]:
    """Describe a value by nested lists of texts; different values have different descriptions."""
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return [kind.__name__, value.hex() if isinstance(value, float) else str(value)]
    if isinstance(value, Enum):
        return ["enum", _name(kind, path), value.name]
    if kind in (tuple, list, set, frozenset) or isinstance(value, Mapping):
        return _collection(value, path)
    if kind is np.ndarray:
        return _array(value, path)
    if is_dataclass(value) and not isinstance(value, type):
        return _record(value, path)
    return _code(value, path)


def _collection(value: Any, path: str) -> list[Any]:
    if isinstance(value, Mapping):
        pairs = ([_described(k, path), _described(v, f"{path}[{k!r}]")] for k, v in value.items())
        return ["mapping", *sorted(pairs, key=_text)]
    items = [_described(item, f"{path}[{i}]") for i, item in enumerate(value)]
    ordered = isinstance(value, tuple | list)
    return [type(value).__name__, *(items if ordered else sorted(items, key=_text))]


def _array(value: np.ndarray, path: str) -> list[Any]:
    if value.dtype.kind not in "biufc":
        raise _refusal(path, f"{value.dtype} is not a type of numbers", "Use numbers.")
    plain = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
    return [
        "array",
        plain.dtype.str,
        list(value.shape),
        hashlib.sha256(plain.tobytes()).hexdigest(),
    ]


def _record(value: Any, path: str) -> list[Any]:
    extra = hidden(value)
    if extra:
        raise _refusal(f"{path}.{extra[0]}", "it is not a field", "Declare it as a field.")
    pairs = (
        [f.name, _described(getattr(value, f.name), f"{path}.{f.name}")] for f in fields(value)
    )
    return ["record", _name(type(value), path), *pairs]


def _code(value: Any, path: str) -> list[Any]:
    """Describe a class, a method, a partial call or a function."""
    if isinstance(value, type):
        layout = [f.name for f in fields(value)] if is_dataclass(value) else []
        return ["type", _name(value, path), *layout]
    if isinstance(value, MethodType):
        return ["method", _described(value.__self__, path), _name(value.__func__, path)]
    if isinstance(value, partial):
        parts = (value.func, value.args, value.keywords)
        return ["partial", *(_described(part, path) for part in parts)]
    if hasattr(value, "__qualname__"):
        return ["function", _name(value, path)]
    raise _refusal(
        path, f"{type(value).__name__} is not a dataclass", "Make it a frozen dataclass."
    )


def _name(thing: Any, path: str) -> str:
    """Return the module and the qualified name of a class or function, if they lead to it."""
    module, name = thing.__module__, thing.__qualname__
    try:
        found = reduce(getattr, name.split("."), sys.modules[module])
    except (AttributeError, KeyError):
        found = None
    if found is not thing:
        raise _refusal(
            path,
            f"{module}.{name} is not the name of one thing",
            "Define it at the top level of a module; values that it needs are fields of a "
            "dataclass.",
        )
    return f"{module_name(module)}.{name}"


def _refusal(path: str, reason: str, remedy: str) -> InvalidValue:
    return InvalidValue(f"{path} has no fingerprint: {reason}. {remedy}")

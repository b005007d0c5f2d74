"""Plain values: numbers, text, lists and tables. Make them, write them, find where two differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from math import isclose, isfinite
from typing import Any

SAME = 1e-9  # other versions of libraries may round differently


def plain(value: Any) -> Any:
    """The value as numbers, text, lists and tables; anything else becomes its name."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            "kind": type(value).__name__,
            **{f.name: plain(getattr(value, f.name)) for f in fields(value)},
        }
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return (
        value
        if value is None or isinstance(value, bool | int | float | str)
        else getattr(value, "__name__", repr(value))
    )


LEVELS = 3  # of a document that begin new lines: its fields, its algorithms, and their fields


def json_text(value: Any, levels: int = LEVELS, lead: str = "") -> str:
    """Write a plain value as JSON, indented on its outer levels only.

    The encoder of the standard library is ten times as slow if it indents everything.

    >>> print(json_text({"stamp": "ran", "runs": [[1, 2.5]]}, levels=2))
    {
      "stamp": "ran",
      "runs": [
        [1, 2.5]
      ]
    }
    """
    if not levels or not value or not isinstance(value, dict | list | tuple):
        return json.dumps(value, allow_nan=False)
    inner = f"{lead}  "
    if isinstance(value, dict):
        items = [f"{json.dumps(k)}: {json_text(v, levels - 1, inner)}" for k, v in value.items()]
    else:
        items = [json_text(item, levels - 1, inner) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(items) + f"\n{lead}{closing}"


def nearly(one: Any, other: Any) -> bool:
    """Whether two plain values are the same, numbers up to rounding."""
    if isinstance(one, float | int) and isinstance(other, float | int):
        return isclose(one, other, rel_tol=SAME)
    return one == other


def first_difference(
    one: Any, other: Any, place: str = "", same: Callable[[Any, Any], bool] = nearly
) -> tuple[str, Any, Any] | None:
    """Where two plain values differ, and both values there; None if they are the same.

    `same` compares values that are neither tables nor lists.

    >>> first_difference({"a": [1, {"b": 2.0}]}, {"a": [1, {"b": 3.0}]})
    ('a.1.b', 2.0, 3.0)
    """
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        one, other = dict(enumerate(one)), dict(enumerate(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys((*one, *other)):
            where = f"{place}.{key}" if place else str(key)
            if key not in one or key not in other:
                return where, one.get(key, "missing"), other.get(key, "missing")
            found = first_difference(one[key], other[key], where, same)
            if found is not None:
                return found
        return None
    return None if same(one, other) else (place, one, other)

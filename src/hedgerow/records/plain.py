"""Plain values: make them, write them, compare them, and build checked dataclasses from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from math import isclose, isfinite
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue
from hedgerow.core.unit_text import parse_unit
from hedgerow.core.units import Unit
from hedgerow.core.validate import nearest
from hedgerow.environments.registry import ENVIRONMENTS

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


UNIONS = (Union, UnionType)
PLAIN = (bool, int, float, str, type(None))


def typed(kind: type[Any], table: Mapping[str, Any], where: str, of: str = "") -> Any:
    """Build the dataclass `kind` from plain values. Errors name unknown keys and wrong types.

    `of` is the name of what the keys belong to.
    """
    hints = get_type_hints(kind)
    known = {f.name: f for f in fields(kind) if f.init}
    values = {}
    for key, value in table.items():
        if key not in known:
            owner = f" of {of}" if of else ""
            raise InvalidValue(f"Unknown key {where}.{key}{owner}; {nearest(key, known)}")
        if hints[key] is Environment:
            values[key] = from_registry(ENVIRONMENTS, value, f"{where}.{key}")
            continue
        if Unit in get_args(hints[key]):
            values[key] = parse_unit(value)
            continue
        inner = _table(hints[key]) if isinstance(value, Mapping) else None
        if inner is not None:
            values[key] = typed(inner, value, f"{where}.{key}", key)
            continue
        fits = _plainly(value, hints[key])
        values[key] = value if fits else _fitted(value, hints[key], f"{where}.{key}")
    for name, f in known.items():
        if name not in values and f.default is MISSING and f.default_factory is MISSING:
            raise InvalidValue(f"{where}.{name} is missing. Give it a value.")
    return kind(**values)


def _table(hint: Any) -> type[Any] | None:
    """The dataclass that a table stands for, if None is all that may be there instead."""
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 and is_dataclass(kinds[0]) else None  # pyright: ignore


def _plainly(value: Any, hint: Any) -> bool:
    """Whether a value is, as it stands, of a plain type that is declared."""
    origin, given = get_origin(hint), get_args(hint)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in given)
    return type(value) in PLAIN and type(value) in (given if origin in UNIONS else (hint,))


def _fitted(value: Any, hint: Any, where: str) -> Any:
    """The value as pydantic, which is large, reads it for its type."""
    from pydantic import TypeAdapter, ValidationError

    given = tuple(value) if isinstance(value, list) else value
    try:
        return TypeAdapter(hint).validate_python(given, strict=True)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].replace("Input should be", "it should be")
        raise InvalidValue(f"Expected {where}={value!r} to fit: {reason}.") from error


def from_registry(registry: Any, table: Any, where: str, extra: Sequence[str] = ()) -> Any:
    """Build what a table names, from its other values without those in `extra`."""
    if not isinstance(table, Mapping) or not isinstance(table.get("name", ""), str):
        raise InvalidValue(f"Expected [{where}] to be a table with a name, got {table!r}.")
    if "name" not in table:
        raise InvalidValue(f"Expected [{where}] to have a name; valid: {', '.join(registry)}.")
    return typed(
        registry[table["name"]],
        {k: v for k, v in table.items() if k != "name" and k not in extra},
        where,
        table["name"],
    )

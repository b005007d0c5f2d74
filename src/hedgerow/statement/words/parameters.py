"""Parameters by name, value and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hedgerow.algorithms.registry import ALGORITHMS

COMMON = {"every": "rounds between exchanges"}


def meanings(algorithm: str) -> dict[str, str]:
    """What parameters mean if their names do not say it; an algorithm lists its own in `traits`."""
    return {**COMMON, **(ALGORITHMS[algorithm].traits.meanings if algorithm in ALGORITHMS else {})}


def number(value: Any) -> str:
    """A value as text; a float has six significant digits.

    >>> number(1 / 3), number(3)
    ('0.333333', '3')
    """
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def pairs(values: Mapping[str, Any], algorithm: str) -> str:
    """The parameters of a registered algorithm, with meanings where the names do not say them."""
    known = meanings(algorithm)
    notes = {key: f" ({known[key]})" if key in known else "" for key in values}
    return ", ".join(f"{key} = {number(value)}{notes[key]}" for key, value in values.items())

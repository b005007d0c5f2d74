"""Small pieces of sentences: numbers, lists, quoted guarantees, parameters with their meanings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.rounding import rounded_up
from hedgerow.records.schema import STAMP

WEAK = "close to no protection"
LOUD = (
    "NO GUARANTEE",
    "NOT SECURE",
    "THE CLAIM IS NOT",
    "NOT EVERY VERDICT",
    "NO OTHER GAME",
    WEAK,
    STAMP,
)
WORTHLESS = 0.99  # an even bet that can be won this often leaves nothing to protect
CERTAIN = 0.999  # above this share no exact number is printed


def is_loud(text: str) -> bool:
    """Whether a text is a warning, which every format prints in bold or in red.

    >>> is_loud("NO GUARANTEE against the server.")
    True
    """
    return any(mark in text for mark in LOUD)


def listed(items: Sequence[str], last: str = "and") -> str:
    """The items as a list in words.

    >>> listed(["the server", "another client", "the public"])
    'the server, another client and the public'
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def percent(share: float) -> str:
    """A share in 100, rounded up.

    >>> percent(0.7311), percent(0.9999)
    ('73.2', '> 99.9')
    """
    return f"{ceil(share * 1000 - 1e-9) / 10:g}" if share <= CERTAIN else "> 99.9"


def at_most(share: float) -> str:
    """A share in 100 as an upper bound, in words.

    >>> at_most(0.7311)
    'at most 73.2'
    """
    return f"at most {percent(share)}" if share <= CERTAIN else "over 99.9"


def counted(number: int, thing: str, several: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "round"), counted(2, "round"), counted(2, "study", "studies")
    ('1 round', '2 rounds', '2 studies')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {several or f'{thing}s'}"


def quoted(epsilon: float, delta: float) -> str:
    """Both numbers of a guarantee, rounded up."""
    return f"epsilon = {rounded_up(epsilon)}, delta = {rounded_up(delta)}"


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

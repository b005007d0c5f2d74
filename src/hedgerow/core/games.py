"""The games on which the contracts test an algorithm, brought by its spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hedgerow.core.environment import Environment
from hedgerow.core.setting import Setting
from hedgerow.core.units import Unit

if TYPE_CHECKING:  # it is large, and a client of a study does without it
    from numpy.random import Generator


@dataclass(frozen=True)
class Games:
    """Games that fit an algorithm, for its contracts.

    A stream of data holds the secret records and, where the game has any, the public ones. Two
    streams of a pair have the same public data.

    Parameters
    ----------
    setting
        The setting of the games of the privacy contracts.
    recorded
        `recorded(stream)` is the environment that plays a stream of data.
    stream
        `stream(rng, setting)` draws a stream of data for a setting.
    pair
        `pair(rng, unit)` draws two streams that differ in one unit (see `Unit`).
    small
        Games for the contracts on execution. Empty: one game drawn from `stream`.
    tolerance
        The largest difference of plays, states and messages between engines, for compiled
        learners. 0: bit for bit.
    far
        `far(rng, setting)` yields pairs of streams that are as far apart as the game allows, such
        as all records low against all high. None: two draws of `stream`.
    long
        The setting of the longer games on which such pairs are compared. None: `setting`, with ten
        times as many rounds.
    """

    setting: Setting
    recorded: Callable[[Any], Environment]
    stream: Callable[[Generator, Setting], Any]
    pair: Callable[[Generator, Unit], tuple[Any, Any]]
    small: tuple[Environment, ...] = ()
    tolerance: float = 0.0
    far: Callable[[Generator, Setting], Iterable[tuple[Any, Any]]] | None = None
    long: Setting | None = None

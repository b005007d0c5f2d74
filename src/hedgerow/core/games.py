"""The games on which the contracts test an algorithm, brought by its spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hedgerow.core.environment import Environment
from hedgerow.core.setting import Setting
from hedgerow.core.units import Event, Part, Person, Unit, Window

if TYPE_CHECKING:  # it is large, and a client of a study does without it
    from numpy.random import Generator


Cell = tuple[int, int]  # the round and the client of a record


def cells_of(rng: Any, unit: Unit, cells: list[Cell], at: Cell, turn: int) -> list[Cell]:
    """The records of a unit that has the one at `at`: as many of `cells` as it can have.

    Those of a person are in turn in the same round, at the same client as close as can be, and
    anywhere (without `rng`, the first that fit).
    """
    unit = unit.of if isinstance(unit, Part) else unit
    if isinstance(unit, Event):
        return [at]
    if not isinstance(unit, Person):
        last = at[0] + unit.rounds if isinstance(unit, Window) else cells[-1][0] + 1
        first = at[0] if isinstance(unit, Window) else 0
        return [cell for cell in cells if cell[1] == at[1] and first <= cell[0] < last]
    order = range(len(cells)) if rng is None else rng.permutation(len(cells))
    free = [cells[i] for i in order if cells[i] != at]
    if turn % 3 == 0:
        free.sort(key=lambda cell: cell[0] != at[0])
    elif turn % 3 == 1:
        free.sort(key=lambda cell: (cell[1] != at[1], abs(cell[0] - at[0])))
    found = [at]
    for when, who in free:
        near = any(i == who and abs(t - when) < unit.apart for t, i in found)
        many = len({who, *(i for _, i in found)}) > unit.clients
        if not near and not many and len(found) != unit.records:
            found.append((when, who))
    return found


def cells_in(setting: Setting) -> list[Cell]:
    """Every round and client of a setting."""
    return [(t, i) for t in range(setting.rounds) for i in range(setting.clients)]


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

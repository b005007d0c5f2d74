"""Games of silos and of one reporter in each round, for the contracts of walks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from hedgerow.core.games import Cell, Games, cells_of
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family, Gains
from hedgerow.core.replay import Replay
from hedgerow.core.setting import LOSSES, Setting
from hedgerow.core.units import Unit

HIGH = (1.0, 0.25, 2.0, 0.5)
SIZES = np.array([8.0, 20.0, 1.0, 2000.0])
SILOS = Setting(4, 4, 40, deciders=1, family=Gains(high=HIGH))
SLOTS = Setting(3, 4, 40, deciders=1)
GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Stream:
    """Secret records (rounds, clients, width), who reports, and the public sizes, if there are any.

    The decider is charged by all reports of a round: side by side in a silo, otherwise added up.
    """

    records: Array
    reporting: np.ndarray
    sizes: Array | None
    family: Family

    def game(self) -> Replay:
        reports = self.records * self.reporting[..., None]
        charged = reports.swapaxes(1, 2) if self.silo else reports.sum(1, keepdims=True)
        side = None if self.sizes is None else self.sizes[..., None]
        return Replay(charged, self.family, reports=reports, side=side, reporting=self.reporting)

    def move(self, cell: Cell) -> Array:
        """The record of one cell as far away as one unit may move it."""
        record, most = self.records[cell], np.array(HIGH)[cell[1]] if self.silo else 1.0
        if self.sizes is None:
            return np.where(record > most / 2, 0.0, most)
        step = 1 / self.sizes[cell]
        return np.where(record > most / 2, np.maximum(record - step, 0), record + step).clip(
            0, most
        )

    @property
    def silo(self) -> bool:
        """Whether every client reports about its own expert."""
        return self.records.shape[2] == 1


Build = Callable[[Array, Setting], Stream]


def silos(sized: bool) -> Games:
    """Four silos with different ranges, one of which misses some rounds."""
    return _games(partial(_silo, sized), SILOS, 1)


def slots() -> Games:
    """Three clients, one of which reports in each round, and a decider."""
    return _games(_slot, SLOTS, SLOTS.experts)


def _games(build: Build, setting: Setting, width: int) -> Games:
    """`build` makes a stream of numbers in [0, 1] (rounds, clients, width)."""

    def stream(rng: Any, of: Setting) -> Stream:
        return build(rng.random((of.rounds, of.clients, width)), of)

    short = replace(setting, horizon=50)
    spread = np.modf(GOLDEN * np.arange(50 * setting.clients * width))[0]
    some = build(spread.reshape(50, setting.clients, width), short)
    every = replace(some, reporting=np.ones_like(some.reporting))
    return Games(
        setting,
        Stream.game,
        stream,
        lambda rng, unit: _pair(stream(rng, setting), rng, unit),
        (some.game(), every.game()) if some.silo else (some.game(),),
        far=lambda rng, of: _far(stream(rng, of), of),
    )


def _silo(sized: bool, unit: Array, setting: Setting) -> Stream:
    reporting = np.ones(unit.shape[:2], bool)
    reporting[::3, 1] = False
    reporting[5::7] = False  # nobody reports
    sizes = np.broadcast_to(SIZES, reporting.shape).copy() if sized else None
    return Stream(unit * np.array(HIGH)[:, None], reporting, sizes, setting.family)


def _slot(unit: Array, setting: Setting) -> Stream:
    turns = np.arange(len(unit))
    reporting = np.arange(setting.clients) == (turns + turns // 5)[:, None] % setting.clients
    return Stream(unit, reporting, None, LOSSES)


def _pair(first: Stream, rng: Any, unit: Unit) -> tuple[Stream, Stream]:
    """One record, the records of a person, or all records of a client, moved as far as possible."""
    cells = [(int(t), int(i)) for t, i in np.argwhere(first.reporting)]
    when, who = cells[int(rng.integers(len(cells)))]
    records = first.records.copy()
    for cell in cells_of(rng, unit, cells, (when, who), int(rng.integers(3))):
        records[cell] = first.move(cell)
    return first, replace(first, records=records)


def _far(drawn: Stream, setting: Setting) -> Iterator[tuple[Stream, Stream]]:
    """All records low against high, of one client, late ones; drawn ones mirrored."""
    most = np.array(HIGH)[:, None] if drawn.silo else np.ones(1)
    low = replace(drawn, records=np.zeros_like(drawn.records))
    high = np.broadcast_to(most, drawn.records.shape)
    late = np.arange(setting.rounds)[:, None, None] >= setting.rounds // 2
    first = np.arange(setting.clients)[:, None] == 0
    for part in (True, first, late):
        yield low, replace(drawn, records=high * part)
    yield drawn, replace(drawn, records=high - drawn.records)

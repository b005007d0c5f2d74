"""Games for the contracts of algorithms that play points of a ball: Huber losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hedgerow.core.convex import Huber
from hedgerow.core.games import Games, cells_in, cells_of
from hedgerow.core.lattice import Array
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.core.units import Unit

FAMILY = Huber()  # at the centre, a target of 1 or -1 gives the longest gradient


def stream(rng: Any, setting: Setting) -> Array:
    shape = (setting.rounds, setting.clients, setting.experts + 1)
    return FAMILY.clip(rng.normal(size=shape)).records


def constant(setting: Setting, axis: int, target: float) -> Array:
    """The same example in every round: one feature, and a target."""
    records = np.zeros((setting.rounds, setting.clients, setting.experts + 1))
    records[..., axis], records[..., -1] = 1.0, target
    return records


def pair(rng: Any, unit: Unit, setting: Setting) -> tuple[Array, Array]:
    """The record of a unit pulls in opposite directions; in half of all pairs no other pulls."""
    first = stream(rng, setting) * float(rng.integers(2))
    client, when = int(rng.integers(setting.clients)), int(rng.integers(setting.rounds))
    axis, turn = int(rng.integers(setting.experts)), int(rng.integers(3))
    second = first.copy()
    for cell in cells_of(rng, unit, cells_in(setting), (when, client), turn):
        for records, target in ((first, 1.0), (second, -1.0)):
            records[cell] = constant(setting, axis, target)[cell]
    return first, second


def far_apart(
    rng: Any,
    setting: Setting,
    constant: Callable[[Setting, int, float], Array],
    stream: Callable[[Any, Setting], Array],
) -> Iterator[tuple[Array, Array]]:
    """Streams that pull in opposite or other directions, nowhere and somewhere, and mirrored."""
    low, high = (constant(setting, 0, target) for target in (-1.0, 1.0))
    yield low, high
    yield low, constant(setting, 1, 1.0)
    yield np.zeros_like(low), high
    drawn = stream(rng, setting)
    yield drawn, -drawn


def huber_games(horizon: int) -> Games:
    """Return games of Huber losses."""
    setting = Setting(clients=2, experts=4, horizon=horizon, family=FAMILY)
    return Games(
        setting,
        recorded=lambda records: Replay(records, FAMILY),
        stream=stream,
        pair=lambda rng, unit: pair(rng, unit, setting),
        far=partial(far_apart, constant=constant, stream=stream),
        long=replace(setting, clients=20, horizon=200),
    )

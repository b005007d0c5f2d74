"""Games of silos for the contracts of algorithms on tree sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.core.games import Games
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Gains
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.core.units import Part, Unit

if TYPE_CHECKING:
    from hedgerow.core.games import Generator

RANGES = Gains(low=(0.0, -1.0, 0.0, 0.5), high=(1.0, 1.0, 4.0, 2.0))
SETTING = Setting(clients=4, experts=4, horizon=16, deciders=1, family=RANGES)


def silo_games() -> Games:
    """Four silos with gains in different ranges, and one decider.

    Neighbours differ in one report or, with a declared part, in what one person adds to two silos
    in one round.
    """

    def pair(rng: Generator, unit: Unit) -> tuple[Array, Array]:
        first = _stream(rng, SETTING)
        second, (low, high) = first.copy(), RANGES.ranges(4)
        when = int(rng.integers(SETTING.rounds)) if rng.integers(3) else 0
        one, other = rng.permutation(4)[:2]
        if not isinstance(unit, Part):
            first[when, one], second[when, one] = low[one], high[one]
            return first, second
        moved = np.broadcast_to(unit.moves, SETTING.rounds)[when] / np.sqrt(2)
        first[when, [one, other]] = low[one] + moved, high[other] - moved
        second[when, [one, other]] = low[one], high[other]
        return first, second

    return Games(SETTING, _recorded, _stream, pair, far=_far, long=SETTING)


def _stream(rng: Generator, setting: Setting) -> Array:
    low, high = RANGES.ranges(4)
    return low + (high - low) * rng.random((setting.rounds, 4))


def _recorded(gains: Array) -> Replay:
    inside = RANGES.clip(gains).records
    return Replay(inside[:, None, :], RANGES, reports=inside[..., None])


def _far(rng: Generator, setting: Setting) -> Iterator[tuple[Array, Array]]:
    """All gains low against all high, one silo at its best, a stream and its mirror."""
    low, high = (np.tile(side, (setting.rounds, 1)) for side in RANGES.ranges(4))
    best = low.copy()
    best[:, 2] = high[:, 2]
    drawn = _stream(rng, setting)
    yield low, high
    yield low, best
    yield drawn, low + high - drawn

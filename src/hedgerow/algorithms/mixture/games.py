"""Games for the contracts of combinations: neighbours differ in secret targets only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from hedgerow.core.combination import Combination
from hedgerow.core.convex import AbsoluteError
from hedgerow.core.games import Games, cells_in, cells_of
from hedgerow.core.lattice import Array
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.core.units import Unit

FAMILY = Combination(AbsoluteError(feature_norm=16.0, target=16.0))
SETTING = Setting(clients=3, experts=4, horizon=12, family=FAMILY)


def combination_games() -> Games:
    """Return games in which one forecaster is better than the others."""
    return Games(
        SETTING,
        recorded=lambda records: Replay(records, FAMILY),
        stream=stream,
        pair=pair,
        far=far,
        long=replace(SETTING, clients=20, horizon=200),
    )


def stream(rng: Any, setting: Setting) -> Array:
    """Forecasts with errors of different sizes, and what they are forecasts of."""
    shape = (setting.rounds, setting.clients, setting.experts)
    target = rng.normal(size=shape[:2])[..., None]
    forecasts = target + rng.normal(size=shape) * np.linspace(0.2, 1.5, setting.experts)
    return FAMILY.clip(np.concatenate([forecasts, target], axis=-1)).records


def pair(rng: Any, unit: Unit) -> tuple[Array, Array]:
    """The targets of a unit lie below all forecasts, and above all of them; sometimes near."""
    first = stream(rng, SETTING)
    cells = _cells(rng, unit)
    far_off = rng.random() < 0.7
    second = first.copy()
    for cell in cells:
        first[*cell, -1] = -15.0 if far_off else rng.normal()
        second[*cell, -1] = 15.0 if far_off else rng.normal()
    return first, second


def _cells(rng: Any, unit: Unit) -> list[tuple[int, int]]:
    rounds, clients = SETTING.rounds, SETTING.clients
    when, who = int(rng.integers(rounds)), int(rng.integers(clients))
    return cells_of(rng, unit, cells_in(SETTING), (when, who), int(rng.integers(3)))


def far(rng: Any, setting: Setting) -> Iterator[tuple[Array, Array]]:
    """The same forecasts, with all targets below against above, and with other targets."""
    given = stream(rng, setting)
    for low, high in ((-15.0, 15.0), (0.0, 15.0), (-1.0, 1.0)):
        first, second = given.copy(), given.copy()
        first[..., -1], second[..., -1] = low, high
        yield first, second
    other = given.copy()
    other[..., -1] = rng.permutation(given[..., -1].ravel()).reshape(other.shape[:2])
    yield given, other

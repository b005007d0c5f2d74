"""Games for the contracts of algorithms that learn from several examples in every round."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hedgerow.algorithms.gradient.trial_games import far_apart
from hedgerow.core.batch import Batch
from hedgerow.core.convex import Huber
from hedgerow.core.games import Games
from hedgerow.core.lattice import Array
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.core.units import Unit

FAMILY = Batch(Huber(), 2)  # at the centre, a target of 1 or -1 gives the longest gradient
TOLERANCE = 1e-4


def stream(rng: Any, setting: Setting) -> Array:
    shape = (setting.rounds, setting.clients, FAMILY.record_width(setting.experts))
    return FAMILY.clip(rng.normal(size=shape)).records


def constant(setting: Setting, axis: int, target: float) -> Array:
    """The same two examples in every round: one feature, and a target."""
    examples = np.zeros((setting.rounds, setting.clients, FAMILY.size, setting.experts + 1))
    examples[..., axis], examples[..., -1] = 1.0, target
    return examples.reshape(setting.rounds, setting.clients, -1)


def pair(rng: Any, unit: Unit, setting: Setting) -> tuple[Array, Array]:
    """The examples of a unit pull in opposite directions; in half of all pairs no other pulls."""
    first = stream(rng, setting) * float(rng.integers(2))
    records, together, apart = unit.pattern(setting)
    each, axis = min(together, FAMILY.size), int(rng.integers(setting.experts))
    chosen = rng.permutation(setting.clients)[: int((unit.shape or (1, 1))[1])].tolist()
    if len(chosen) > 1 and rng.integers(2):  # one round of each, often the same
        rounds = rng.integers(setting.rounds, size=len(chosen)) * rng.integers(2)
        cells = list(zip(rounds.tolist(), chosen, strict=True))
    else:
        times = min(-(-records // each), -(-setting.rounds // apart))
        begins = int(rng.integers(setting.rounds - (times - 1) * apart))
        cells = [(begins + k * apart, chosen[0]) for k in range(times)]
    second = first.copy()
    for given, target in ((first, 1.0), (second, -1.0)):
        own, left = FAMILY.examples(constant(setting, axis, target)), records
        for k, (at, client) in enumerate(cells):
            count = min(each, left - (len(cells) - k - 1))
            FAMILY.examples(given)[at, client, :count] = own[at, client, :count]
            left -= count
    return first, second


def learning_games() -> Games:
    """Return games with two examples of every client in each round."""
    setting = Setting(clients=2, experts=3, horizon=8, family=FAMILY)
    return Games(
        setting,
        recorded=lambda records: Replay(records, FAMILY),
        stream=stream,
        pair=lambda rng, unit: pair(rng, unit, setting),
        tolerance=TOLERANCE,
        far=partial(far_apart, constant=constant, stream=stream),
        long=replace(setting, horizon=100),
    )

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
from hedgerow.core.units import Event, Unit

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
    """One example of a unit pulls in opposite directions; in half of all pairs no other pulls.

    Units other than an event are all examples of a client.
    """
    first = stream(rng, setting) * float(rng.integers(2))
    client, when = int(rng.integers(setting.clients)), int(rng.integers(setting.rounds))
    axis, event = int(rng.integers(setting.experts)), isinstance(unit, Event)
    rounds = slice(when, when + 1) if event else slice(None)
    which = slice(0, 1) if event else slice(None)
    second = first.copy()
    for records, target in ((first, 1.0), (second, -1.0)):
        own = FAMILY.examples(constant(setting, axis, target))
        FAMILY.examples(records)[rounds, client, which] = own[rounds, client, which]
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

"""Streams of losses on which algorithms are compared: autocorrelated and with changes."""

from __future__ import annotations

import numpy as np

from hedgerow.environments.recorded.losses import RecordedArray


def late(seed: int, *, clients: int, experts: int, rounds: int) -> RecordedArray:
    """All experts lose in every round of the first half; then one never loses again.

    The others lose in half of the rounds. Nothing is to be learnt before, so what an algorithm
    does there must not slow it down afterwards.
    """
    rng = np.random.default_rng(seed)
    losses = np.ones((rounds, clients, experts))
    half = rounds // 2
    losses[half:] = rng.random((rounds - half, clients, experts)) < 0.5
    losses[half:, :, rng.integers(experts)] = 0.0
    return RecordedArray(losses)


def stand_in(kind: str, seed: int, *, clients: int, experts: int, rounds: int) -> RecordedArray:
    """A stand-in for daily air-quality forecasts: a best expert that loses often.

    All experts share the days, which are autocorrelated. "days": nothing else is. "auto": so is
    each expert's own part. "shift": the order of the experts changes once.
    """
    rng = np.random.default_rng(seed)
    rates = 0.266 + rng.permutation(np.linspace(0.0, 0.1, experts))
    day, own = rng.normal(size=rounds), rng.normal(size=(rounds, experts))
    for t in range(1, rounds):
        day[t] = 0.7 * day[t - 1] + 0.7 * day[t]
        if kind == "auto":
            own[t] = 0.5 * own[t - 1] + 0.85 * own[t]
    means = rates * np.exp(0.5 * day[:, None] + 0.35 * own - 0.185)
    single = rng.normal(-0.08, 0.4, (rounds, clients, experts))
    losses = np.minimum(means[:, None] * np.exp(single), 1.0)
    if kind == "shift":
        losses[rounds // 2 :] = losses[rounds // 2 :, :, rng.permutation(experts)]
    return RecordedArray(losses)

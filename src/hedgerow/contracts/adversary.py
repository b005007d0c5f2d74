"""The most that two neighbouring worlds of a tiny game can be told apart, by whoever also chooses the losses and sees what was sent.

Every transcript and every choice of losses is enumerated. In each round the adversary has seen all broadcasts so far and picks the next
loss vector, the same in both worlds, but for the one round of the datum, where each world gets its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from hedgerow.core.lattice import Array

Levels = list[
    np.ndarray
]  # for each round the first transcript of every class; the last level has each transcript alone


def by_round(transcript: Any, rounds: int) -> tuple[tuple[str, ...], ...]:
    """What is sent before each round, and after the last one."""
    times = accumulate((sent.rounds for sent in transcript[:-1]), initial=0)
    found: list[list[str]] = [[] for _ in range(rounds + 1)]
    for when, sent in zip(times, transcript, strict=True):
        found[when].append(repr(sent))
    return tuple(map(tuple, found))


def told_apart(seen: Sequence[tuple[Any, ...]], rounds: int) -> tuple[np.ndarray, Levels]:
    """An order of transcripts, by what each shows in every round, in which those that begin alike stand together; and where each class
    of those that are alike up to a round begins, for every round.
    """
    order = sorted(range(len(seen)), key=seen.__getitem__)
    ordered = [seen[i] for i in order]
    begins = [
        [i for i, one in enumerate(ordered) if i == 0 or one[: r + 1] != ordered[i - 1][: r + 1]]
        for r in range(rounds)
    ]
    return np.array(order), [*map(np.array, begins), np.arange(len(order))]


def largest_delta(
    chances: Array, levels: Levels, pairs: Sequence[tuple[int, int]], epsilon: float
) -> float:
    """max of P(E) - e^epsilon Q(E) over events and adversaries; `chances` has an axis for the vector of each round, then transcripts.

    `pairs` are the vectors that the datum may turn into each other.

    >>> still, moved = np.array([0.5, 0.5]), np.array([0.75, 0.25])
    >>> largest_delta(np.stack([still, moved]), [np.array([0]), np.arange(2)], [(0, 1), (1, 0)], 0.0)
    0.25
    """
    rounds, (one, other), worst = chances.ndim - 1, np.array(pairs).T, 0.0
    for datum in range(rounds):
        value = np.maximum(
            chances.take(one, axis=datum) - np.exp(epsilon) * chances.take(other, axis=datum), 0.0
        )
        for last in reversed(range(rounds)):
            starts = np.searchsorted(levels[last + 1], levels[last])
            value = np.add.reduceat(value, starts, axis=-1).max(axis=last)
        worst = max(worst, float(value.sum()))
    return worst

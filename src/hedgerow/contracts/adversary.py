"""The exact delta of a tiny game against an adversary that sees broadcasts and chooses losses.

Every transcript and every choice of losses is enumerated. In each round the adversary has seen all
broadcasts so far and picks the next loss vector. Both neighbouring worlds get the same vector,
except in the rounds of the data of one unit, where each world gets a different one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, combinations
from typing import Any

import numpy as np

from hedgerow.core.lattice import Array

# For each round, the index of the first transcript of every class of transcripts that are equal up
# to that round. In the last level every transcript is its own class.
Levels = list[np.ndarray]


def by_round(transcript: Any, rounds: int) -> tuple[tuple[str, ...], ...]:
    """The broadcasts sent before each round, and after the last one."""
    times = accumulate((sent.rounds for sent in transcript[:-1]), initial=0)
    found: list[list[str]] = [[] for _ in range(rounds + 1)]
    for when, sent in zip(times, transcript, strict=True):
        found[when].append(repr(sent))
    return tuple(map(tuple, found))


def sort_by_prefix(seen: Sequence[tuple[Any, ...]], rounds: int) -> tuple[np.ndarray, Levels]:
    """Sort transcripts so that equal beginnings are adjacent, and find where each class begins.

    `seen` holds what each transcript shows in every round. Two transcripts are in the same class of
    a round if they are equal up to and including that round.
    """
    order = sorted(range(len(seen)), key=seen.__getitem__)
    ordered = [seen[i] for i in order]
    begins = [
        [i for i, one in enumerate(ordered) if i == 0 or one[: r + 1] != ordered[i - 1][: r + 1]]
        for r in range(rounds)
    ]
    return np.array(order), [*map(np.array, begins), np.arange(len(order))]


def largest_delta(
    chances: Array,
    levels: Levels,
    pairs: Sequence[tuple[int, int]],
    epsilon: float,
    records: int = 1,
) -> float:
    """The maximum of P(E) - e^epsilon Q(E) over all events E and all adversaries.

    `chances` has one axis per round, for the loss vector of that round, and a last axis for the
    transcripts. `pairs` lists the pairs of vectors in which the two worlds may differ, in at most
    `records` rounds.

    >>> still, moved = np.array([0.5, 0.5]), np.array([0.75, 0.25])
    >>> levels = [np.array([0]), np.arange(2)]
    >>> largest_delta(np.stack([still, moved]), levels, [(0, 1), (1, 0)], 0.0)
    0.25
    """
    rounds, (one, other), worst = chances.ndim - 1, np.array(pairs).T, 0.0
    sizes = range(1, min(records, rounds) + 1)
    for data in (data for size in sizes for data in combinations(range(rounds), size)):
        first = second = chances
        for datum in data:
            first, second = first.take(one, axis=datum), second.take(other, axis=datum)
        value = np.maximum(first - np.exp(epsilon) * second, 0.0)
        for last in reversed(range(rounds)):
            starts = np.searchsorted(levels[last + 1], levels[last])
            value = np.add.reduceat(value, starts, axis=-1).max(axis=last)
        worst = max(worst, float(value.sum()))
    return worst

"""The shrinking dartboard in tiny games, from its definition: the chance of every transcript for
all losses of two experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from hedgerow.algorithms.dartboard.cost import Choice
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.dartboard.tuning import Plan
from hedgerow.contracts.adversary import Levels, largest_delta, sort_by_prefix


def dartboard(**choices: Any) -> ShrinkingDartboard:
    """The spec with these choices, of which `rate`, `leave` and `draws` belong to its plan."""
    plan = {name: choices.pop(name) for name in ("rate", "leave", "draws") if name in choices}
    return ShrinkingDartboard(**choices, plan=Plan(**plan) if plan else None)


@dataclass(frozen=True, eq=False)
class TinyGame:
    """Losses of a group, summed over `most` = clients * every reports, are whole numbers; a datum
    moves each of them by one at most.
    """

    chances: np.ndarray
    levels: Levels
    pairs: list[tuple[int, int]]

    def delta(self, epsilon: float) -> float:
        """Against the best adversary, who sees what was sent before choosing the next losses."""
        return largest_delta(self.chances, self.levels, self.pairs, epsilon)


def tiny_game(choice: Choice, most: int, groups: int) -> TinyGame:
    vectors = np.array(list(product(range(most + 1), repeat=2)), float)
    pairs = [
        (i, j)
        for i, a in enumerate(vectors)
        for j, b in enumerate(vectors)
        if 0 < np.abs(a - b).max() <= 1
    ]
    played = _Play(choice, vectors, groups - 1)
    for x in range(2):
        played.go(0, x, 0, np.full((1,) * played.exchanges, 1 / 2), ((0, x),))
    order, levels = sort_by_prefix(played.seen, played.exchanges)
    return TinyGame(np.stack([played.chances[i] for i in order], axis=-1), levels, pairs)


class _Play:
    """Walks through all transcripts; every array has one axis for the vector of each group that is
    followed by an exchange.
    """

    def __init__(self, choice: Choice, vectors: np.ndarray, exchanges: int) -> None:
        self.choice, self.exchanges = choice, exchanges
        self.seen: list[tuple[Any, ...]] = []
        self.chances: list[np.ndarray] = []
        self.shape = (len(vectors),) * exchanges
        axes = [[-1 if i == s else 1 for i in range(exchanges)] for s in range(exchanges)]
        self.lost = [[vectors[:, x].reshape(axis) for x in range(2)] for axis in axes]
        self.drawn = []
        for s in range(exchanges):
            ahead = sum(group[1] - group[0] for group in self.lost[: s + 1])
            first = 1 / (1 + np.exp(-choice.rate * ahead))
            self.drawn.append([first, 1 - first])

    def go(self, s: int, x: int, used: int, chance: np.ndarray, seen: tuple[Any, ...]) -> None:
        if s == self.exchanges or used == self.choice.draws:
            self.seen.append(seen)
            self.chances.append(np.broadcast_to(chance, self.shape))
            return
        stay = np.exp(-self.choice.rate * (self.choice.base + self.lost[s][x]))
        self.go(s + 1, x, used, chance * stay, (*seen, (0, x)))
        for now in range(2):
            self.go(
                s + 1, now, used + 1, chance * (1 - stay) * self.drawn[s][now], (*seen, (1, now))
            )

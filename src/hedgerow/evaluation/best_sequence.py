"""The best sequence of experts with few changes, found in one pass over the losses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.core.block import CACHE_ELEMENTS
from hedgerow.core.lattice import Array, Units, to_units

Path = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class _Passed:
    """One level in a piece of the game: before it, and in each of its rounds."""

    level: Units
    tried: Units | None
    reached: Units
    lowest: Units

    def changed(self) -> np.ndarray:
        """The experts whose best sequence has its last change in this piece."""
        assert self.tried is not None
        return np.flatnonzero(self.tried.min(axis=0) < self.level)


class BestSequence:
    """The exact least loss of an expert sequence with at most s changes, for s up to `most`.

    Let V_t(s, x) be the least loss of the rounds up to t that ends with expert x, C_t(x) the loss
    of x alone, and M_t(s) the least V_t(s, .). The dynamic programme is V_t(s, x) = l_t(x) +
    min(V_(t-1)(s, x), M_(t-1)(s-1)). It unrolls into a running minimum, V_t(s, x) - C_t(x) = min
    over r < t of (M_r(s-1) - C_r(x)), level by level. The state is only V.
    """

    def __init__(self, experts: int, most: int) -> None:
        self.least = np.zeros((most + 1, experts), np.int64)
        self.rounds = 0
        # of every V: the rounds in which its segments begin, their experts, what was lost before
        self._paths: list[list[Path]] = [[((0, x, 0),) for x in range(experts)]] * (most + 1)

    def add(self, losses: Array) -> None:
        """Add losses (rounds, clients, experts), in pieces that fit the cache."""
        step = max(1, CACHE_ELEMENTS // self.least.shape[1])
        for start in range(0, len(losses), step):
            self._add(to_units(losses[start : start + step].sum(axis=1)))

    def _add(self, losses: Units) -> None:
        """Add losses (rounds, experts) in lattice units."""
        alone = np.cumsum(losses, axis=0)
        before = alone - losses
        lowest: Units | None = None  # the least total of the level below, before each round
        passed: list[_Passed] = []
        for level in self.least:
            tried = None if lowest is None else lowest[:, None] - before
            gained = (
                level if tried is None else np.minimum(np.minimum.accumulate(tried, axis=0), level)
            )
            reached = gained + alone
            lowest = np.append(level.min(), reached[:-1].min(axis=1))
            passed.append(_Passed(level.copy(), tried, reached, lowest))
            level[:] = reached[-1]
        for at in range(len(passed) - 1, 0, -1):  # those below are still the old ones
            new = passed[at].changed()
            if len(new):
                paths = list(self._paths[at])
                for expert in new.tolist():
                    paths[expert] = self._path(passed, at, expert, len(losses))
                self._paths[at] = paths
        self.rounds += len(losses)

    def _path(self, passed: list[_Passed], level: int, expert: int, rounds: int) -> Path:
        """The segments of the best sequence of a level that ends with an expert after `rounds`."""
        tried = passed[level].tried
        if tried is None or rounds == 0:
            return self._paths[level][expert]
        at = int(tried[:rounds, expert].argmin())
        if passed[level].level[expert] <= tried[at, expert]:
            return self._paths[level][expert]
        below = passed[level - 1]
        left = int((below.reached[at - 1] if at else below.level).argmin())
        start = self.rounds + at, expert, int(below.lowest[at])
        return (*self._path(passed, level - 1, left, at), start)

    def segments(self, switches: int) -> Path:
        """The segments of the best sequence with at most this many changes.

        For each its first round, its expert, and what the sequence has lost before it.
        """
        level = min(switches, len(self.least) - 1)
        return self._paths[level][int(self.least[level].argmin())]

    def total(self, switches: int) -> int:
        """The least total loss with at most this many changes, in lattice units."""
        return int(self.least[min(switches, len(self.least) - 1)].min())

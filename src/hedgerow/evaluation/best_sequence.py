"""The best sequence of experts with few changes, found in one pass over the losses."""

from __future__ import annotations

import numpy as np

from hedgerow.core.block import CACHE_ELEMENTS
from hedgerow.core.lattice import Array, Units, to_units


class BestSequence:
    """The exact least loss of an expert sequence with at most s changes, for s up to `most`.

    Let V_t(s, x) be the least loss of the rounds up to t that ends with expert x, C_t(x) the loss
    of x alone, and M_t(s) the least V_t(s, .). The dynamic programme is V_t(s, x) = l_t(x) +
    min(V_(t-1)(s, x), M_(t-1)(s-1)). It unrolls into a running minimum, V_t(s, x) - C_t(x) = min
    over r < t of (M_r(s-1) - C_r(x)), level by level. The state is only V.
    """

    def __init__(self, experts: int, most: int) -> None:
        self.least = np.zeros((most + 1, experts), np.int64)

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
        for level in self.least:
            gained = (
                level
                if lowest is None
                else np.minimum(np.minimum.accumulate(lowest[:, None] - before, axis=0), level)
            )
            reached = gained + alone
            lowest = np.append(level.min(), reached[:-1].min(axis=1))
            level[:] = reached[-1]

    def total(self, switches: int) -> int:
        """The least total loss with at most this many changes, in lattice units."""
        return int(self.least[min(switches, len(self.least) - 1)].min())

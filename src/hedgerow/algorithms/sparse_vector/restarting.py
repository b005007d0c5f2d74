"""A sparse-vector server that restarts: after `switches` draws it forgets all losses.

The time between two restarts is an *epoch*. Queries and scores use the losses of one epoch only,
and the draws that end an epoch are broadcast. So one loss vector matters in one epoch only, and any
number of epochs costs as much privacy as one (`proofs/doubling.md#epochs`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.sparse_vector.selector import Selector, ServerState
from hedgerow.core.lattice import Array, Units, from_units
from hedgerow.core.layout import UnitVector


@dataclass(frozen=True)
class EpochState(ServerState):
    """The state of a sparse-vector server, plus the totals when the epoch began (`origin`)."""

    origin: UnitVector


@dataclass(frozen=True)
class Restarting(Selector):
    """The server. Subclasses may replace `base` and `query`.

    In states and broadcasts `switches` counts all draws since the start.
    """

    state: ClassVar[type[Any]] = EpochState

    def scores(self, state: ServerState) -> Array:
        """Scores of the experts at the end of a run: the losses of the epoch."""
        assert isinstance(state, EpochState)
        return from_units(state.totals - state.origin)

    def base(self, totals: Units, origin: Units, expert: int) -> int:
        """The value that `query` subtracts: the level at the start of a run."""
        del origin
        return int(totals[expert])

    def spent(self, state: ServerState) -> bool:
        del state
        return False

    def beginning(self, expert: int) -> EpochState:
        zero = np.zeros(self.experts, np.int64)
        return EpochState(zero, expert, 0, np.inf, 0, 0, zero)

    def next_run(self, state: ServerState, expert: int, noisy_threshold: float) -> EpochState:
        assert isinstance(state, EpochState)
        used = state.switches + 1
        origin = state.totals if used % self.switches == 0 else state.origin
        return replace(
            state,
            expert=expert,
            base=self.base(state.totals, origin, expert),
            noisy_threshold=noisy_threshold,
            switches=used,
            origin=origin,
        )

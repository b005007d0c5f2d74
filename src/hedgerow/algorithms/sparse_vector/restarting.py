"""A sparse-vector server that restarts: after `switches` draws it forgets all losses.

The time between two restarts is an *epoch*. Queries and scores use the losses of one epoch only,
and the draws that end an epoch are broadcast. So one loss vector matters in one epoch only, and any
number of epochs costs as much privacy as one (`proofs/doubling.md#epochs`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.sparse_vector.sparse_vector import Selector, ServerState
from hedgerow.core.lattice import Array, Units, from_units, to_units
from hedgerow.core.layout import UnitVector
from hedgerow.core.noise import Noise


@dataclass(frozen=True)
class EpochState(ServerState):
    """The state of a sparse-vector server, plus the totals when the epoch began (`origin`)."""

    origin: UnitVector


@dataclass(frozen=True)
class Restarting(Selector):
    """The server. Subclasses define how much a run may lose and how the next expert is scored.

    Those two methods are `limit` and `epoch_scores`. In states and broadcasts `switches` counts all
    draws since the start; divided by the field `switches` it gives the number of the epoch.
    """

    state: ClassVar[type[Any]] = EpochState

    def limit(self, switches: int) -> float:
        """The threshold of the run that begins after `switches` draws."""
        del switches
        return self.threshold

    def epoch_scores(self, state: EpochState) -> Array:
        """Scores of the experts at the end of a run; smaller is better."""
        return from_units(state.totals - state.origin)

    def base(self, totals: Units, origin: Units, expert: int) -> int:
        """The value that `query` subtracts: the level at the start of a run."""
        del origin
        return int(totals[expert])

    def spent(self, state: ServerState) -> bool:
        del state
        return False

    def open(self, noise: Noise) -> tuple[CurrentExpert, EpochState]:
        message, state = super().open(noise)
        return message, EpochState(
            state.totals, state.expert, state.base, state.noisy_threshold, 0, state.totals
        )

    def switch(self, state: ServerState, noise: Noise) -> EpochState:
        assert isinstance(state, EpochState)
        expert = noise.release(self.selection, self.epoch_scores(state))
        return self.next_run(
            state, expert, self.sparse.begin(self.limit(state.switches + 1), noise)
        )

    def next_run(self, state: EpochState, expert: int, noisy_threshold: float) -> EpochState:
        used = state.switches + 1
        origin = state.totals if used % self.switches == 0 else state.origin
        return EpochState(
            state.totals,
            expert,
            self.base(state.totals, origin, expert),
            noisy_threshold,
            used,
            origin,
        )

    def log_likelihood(self, broadcasts: list[CurrentExpert], reports: Array) -> float:
        """Exact log-probability of the broadcasts; the threshold noise is integrated out."""
        totals = np.cumsum(to_units(reports.sum(axis=1)), axis=0)
        zero = np.zeros(self.experts, np.int64)
        state = EpochState(zero, broadcasts[0].expert, 0, np.nan, 0, zero)
        result, queries = -np.log(self.experts), list[float]()
        for number, sent in enumerate(broadcasts[1:], start=1):
            state = replace(state, totals=totals[number * self.every - 1])
            queries.append(self.query(state))
            if sent.switches == state.switches:
                if sent.expert != state.expert:
                    return -np.inf
                continue
            if sent.switches != state.switches + 1:
                return -np.inf
            result += self.sparse.log_probability(queries, self.limit(state.switches), ended=True)
            result += self.selection.log_probability(self.epoch_scores(state), sent.expert)
            state, queries = self.next_run(state, sent.expert, np.nan), []
        return float(
            result + self.sparse.log_probability(queries, self.limit(state.switches), ended=False)
        )

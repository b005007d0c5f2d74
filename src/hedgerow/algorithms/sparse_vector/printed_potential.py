"""The server of the printed potential, and what it costs.

After `switches` draws it forgets all losses: an *epoch* ends. Queries and scores use the losses of
one epoch only, and the draws that end an epoch are broadcast. So one loss vector matters in one
epoch only, and any number of epochs costs as much privacy as one (`proofs/doubling.md#epochs`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow.algorithms.sparse_vector.selector import Selector, ServerState
from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, Units, from_units, to_units
from hedgerow.core.layout import UnitVector
from hedgerow.core.rounding import round_up
from hedgerow.privacy.composition.bounded_range import WIDEST, BoundedRangeSequence
from hedgerow.privacy.composition.steps import pure_sum
from hedgerow.privacy.curves import PureDP, Quoted
from hedgerow.privacy.mechanisms import AboveThreshold

SLACK = 2.0**-18
"""Bounds how much rounding (lattice and floating point) adds to the change of a potential."""
SLOWEST = 2.0**-24
"""The smallest rate for which `SLACK` is large enough."""


@dataclass(frozen=True)
class EpochState(ServerState):
    """The state of a sparse-vector server, plus the totals when the epoch began (`origin`)."""

    origin: UnitVector


@dataclass(frozen=True)
class PotentialTest(Selector):
    """The server: a run ends when the potential has fallen far enough since the run began.

    Far enough is a fall of its logarithm by rate * threshold, up to noise. In states and broadcasts
    `switches` counts all draws since the start.
    """

    state: ClassVar[type[Any]] = EpochState

    def spent(self, state: ServerState) -> bool:
        del state
        return False

    def beginning(self, expert: int) -> EpochState:
        zero = np.zeros(self.experts, np.int64)
        return EpochState(zero, expert, 0, np.inf, 0, 0, zero)

    def scores(self, state: ServerState) -> Array:
        """Scores of the experts at the end of a run: the losses of the epoch."""
        assert isinstance(state, EpochState)
        return from_units(state.totals - state.origin)

    def next_run(self, state: ServerState, expert: int, noisy_threshold: float) -> EpochState:
        assert isinstance(state, EpochState)
        used = state.switches + 1
        origin = state.totals if used % self.switches == 0 else state.origin
        return replace(
            state,
            expert=expert,
            base=int(self.potential(state.totals - origin)),
            noisy_threshold=noisy_threshold,
            switches=used,
            origin=origin,
        )

    def potential(self, sums: Units) -> Units:
        """-ln(mean of exp(-rate * sum)) / rate, in lattice units.

        If all experts had this loss, the potential would be the same.
        """
        least = sums.min(axis=-1, keepdims=True)
        rate = self.selection.rate
        more = -np.log(np.exp(-rate * from_units(sums - least)).mean(axis=-1)) / rate
        return least[..., 0] + np.rint(more * UNITS_PER_LOSS).astype(np.int64)

    def query(self, state: ServerState) -> float:
        assert isinstance(state, EpochState)
        return float(from_units(int(self.potential(state.totals - state.origin)) - state.base))

    def queries(
        self, state: ServerState, losses: Array, earlier: Units, due: npt.NDArray[np.int64]
    ) -> Array:
        assert isinstance(state, EpochState)
        sums = np.zeros((int(due[-1]) + 1, self.experts))
        np.cumsum(losses[: due[-1]].sum(axis=1), axis=0, out=sums[1:])
        return from_units(
            self.potential(to_units(sums[due]) + (earlier - state.origin)) - state.base
        )


def printed_cost(
    switches: int, sparse: AboveThreshold, selection_epsilon: float, delta: float
) -> PrivacyCurve:
    """The cost of the printed test: `proofs/potential.md#printed-cost`.

    It counts the run in which the record is observed, the later runs (their queries move twice as
    far), and one selection after each run.
    """
    answers = 1 / Fraction(sparse.threshold_scale) + 2 / Fraction(sparse.query_scale)
    own, later = (round_up(answers * (moved + Fraction(SLACK))) for moved in (1, 2))
    runs = [own] + [later] * (switches - 1)
    pure = pure_sum([*map(PureDP, runs), *[PureDP(selection_epsilon)] * switches])
    if delta == 0 or 2 * max(runs) > WIDEST or selection_epsilon > WIDEST:
        return pure
    composed = Quoted(
        BoundedRangeSequence(tuple(r for run in runs for r in (2 * run, selection_epsilon))), delta
    )
    # With few large costs the pure sum is smaller: delta gains less than bounded range loses.
    return min(pure, composed, key=lambda curve: curve.stated()[0])

"""A sparse-vector server that counts recent losses more, and restarts after its last draw.

The losses of a run enter the selection at its end with a large weight and later ones of the same
epoch with a small one (`columns.py`). After `switches` draws the next epoch begins on new losses
only, so the server never stops. The first run of the game may have no test at all: it then ends at
the first exchange, which is public, and its losses have the whole budget for selections.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.shared.following import CHANNELS
from hedgerow.algorithms.sparse_vector.columns import Weights, weigh
from hedgerow.algorithms.sparse_vector.plan import Constants
from hedgerow.algorithms.sparse_vector.selector import Selector, SelectorState
from hedgerow.core.certificate import Certificate, Proof, trusted_server
from hedgerow.core.lattice import Array, Units, from_units, round_to_lattice, to_units
from hedgerow.core.layout import UnitVector
from hedgerow.core.setting import Setting
from hedgerow.privacy.mechanisms import AboveThreshold


@dataclass(frozen=True)
class RecencyState(SelectorState):
    """The state of a sparse-vector server, and what it remembers of the epoch.

    `begun` are the totals when the run began; `remembered` are the losses of the earlier runs of
    the epoch, each times its later weight, as exact integers.
    """

    begun: UnitVector
    remembered: UnitVector


@dataclass(frozen=True)
class RecencySelector(Selector):
    """The server. Guarantee: `proofs/sparse_vector.md#weights-by-recency`.

    In states and broadcasts `switches` counts all draws since the start. The field `switches` is
    the number of draws in the first epoch.
    """

    state: ClassVar[type[Any]] = RecencyState

    weights: Weights
    delta: float

    def least(self, switches: int) -> float:
        """What the losses of a run must exceed, over all clients, to count in a selection."""
        return self.floor

    def all_tests(self) -> tuple[AboveThreshold, ...]:
        """All that may end a run."""
        return (self.sparse,)

    def beginning(self, expert: int) -> RecencyState:
        zero = np.zeros(self.experts, np.int64)
        return RecencyState(zero, expert, 0, np.inf, 0, 0, zero, zero)

    def spent(self, state: SelectorState) -> bool:
        return False

    def tested(self, switches: int) -> bool:
        return switches > 0 or self.weights.opening is None

    def counted(self, state: RecencyState) -> Units:
        """The losses of the run so far, as far as they exceed `least`."""
        least = int(to_units(self.least(state.switches)))
        lost = state.totals - state.begun
        return np.maximum(lost - least, 0) if least else lost

    def scores(self, state: SelectorState) -> Array:
        """Weighted losses of the epoch."""
        assert isinstance(state, RecencyState)
        own = self.weights.of(state.switches).own
        return from_units(state.remembered + own * self.counted(state))

    def next_run(self, state: SelectorState, expert: int, noisy_threshold: float) -> RecencyState:
        assert isinstance(state, RecencyState)
        used = state.switches + 1
        later = self.weights.of(state.switches).later
        ends = self.weights.place(used)[1] == 0  # the epoch
        return replace(
            state,
            expert=expert,
            base=int(state.totals[expert]),
            noisy_threshold=noisy_threshold,
            switches=used,
            begun=state.totals,
            remembered=(0 if ends else 1) * (state.remembered + later * self.counted(state)),
        )


def build_server(
    setting: Setting, plan: Constants, epsilon: float, delta: float
) -> RecencySelector:
    """The server with these constants; its weights spend the budget.

    Permute-and-flip makes no use of delta.
    """
    scale = 1 / plan.sparse_epsilon
    sparse = AboveThreshold("exponential", scale, scale)
    delta = delta if plan.draw == "exponential" else 0.0
    weights = weigh(
        epsilon=epsilon,
        delta=delta,
        test=sparse.curve.bound,
        switches=plan.switches,
        front=plan.front,
        untested=plan.untested,
        losses=setting.clients * setting.rounds,
    )
    return RecencySelector(
        setting.experts,
        plan.schedule,
        plan.switches,
        float(round_to_lattice(plan.threshold)),
        0.0,
        sparse,
        weights.selection(plan.draw),
        weights,
        delta,
    )


def recency_certificate(
    setting: Setting,
    server: RecencySelector,
    pure: Proof,
    approximate: Proof,
    calibration: str = "certified",
) -> Certificate:
    """The certificate of a server with weights by recency; the proof depends on delta."""
    budgeted = server.sparse.curve.bound  # what the weights leave for the test of a run
    if any(test.curve.bound > budgeted for test in server.all_tests()):
        raise ArithmeticError("A test costs more than the budget of its run.")
    grows = "; each later epoch allows more changes" if server.weights.later else ""
    return trusted_server(
        setting=setting,
        curve=server.weights.cost(server.delta),
        proof=pure if server.delta == 0 else approximate,
        calibration=calibration,
        channels=CHANNELS,
        mechanisms=(
            *(
                noise
                for test in server.all_tests()
                for noise in (test.threshold_noise, test.comparison)
            ),
            server.selection,
        ),
        when_spent=(
            f"after {server.switches} changes of expert earlier losses are forgotten, "
            f"and new ones have a new budget{grows}"
        ),
    )

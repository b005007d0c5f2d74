"""Follow the leader: play the expert with the smallest total loss so far.

It is not private. It is the natural reference for what privacy costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hedgerow.algorithms.shared.schedule import MEANINGS, Schedule
from hedgerow.algorithms.shared.totals import (
    Adder,
    AdderState,
    LossSums,
    ManySums,
    Summing,
    Totals,
    check_interval,
    raw_certificate,
    totals_of_losses,
)
from hedgerow.core.environment import MASKS_AND_DELAYS
from hedgerow.core.lattice import Array
from hedgerow.core.limits import Broadcasts, Uploads
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context, Shortcuts, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least


@dataclass(frozen=True)
class Leader(Adder):
    """Plays the awake expert with the smallest broadcast total. Ties go to the lowest number."""

    def play(
        self, state: AdderState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, AdderState]:
        totals = (
            state.totals
            if context.awake is None
            else np.where(context.awake, state.totals, np.iinfo(np.int64).max)
        )
        return np.argmin(totals, axis=-1), state

    def play_many(
        self, state: AdderState, rounds: int, noise: Noise
    ) -> tuple[np.ndarray, AdderState]:
        leader = np.argmin(state.totals, axis=-1)
        return np.broadcast_to(leader, (rounds, *leader.shape)), state

    def follow(self, totals: Array, spans: np.ndarray, noise: Noise) -> np.ndarray:
        return np.repeat(np.argmin(totals, axis=-1), spans)[:, None]


@dataclass(frozen=True)
class FollowTheLeader(AlgorithmSpec):
    r"""Play the expert with the smallest total loss so far. Not private.

    $x_t = \operatorname{argmin}_x S_t(x)$, where $S_t(x)$ is the loss of expert $x$ summed over all
    clients up to the last exchange. Ties go to the lowest number. Nothing is protected: clients and
    server exchange exact losses.

    Parameters
    ----------
    every
        Rounds between two exchanges: from 1 (default) to the horizon, if there is one.
    early
        Whether there are also exchanges before the rounds 1, 2, 4, ... up to `every`. Default:
        True; without them nothing is known in the first `every` rounds.

    Examples
    --------
    >>> import hedgerow as hr
    >>> learner = hr.Learner(hr.FollowTheLeader(), clients=2, experts=3, horizon=10)
    >>> learner.predict()
    array([0, 0])
    >>> learner.observe([[1, 0, 1], [1, 0, 0]])
    >>> learner.predict()
    array([1, 1])
    """

    traits: ClassVar[SpecTraits] = SpecTraits(meanings=MEANINGS, anytime=True)

    every: int = 1
    early: bool = True

    def __post_init__(self) -> None:
        at_least("every", self.every, 1)

    def resolve(self, setting: Setting) -> Algorithm:
        check_interval(self.every, setting)
        schedule = Schedule.of(self.every, self.early)
        client, server = Leader(setting.experts), Summing(setting.experts, schedule)
        return Algorithm(
            name="follow_the_leader",
            setting=setting,
            client=client,
            server=server,
            certificate=raw_certificate(),
            uploads=Uploads(LossSums),
            broadcasts=Broadcasts(Totals, totals_of_losses(schedule, setting.experts)),
            supports=MASKS_AND_DELAYS,
            shortcuts=Shortcuts(ManySums(client, server, client.follow).advance),
            parameters=schedule.shown(setting),
        )

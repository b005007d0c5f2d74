"""A message that names one expert, and a client that follows it; shared by several algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.shared.totals import LossSums, sums_of_losses
from hedgerow.core.certificate import Certificate, Channel
from hedgerow.core.environment import MASKS_AND_DELAYS, Feature
from hedgerow.core.lattice import Array, to_units
from hedgerow.core.layout import UnitVector, Whole
from hedgerow.core.limits import ANY_CLOSING, Allowed, Between, Broadcasts, Planned, Uploads
from hedgerow.core.measure import Measure
from hedgerow.core.messages import Broadcast
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Advance, Algorithm, Claims, Context, Shortcuts
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting

CHANNELS = {
    "LossSums.losses": Channel.UPLOADS,
    "CurrentExpert.rounds": Channel.TIMING,
    "CurrentExpert.expert": Channel.BROADCASTS,
    "CurrentExpert.switches": Channel.BROADCASTS,
}


@dataclass(frozen=True)
class CurrentExpert(Broadcast):
    """The expert to follow, and the number of switches used so far."""

    expert: int
    switches: int


def current_expert(schedule: Any, setting: Setting) -> dict[str, Allowed]:
    """What a server may send as `CurrentExpert`; it may end the exchanges."""
    return {
        "rounds": Planned(schedule, may_end=True),
        "expert": Between(0, setting.experts - 1),
        "switches": Between(0, setting.rounds),
    }


def first_awake(expert: np.ndarray, awake: np.ndarray | None) -> np.ndarray:
    """Return the expert, or the next one that is awake; None: all are.

    >>> first_awake(np.array([2]), np.array([[False, True, False]]))
    array([1])
    """
    if awake is None:
        return expert
    experts = awake.shape[-1]
    order = (expert[..., None] + np.arange(experts)) % experts
    first = np.take_along_axis(awake, order, axis=-1).argmax(axis=-1)
    return (expert + first) % experts


@dataclass(frozen=True)
class FollowerState:
    """The expert to follow, and the losses since the last upload, in lattice units."""

    expert: Whole
    losses: UnitVector


@dataclass(frozen=True)
class Follower:
    """Plays the broadcast expert (or the next one that is awake) and adds up losses."""

    state: ClassVar[type[Any]] = FollowerState

    experts: int

    def start(self, noise: Noise) -> FollowerState:
        return FollowerState(
            np.zeros(noise.batch, np.int64), np.zeros((*noise.batch, self.experts), np.int64)
        )

    def receive(self, state: FollowerState, broadcast: CurrentExpert) -> FollowerState:
        return FollowerState(
            np.full_like(state.expert, broadcast.expert), np.zeros_like(state.losses)
        )

    def play(
        self, state: FollowerState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, FollowerState]:
        return first_awake(state.expert, context.awake), state

    def observe(self, state: FollowerState, reports: Array, noise: Noise) -> FollowerState:
        return FollowerState(state.expert, state.losses + to_units(reports))

    def upload(self, state: FollowerState, noise: Noise) -> tuple[LossSums, FollowerState]:
        return LossSums(state.losses), state


def followed(
    *,
    name: str,
    setting: Setting,
    server: Any,
    certificate: Certificate,
    broadcasts: Broadcasts,
    regret_bound: RegretBound | None = None,
    measures: Callable[[], tuple[Measure, ...]] | None = None,
    client: Any = None,
    advance: Advance | None = None,
    supports: frozenset[Feature] = MASKS_AND_DELAYS,
    parameters: Mapping[str, Any] | None = None,
    **shortcuts: Any,
) -> Algorithm:
    """The algorithm in which all clients follow an expert that a server names by exact sums.

    The server knows the probability of its broadcasts (`log_likelihood`) and, if `advance` is not
    given, has a fast path. `client` is a `Follower` if it is not given. `shortcuts` are further
    ones.
    """
    return Algorithm(
        name=name,
        setting=setting,
        client=Follower(setting.experts) if client is None else client,
        server=server,
        certificate=certificate,
        uploads=Uploads(LossSums, sums_of_losses(setting), closing=ANY_CLOSING),
        broadcasts=broadcasts,
        supports=supports,
        shortcuts=Shortcuts(
            advance or server.advance, common_play=attrgetter("expert"), **shortcuts
        ),
        claims=Claims(regret_bound, measures, server.log_likelihood),
        parameters=parameters or {},
    )

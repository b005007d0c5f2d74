"""Audit cases for private algorithms that play points of a ball.

Far targets make a Huber loss linear in the whole ball, with its longest gradient in any direction.
So one record moves a report as far as any record can, whatever was played before.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hedgerow.algorithms.gradient.limited_updates import (
    Released,
    SamplingClient,
    UpdatesClientState,
)
from hedgerow.audits.case import RELEASES, WHOLE, AuditCase, changes
from hedgerow.audits.cases.releases import release_cases, worst_pair
from hedgerow.core.certificate import Observer
from hedgerow.core.convex import Huber
from hedgerow.core.lattice import Array
from hedgerow.core.layout import Flag, Vector
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting

if TYPE_CHECKING:
    from hedgerow.algorithms.gradient.limited_updates import LimitedUpdates
    from hedgerow.algorithms.gradient.noisy_ftrl import NoisyFTRL

WIDTH = 2
WAYS = ((1.0, 0.0), (0.7071, 0.7071))  # directions: the farthest in the l2 and in the l1 norm
BLOCKS, LAST = 63, 30  # rounds of the game, and the first of its last whole block (32 rounds)
SUMS = 33  # rounds of the game of running sums: 32 exchanges
FLAT = Huber(radius=1.0, target=2.0, threshold=1.0)  # linear in the whole ball


@dataclass(frozen=True)
class TwiceState(UpdatesClientState):
    """The same, with the first record of the step, and whether it is still to come."""

    first: Vector
    fresh: Flag


class UsedTwice(SamplingClient):
    """The bug: steps overlap; the first record of a step is used again at the start of the next."""

    state: ClassVar[type[Any]] = TwiceState

    def start(self, noise: Noise) -> TwiceState:
        state, width = super().start(noise), self.subroutine.width + 1
        return TwiceState(
            **{part.name: getattr(state, part.name) for part in fields(state)},
            first=np.zeros((*noise.batch, width)),
            fresh=np.ones(noise.batch, bool),
        )

    def receive(self, state: Any, broadcast: Released) -> Any:
        after = super().receive(state, broadcast)
        kept = {part.name: getattr(after, part.name) for part in fields(UpdatesClientState)}
        opened = TwiceState(**kept, first=state.first, fresh=np.ones_like(state.fresh))
        if state.samples.flat[0] == 0:
            return opened
        used = self.observe_many(opened, state.first[None], None)
        return replace(used, fresh=opened.fresh, seen=opened.seen)  # and it does not count it

    def observe_many(self, state: Any, reports: Array, noise: Any) -> Any:
        after = super().observe_many(state, reports, noise)
        first = reports[0] if state.fresh.all() else state.first
        return replace(after, first=first, fresh=np.zeros_like(state.fresh))


def limited_updates(spec: LimitedUpdates) -> tuple[AuditCase, ...]:
    """The first record of a block of 32 rounds, too little noise, and a record used twice."""
    played = replace(spec, clip=None, plan=replace(spec.given, phases=1, warm=False))
    observer = Observer.PEER if spec.trust == "central" else Observer.SERVER
    algorithm = _built(played, BLOCKS)
    ways = {way: _pull(played, BLOCKS, LAST, way) for way in WAYS}
    first, second = worst_pair(algorithm, ways.values(), observer)
    way = next(way for way, pair in ways.items() if pair[0] is first)
    client: Any = algorithm.client
    bug = UsedTwice(client.subroutine, client.domain, client.coordinates, client.reporting)
    found = release_cases(
        algorithm, first, second, observer=observer, parameters=changes(spec, played)
    )
    rounds = 2 * BLOCKS + 1
    longer, (one, other) = _built(played, rounds), _pull(played, rounds, LAST, way)
    twice = replace(
        found[-1],
        name="a record that is used twice",
        algorithm=replace(longer, client=bug),
        first=one,
        second=other,
    )
    return (*found, twice)


def noisy_ftrl(spec: NoisyFTRL) -> tuple[AuditCase, ...]:
    """The record is in the round from which it moves most releases.

    A trusted server shows peers points only. The certificate promises as much to a peer that sees
    the releases, and this is attacked.
    """
    central = spec.trust == "central"
    played = replace(spec, every=1, clip=None)
    observer = Observer.PEER if central else Observer.SERVER
    algorithm, pairs = _built(played, SUMS), (_pull(played, SUMS, when) for when in range(SUMS))
    return release_cases(
        algorithm,
        *worst_pair(algorithm, pairs, observer),
        observer=observer,
        claim=RELEASES if central else WHOLE,
        parameters=changes(spec, played),
    )


def _clients(spec: Any) -> int:
    return 4 if spec.trust == "distributed" else 1


def _built(spec: Any, rounds: int) -> Algorithm:
    return spec.build(Setting(_clients(spec), WIDTH, rounds, family=FLAT))


def _pull(
    spec: Any, rounds: int, when: int, way: tuple[float, ...] = WAYS[0]
) -> tuple[Replay, Replay]:
    """One record pulls in opposite directions in the two worlds; all others pull nowhere.

    It pulls as strongly at every point, so what it moves does not depend on the noise.
    """
    first, second = np.zeros((2, rounds, _clients(spec), WIDTH + 1))
    for records, side in ((first, 1.0), (second, -1.0)):
        records[when, 0, :-1], records[when, 0, -1] = side * np.array(way), 2.0
    return Replay(first, FLAT), Replay(second, FLAT)

"""Audit cases for private algorithms that play points of a ball.

Far targets make a Huber loss linear in the whole ball, with its longest gradient in any direction.
So one record moves a report as far as any record can, whatever was played before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hedgerow.algorithms.gradient.cover_dartboard import Likelihood, Scale
from hedgerow.algorithms.gradient.limited_updates import (
    Released,
    SamplingClient,
    UpdatesClientState,
)
from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.audits.case import RELEASES, WHOLE, AuditCase, Verdict, changes
from hedgerow.audits.cases.parts import less_selection, peer_curve
from hedgerow.audits.cases.releases import release_cases, worst_pair
from hedgerow.core.certificate import Observer
from hedgerow.core.convex import Huber
from hedgerow.core.lattice import Array, round_to_lattice
from hedgerow.core.layout import Flag, Vector
from hedgerow.core.losses import Family
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting

if TYPE_CHECKING:
    from hedgerow.algorithms.gradient.cover_dartboard import CoverDartboard
    from hedgerow.algorithms.gradient.limited_updates import LimitedUpdates
    from hedgerow.algorithms.gradient.noisy_ftrl import NoisyFTRL

WIDTH = 2
WAYS = ((1.0, 0.0), (0.7071, 0.7071))  # directions: the farthest in the l2 and in the l1 norm
CROWD = 200  # clients of the game on a line, or more: all but one favour the left end
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
    played = replace(spec, clip=None, phases=1, warm=False)
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


@dataclass(frozen=True)
class Unscaled(Scale):
    """The bug: charges as they are, as in print, not scaled to [0, 1]."""

    def losses(self, family: Family, records: Array, cover: Array) -> Array:
        return round_to_lattice(family.value(records[..., None, :], cover))


def cover_dartboard(spec: CoverDartboard) -> tuple[AuditCase, ...]:
    """Exact ratios of the worst transcripts on a line, and bugs that must be caught.

    One record favours one end of the line in one world and the other end in the other world. All
    others favour the left end. The left end leaves at once, and the right end is drawn
    after it as often as possible.
    """
    return tuple(_covered(spec))


def _covered(spec: CoverDartboard) -> Iterator[AuditCase]:
    played = replace(spec, points=min(spec.points, 100))

    def case(
        name: str, line: _Line, audited: Any, expected: Verdict, same: bool = False
    ) -> AuditCase:
        return AuditCase(
            name,
            WHOLE,
            replace(line.algorithm, claims=replace(line.algorithm.claims, log_likelihood=audited)),
            peer_curve(line.algorithm),
            line.first,
            line.first if same else line.second,
            transcripts=line.sent,
            expected=expected,
            parameters=changes(spec, played),
        )

    crowd = min(20 * CROWD, ceil(CROWD / min(1.0, spec.epsilon)))
    many, alone = _Line.of(played, crowd), _Line.of(played, 1)
    honest, server = many.likelihood, many.likelihood.server
    yield case("null: the same stream twice", many, honest, "holds", same=True)
    yield case("worst transcripts", many, honest, "holds")
    less = replace(honest, server=less_selection(server))
    yield case("four fifths of the selection noise", many, less, "violated")
    raw = replace(alone.likelihood.client, scale=Unscaled(False, 1.0, 0.0))
    bug = replace(alone.likelihood, client=raw)
    yield case("charges that are not scaled to [0, 1]", alone, bug, "violated")


@dataclass(frozen=True, eq=False)
class _Line:
    """A game on a line: the algorithm, its likelihood, two streams and the worst transcripts."""

    algorithm: Algorithm
    likelihood: Likelihood
    first: Array
    second: Array
    sent: tuple[tuple[CurrentExpert, ...], ...]

    @classmethod
    def of(cls, spec: CoverDartboard, clients: int) -> _Line:
        algorithm = spec.build(Setting(clients, 1, 64, family=FLAT))
        client: Any = algorithm.client
        server: Any = algorithm.server
        first = np.zeros((64, clients, 2))
        first[..., 0], first[..., 1] = -1.0, 2.0
        second = first.copy()
        first[0, 0, 0] = 1.0
        schedule: Schedule = server.schedule
        right, exchanges = len(client.points) - 1, schedule.count(64)
        draws = exchanges if server.draws is None else min(server.draws, exchanges)
        leaving = (
            CurrentExpert(schedule.wait(0), 0, 0),
            *(CurrentExpert(schedule.wait(n), right, n) for n in range(1, draws + 1)),
        )
        later = (CurrentExpert(schedule.wait(n), right, n - 1) for n in range(2, draws + 1))
        staying = (leaving[0], CurrentExpert(schedule.wait(1), 0, 0), *later)
        return cls(algorithm, Likelihood(client, server), first, second, (leaving, staying))

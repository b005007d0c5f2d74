"""Audit cases for private algorithms that play points of a ball.

Huber losses have their longest gradient at the centre, in either direction, so one record there
moves a report as far as any record can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hedgerow.algorithms.gradient.cover_dartboard import Likelihood, Scale
from hedgerow.algorithms.gradient.frank_wolfe import FrankWolfe
from hedgerow.algorithms.gradient.limited_updates import ClientState, Released, SamplingClient
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.audits.case import WHOLE, AuditCase, Verdict, changes
from hedgerow.audits.cases.frank_wolfe import cases as frank_wolfe_cases
from hedgerow.audits.cases.parts import half_selection, peer_curve
from hedgerow.audits.cases.phased_selection import cases as selection_cases
from hedgerow.audits.cases.releases import less_noise, release_cases
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

FAMILY = Huber()
WIDTH, RUNS = 2, 600
BLOCKS, LAST = 15, 6  # rounds of the game, and the first round of its last whole block (8 rounds)
SUMS = 8  # rounds of the game of running sums
OUTSIDE, READ_AT = 4.0, 0.05  # epsilon and delta of the game from outside
LOOSE = 100.0  # a penalty so large that points stay inside the ball
FLAT = Huber(radius=1.0, target=2.0, threshold=1.0)  # linear in the whole ball


@dataclass(frozen=True)
class TwiceState(ClientState):
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
        kept = {part.name: getattr(after, part.name) for part in fields(ClientState)}
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
    """The first record of a block of 8 rounds, half the noise, and a record that is used twice."""
    delta = 0.0 if spec.trust == "central" else spec.delta
    if spec.subroutine == "selection":
        return selection_cases(PhasedSelection(spec.epsilon, delta, spec.trust))
    if spec.subroutine == "frank_wolfe":
        return frank_wolfe_cases(FrankWolfe(spec.epsilon, delta, spec.trust))
    played = replace(spec, clip=None, phases=1, warm=False)
    algorithm, first, second = _pull(played, BLOCKS, LAST)
    client: Any = algorithm.client
    bug = UsedTwice(client.subroutine, client.domain, client.coordinates, client.reporting)
    observer = Observer.PEER if spec.trust == "central" else Observer.SERVER
    found = release_cases(
        algorithm, first, second, runs=RUNS, observer=observer, parameters=changes(spec, played)
    )
    longer, one, other = _pull(played, 2 * BLOCKS + 1, LAST)
    twice = replace(
        found[-1],
        name="a record that is used twice",
        algorithm=replace(longer, client=bug),
        first=one,
        second=other,
    )
    return (*found, twice)


def noisy_ftrl(spec: NoisyFTRL) -> tuple[AuditCase, ...]:
    """The record is in the first round, so it enters every release.

    A trusted server shows peers points only, so they are attacked from outside: by the frequencies
    of the first point that depends on the record, which is read to a fifth of its noise.
    """
    if spec.trust != "central":
        played = replace(spec, every=1, clip=None)
        algorithm, first, second = _pull(played, SUMS, 0)
        return release_cases(algorithm, first, second, runs=RUNS, parameters=changes(spec, played))
    played = replace(spec, every=1, clip=None, epsilon=OUTSIDE, penalty=LOOSE)
    algorithm, first, second = _pull(played, 2, 0)
    server: Any = algorithm.server
    cell = server.releasing.scale / server.weight / 5

    def case(name: str, audited: Algorithm, other: Replay, expected: Verdict) -> AuditCase:
        return AuditCase(
            name,
            WHOLE,
            audited,
            peer_curve(algorithm),
            first.records,
            other.records,
            method="black box",
            reading=lambda sent: int(sent[1].point[0] // cell),
            runs=10_000,
            delta=READ_AT,
            expected=expected,
            parameters=changes(spec, played),
        )

    return (
        case("null, from outside", algorithm, first, "holds"),
        case("one point, from outside", algorithm, second, "holds"),
        case("half the noise, from outside", less_noise(algorithm, 0.5), second, "violated"),
    )


def _pull(spec: Any, rounds: int, when: int) -> tuple[Algorithm, Replay, Replay]:
    """One record pulls in opposite directions in the two worlds; all others pull nowhere."""
    clients = 4 if spec.trust == "distributed" else 1
    algorithm = spec.build(Setting(clients, WIDTH, rounds, family=FAMILY))
    worlds = list[Replay]()
    for target in (1.0, -1.0):
        records = np.zeros((rounds, clients, WIDTH + 1))
        records[when, 0, 0], records[when, 0, -1] = 1.0, target
        worlds.append(Replay(records, FAMILY))
    return algorithm, worlds[0], worlds[1]


@dataclass(frozen=True)
class Unscaled(Scale):
    """The bug: charges as they are, as in print, not scaled to [0, 1]."""

    def losses(self, family: Family, records: Array, cover: Array) -> Array:
        return round_to_lattice(family.value(records[..., None, :], cover))


def cover_dartboard(spec: CoverDartboard) -> tuple[AuditCase, ...]:
    """Exact ratios of the worst transcripts on a line, and bugs that must be caught.

    The first record favours one end of the line in one world and the other end in the other world.
    All later ones favour the left end. The left end leaves at once, and the right end is drawn
    after it as often as possible.
    """
    return tuple(_covered(spec))


def _covered(spec: CoverDartboard) -> Iterator[AuditCase]:
    played = replace(spec, points=min(spec.points, 100))
    algorithm = played.build(Setting(1, 1, 64, family=FLAT))
    client: Any = algorithm.client
    server: Any = algorithm.server
    worlds = list[Array]()
    for sign in (1.0, -1.0):
        records = np.zeros((64, 1, 2))
        records[..., 0], records[..., 1] = -1.0, 2.0
        records[0, 0, 0] = sign
        worlds.append(records)
    schedule: Schedule = server.schedule
    right, exchanges = len(client.points) - 1, schedule.count(64)
    draws = exchanges if server.draws is None else min(server.draws, exchanges)
    leaving = (
        CurrentExpert(schedule.wait(0), 0, 0),
        *(CurrentExpert(schedule.wait(n), right, n) for n in range(1, draws + 1)),
    )
    later = (CurrentExpert(schedule.wait(n), right, n - 1) for n in range(2, draws + 1))
    staying = (leaving[0], CurrentExpert(schedule.wait(1), 0, 0), *later)

    def case(name: str, audited: Any, other: int, expected: Verdict) -> AuditCase:
        return AuditCase(
            name,
            WHOLE,
            replace(algorithm, log_likelihood=audited),
            peer_curve(algorithm),
            worlds[0],
            worlds[other],
            transcripts=(leaving, staying),
            expected=expected,
            parameters=changes(spec, played),
        )

    honest = Likelihood(client, server)
    raw = replace(client, scale=Unscaled(False, 1.0, 0.0))
    yield case("null: the same stream twice", honest, 0, "holds")
    yield case("worst transcripts", honest, 1, "holds")
    yield case(
        "half the selection noise", replace(honest, server=half_selection(server)), 1, "violated"
    )
    yield case("charges that are not scaled to [0, 1]", replace(honest, client=raw), 1, "violated")

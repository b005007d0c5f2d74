"""Clients that upload exact loss sums, and a server that adds them up and broadcasts the totals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.core.block import CACHE_ELEMENTS, Block
from hedgerow.core.certificate import Certificate, Channel, not_private
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, Units, round_to_lattice, to_units
from hedgerow.core.layout import UnitVector
from hedgerow.core.losses import Gains
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import RunState, Trace
from hedgerow.core.setting import Setting
from hedgerow.core.upload_range import Range
from hedgerow.core.validate import expect


@dataclass(frozen=True)
class LossSums(Upload):
    """The losses of every expert at one client since its last upload, in lattice units.

    The sums are exact, so an observer of this message must be trusted.
    """

    losses: UnitVector


@dataclass(frozen=True)
class Totals(Broadcast):
    """The losses of every expert over all clients and rounds so far, in lattice units."""

    losses: UnitVector


@dataclass(frozen=True)
class ClientState:
    """The totals of the last broadcast, and the losses since then."""

    totals: UnitVector
    losses: UnitVector


@dataclass(frozen=True)
class Adder(ABC):
    """A client that adds up losses between exchanges. Subclasses define how it plays."""

    state: ClassVar[type[Any]] = ClientState

    experts: int

    def start(self, noise: Noise) -> ClientState:
        zeros = np.zeros((*noise.batch, self.experts), np.int64)
        return ClientState(zeros, zeros)

    def receive(self, state: ClientState, broadcast: Totals) -> ClientState:
        return ClientState(
            np.broadcast_to(broadcast.losses, state.losses.shape), np.zeros_like(state.losses)
        )

    def observe(self, state: ClientState, reports: Array, noise: Noise) -> ClientState:
        del noise
        return ClientState(state.totals, state.losses + to_units(reports))

    def observe_many(self, state: ClientState, reports: Array, noise: Noise) -> ClientState:
        del noise
        return ClientState(state.totals, state.losses + to_units(reports.sum(axis=0)))

    def upload(self, state: ClientState, noise: Noise) -> tuple[LossSums, ClientState]:
        del noise
        return LossSums(state.losses), state

    @abstractmethod
    def follow(self, totals: Units, spans: np.ndarray, noise: Noise, scratch: Array) -> np.ndarray:
        """Return the plays where `totals[i]` are the last known ones for `spans[i]` rounds.

        They have shape (rounds, clients), or (rounds, 1) if all clients play the same. `totals`,
        and `scratch` of the same shape, may be overwritten.
        """


@dataclass(frozen=True)
class ServerState:
    """The losses of every expert over all clients so far, in lattice units, and the exchanges."""

    totals: UnitVector
    exchanges: int


@dataclass(frozen=True)
class Summing:
    """A server that sends the totals to all clients at every exchange."""

    state: ClassVar[type[Any]] = ServerState

    experts: int
    schedule: Schedule

    def open(self, noise: Noise) -> tuple[Totals, ServerState]:
        del noise
        totals = np.zeros(self.experts, np.int64)
        return Totals(self.schedule.wait(0), totals), ServerState(totals, 0)

    def aggregate(
        self, state: ServerState, uploads: LossSums, noise: Noise
    ) -> tuple[Totals, ServerState]:
        del noise
        totals, exchanges = state.totals + uploads.losses, state.exchanges + 1
        return Totals(self.schedule.wait(exchanges), totals), ServerState(totals, exchanges)


@dataclass(frozen=True)
class ManySums:
    """The fast path of a client that adds and a server that sums: many exchanges at once."""

    client: Adder
    server: Summing

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        schedule = self.server.schedule
        assert run.remaining is not None, "there is always a next exchange"
        clients, server, reports, rounds = run.clients, run.server, block.reports, block.rounds
        noise = source.everyone("client", len(clients.losses))
        due = schedule.due(run.round, run.remaining, rounds)
        spans = np.diff(np.concatenate([[0], due, [rounds]]))
        scratch = np.empty((1, self.client.experts))
        plays = [self.client.follow(clients.totals[:1].copy(), spans[:1], noise, scratch)]
        if len(due) == 0:
            held = clients.losses + to_units(reports.sum(axis=0))
            after, left = ClientState(clients.totals, held), run.remaining - rounds
        else:
            last = server.totals + clients.losses.sum(axis=0)
            last += to_units(reports[: due[0]].sum(axis=(0, 1)))
            for first, known, scratch in _known(reports, last, due, schedule):
                last = known[-1].copy()
                here = spans[first + 1 : first + 1 + len(known)]
                plays.append(self.client.follow(known, here, noise, scratch))
            held = to_units(reports[due[-1] :].sum(axis=0))
            after = ClientState(np.broadcast_to(last, held.shape), held)
            server = ServerState(last, server.exchanges + len(due))
            left = int(due[-1]) + schedule.wait(server.exchanges) - rounds
        shown = np.broadcast_to(np.concatenate(plays), (rounds, *noise.batch))
        return RunState(run.round + rounds, after, None, server, left), Trace(shown, len(due))


def _known(
    reports: Array, first: Units, due: np.ndarray, schedule: Schedule
) -> Iterator[tuple[int, Units, Array]]:
    """Yield the totals of all clients before the rounds `due`, as many as fit in the cache.

    Each part comes with its place in `due` and with scratch space of its shape; `first` are the
    totals before `due[0]`. The arrays are used again.
    """
    experts = reports.shape[-1]
    some = min(len(due), max(2, CACHE_ELEMENTS // 2 // experts))
    units, scratch = np.empty((some, experts), np.int64), np.empty((some, experts))
    for at in range(0, len(due), some):
        here = due[max(at - 1, 0) : at + some]  # sums begin with the last round of the part before
        skip = 1 if at == 0 else 0
        known, sums = units[: len(here) - 1 + skip], scratch[: len(here) - 1 + skip]
        early, equal = schedule.split(reports, here)
        for place, batch in enumerate(early, skip):
            np.add.reduce(batch, axis=0, out=sums[place])
        # the fastest sum over a middle axis
        np.einsum("gid->gd", equal, out=sums[skip + len(early) :])
        sums[skip:] *= UNITS_PER_LOSS
        np.copyto(known[skip:], sums[skip:], casting="unsafe")
        if (known[skip:] != sums[skip:]).any():
            to_units(sums[skip:] / UNITS_PER_LOSS)  # raises
        known[0] = first if at == 0 else known[0] + first
        np.cumsum(known, axis=0, out=known)
        first = known[-1].copy()
        yield at, known, sums


def sums_of_losses(setting: Setting, experts: int | None = None) -> dict[str, Range]:
    """Where honest `LossSums` lie: sums over clients' rounds of losses, or of gains.

    `experts` is their number, if it is not that of the setting.

    >>> sums_of_losses(Setting(clients=2, experts=3, horizon=5))["losses"].high
    1.0
    """
    low, high = 0.0, 1.0
    if isinstance(setting.family, Gains):  # an absent client reports 0
        ends = 0.0, np.min(setting.family.low), np.max(setting.family.high)
        rounded = round_to_lattice(ends)  # like the records
        low, high = float(rounded.min()), float(rounded.max())
    return {"losses": Range(experts or setting.experts, low, high)}


def check_interval(every: int, setting: Setting) -> None:
    """Refuse an interval between exchanges that is longer than the game."""
    if setting.horizon is not None:
        expect(every <= setting.horizon, "every", every, f"<= horizon={setting.horizon}")


def raw_certificate() -> Certificate:
    """The certificate of an algorithm that exchanges exact losses and protects nothing."""
    channels = {
        "LossSums.losses": Channel.UPLOADS,
        "Totals.rounds": Channel.TIMING,
        "Totals.losses": Channel.BROADCASTS,
    }
    return not_private("this is a non-private reference that exchanges exact losses", channels)

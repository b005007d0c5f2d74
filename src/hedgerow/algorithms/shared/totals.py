"""Clients that upload exact loss sums, and a server that adds them up and broadcasts the totals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.block import CACHE_ELEMENTS, Block
from hedgerow.core.certificate import Certificate, Channel, not_private
from hedgerow.core.lattice import Array, Units, to_units
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import RunState, Trace
from hedgerow.core.setting import Setting
from hedgerow.core.validate import expect


@dataclass(frozen=True)
class LossSums(Upload):
    """The losses of every expert at one client since its last upload, in lattice units.

    The sums are exact, so an observer of this message must be trusted.
    """

    losses: Units


@dataclass(frozen=True)
class Totals(Broadcast):
    """The losses of every expert over all clients and rounds so far, in lattice units."""

    losses: Units


@dataclass(frozen=True)
class ClientState:
    """The totals of the last broadcast, and the losses since then."""

    totals: Units
    losses: Units


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
    def follow(self, totals: Units, spans: np.ndarray, noise: Noise) -> np.ndarray:
        """Return the plays where `totals[i]` are the last known ones for `spans[i]` rounds.

        They have shape (rounds, clients), or (rounds, 1) if all clients play the same.
        """

    def advance(
        self, every: int, run: RunState, block: Block, source: NoiseSource
    ) -> tuple[RunState, Trace]:
        """Play many exchanges at once: one every `every` rounds, as `Summing` announces."""
        clients, server, reports = run.clients, run.server, block.reports
        noise = source.everyone("client", len(clients.losses))
        due = np.arange(run.remaining, block.rounds, every)
        ends = np.append(due, block.rounds)
        plays = [self.follow(clients.totals[:1], ends[:1], noise)]
        if len(due) == 0:
            losses = clients.losses + to_units(reports.sum(axis=0))
            after = (ClientState(clients.totals, losses), server, run.remaining - block.rounds)
        else:
            totals = server.totals + clients.losses.sum(axis=0) + block.totals_before(due[0])
            some = max(1, CACHE_ELEMENTS // 2 // self.experts)  # exchanges that fit in the cache
            for first in range(0, len(due), some):
                part = due[first : first + some]
                known = _totals(reports, totals, part)
                plays.append(self.follow(known, np.diff(ends[first : first + some + 1]), noise))
                if first + some < len(due):
                    last = reports[part[-1] : due[first + some]]
                    totals = known[-1] + to_units(last.sum(axis=(0, 1)))
                else:
                    totals = known[-1].copy()
            losses = to_units(reports[due[-1] :].sum(axis=0))
            known = np.broadcast_to(totals, losses.shape)
            left = int(due[-1]) + every - block.rounds
            after = (ClientState(known, losses), ServerState(totals), left)
        shown = np.broadcast_to(np.concatenate(plays), (block.rounds, *noise.batch))
        return RunState(run.round + block.rounds, after[0], None, *after[1:]), Trace(
            shown, len(due)
        )


def _totals(reports: Array, first: Units, due: np.ndarray) -> Units:
    """Return the totals of all clients before the rounds `due`, which have equal distances.

    `first` are those before the first of them.
    """
    _, clients, experts = reports.shape
    known = np.empty((len(due), experts), np.int64)
    known[0] = first
    if len(due) > 1:
        size = int(due[1] - due[0]) * clients
        groups = reports[due[0] : due[-1]].reshape(-1, size, experts)
        known[1:] = to_units(np.einsum("gid->gd", groups))  # the fastest sum over a middle axis
    return np.cumsum(known, axis=0, out=known)


@dataclass(frozen=True)
class ServerState:
    """The losses of every expert over all clients so far, in lattice units."""

    totals: Units


@dataclass(frozen=True)
class Summing:
    """A server that sends the totals to all clients every `every` rounds."""

    state: ClassVar[type[Any]] = ServerState

    experts: int
    every: int

    def open(self, noise: Noise) -> tuple[Totals, ServerState]:
        del noise
        totals = np.zeros(self.experts, np.int64)
        return Totals(self.every, totals), ServerState(totals)

    def aggregate(
        self, state: ServerState, uploads: LossSums, noise: Noise
    ) -> tuple[Totals, ServerState]:
        del noise
        totals = state.totals + uploads.losses
        return Totals(self.every, totals), ServerState(totals)


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

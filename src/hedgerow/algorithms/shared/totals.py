"""Clients that upload exact loss sums, and a server that adds them up and broadcasts the totals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.block import Block
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
        """Return the plays (rounds, clients) where `totals[i]` is known for `spans[i]` rounds."""

    def advance(
        self, every: int, run: RunState, block: Block, source: NoiseSource
    ) -> tuple[RunState, Trace]:
        """Play many exchanges at once: one every `every` rounds, as `Summing` announces."""
        clients, reports, rounds = run.clients, block.reports, block.rounds
        noise = source.everyone("client", len(clients.losses))
        due = np.arange(run.remaining, rounds, every)
        spans = np.diff([0, *due, rounds])
        known = np.empty((len(due) + 1, self.experts), np.int64)
        known[0] = clients.totals[0]
        if len(due) == 0:
            losses = clients.losses + to_units(reports.sum(axis=0))
            totals, server, left = clients.totals, run.server, run.remaining - rounds
        else:
            known[1:] = to_units(_between(reports, due))
            known[1] += run.server.totals + clients.losses.sum(axis=0)
            np.cumsum(known[1:], axis=0, out=known[1:])
            losses, server = to_units(reports[due[-1] :].sum(axis=0)), ServerState(known[-1])
            totals = np.broadcast_to(known[-1], losses.shape)
            left = int(every - spans[-1])
        plays = self.follow(known, spans, noise)
        after = RunState(run.round + rounds, ClientState(totals, losses), None, server, left)
        return after, Trace(plays, len(due))


def _between(reports: Array, due: np.ndarray) -> Array:
    """Sum reports over clients and rounds: before `due[0]`, then between the others."""
    _, clients, experts = reports.shape
    every = int(due[1] - due[0]) if len(due) > 1 else 1
    found = np.empty((len(due), experts))
    np.add.reduce(reports[: due[0]], axis=(0, 1), out=found[0])
    groups = reports[due[0] : due[-1]].reshape(-1, every * clients, experts)
    np.einsum("gid->gd", groups, out=found[1:])  # the fastest sum over a middle axis
    return found


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

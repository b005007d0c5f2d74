"""Clients that upload exact loss sums, and a server that adds them up and broadcasts the totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.certificate import Certificate, Channel, not_private
from hedgerow.core.lattice import Array, to_units
from hedgerow.core.layout import UnitVector
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.setting import Setting
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
class Adder:
    """A client that adds up losses between exchanges. Subclasses define `play`."""

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


@dataclass(frozen=True)
class ServerState:
    """The losses of every expert over all clients so far, in lattice units."""

    totals: UnitVector


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

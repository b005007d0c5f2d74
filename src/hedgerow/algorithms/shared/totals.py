"""Clients that upload exact loss sums, and a server that adds them up and broadcasts the totals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.core.block import CACHE_ELEMENTS, Block
from hedgerow.core.certificate import Certificate, Channel, not_private
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array, from_units, round_to_lattice, sum_rows, to_units
from hedgerow.core.layout import UnitVector
from hedgerow.core.limits import Allowed, Numbers, Planned, Range
from hedgerow.core.losses import Gains
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import RunState, Trace
from hedgerow.core.setting import Setting

MOST_TOTAL = 2.0**62  # lattice units

Follow = Callable[[Array, np.ndarray, Noise], np.ndarray]
"""Return the plays where `totals[i]` are the last known ones for `spans[i]` rounds.

They have shape (rounds, clients), or (rounds, 1) if all clients play the same. `totals` are losses,
less one number for all experts, and may be overwritten.
"""


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
class AdderState:
    """The totals of the last broadcast, and the losses since then."""

    totals: UnitVector
    losses: UnitVector


@dataclass(frozen=True)
class Adder:
    """A client that adds up losses between exchanges. Subclasses define how it plays."""

    state: ClassVar[type[Any]] = AdderState

    experts: int

    def start(self, noise: Noise) -> AdderState:
        zeros = np.zeros((*noise.batch, self.experts), np.int64)
        return AdderState(zeros, zeros)

    def receive(self, state: AdderState, broadcast: Totals) -> AdderState:
        totals = np.broadcast_to(broadcast.losses, state.losses.shape)
        return AdderState(totals, np.zeros_like(state.losses))

    def observe(self, state: AdderState, reports: Array, noise: Noise) -> AdderState:
        return replace(state, losses=state.losses + to_units(reports))

    def observe_many(self, state: AdderState, reports: Array, noise: Noise) -> AdderState:
        return replace(state, losses=state.losses + to_units(reports.sum(axis=0)))

    def upload(self, state: AdderState, noise: Noise) -> tuple[LossSums, AdderState]:
        return LossSums(state.losses), state


@dataclass(frozen=True)
class SummingState:
    """The losses of every expert over all clients so far, in lattice units, and the exchanges."""

    totals: UnitVector
    exchanges: int


@dataclass(frozen=True)
class Summing:
    """A server that sends the totals to all clients at every exchange."""

    state: ClassVar[type[Any]] = SummingState

    experts: int
    schedule: Schedule

    def open(self, noise: Noise) -> tuple[Totals, SummingState]:
        totals = np.zeros(self.experts, np.int64)
        return Totals(self.schedule.wait(0), totals), SummingState(totals, 0)

    def aggregate(
        self, state: SummingState, uploads: LossSums, noise: Noise
    ) -> tuple[Totals, SummingState]:
        totals, exchanges = state.totals + uploads.losses, state.exchanges + 1
        return Totals(self.schedule.wait(exchanges), totals), SummingState(totals, exchanges)


@dataclass(frozen=True)
class ManySums:
    """The fast path of a client that adds and a server that sums: many exchanges at once."""

    client: Adder
    server: Summing
    follow: Follow

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        schedule = self.server.schedule
        assert run.remaining is not None, "there is always a next exchange"
        clients, server, reports, rounds = run.clients, run.server, block.reports, block.rounds
        noise = source.everyone("client", len(clients.losses))
        due = schedule.due(run.round, run.remaining, rounds)
        spans = np.diff(np.concatenate([[0], due, [rounds]]))
        known = clients.totals[:1]
        plays = [self.follow(from_units(known - known.min()), spans[:1], noise)]
        if len(due) == 0:
            held = clients.losses + to_units(reports.sum(axis=0))
            after, left = replace(clients, losses=held), run.remaining - rounds
        else:
            last = server.totals + clients.losses.sum(axis=0)
            last += to_units(reports[: due[0]].sum(axis=(0, 1)))
            least = last.min()
            above = from_units(last - least)
            for first, totals in _known(reports, above, due):
                above = totals[-1].copy()
                here = spans[first + 1 : first + 1 + len(totals)]
                plays.append(self.follow(totals, here, noise))
            last = least + to_units(above)
            held = to_units(reports[due[-1] :].sum(axis=0))
            after = replace(clients, totals=np.broadcast_to(last, held.shape), losses=held)
            server = replace(server, totals=last, exchanges=server.exchanges + len(due))
            left = int(due[-1]) + schedule.wait(server.exchanges) - rounds
        shown = np.broadcast_to(np.concatenate(plays), (rounds, *noise.batch))
        return RunState(run.round + rounds, after, None, server, left), Trace(shown, len(due))


def _known(reports: Array, first: Array, due: np.ndarray) -> Iterator[tuple[int, Array]]:
    """Yield the totals of all clients before the rounds `due`, as many as fit in the cache.

    Each part comes with its place in `due`; `first` are the totals before `due[0]`. The array is
    used again. Floats add losses exactly up to 2^33. An expert that lost more than that is behind
    whatever its last bits are.
    """
    _, clients, experts = reports.shape
    rows, some = reports.reshape(-1, experts), max(2, CACHE_ELEMENTS // 2 // experts)
    kept, ends = np.empty((min(len(due), some), experts)), due * clients
    for at in range(0, len(due), some):
        totals = kept[: len(due) - at]
        if at == 0:
            totals[0] = first
            sum_rows(rows, ends[: len(totals) - 1], ends[1 : len(totals)], totals[1:], first)
        else:
            here = slice(at, at + len(totals))
            sum_rows(rows, ends[at - 1 :][: len(totals)], ends[here], totals, first)
        first = totals[-1].copy()
        yield at, totals


def totals_of_losses(schedule: Schedule, experts: int) -> dict[str, Allowed]:
    """What a server may send as `Totals`."""
    return {"rounds": Planned(schedule), "losses": Numbers(experts, MOST_TOTAL)}


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
    if setting.horizon is not None and not every <= setting.horizon:
        raise InvalidValue(f"Expected every={every!r} <= horizon={setting.horizon}.")


def raw_certificate() -> Certificate:
    """The certificate of an algorithm that exchanges exact losses and protects nothing."""
    channels = {
        "LossSums.losses": Channel.UPLOADS,
        "Totals.rounds": Channel.TIMING,
        "Totals.losses": Channel.BROADCASTS,
    }
    return not_private("this is a non-private reference that exchanges exact losses", channels)

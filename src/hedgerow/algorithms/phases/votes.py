"""Votes of whole clients or people: what they prefer, by all their data, and choices of experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import log, sqrt
from typing import Any, ClassVar, Literal

import numpy as np

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.core.certificate import Certificate, Channel
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, from_units, to_units
from hedgerow.core.layout import UnitVector, Whole
from hedgerow.core.limits import Allowed, Between, Planned
from hedgerow.core.messages import Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Context
from hedgerow.core.setting import Setting
from hedgerow.core.unit_order import covers
from hedgerow.core.units import Client, Unit
from hedgerow.privacy.mechanisms import NoisyMax

Scores = Literal["studentised", "clip", "vote"]
FOLLOWED = {
    "CurrentExpert.rounds": Channel.TIMING,
    "CurrentExpert.expert": Channel.BROADCASTS,
    "CurrentExpert.switches": Channel.BROADCASTS,
}


@dataclass(frozen=True)
class Opinion(Upload):
    """How little a client prefers each expert, from 0 (its own leader) to 1, in lattice units."""

    scores: UnitVector


@dataclass(frozen=True)
class ClientState:
    """The expert to follow, how many rounds were seen, and all losses so far, in lattice units."""

    expert: Whole
    rounds: Whole
    losses: UnitVector


@dataclass(frozen=True)
class Voter:
    """Follows the announced expert and says what it prefers by all its data so far."""

    state: ClassVar[type[Any]] = ClientState

    experts: int
    scores: Scores

    def start(self, noise: Noise) -> ClientState:
        zeros = np.zeros(noise.batch, np.int64)
        return ClientState(zeros, zeros, np.zeros((*noise.batch, self.experts), np.int64))

    def receive(self, state: ClientState, broadcast: CurrentExpert) -> ClientState:
        return replace(state, expert=np.full_like(state.expert, broadcast.expert))

    def play(
        self, state: ClientState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, ClientState]:
        return state.expert, state

    def play_many(
        self, state: ClientState, rounds: int, noise: Noise
    ) -> tuple[np.ndarray, ClientState]:
        return np.broadcast_to(state.expert, (rounds, *np.shape(state.expert))), state

    def observe(self, state: ClientState, reports: Array, noise: Noise) -> ClientState:
        rounds = np.asarray(state.rounds + 1)
        return replace(state, rounds=rounds, losses=state.losses + to_units(reports))

    def observe_many(self, state: ClientState, reports: Array, noise: Noise) -> ClientState:
        losses = state.losses + to_units(reports.sum(axis=0))
        return replace(state, rounds=np.asarray(state.rounds + len(reports)), losses=losses)

    def upload(self, state: ClientState, noise: Noise) -> tuple[Opinion, ClientState]:
        return Opinion(self.opinion(from_units(state.losses), state.rounds)), state

    def of_reports(self, reports: Array) -> np.ndarray:
        """The scores of clients with these reports, (rounds, clients, width)."""
        return self.opinion(reports.sum(axis=0), np.full(reports.shape[1], len(reports)))

    def opinion(self, losses: Array, rounds: Any) -> np.ndarray:
        """The scores of clients with these losses, (clients, experts), after this many rounds.

        They are cut to [0, 1] on the lattice, whatever the losses are.
        """
        seen = np.maximum(rounds, 1)[..., None]
        mean = losses / seen
        behind = mean - mean.min(axis=-1, keepdims=True)
        if self.scores == "vote":
            found = np.ones_like(behind)
            np.put_along_axis(found, losses.argmin(axis=-1)[..., None], 0.0, axis=-1)
        elif self.scores == "clip":
            found = behind / np.minimum(1.0, 2 * np.sqrt(log(max(self.experts, 2)) / (2 * seen)))
        else:
            spread = np.clip(mean * (1 - mean), 0.0, None) + 1 / seen
            own = np.take_along_axis(spread, losses.argmin(axis=-1)[..., None], axis=-1)
            error = np.sqrt((spread + own) / seen)
            found = behind / (sqrt(2 * log(max(self.experts, 2))) * error)
        return np.rint(np.clip(found, 0.0, 1.0) * UNITS_PER_LOSS).astype(np.int64)


@dataclass(frozen=True)
class ServerState:
    """How many choices were made."""

    choices: int


@dataclass(frozen=True)
class VoteServer:
    """Chooses the expert with a small sum of scores, at a few public times."""

    state: ClassVar[type[Any]] = ServerState

    experts: int
    times: tuple[int, ...]
    selections: tuple[NoisyMax, ...]

    def wait(self, exchange: int) -> int | None:
        """The rounds from an exchange to the next; None after the last choice."""
        if exchange >= len(self.times):
            return None
        return self.times[exchange] - (self.times[exchange - 1] if exchange else 0)

    @property
    def broadcasts(self) -> dict[str, Allowed]:
        """What the server may send."""
        return {
            "rounds": Planned(self),
            "expert": Between(0, self.experts - 1),
            "switches": Between(0, len(self.times)),
        }

    def open(self, noise: Noise) -> tuple[CurrentExpert, ServerState]:
        return self.follow(0, noise.index(self.experts, "first expert"))

    def aggregate(
        self, state: ServerState, uploads: Opinion, noise: Noise
    ) -> tuple[CurrentExpert, ServerState]:
        sums = from_units(np.asarray(uploads.scores, np.int64))
        expert = noise.release(self.selections[state.choices], sums)
        return self.follow(state.choices + 1, expert)

    def follow(self, choices: int, expert: int) -> tuple[CurrentExpert, ServerState]:
        return CurrentExpert(self.wait(choices), expert, choices), ServerState(choices)


@dataclass(frozen=True)
class Likelihood:
    """The exact log-probability of a sequence of broadcasts on given data."""

    voter: Voter
    server: VoteServer

    def __call__(self, broadcasts: list[CurrentExpert], reports: Array) -> float:
        result = -log(self.server.experts)
        for choice, (_, then) in enumerate(pairwise(broadcasts)):
            time = self.server.times[choice]
            scores = from_units(self.voter.of_reports(reports[:time]).sum(axis=0))
            result += self.server.selections[choice].log_probability(scores, then.expert)
        return float(result)


def check_within_client(unit: Unit, setting: Setting, name: str, other: str) -> None:
    """Refuse a unit that is more than everything of one client."""
    unit.size(setting)
    if not covers(Client(), unit):
        raise Unsupported(
            f"{name} protects everything of one client, which does not cover unit={unit.text()!r}. "
            f"Use another algorithm for it, such as {other}."
        )


def of_voters(unit: Unit, found: Certificate, setting: Setting) -> Certificate:
    """The same guarantees for whole clients or people."""
    unit = replace(unit, record=setting.family.record)
    guarantees = (replace(g, unit=unit, adjacency=unit.adjacency()) for g in found.guarantees)
    return replace(found, guarantees=tuple(guarantees))

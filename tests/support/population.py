"""A population of which one client reports in each round; which one is public.

The report is a loss vector with Laplace noise. One decider follows the expert with the smallest
noisy total.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.block import Side
from hedgerow.core.certificate import Certificate, Channel, Proof
from hedgerow.core.environment import Feature
from hedgerow.core.games import Games
from hedgerow.core.limits import Between, Broadcasts, Uploads
from hedgerow.core.messages import Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.core.units import Client as Site
from hedgerow.core.units import Event, Person, Unit
from hedgerow.privacy.composition.steps import pure_sum
from hedgerow.privacy.mechanisms import AdditiveNoise
from support.followers import Decider, Leader, Reporting, Totals, guarantees

SETTING = Setting(clients=6, experts=3, horizon=36, deciders=1)

EVENT = Event()


def reporting(setting: Setting) -> np.ndarray:
    """Clients report in turn."""
    return np.eye(setting.clients, dtype=bool)[np.arange(setting.rounds) % setting.clients]


def game(losses: np.ndarray, clients: int = SETTING.clients) -> Replay:
    """The decider pays the losses (rounds, experts), which one client reports."""
    turn = reporting(Setting(clients, losses.shape[1], len(losses), 1))
    return Replay(losses[:, None, :], reports=losses[:, None, :] * turn[..., None], reporting=turn)


def stream(rng: np.random.Generator, setting: Setting) -> np.ndarray:
    return rng.random((setting.rounds, setting.experts))


def pair(rng: np.random.Generator, unit: Unit) -> tuple[np.ndarray, np.ndarray]:
    first = np.round(stream(rng, SETTING))
    turns = np.arange(SETTING.rounds)
    client = int(rng.integers(SETTING.clients))
    own = turns[turns % SETTING.clients == client]
    if isinstance(unit, Event):
        changed = rng.permutation(turns)[:1]
    elif isinstance(unit, Person):
        changed = rng.permutation(turns if unit.clients > 1 else own)[: unit.records]
    else:
        changed = own
    second = first.copy()
    second[changed] = 1.0 - first[changed]
    return first, second


def far(rng: np.random.Generator, setting: Setting) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    shape = (setting.rounds, setting.experts)
    low, drawn = np.zeros(shape), rng.random(shape)
    yield low, np.ones(shape)
    yield low, np.ones(shape) * np.eye(setting.experts)[0]
    yield drawn, 1.0 - drawn


@dataclass(frozen=True)
class Report(Upload):
    losses: np.ndarray


@dataclass(frozen=True)
class ClientState:
    losses: np.ndarray
    turn: np.ndarray


@dataclass(frozen=True)
class Client(Reporting):
    """Sends its losses with noise when it is its turn, and zeros otherwise."""

    state: ClassVar[type[Any]] = ClientState

    experts: int
    noise: AdditiveNoise

    def start(self, noise: Noise) -> ClientState:
        return ClientState(
            np.zeros((*noise.batch, self.experts)), np.zeros((*noise.batch, 1), np.bool_)
        )

    def observe(
        self, state: ClientState, reports: np.ndarray, noise: Noise, side: Side | None = None
    ) -> ClientState:
        assert side is not None
        return ClientState(reports, np.asarray(side.reporting)[..., None])

    def idle(self, state: ClientState) -> np.ndarray:
        """What a client sends that does not report."""
        return np.zeros_like(state.losses)

    def upload(self, state: ClientState, noise: Noise) -> tuple[Report, ClientState]:
        noisy = noise.release(self.noise, state.losses)
        return Report(np.where(state.turn, noisy, self.idle(state))), state


@dataclass(frozen=True)
class Adding:
    state: ClassVar[type[Any]] = Totals

    experts: int

    def open(self, noise: Noise) -> tuple[Leader, Totals]:
        return Leader(1, 0), Totals(np.zeros(self.experts))

    def aggregate(self, state: Totals, uploads: Report, noise: Noise) -> tuple[Leader, Totals]:
        totals = state.totals + uploads.losses
        return Leader(1, int(np.argmin(totals))), Totals(totals)


@dataclass(frozen=True)
class Population(AlgorithmSpec):
    """One report costs `epsilon`; a client (`Site`) that reports k times costs k of them."""

    epsilon: float = 1.0
    about: Unit = EVENT

    def turns(self, setting: Setting) -> int:
        """How many reports one unit enters."""
        return -(-setting.rounds // setting.clients) if isinstance(self.about, Site) else 1

    def noise(self, setting: Setting) -> AdditiveNoise:
        price = self.epsilon / self.turns(setting) * (1 - 1e-12)  # sums are rounded up
        return AdditiveNoise("report", "laplace", setting.experts / price, float(setting.experts))

    def resolve(self, setting: Setting) -> Algorithm:
        turns, noise = self.turns(setting), self.noise(setting)
        curve, proof = pure_sum([noise.curve] * turns), Proof("composition.md", "disjoint-pieces")
        promised = guarantees(curve, proof, self.about)
        channels = {
            "Report.losses": Channel.UPLOADS,
            "Leader.rounds": Channel.TIMING,
            "Leader.expert": Channel.BROADCASTS,
        }
        return Algorithm(
            name="population",
            setting=setting,
            client=Client(setting.experts, noise),
            server=Adding(setting.experts),
            certificate=Certificate("local", "certified", promised, channels, (noise,), "sum"),
            uploads=Uploads(Report),
            broadcasts=Broadcasts(
                Leader, {"rounds": Between(1, 1), "expert": Between(0, setting.experts - 1)}
            ),
            decider=Decider(),
            supports=frozenset({Feature.SOME_REPORT}),
        )

    def games(self) -> Games:
        small = (game(stream(np.random.default_rng(2), replace(SETTING, horizon=50))),)
        return Games(SETTING, game, stream, pair, small, far=far)

"""A silo: every hospital reports its own coordinate, and one decider outside sends patients.

A report is the number of beds that are taken, with Gaussian noise, divided by the public number of
beds. So the noise of a share depends on the size of the hospital. The decider follows the hospital
with the smallest noisy total.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.block import Side
from hedgerow.core.certificate import (
    DEFAULT_VIEWS,
    IDEAL_REALS,
    NO_CARRY_OVER,
    PUBLIC_PARAMETERS,
    Certificate,
    Channel,
    Guarantee,
    Proof,
)
from hedgerow.core.environment import Feature
from hedgerow.core.games import Games
from hedgerow.core.limits import Between, Broadcasts, Uploads
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, Context, SpecTraits
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.core.units import Event, Person, Unit
from hedgerow.privacy.curves import GaussianDP
from hedgerow.privacy.mechanisms import GaussianNoise

BEDS = np.array([8.0, 20.0, 40.0, 10.0, 64.0])
SETTING = Setting(clients=len(BEDS), experts=len(BEDS), horizon=40, deciders=1)
EVENT = Event()
ONE_STAY = "replace one patient's stay at one hospital on one day"


@dataclass(frozen=True)
class Stream:
    """The beds that are taken, which is secret, and the beds of each hospital, which is public."""

    taken: np.ndarray
    beds: np.ndarray

    def game(self) -> Replay:
        shares = self.taken / self.beds
        return Replay(
            shares[:, None, :], reports=shares[..., None], side=self.beds[..., None].copy()
        )


def public_beds(setting: Setting) -> np.ndarray:
    """Every hospital opens more beds halfway."""
    more = 1.0 + (np.arange(setting.rounds) >= setting.rounds // 2)
    return more[:, None] * BEDS


def stream(rng: np.random.Generator, setting: Setting) -> Stream:
    beds = public_beds(setting)
    return Stream(np.floor(rng.random(beds.shape) * beds), beds)


def pair(rng: np.random.Generator, unit: Unit) -> tuple[Stream, Stream]:
    """One stay, the stays of a patient, or all the patients of a hospital.

    A patient who moves may be at two hospitals on one day.
    """
    first = stream(rng, SETTING)
    taken, day, hospital = first.taken.copy(), int(rng.integers(40)), int(rng.integers(len(BEDS)))
    if isinstance(unit, Event):
        stays = [(day, hospital)]
    elif isinstance(unit, Person):
        moves = int(rng.integers(3)) if unit.clients > 1 else 0
        places, on_one_day = (1, len(BEDS), len(BEDS))[moves], (1, 1, len(BEDS))[moves]
        stays = [
            ((day + i // on_one_day) % 40, (hospital + i % places) % len(BEDS))
            for i in range(unit.records or 1)
        ]
    else:
        stays = []
        taken[:, hospital] = first.beds[:, hospital] - taken[:, hospital]
    for stay in stays:
        taken[stay] += 1.0 if taken[stay] < first.beds[stay] else -1.0
    return first, replace(first, taken=taken)


def far(rng: np.random.Generator, setting: Setting) -> Iterator[tuple[Stream, Stream]]:
    """Empty against full hospitals, one full hospital against another, a stream and its mirror."""
    beds, drawn = public_beds(setting), stream(rng, setting)
    empty = Stream(np.zeros_like(beds), beds)
    one, other = (Stream(beds * (np.arange(len(BEDS)) == i), beds) for i in (0, 4))
    yield empty, Stream(beds, beds)
    yield empty, one
    yield empty, other
    yield drawn, Stream(beds - drawn.taken, beds)


@dataclass(frozen=True)
class Report(Upload):
    share: np.ndarray


@dataclass(frozen=True)
class Leader(Broadcast):
    hospital: int


@dataclass(frozen=True)
class HospitalState:
    taken: np.ndarray
    beds: np.ndarray


@dataclass(frozen=True)
class DeciderState:
    hospital: np.ndarray


@dataclass(frozen=True)
class ServerState:
    totals: np.ndarray


@dataclass(frozen=True)
class Hospital:
    """Reports its share of taken beds; noise is added to the number of patients."""

    state: ClassVar[type[Any]] = HospitalState

    noise: GaussianNoise

    def start(self, noise: Noise) -> HospitalState:
        return HospitalState(np.zeros((*noise.batch, 1)), np.ones((*noise.batch, 1)))

    def receive(self, state: HospitalState, broadcast: Leader) -> HospitalState:
        return state

    def play(self, state: HospitalState, context: Context, noise: Noise) -> Any:
        raise AssertionError("a hospital does not play")

    def observe(
        self, state: HospitalState, reports: np.ndarray, noise: Noise, side: Side | None = None
    ) -> HospitalState:
        assert side is not None
        assert side.values is not None
        beds = side.values[..., :1]
        return HospitalState(np.rint(reports * beds), beds)

    def upload(self, state: HospitalState, noise: Noise) -> tuple[Report, HospitalState]:
        return Report(noise.release(self.noise, state.taken) / state.beds), state


@dataclass(frozen=True)
class Adding:
    """Adds up noisy shares. The first hospital is chosen by noise alone."""

    state: ClassVar[type[Any]] = ServerState

    hospitals: int
    every: int = 1

    def say(self, totals: np.ndarray) -> tuple[Leader, ServerState]:
        return Leader(self.every, int(np.argmin(totals))), ServerState(totals)

    def open(self, noise: Noise) -> tuple[Leader, ServerState]:
        return self.say(noise.draw("gaussian", "start", (self.hospitals,), scale=0.1))

    def aggregate(
        self, state: ServerState, uploads: Report, noise: Noise
    ) -> tuple[Leader, ServerState]:
        return self.say(state.totals + uploads.share[:, 0])


@dataclass(frozen=True)
class Sender:
    """The decider: sends patients to the hospital that was broadcast."""

    state: ClassVar[type[Any]] = DeciderState

    def start(self, noise: Noise) -> DeciderState:
        return DeciderState(np.zeros(noise.batch, np.int64))

    def receive(self, state: DeciderState, broadcast: Leader) -> DeciderState:
        return DeciderState(np.full_like(state.hospital, broadcast.hospital))

    def play(
        self, state: DeciderState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, DeciderState]:
        return state.hospital, state


@dataclass(frozen=True)
class Silo(AlgorithmSpec):
    """Protects one stay at `mu`, or a patient with several stays at sqrt(stays) * `mu`."""

    traits: ClassVar[SpecTraits] = SpecTraits(anytime=True)

    mu: float = 1.0
    about: Unit = EVENT

    def curve(self) -> GaussianDP:
        stays = self.about.records or 1 if isinstance(self.about, Person) else 1
        return GaussianDP(self.mu * sqrt(stays))

    def noise(self) -> GaussianNoise:
        return GaussianNoise("report", 1 / self.mu, 1.0)

    def resolve(self, setting: Setting) -> Algorithm:
        noise = self.noise()
        assumes = frozenset({IDEAL_REALS, PUBLIC_PARAMETERS, NO_CARRY_OVER})
        guarantees = tuple(
            Guarantee(
                observer,
                view,
                self.about,
                ONE_STAY,
                self.curve(),
                Proof("mechanisms.md", "gaussian"),
                assumes=assumes,
            )
            for observer, view in DEFAULT_VIEWS.items()
        )
        channels = {
            "Report.share": Channel.UPLOADS,
            "Leader.rounds": Channel.TIMING,
            "Leader.hospital": Channel.BROADCASTS,
        }
        return Algorithm(
            name="silo",
            setting=setting,
            client=Hospital(noise),
            server=Adding(setting.experts),
            certificate=Certificate("local", "certified", guarantees, channels, (noise,), "sum"),
            uploads=Uploads(Report, combine="each"),
            broadcasts=Broadcasts(
                Leader, {"rounds": Between(1, 1), "hospital": Between(0, setting.experts - 1)}
            ),
            decider=Sender(),
            supports=frozenset({Feature.SIDE_INFORMATION}),
            claims=Claims(free_noise=frozenset({"start"})),
        )

    def games(self) -> Games:
        small = (stream(np.random.default_rng(1), replace(SETTING, horizon=50)).game(),)
        return Games(SETTING, Stream.game, stream, pair, small, far=far)

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
from hedgerow.core.certificate import Certificate, Channel, Proof
from hedgerow.core.environment import Feature
from hedgerow.core.games import Games
from hedgerow.core.limits import Between, Broadcasts, Uploads
from hedgerow.core.messages import Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, SpecTraits
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.core.units import Event, Person, Unit
from hedgerow.privacy.curves import GaussianDP
from hedgerow.privacy.mechanisms import GaussianNoise
from support.followers import Decider, Leader, Reporting, Totals, guarantees

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
class HospitalState:
    taken: np.ndarray
    beds: np.ndarray


@dataclass(frozen=True)
class Hospital(Reporting):
    """Reports its share of taken beds; noise is added to the number of patients."""

    state: ClassVar[type[Any]] = HospitalState

    noise: GaussianNoise

    def start(self, noise: Noise) -> HospitalState:
        return HospitalState(np.zeros((*noise.batch, 1)), np.ones((*noise.batch, 1)))

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

    state: ClassVar[type[Any]] = Totals

    hospitals: int
    every: int = 1

    def say(self, totals: np.ndarray) -> tuple[Leader, Totals]:
        return Leader(self.every, int(np.argmin(totals))), Totals(totals)

    def open(self, noise: Noise) -> tuple[Leader, Totals]:
        return self.say(noise.draw("gaussian", "start", (self.hospitals,), scale=0.1))

    def aggregate(self, state: Totals, uploads: Report, noise: Noise) -> tuple[Leader, Totals]:
        return self.say(state.totals + uploads.share[:, 0])


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
        proof = Proof("mechanisms.md", "gaussian")
        promised = guarantees(self.curve(), proof, self.about, ONE_STAY)
        channels = {
            "Report.share": Channel.UPLOADS,
            "Leader.rounds": Channel.TIMING,
            "Leader.expert": Channel.BROADCASTS,
        }
        return Algorithm(
            name="silo",
            setting=setting,
            client=Hospital(noise),
            server=Adding(setting.experts),
            certificate=Certificate("local", "certified", promised, channels, (noise,), "sum"),
            uploads=Uploads(Report, combine="each"),
            broadcasts=Broadcasts(
                Leader, {"rounds": Between(1, 1), "expert": Between(0, setting.experts - 1)}
            ),
            decider=Decider(),
            supports=frozenset({Feature.SIDE_INFORMATION}),
            claims=Claims(free_noise=frozenset({"start"})),
        )

    def games(self) -> Games:
        small = (stream(np.random.default_rng(1), replace(SETTING, horizon=50)).game(),)
        return Games(SETTING, Stream.game, stream, pair, small, far=far)

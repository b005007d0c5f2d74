"""A learner that plays points: squared errors on a ball, with correlated Gaussian noise.

The server releases the gradients filtered by C, the square root of the matrix of prefix sums, with
independent noise, and filters them once more. So it knows all sums of gradients so far, with little
noise. One record enters every later release, and its shifts add up (composition "shifts").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.gradient.trial_games import far_apart
from hedgerow.core.certificate import Channel, Proof, trusted_server
from hedgerow.core.convex import SquaredError
from hedgerow.core.games import Games
from hedgerow.core.layout import Buffer
from hedgerow.core.limits import Broadcasts, Uploads
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context, SpecTraits
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.core.units import Event, Person, Unit
from hedgerow.privacy.curves import GaussianDP
from hedgerow.privacy.mechanisms import GaussianNoise

FAMILY = SquaredError()
SETTING = Setting(clients=3, experts=4, horizon=40, family=FAMILY)
CLIP = 0.5


def stream(rng: np.random.Generator, setting: Setting) -> np.ndarray:
    shape = (setting.rounds, setting.clients, setting.experts + 1)
    return FAMILY.clip(rng.normal(size=shape)).records


def constant(setting: Setting, axis: int, target: float) -> np.ndarray:
    """The same example in every round: one feature, and a target."""
    records = np.zeros((setting.rounds, setting.clients, setting.experts + 1))
    records[..., axis], records[..., -1] = 1.0, target
    return records


def pair(rng: np.random.Generator, unit: Unit) -> tuple[np.ndarray, np.ndarray]:
    """The records of a unit pull in opposite directions."""
    first = stream(rng, SETTING)
    second = first.copy()
    client, start = int(rng.integers(3)), int(rng.integers(40)) * int(rng.integers(2))
    if isinstance(unit, Event | Person):
        count = unit.records or 1 if isinstance(unit, Person) else 1
        rounds, clients = (start + np.arange(count)) % 40, np.full(count, client)
        if isinstance(unit, Person) and unit.clients > 1 and int(rng.integers(3)):
            places = (client + np.arange(count)) % 3  # at other clients, in the same rounds or not
            together = (start + np.arange(count) // 3) % 40
            rounds, clients = together if int(rng.integers(2)) else rounds, places
    else:
        rounds, clients = np.arange(40), np.full(40, client)
    pull = constant(replace(SETTING, horizon=len(rounds)), int(rng.integers(4)), 1.0)[:, client]
    first[rounds, clients] = pull
    pull[:, -1] = -1.0
    second[rounds, clients] = pull
    return first, second


@dataclass(frozen=True)
class Gradient(Upload):
    gradient: np.ndarray


@dataclass(frozen=True)
class Point(Broadcast):
    point: np.ndarray


@dataclass(frozen=True)
class ClientState:
    point: np.ndarray
    gradient: np.ndarray


@dataclass(frozen=True)
class ServerState:
    gradients: Buffer
    released: Buffer


@dataclass(frozen=True)
class Learning:
    """Plays the broadcast point and sends the clipped gradient there."""

    state: ClassVar[type[Any]] = ClientState

    width: int
    clip: float

    def start(self, noise: Noise) -> ClientState:
        zeros = np.zeros((*noise.batch, self.width))
        return ClientState(zeros, zeros)

    def receive(self, state: ClientState, broadcast: Point) -> ClientState:
        return replace(state, point=np.broadcast_to(broadcast.point, state.point.shape))

    def play(
        self, state: ClientState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, ClientState]:
        return state.point, state

    def observe(self, state: ClientState, reports: np.ndarray, noise: Noise) -> ClientState:
        gradient = FAMILY.gradient(reports, state.point)
        size = np.sqrt(np.square(gradient).sum(axis=-1, keepdims=True))
        return replace(state, gradient=gradient / np.maximum(1.0, size / self.clip))

    def upload(self, state: ClientState, noise: Noise) -> tuple[Gradient, ClientState]:
        return Gradient(state.gradient), state


def filter_row(count: int) -> np.ndarray:
    """The last row of C, oldest entry last: 1, 1/2, 3/8, ..."""
    k = np.arange(1, count)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


@dataclass(frozen=True)
class Correlating:
    """Releases C g with independent noise; C times that holds the noisy sums of gradients."""

    state: ClassVar[type[Any]] = ServerState

    width: int
    rate: float
    noise: Mechanism

    def open(self, noise: Noise) -> tuple[Point, ServerState]:
        empty = Buffer.empty((), self.width)
        return Point(1, np.zeros(self.width)), ServerState(empty, empty)

    def place(self, moved: np.ndarray) -> np.ndarray:
        return FAMILY.domain.project(moved)

    def aggregate(
        self, state: ServerState, uploads: Gradient, noise: Noise
    ) -> tuple[Point, ServerState]:
        gradients = state.gradients.append(uploads.gradient)
        row = filter_row(len(gradients))[::-1]
        released = state.released.append(noise.release(self.noise, row @ gradients.rows))
        point = self.place(-self.rate * (row @ released.rows))
        return Point(1, point), ServerState(gradients, released)


@dataclass(frozen=True)
class Correlated(AlgorithmSpec):
    """Protects one record at `mu`, whatever round it is in."""

    traits: ClassVar[SpecTraits] = SpecTraits(families=(SquaredError,))

    mu: float = 1.0

    def noise(self, setting: Setting) -> GaussianNoise:
        """One record moves a sum of gradients by twice the clip; it enters all later releases."""
        moved, column = 2 * CLIP, sqrt(float(np.square(filter_row(setting.rounds)).sum()))
        return GaussianNoise("gradients", moved * column / self.mu, moved)

    def resolve(self, setting: Setting) -> Algorithm:
        noise = self.noise(setting)
        certificate = trusted_server(
            setting=setting,
            curve=GaussianDP(self.mu),
            proof=Proof("mechanisms.md", "gaussian"),
            channels={
                "Gradient.gradient": Channel.UPLOADS,
                "Point.rounds": Channel.TIMING,
                "Point.point": Channel.BROADCASTS,
            },
            mechanisms=(noise,),
            composition="shifts",
        )
        return Algorithm(
            name="correlated",
            setting=setting,
            client=Learning(setting.experts, CLIP),
            server=Correlating(setting.experts, 0.1, noise),
            certificate=certificate,
            uploads=Uploads(Gradient),
            broadcasts=Broadcasts(Point),
            plays="point",
        )

    def games(self) -> Games:
        def recorded(records: np.ndarray) -> Replay:
            return Replay(records, FAMILY)

        long = replace(SETTING, clients=20, horizon=200)
        return Games(
            SETTING,
            recorded,
            stream,
            pair,
            far=partial(far_apart, constant=constant, stream=stream),
            long=long,
        )

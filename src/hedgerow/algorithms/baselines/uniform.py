"""Uniform: every client plays a random expert in every round, and no messages are sent.

Every other algorithm should do better than this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.certificate import (
    DEFAULT_VIEWS,
    Certificate,
    Channel,
    Guarantee,
    Observer,
    Proof,
)
from hedgerow.core.environment import MASKS_AND_DELAYS
from hedgerow.core.lattice import Array
from hedgerow.core.limits import Broadcasts, Never, Planned, Uploads
from hedgerow.core.losses import Gains, Linear
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.core.units import Event
from hedgerow.privacy.curves import PureDP


@dataclass(frozen=True)
class Nothing(Upload):
    """An empty upload. The server never requests it."""


@dataclass(frozen=True)
class NoState:
    """An empty state."""


@dataclass(frozen=True)
class RandomClient:
    """A client that plays an awake expert uniformly at random and ignores all losses."""

    state: ClassVar[type[Any]] = NoState

    experts: int

    def start(self, noise: Noise) -> NoState:
        return NoState()

    def receive(self, state: NoState, broadcast: Broadcast) -> NoState:
        return state

    def play(self, state: NoState, context: Context, noise: Noise) -> tuple[np.ndarray, NoState]:
        coins = noise.draw("uniform", "play")
        return self._choose(coins) if context.awake is None else self._choose_awake(
            coins, context.awake
        ), state

    def play_many(self, state: NoState, rounds: int, noise: Noise) -> tuple[np.ndarray, NoState]:
        return self._choose(noise.draw("uniform", "play", rounds=rounds)), state

    def _choose(self, coins: Array) -> np.ndarray:
        return (coins * self.experts).astype(np.int64).clip(max=self.experts - 1)

    def _choose_awake(self, coins: Array, awake: np.ndarray) -> np.ndarray:
        count = awake.sum(axis=-1)
        rank = np.minimum((coins * count).astype(np.int64), count - 1)
        return (np.cumsum(awake, axis=-1) <= rank[..., None]).sum(axis=-1)

    def observe(self, state: NoState, reports: Array, noise: Noise) -> NoState:
        return state

    def observe_many(self, state: NoState, reports: Array, noise: Noise) -> NoState:
        return self.observe(state, reports, noise)

    def upload(self, state: NoState, noise: Noise) -> tuple[Nothing, NoState]:
        return Nothing(), state


@dataclass(frozen=True)
class Silent:
    """A server that never requests an upload."""

    state: ClassVar[type[Any]] = NoState

    def open(self, noise: Noise) -> tuple[Broadcast, NoState]:
        return Broadcast(None), NoState()

    def aggregate(
        self, state: NoState, uploads: Nothing, noise: Noise
    ) -> tuple[Broadcast, NoState]:
        return Broadcast(None), state


@dataclass(frozen=True)
class Uniform(AlgorithmSpec):
    """Play a uniformly random awake expert in every round; use no data.

    It takes no parameters.

    Guarantee
    ---------
    epsilon = 0 against every observer, for any change of the data and any number of colluding
    clients, because the plays do not depend on the data (`proofs/composition.md#no-data`).

    Examples
    --------
    >>> import hedgerow as hr
    >>> algorithm = hr.Uniform().build(hr.Setting(clients=2, experts=3, horizon=10))
    >>> print(algorithm.certificate.server.curve.words())
    epsilon = 0, delta = 0
    """

    traits: ClassVar[SpecTraits] = SpecTraits(anytime=True, families=(Linear, Gains))

    def resolve(self, setting: Setting) -> Algorithm:
        adjacency, proof = "replace any data", Proof("composition.md", "no-data")
        guarantees = tuple(
            Guarantee(
                observer,
                DEFAULT_VIEWS[observer],
                Event(record=setting.family.record),
                adjacency,
                PureDP(0.0),
                proof,
                setting.clients - 1,
                setting.horizon,
            )
            for observer in Observer
        )
        return Algorithm(
            name="uniform",
            setting=setting,
            client=RandomClient(setting.experts),
            server=Silent(),
            certificate=Certificate(
                "local", "none", guarantees, {"Broadcast.rounds": Channel.TIMING}
            ),
            uploads=Uploads(Nothing),
            broadcasts=Broadcasts(Broadcast, {"rounds": Planned(Never())}),
            supports=MASKS_AND_DELAYS,
        )

"""Hedge (exponential weights): follow each expert with probability proportional to exp(-eta * its mean loss so far). Not private."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import ClassVar

import numpy as np

from hedgerow.algorithms.shared.totals import (
    Adder,
    ClientState,
    LossSums,
    Summing,
    Totals,
    check_interval,
    raw_certificate,
)
from hedgerow.core.certificate import Proof
from hedgerow.core.environment import MASKS_AND_DELAYS
from hedgerow.core.lattice import Array, from_units
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, positive


@dataclass(frozen=True)
class Sampler(Adder):
    """Every client draws its own expert by inversion: one uniform number a round."""

    rate: float

    def play(
        self, state: ClientState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, ClientState]:
        coins = noise.draw("uniform", "play")
        return self._choose(state, coins) if context.awake is None else self._choose_awake(
            state, coins, context.awake
        ), state

    def play_many(
        self, state: ClientState, rounds: int, noise: Noise
    ) -> tuple[np.ndarray, ClientState]:
        return self._choose(state, noise.draw("uniform", "play", rounds=rounds)), state

    def _choose(self, state: ClientState, coins: Array) -> np.ndarray:
        losses = from_units(state.totals - state.totals.min(axis=-1, keepdims=True))
        mass = np.cumsum(np.exp(-self.rate * losses), axis=-1)
        return (mass <= coins[..., None] * mass[..., -1:]).sum(axis=-1).clip(max=self.experts - 1)

    def _choose_awake(self, state: ClientState, coins: Array, awake: np.ndarray) -> np.ndarray:
        """The same weights, of the experts awake alone."""
        totals = np.where(awake, state.totals, np.iinfo(np.int64).max)
        losses = from_units(totals - totals.min(axis=-1, keepdims=True))
        mass = np.cumsum(np.where(awake, np.exp(-self.rate * losses), 0.0), axis=-1)
        last = self.experts - 1 - np.argmax(awake[..., ::-1], axis=-1)
        return np.minimum((mass <= coins[..., None] * mass[..., -1:]).sum(axis=-1), last)


@dataclass(frozen=True)
class Hedge(AlgorithmSpec):
    """p_t(x) proportional to exp(-eta * mean over clients of the losses of x up to the last exchange).

    `rate=None` takes the rate that minimises the bound sqrt(N * T * ln(d) / 2) on the expected regret (losses enter in
    batches of N rounds), which holds also where losses react to the plays (`proofs/hedge.md#regret`). Among sleeping experts it
    bounds the regret against each while it is awake (`proofs/masks.md#sleeping-experts`); reports that come late are not covered
    by it. No guarantee to anybody.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(meanings={"rate": "learning rate"})

    every: int = 1
    rate: float | None = None

    def __post_init__(self) -> None:
        at_least("every", self.every, 1)
        if self.rate is not None:
            positive("rate", self.rate)

    def build(self, setting: Setting) -> Algorithm:
        check_interval(self.every, setting)
        batches, every = ceil(setting.horizon / self.every), self.every
        entropy = log(max(setting.experts, 2))
        rate = sqrt(8 * entropy / batches) / every if self.rate is None else self.rate
        return Algorithm(
            name="hedge",
            setting=setting,
            client=Sampler(setting.experts, rate / setting.clients),
            server=Summing(setting.experts, self.every),
            certificate=raw_certificate(),
            upload=LossSums,
            broadcast=Totals,
            supports=MASKS_AND_DELAYS,
            regret_bound=RegretBound(
                entropy / rate + rate * every**2 * batches / 8,
                "adaptive",
                Proof("hedge.md", "regret"),
            ),
            parameters={"rate": rate},
        )

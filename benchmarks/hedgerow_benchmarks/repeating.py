"""Long games in little memory: recorded losses that are repeated."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Environment
from hedgerow.core.lattice import Array
from hedgerow.core.setting import Setting
from hedgerow.engines.simulate import BLOCK_ELEMENTS
from hedgerow.environments.drawn.realizable import Realizable
from hedgerow.environments.drawn.stochastic import UniformLosses

BLOCKS = 4  # of the engine, 32 MiB each: together more than the caches of a processor hold


@dataclass(frozen=True, eq=False)
class Repeating(Environment):
    """Losses on the lattice, repeated until the game ends. Blocks of the engine are views."""

    losses: Array = field(repr=False)
    rounds: int

    @property
    def setting(self) -> Setting:
        return Setting(self.losses.shape[1], self.losses.shape[2], self.rounds)

    def start(self, seed: int) -> int:
        return 0

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        first = state % len(self.losses)
        part = self.losses[first : first + rounds]
        if len(part) < rounds:
            part = self.losses.take(range(first, first + rounds), axis=0, mode="wrap")
        return Block.of(part), state + rounds

    def sum(self) -> float:
        """Add up all losses of the game: what every algorithm is compared with."""
        whole, rest = divmod(self.rounds, len(self.losses))
        return sum(float(self.losses.sum()) for _ in range(whole)) + float(self.losses[:rest].sum())

    @property
    def size(self) -> int:
        """The number of losses in the game."""
        return self.rounds * self.losses[0].size


def losses(
    rounds: int, clients: int, experts: int, kind: type[Realizable | UniformLosses] = Realizable
) -> Repeating:
    """Uniform losses on the lattice; with `Realizable` one expert never loses."""
    drawn = min(rounds, BLOCKS * max(1, BLOCK_ELEMENTS // (clients * experts)))
    environment = kind(clients=clients, experts=experts, horizon=drawn)
    block, _ = environment.block(environment.start(0), drawn, None)
    return Repeating(block.losses, rounds)

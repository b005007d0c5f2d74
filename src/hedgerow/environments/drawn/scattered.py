"""A fixed number of random rounds for every client, computed chunk by chunk without storing them.

The number of these rounds in the first half of the chunks has the hypergeometric law, and the same
holds in each half. Every split has its own generator, so any chunk can be made from scratch, and
all sets of rounds are equally likely. The splits on the path to the current chunk are cached:
chunks in order cost two splits each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hedgerow.core.lattice import Units
from hedgerow.environments.drawn.generated import generator

LONGEST = 10**9 - 1  # the limit of numpy's hypergeometric law
DEEPEST = LONGEST.bit_length()


@dataclass(frozen=True)
class Scattered:
    """`count` rounds out of `horizon` for each client.

    Chunks hold `chunk_rounds` rounds; the last may hold fewer.
    """

    seed: int
    clients: int
    horizon: int
    chunk_rounds: int
    count: int

    @property
    def levels(self) -> int:
        """How many times the chunks must be halved until one is left."""
        return (-(-self.horizon // self.chunk_rounds) - 1).bit_length()

    def length(self, level: int, index: int) -> int:
        """Count the rounds in the index-th group of 2^level chunks."""
        size = self.chunk_rounds << level
        return min((index + 1) * size, self.horizon) - min(index * size, self.horizon)

    def number(self, rng: np.random.Generator, first_round: int, rounds: int) -> Units:
        """Number the chosen rounds of each client, for the rounds of one chunk: (rounds, clients).

        The count starts at 0; -1 means that the round is not chosen.
        """
        chunk = first_round // self.chunk_rounds
        before = np.zeros(self.clients, np.int64)
        for level in range(self.levels):
            if chunk >> level & 1:
                before += _inside(self, level + 1, chunk >> level + 1) - _inside(
                    self, level, chunk >> level
                )
        place = rng.permuted(np.repeat(np.arange(rounds)[:, None], self.clients, axis=1), axis=0)
        chosen = place < _inside(self, 0, chunk)
        return np.where(chosen, before + np.cumsum(chosen, axis=0) - 1, -1)


@lru_cache(maxsize=2 * DEEPEST)
def _inside(scattered: Scattered, level: int, index: int) -> npt.NDArray[np.int32]:
    """Count each client's rounds in the index-th group of 2^level chunks."""
    if level == scattered.levels:
        return np.full(scattered.clients, scattered.count, np.int32)
    parent = (level + 1, index // 2)
    whole = _inside(scattered, *parent)
    first = scattered.length(level, 2 * parent[1])
    earlier = generator(scattered.seed, *parent).hypergeometric(
        whole, scattered.length(*parent) - whole, first
    )
    return (whole - earlier if index % 2 else earlier).astype(np.int32)

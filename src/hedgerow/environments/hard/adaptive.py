"""What adversaries that see the past plays share, and one of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.core.block import ABSENT, Block
from hedgerow.core.environment import Traits
from hedgerow.environments.drawn.generated import Frame


def last_played(past_plays: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Who took part in the last round, and which experts they played; nobody before the first round.

    >>> [values.tolist() for values in last_played(np.array([7, ABSENT, 3]))]
    [[0, 2], [7, 3]]
    """
    plays = np.zeros(0, np.int64) if past_plays is None else past_plays
    who = np.flatnonzero(plays != ABSENT)
    return who, plays[who]


@dataclass(frozen=True)
class Chase:
    """Which experts each client is charged for, (clients, experts)."""

    charged: np.ndarray


@dataclass(frozen=True, kw_only=True)
class PlayChasing(Frame):
    """Charges each client 1 for the expert it has just played, 0 for all others; if `lasting`, for every expert it ever played.

    Staying is punished one round later. With `lasting` nothing is forgiven, as in the lower bounds of
    Asi et al. 2023 (`columns` has their adversaries themselves). Without it, going to and fro between two experts costs nothing.
    """

    lasting: bool = False

    @property
    def traits(self) -> Traits:
        return Traits(sees_plays=True, fresh=True)  # there are no data

    def start(self, seed: int) -> Chase:
        del seed
        return Chase(np.zeros((self.clients, self.experts)))

    def block(
        self, state: Chase, rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, Chase]:
        charged = state.charged.copy() if self.lasting else np.zeros_like(state.charged)
        charged[last_played(past_plays)] = 1.0
        losses = np.zeros((rounds, self.clients, self.experts))
        losses[0] = charged
        return Block.of(losses), Chase(charged)

"""An adversary that sees the past plays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hedgerow.core.block import ABSENT, Block
from hedgerow.environments.generated import Frame


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

    adaptive: ClassVar[bool] = True
    fresh: ClassVar[bool] = True  # there are no data

    lasting: bool = False

    def start(self, seed: int) -> Chase:
        del seed
        return Chase(np.zeros((self.clients, self.experts)))

    def block(self, state: Chase, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, Chase]:
        charged = state.charged.copy() if self.lasting else np.zeros_like(state.charged)
        if past_plays is not None:
            who = np.flatnonzero(past_plays != ABSENT)
            charged[who, past_plays[who]] = 1.0
        losses = np.zeros((rounds, self.clients, self.experts))
        losses[0] = charged
        return Block.of(losses), Chase(charged)

"""An adversary that sees the past plays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hedgerow.core.block import ABSENT, Block
from hedgerow.environments.generated import Frame


@dataclass(frozen=True, kw_only=True)
class PlayChasing(Frame):
    """Charges 1 to the expert each client has just played, 0 to all others: staying is punished one round later."""

    adaptive: ClassVar[bool] = True
    fresh: ClassVar[bool] = True  # there are no data

    def start(self, seed: int) -> int:
        del seed
        return 0

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        losses = np.zeros((rounds, self.clients, self.experts))
        if past_plays is not None:
            who = np.flatnonzero(past_plays != ABSENT)
            losses[0, who, past_plays[who]] = 1.0
        return Block.of(losses), state + rounds

"""An adversary that sees the past plays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.losses import Family, Linear
from hedgerow.core.setting import Setting


@dataclass(frozen=True, kw_only=True)
class PlayChasing:
    """Charges 1 to the expert each client has just played, 0 to all others: staying is punished one round later."""

    clients: int = 10
    experts: int = 100
    horizon: int = 512

    adaptive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _ = self.setting

    @property
    def setting(self) -> Setting:
        return Setting(self.clients, self.experts, self.horizon)

    @property
    def family(self) -> Family:
        return Linear()

    def start(self, seed: int) -> int:
        del seed
        return 0

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        losses = np.zeros((rounds, self.clients, self.experts))
        if past_plays is not None:
            losses[0, np.arange(self.clients), past_plays] = 1.0
        return Block.of(losses), state + rounds

"""A wrapper in which some experts cannot be followed in some rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Feature, Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.environments.wrappers.masks import Around, Position, coins

_KEY = 0x736C70  # "slp"


@dataclass(frozen=True, kw_only=True)
class Sleeping(Around):
    """Any environment in which each expert sleeps in each round with probability `rate`.

    A sleeping expert cannot be followed. If all experts of a client would sleep, all are awake.

    Parameters
    ----------
    of
        The environment to wrap; it keeps its losses, clients, experts and rounds.
    rate
        The probability that an expert sleeps in a round, in [0, 1).
    common
        True: an expert sleeps at all clients at once. False: each client has its own draws.

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.Sleeping(of=hr.Bernoulli(clients=1, experts=4, horizon=10), rate=0.5)
    >>> block, _ = environment.block(environment.start(0), 2, None)
    >>> block.awake[:, 0]
    array([[False, False,  True, False],
           [False, False, False,  True]])
    """

    feature: ClassVar[Feature] = Feature.SLEEPING_EXPERTS
    not_around: ClassVar[frozenset[Feature]] = frozenset({Feature.LATE_REPORTS})

    rate: float = 0.2
    common: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.rate < 1:
            raise InvalidValue(f"Expected rate={self.rate!r} in [0, 1).")

    @property
    def traits(self) -> Traits:
        """A sleeping expert is charged what the client pays, so reports depend on the plays.

        For the same reason no expert is known to have small losses in all reports.
        """
        return replace(super().traits, adversary="adaptive", best_loss=None)

    def block(
        self, state: Position, rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, Position]:
        made, inner = self.of.block(state.inner, rounds, past_plays)
        players, experts = self.setting.players, self.setting.experts
        awake = (
            coins(state.seed, _KEY, state.round, rounds, 1 if self.common else players, experts)
            >= self.rate
        )
        awake |= ~awake.any(axis=-1, keepdims=True)
        awake = np.ascontiguousarray(np.broadcast_to(awake, (rounds, players, experts)))
        return replace(made, awake=awake), Position(state.seed, state.round + rounds, inner)

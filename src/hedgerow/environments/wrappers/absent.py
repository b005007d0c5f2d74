"""A wrapper in which clients miss some rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Feature
from hedgerow.core.errors import InvalidValue
from hedgerow.environments.wrappers.masks import Around, Position, coins

_KEY = 0x616273  # "abs"


@dataclass(frozen=True, kw_only=True)
class Absent(Around):
    """Any environment in which each client misses each round with probability `rate`.

    The draws are independent. An absent client has no case in that round: it plays nothing, pays
    nothing and reports zeros, but it answers when an exchange is due. There may be rounds without
    any client, and clients that never take part; they lose nothing and still count in means.

    Parameters
    ----------
    of
        The environment to wrap; it keeps its losses, clients, experts and rounds.
    rate
        The probability that a client is absent from a round, in [0, 1).

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.Absent(of=hr.Bernoulli(clients=4, experts=3, horizon=10), rate=0.5)
    >>> block, _ = environment.block(environment.start(0), 2, None)
    >>> block.present
    array([[ True,  True, False, False],
           [False,  True, False, False]])
    """

    feature: ClassVar[Feature] = Feature.ABSENT_CLIENTS
    not_around: ClassVar[frozenset[Feature]] = frozenset({Feature.LATE_REPORTS})

    rate: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.rate < 1:
            raise InvalidValue(f"Expected rate={self.rate!r} in [0, 1).")

    def block(
        self, state: Position, rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, Position]:
        made, inner = self.of.block(state.inner, rounds, past_plays)
        if self.setting.deciders is not None:
            raise InvalidValue(
                f"Expected deciders={self.setting.deciders!r} to be None: clients can be absent "
                "only where the clients play."
            )
        present = coins(state.seed, _KEY, state.round, rounds, self.setting.clients) >= self.rate
        losses: Any = np.where(present[..., None], made.losses, 0.0)
        block = replace(made, losses=losses, reports=losses, present=present)
        return block, Position(state.seed, state.round + rounds, inner)

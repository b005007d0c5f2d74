"""An adversary that sees the past plays, and a helper for all such adversaries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.core.block import ABSENT, Block
from hedgerow.core.environment import Traits
from hedgerow.environments.drawn.generated import Frame


def last_played(past_plays: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the clients that took part in the last round, and the experts they played.

    Both are empty before the first round.

    >>> [values.tolist() for values in last_played(np.array([7, ABSENT, 3]))]
    [[0, 2], [7, 3]]
    """
    plays = np.zeros(0, np.int64) if past_plays is None else past_plays
    clients = np.flatnonzero(plays != ABSENT)
    return clients, plays[clients]


@dataclass(frozen=True)
class Chase:
    """The experts for which each client is charged, (clients, experts)."""

    charged: np.ndarray


@dataclass(frozen=True, kw_only=True)
class PlayChasing(Frame):
    """Charges each client 1 for the expert that it has just played, and 0 for all others.

    Staying with an expert is punished one round later.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.
    lasting
        True: a client is charged for every expert that it has ever played, as in the lower bounds
        of Asi et al. 2023 (`columns` has their exact adversaries). False: alternating between two
        experts costs nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> environment = hr.PlayChasing(clients=2, experts=3, horizon=10)
    >>> _, state = environment.block(environment.start(0), 1, None)
    >>> block, _ = environment.block(state, 1, np.array([2, 0]))  # the clients played 2 and 0
    >>> block.losses[0]
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """

    lasting: bool = False

    @property
    def traits(self) -> Traits:
        return Traits(sees_plays=True, fresh=True)  # there are no data

    def start(self, seed: int) -> Chase:
        return Chase(np.zeros((self.clients, self.experts)))

    def block(
        self, state: Chase, rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, Chase]:
        charged = state.charged.copy() if self.lasting else np.zeros_like(state.charged)
        charged[last_played(past_plays)] = 1.0
        losses = np.zeros((rounds, self.clients, self.experts))
        losses[0] = charged
        return Block.of(losses), Chase(charged)

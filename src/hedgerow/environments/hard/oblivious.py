"""Hard streams that do not react to the plays, from the lower bounds of Gao et al. 2024."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.environment import Traits
from hedgerow.core.lattice import Array
from hedgerow.environments.drawn.generated import Counted


@dataclass(frozen=True, kw_only=True)
class CommonCoins(Counted):
    """Fair coins for every expert, the same at all clients: there is nothing to learn.

    More clients do not help. Every algorithm has the same expected regret,
    `lower_bounds.coin_regret`.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.CommonCoins(clients=3, experts=2, horizon=10)
    >>> block, _ = environment.block(environment.start(0), 10, None)
    >>> bool((block.losses == block.losses[:, :1]).all())  # all clients have the same losses
    True

    References
    ----------
    Gao et al. 2024, Theorem 2.4.
    """

    @property
    def traits(self) -> Traits:
        """Coins are drawn in every round, but several clients share them: not independent."""
        return replace(super().traits, adversary="stochastic" if self.clients == 1 else "oblivious")

    def draw(self, rng: np.random.Generator, plan: None, first_round: int, rounds: int) -> Array:
        coins = (rng.random((rounds, 1, self.experts)) < 0.5).astype(np.float64)
        return np.repeat(coins, self.clients, axis=1)

    def counts(
        self, rng: np.random.Generator, plan: None, first_round: int, rounds: int
    ) -> np.ndarray:
        return self.clients * rng.binomial(rounds, 0.5, self.experts)


@dataclass(frozen=True, kw_only=True)
class HiddenExpert(Counted):
    """One expert, drawn at the start, never loses; all others always lose 1 at every client.

    One exact round reveals it. A private algorithm needs more: `lower_bounds.hidden_expert_regret`.
    Given the expert, all losses are constant, so they follow one law and are independent.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.HiddenExpert(clients=1, experts=4, horizon=10)
    >>> block, _ = environment.block(environment.start(0), 1, None)
    >>> block.losses[0, 0]
    array([1., 1., 0., 1.])

    References
    ----------
    Gao et al. 2024, Theorem 2.7.
    """

    @property
    def traits(self) -> Traits:
        return replace(super().traits, adversary="stochastic", best_loss=0.0)

    def plan(self, rng: np.random.Generator) -> int:
        """Draw the expert that never loses."""
        return int(rng.integers(self.experts))

    def draw(self, rng: np.random.Generator, plan: int, first_round: int, rounds: int) -> Array:
        losses = np.ones((rounds, self.clients, self.experts))
        losses[..., plan] = 0.0
        return losses

    def counts(
        self, rng: np.random.Generator, plan: int, first_round: int, rounds: int
    ) -> np.ndarray:
        counted = np.full(self.experts, rounds * self.clients)
        counted[plan] = 0
        return counted

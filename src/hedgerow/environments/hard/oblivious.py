"""Hard streams that no play can change: those behind the lower bounds of Gao et al. 2024."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.environment import Traits
from hedgerow.core.lattice import Array
from hedgerow.environments.drawn.generated import Counted


@dataclass(frozen=True, kw_only=True)
class CommonCoins(Counted):
    """Fair coins for every expert, the same at all clients: nothing can be learnt, and more clients do not help (Theorem 2.4).

    Every algorithm has the same expected regret, `lower_bounds.coin_regret`.
    """

    @property
    def traits(self) -> Traits:
        """Coins are tossed anew in every round, but several clients have them in common: they are not independent."""
        return replace(super().traits, adversary="stochastic" if self.clients == 1 else "oblivious")

    def draw(self, rng: np.random.Generator, plan: None, first_round: int, rounds: int) -> Array:
        del plan, first_round
        coins = (rng.random((rounds, 1, self.experts)) < 0.5).astype(np.float64)
        return np.repeat(coins, self.clients, axis=1)

    def counts(
        self, rng: np.random.Generator, plan: None, first_round: int, rounds: int
    ) -> np.ndarray:
        del plan, first_round
        return self.clients * rng.binomial(rounds, 0.5, self.experts)


@dataclass(frozen=True, kw_only=True)
class HiddenExpert(Counted):
    """One expert, drawn at the start, never loses; all others lose 1 in every round at every client (Theorem 2.7).

    One look is enough to find it. A private algorithm may not look so closely: `lower_bounds.hidden_expert_regret`. Once the expert is
    drawn, losses are what they are in every round at every client, which is one law, and independent.
    """

    @property
    def traits(self) -> Traits:
        return replace(super().traits, adversary="stochastic")

    def plan(self, rng: np.random.Generator) -> int:
        return int(rng.integers(self.experts))

    def draw(self, rng: np.random.Generator, plan: int, first_round: int, rounds: int) -> Array:
        del rng, first_round
        losses = np.ones((rounds, self.clients, self.experts))
        losses[..., plan] = 0.0
        return losses

    def counts(
        self, rng: np.random.Generator, plan: int, first_round: int, rounds: int
    ) -> np.ndarray:
        del rng, first_round
        counted = np.full(self.experts, rounds * self.clients)
        counted[plan] = 0
        return counted

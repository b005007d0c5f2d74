"""Streams with a good expert: one that never loses, one that loses little, or survivors that are halved again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

import numpy as np

from hedgerow.core.environment import Traits
from hedgerow.core.lattice import Array
from hedgerow.core.validate import between, expect
from hedgerow.environments.drawn.generated import Counted
from hedgerow.environments.drawn.scattered import LONGEST, Scattered


@dataclass(frozen=True, kw_only=True)
class Realizable(Counted):
    """One expert, drawn at the start, never loses; all others draw Bernoulli(`mean`) or uniform losses of that mean.

    `law="uniform"` with `mean=0.5` is uniform on [0, 1], our reading of "random losses" in Gao et al. 2024, Figure 2.
    """

    mean: float = 0.5
    law: Literal["bernoulli", "uniform"] = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect(self.law in ("bernoulli", "uniform"), "law", self.law, "in ('bernoulli', 'uniform')")
        between("mean", self.mean, 0.0, 0.5 if self.law == "uniform" else 1.0)

    @property
    def traits(self) -> Traits:
        why_not = (
            None
            if self.law == "bernoulli"
            else f"sums of losses of law={self.law!r} cannot be drawn directly; law='bernoulli' can"
        )
        return replace(super().traits, adversary="stochastic", why_no_sums=why_not)

    def plan(self, rng: np.random.Generator) -> Any:
        """The expert that never loses."""
        return int(rng.integers(self.experts))

    def draw(self, rng: np.random.Generator, plan: Any, first_round: int, rounds: int) -> Array:
        del first_round
        losses = rng.random((rounds, self.clients, self.experts))
        if self.law == "uniform":
            losses *= 2 * self.mean
        else:
            losses = (losses < self.mean).astype(np.float64)
        losses[..., plan] = 0.0
        return losses

    def counts(
        self, rng: np.random.Generator, plan: Any, first_round: int, rounds: int
    ) -> np.ndarray:
        del first_round
        counted = rng.binomial(rounds * self.clients, self.mean, self.experts)
        counted[plan] = 0
        return counted


@dataclass(frozen=True, kw_only=True)
class NearRealizable(Realizable):
    """As `Realizable`, but the expert drawn at the start loses `best_loss` in all at every client, in random rounds.

    It loses 1 in so many rounds, chosen at random and for each client anew, and what is left of `best_loss` in one more. With
    `exact=False` it loses 1 in every round with probability best_loss / horizon: `best_loss` then only on average.
    """

    best_loss: float = 5.0
    exact: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        between("best_loss", self.best_loss, 0.0, float(self.horizon))
        expect(
            not self.exact or self.horizon <= LONGEST,
            "horizon",
            self.horizon,
            f"<= {LONGEST} where exact=True",
        )

    @property
    def traits(self) -> Traits:
        """Where the loss is exact, earlier rounds tell of later ones: such losses are fixed in advance, not drawn anew."""
        inherited = replace(super().traits, adversary="stochastic")
        if not self.exact:
            return inherited
        exactly = "sums where every client's best expert loses exactly best_loss cannot be drawn directly; exact=False can"
        why_not = "; ".join(filter(None, [inherited.why_no_sums, exactly]))
        return replace(inherited, adversary="oblivious", why_no_sums=why_not)

    def plan(self, rng: np.random.Generator) -> tuple[int, Scattered, np.ndarray]:
        """The best expert, the rounds in which it loses, and which of them, at each client, takes what is left."""
        best, count = int(rng.integers(self.experts)), ceil(self.best_loss)
        losing = Scattered(
            int(rng.integers(2**63)), self.clients, self.horizon, self.chunk_rounds, count
        )
        return best, losing, rng.integers(max(1, count), size=self.clients)

    def draw(
        self,
        rng: np.random.Generator,
        plan: tuple[int, Scattered, np.ndarray],
        first_round: int,
        rounds: int,
    ) -> Array:
        best, losing, partial = plan
        losses = super().draw(rng, best, first_round, rounds)
        if not self.exact:
            losses[..., best] = rng.random((rounds, self.clients)) < self.best_loss / self.horizon
            return losses
        number = losing.number(rng, first_round, rounds)
        losses[..., best] = np.where(number == partial, self.best_loss + 1 - losing.count, 1.0) * (
            number >= 0
        )
        return losses

    def counts(
        self, rng: np.random.Generator, plan: Any, first_round: int, rounds: int
    ) -> np.ndarray:
        best, _, _ = plan
        counted = super().counts(rng, best, first_round, rounds)
        counted[best] = rng.binomial(rounds * self.clients, self.best_loss / self.horizon)
        return counted


@dataclass(frozen=True, kw_only=True)
class Halving(Counted):
    """Every horizon/8 rounds half of the surviving experts start losing 1 in every round at every client."""

    def plan(self, rng: np.random.Generator) -> np.ndarray:
        """The round in which each expert starts to lose (the horizon for the survivors)."""
        death = np.full(self.experts, self.horizon)
        alive = rng.permutation(self.experts)
        for step in range(1, 8):
            fallen = len(alive) // 2
            death[alive[:fallen]] = step * self.horizon // 8
            alive = alive[fallen:]
        return death

    def draw(
        self, rng: np.random.Generator, plan: np.ndarray, first_round: int, rounds: int
    ) -> Array:
        del rng
        lost = np.arange(first_round, first_round + rounds)[:, None] >= plan
        return np.repeat(lost[:, None, :].astype(np.float64), self.clients, axis=1)

    def counts(
        self, rng: np.random.Generator, plan: np.ndarray, first_round: int, rounds: int
    ) -> np.ndarray:
        del rng
        return self.clients * np.clip(first_round + rounds - plan, 0, rounds)

"""Losses drawn from one law in every round: Bernoulli and uniform."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.environment import Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import between
from hedgerow.environments.drawn.generated import Counted, Generated


@dataclass(frozen=True, kw_only=True)
class Bernoulli(Counted):
    """Bernoulli losses with one best expert, drawn at the start.

    Each loss is 1 with probability `mean`; for the best expert with probability `mean - gap`.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.
    mean
        The probability that an expert loses, in [0, 1].
    gap
        By how much the best expert is better, in [0, mean].

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.Bernoulli(clients=100, experts=3, horizon=100, gap=0.3)
    >>> block, _ = environment.block(environment.start(0), 100, None)
    >>> block.losses.mean(axis=(0, 1)).round(1)
    array([0.5, 0.2, 0.5])
    """

    mean: float = 0.5
    gap: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        between("mean", self.mean, 0.0, 1.0)
        if not 0 <= self.gap <= self.mean:
            raise InvalidValue(f"Expected gap={self.gap!r} in [0, mean={self.mean}].")

    @property
    def traits(self) -> Traits:
        return replace(super().traits, adversary="stochastic")

    def plan(self, rng: np.random.Generator) -> Array:
        """Draw the best expert; return the mean of each expert."""
        means = np.full(self.experts, self.mean)
        means[rng.integers(self.experts)] -= self.gap
        return means

    def draw(self, rng: np.random.Generator, plan: Array, first_round: int, rounds: int) -> Array:
        losses = rng.random((rounds, self.clients, self.experts))
        return np.less(losses, plan, out=losses)  # 0 or 1

    def counts(
        self, rng: np.random.Generator, plan: Array, first_round: int, rounds: int
    ) -> np.ndarray:
        return rng.binomial(rounds * self.clients, plan)


@dataclass(frozen=True, kw_only=True)
class GapLadder(Bernoulli):
    """Bernoulli losses whose gaps to the best expert grow in equal ratios from `gap` to `widest`.

    The worst expert has the mean `mean`, the best `mean - widest`.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.
    mean
        The probability that the worst expert loses, in [0, 1].
    gap
        The gap of the second best expert, in (0, widest].
    widest
        The gap of the worst expert, at most `mean`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> means = hr.GapLadder(experts=4, gap=0.1, widest=0.4).start(0).plan
    >>> sorted(means.round(2).tolist())
    [0.1, 0.2, 0.3, 0.5]
    """

    gap: float = 0.01
    widest: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.widest <= self.mean:
            raise InvalidValue(f"Expected widest={self.widest!r} <= mean={self.mean}.")
        if not 0 < self.gap <= self.widest:
            raise InvalidValue(f"Expected gap={self.gap!r} in (0, widest={self.widest}].")

    def plan(self, rng: np.random.Generator) -> Array:
        """Draw the order of the experts; return the mean of each expert."""
        behind = (
            np.append(0.0, np.geomspace(self.gap, self.widest, self.experts - 1))
            if self.experts > 1
            else np.zeros(1)
        )
        return rng.permutation(self.mean - self.widest + behind)


@dataclass(frozen=True, kw_only=True)
class UniformLosses(Generated):
    """Each loss is uniform on [0, 1]: all experts are equally good, and there is nothing to learn.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.UniformLosses(clients=100, experts=3, horizon=100)
    >>> block, _ = environment.block(environment.start(0), 100, None)
    >>> block.losses.mean(axis=(0, 1)).round(1)
    array([0.5, 0.5, 0.5])
    """

    @property
    def traits(self) -> Traits:
        return replace(super().traits, adversary="stochastic")

    def draw(self, rng: np.random.Generator, plan: None, first_round: int, rounds: int) -> Array:
        return rng.random((rounds, self.clients, self.experts))

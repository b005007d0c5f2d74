"""Losses drawn anew in every round: Bernoulli with one gap or a ladder of them, uniform, the Gaussian-softmax recipe of Gao et al."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.environment import Traits
from hedgerow.core.lattice import Array
from hedgerow.core.validate import between, expect
from hedgerow.environments.drawn.generated import Counted, Generated


@dataclass(frozen=True, kw_only=True)
class Bernoulli(Counted):
    """Each loss is 1 with probability `mean`, for the best expert (drawn at the start) `mean - gap`."""

    mean: float = 0.5
    gap: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        between("mean", self.mean, 0.0, 1.0)
        expect(0 <= self.gap <= self.mean, "gap", self.gap, f"in [0, mean={self.mean}]")

    @property
    def traits(self) -> Traits:
        return replace(super().traits, adversary="stochastic")

    def plan(self, rng: np.random.Generator) -> Array:
        means = np.full(self.experts, self.mean)
        means[rng.integers(self.experts)] -= self.gap
        return means

    def draw(self, rng: np.random.Generator, plan: Array, first_round: int, rounds: int) -> Array:
        del first_round
        return (rng.random((rounds, self.clients, self.experts)) < plan).astype(np.float64)

    def counts(
        self, rng: np.random.Generator, plan: Array, first_round: int, rounds: int
    ) -> np.ndarray:
        del first_round
        return rng.binomial(rounds * self.clients, plan)


@dataclass(frozen=True, kw_only=True)
class GapLadder(Bernoulli):
    """Bernoulli losses with experts at every scale: they trail the best by `gap` to `widest` in equal ratios, the last has `mean`."""

    gap: float = 0.01
    widest: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        expect(self.widest <= self.mean, "widest", self.widest, f"<= mean={self.mean}")
        expect(0 < self.gap <= self.widest, "gap", self.gap, f"in (0, widest={self.widest}]")

    def plan(self, rng: np.random.Generator) -> Array:
        behind = (
            np.append(0.0, np.geomspace(self.gap, self.widest, self.experts - 1))
            if self.experts > 1
            else np.zeros(1)
        )
        return rng.permutation(self.mean - self.widest + behind)


@dataclass(frozen=True, kw_only=True)
class UniformLosses(Generated):
    """Each loss is uniform on [0, 1]: nothing to learn, every expert is as good as the other."""

    @property
    def traits(self) -> Traits:
        return replace(super().traits, adversary="stochastic")

    def draw(self, rng: np.random.Generator, plan: None, first_round: int, rounds: int) -> Array:
        del plan, first_round
        return rng.random((rounds, self.clients, self.experts))


@dataclass(frozen=True, kw_only=True)
class GaussianSoftmax(Generated):
    """Gao et al. 2024, section 6, in the linear reading: cross-entropies of softmaxed Gaussian class scores.

    Means and variances of the scores are uniform on [0, 1] and drawn once; in every round and for every client the true
    class distribution p is the softmax of a Gaussian score vector, and choosing class k costs -log p(k), divided by `cap`
    and clipped to [0, 1]. The paper leaves out the ranges and the rescaling.
    """

    cap: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        expect(0 < self.cap < np.inf, "cap", self.cap, "> 0 and finite")

    @property
    def traits(self) -> Traits:
        return replace(super().traits, adversary="stochastic")

    def plan(self, rng: np.random.Generator) -> tuple[Array, Array]:
        return rng.random(self.experts), np.sqrt(rng.random(self.experts))

    def draw(
        self, rng: np.random.Generator, plan: tuple[Array, Array], first_round: int, rounds: int
    ) -> Array:
        del first_round
        means, deviations = plan
        scores = rng.standard_normal((rounds, self.clients, self.experts))
        scores *= deviations
        scores += means
        top = scores.max(axis=-1, keepdims=True)
        losses = np.log(np.exp(scores - top).sum(axis=-1, keepdims=True)) + top - scores
        return np.clip(losses / self.cap, 0.0, 1.0)

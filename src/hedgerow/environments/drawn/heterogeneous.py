"""Clients that differ: how many of them have a best expert of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.environment import Traits
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least, between, expect
from hedgerow.environments.drawn.generated import Generated


@dataclass(frozen=True, kw_only=True)
class Heterogeneous(Generated):
    """Bernoulli(`mean`) losses; `heterogeneity` is the part of the clients with a best expert of their own, the others share one.

    A client's best expert loses with probability `mean - gap`, by default never. At 0 all clients have the same best expert, at 1
    each cluster has its own, and the shared one is nobody's. `clusters` groups of neighbouring clients have their best expert
    in common; None makes every client a cluster. A number of clusters that is not whole is rounded at random, up or down, so
    that it is right on average. Own experts differ from the shared one, and from each other while there are enough experts.
    """

    heterogeneity: float = 0.5
    clusters: int | None = None
    mean: float = 0.5
    gap: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        between("heterogeneity", self.heterogeneity, 0.0, 1.0)
        if self.clusters is not None:
            at_least("clusters", self.clusters, 1)
            expect(
                self.clusters <= self.clients,
                "clusters",
                self.clusters,
                f"<= clients={self.clients}",
            )
        between("mean", self.mean, 0.0, 1.0)
        expect(0 <= self.gap <= self.mean, "gap", self.gap, f"in [0, mean={self.mean}]")

    @property
    def traits(self) -> Traits:
        return replace(super().traits, adversary="stochastic")

    def plan(self, rng: np.random.Generator) -> np.ndarray:
        """The best expert of each client."""
        clusters = self.clients if self.clusters is None else self.clusters
        shared, *others = rng.permutation(self.experts)
        own = min(clusters, int(self.heterogeneity * clusters + rng.random())) if others else 0
        best = np.full(clusters, shared)
        best[rng.permutation(clusters)[:own]] = np.resize(others, own)
        return best[np.arange(self.clients) * clusters // self.clients]

    def draw(
        self, rng: np.random.Generator, plan: np.ndarray, first_round: int, rounds: int
    ) -> Array:
        del first_round
        means = np.full((self.clients, self.experts), self.mean)
        means[np.arange(self.clients), plan] -= self.gap
        return (rng.random((rounds, self.clients, self.experts)) < means).astype(np.float64)

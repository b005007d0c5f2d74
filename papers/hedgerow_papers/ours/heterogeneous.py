"""An environment in which some clients have a different best expert."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.environment import Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least, between
from hedgerow.environments.drawn.generated import Generated


@dataclass(frozen=True, kw_only=True)
class Heterogeneous(Generated):
    """Bernoulli losses; a share of the clients has a different best expert than the others.

    A client's best expert loses with probability `mean - gap`, by default never. The best experts
    of these clients differ from the shared one, and from each other while there are enough experts.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.
    heterogeneity
        The share of clusters with their own best expert, in [0, 1]. At 0 all clients share one best
        expert. At 1 each cluster has its own, and the shared one is best for no client. If the
        share is not a whole number of clusters, it is rounded up or down at random, so that it is
        right on average.
    clusters
        The number of groups of neighbouring clients with a common best expert. None: every client
        is a cluster.
    mean
        The probability that an expert loses, in [0, 1].
    gap
        By how much the best expert is better, in [0, mean].

    Examples
    --------
    >>> environment = Heterogeneous(clients=6, experts=10, heterogeneity=0.5)
    >>> environment.start(0).plan  # the best expert of each client
    array([2, 8, 5, 8, 0, 8])
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
            if not self.clusters <= self.clients:
                raise InvalidValue(
                    f"Expected clusters={self.clusters!r} <= clients={self.clients}."
                )
        between("mean", self.mean, 0.0, 1.0)
        if not 0 <= self.gap <= self.mean:
            raise InvalidValue(f"Expected gap={self.gap!r} in [0, mean={self.mean}].")

    @property
    def traits(self) -> Traits:
        return replace(super().traits, adversary="stochastic")

    def plan(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the best expert of each client."""
        clusters = self.clients if self.clusters is None else self.clusters
        shared, *others = rng.permutation(self.experts)
        own = min(clusters, int(self.heterogeneity * clusters + rng.random())) if others else 0
        best = np.full(clusters, shared)
        best[rng.permutation(clusters)[:own]] = np.resize(others, own)
        return best[np.arange(self.clients) * clusters // self.clients]

    def draw(
        self, rng: np.random.Generator, plan: np.ndarray, first_round: int, rounds: int
    ) -> Array:
        means = np.full((self.clients, self.experts), self.mean)
        means[np.arange(self.clients), plan] -= self.gap
        losses = rng.random((rounds, self.clients, self.experts))
        return np.less(losses, means, out=losses)  # 0 or 1

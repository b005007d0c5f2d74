"""The losses of the experiments of Gao et al. 2024: cross-entropy of softmaxed Gaussian scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.core.environment import Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.environments.drawn.generated import Generated


@dataclass(frozen=True, kw_only=True)
class GaussianSoftmax(Generated):
    """Cross-entropy losses of softmaxed Gaussian class scores, as in Gao et al. 2024.

    Means and variances of the scores are uniform on [0, 1] and drawn once. In every round and for
    every client the true class distribution p is the softmax of a Gaussian score vector. Choosing
    class k costs -log p(k), divided by `cap` and clipped to [0, 1].

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.
    cap
        The cross-entropy that counts as loss 1; above 0 and finite.

    Examples
    --------
    >>> environment = GaussianSoftmax(clients=2, experts=5, horizon=10)
    >>> block, _ = environment.block(environment.start(0), 10, None)
    >>> block.losses.shape
    (10, 2, 5)

    References
    ----------
    Gao et al. 2024, section 6, in the linear reading. The paper does not give the ranges or the
    rescaling.
    """

    cap: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.cap < np.inf:
            raise InvalidValue(f"Expected cap={self.cap!r} > 0 and finite.")

    @property
    def traits(self) -> Traits:
        return replace(super().traits, adversary="stochastic")

    def plan(self, rng: Any) -> tuple[Array, Array]:
        """Draw the means and the standard deviations of the scores."""
        return rng.random(self.experts), np.sqrt(rng.random(self.experts))

    def draw(self, rng: Any, plan: tuple[Array, Array], first_round: int, rounds: int) -> Array:
        means, deviations = plan
        scores = rng.standard_normal((rounds, self.clients, self.experts))
        scores *= deviations
        scores += means
        top = scores.max(axis=-1, keepdims=True)
        losses = np.log(np.exp(scores - top).sum(axis=-1, keepdims=True)) + top - scores
        return np.clip(losses / self.cap, 0.0, 1.0)

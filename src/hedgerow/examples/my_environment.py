"""A plugin to copy: an environment in one class.

    hedgerow run examples/study.toml --plugin examples/my_environment.py \\
        --set environment.name=weekly

`plan` draws what all rounds of a stream share. `draw` returns losses in [0, 1] for consecutive
rounds, with shape (rounds, clients, experts). The base class handles chunks, seeds and rounding.
"""

from dataclasses import dataclass

import numpy as np

import hedgerow
from hedgerow.environments.drawn.generated import Generated


@dataclass(frozen=True, kw_only=True)
class Weekly(Generated):
    """One expert never loses; the others lose more often at weekends.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game.
    weekend
        Probability of a loss of 1 on days 5 and 6 of every week; on other days it is 0.3.
    """

    weekend: float = 0.8

    def plan(self, rng: np.random.Generator) -> int:
        """The number of the expert that never loses."""
        return int(rng.integers(self.experts))

    def draw(
        self, rng: np.random.Generator, plan: int, first_round: int, rounds: int
    ) -> np.ndarray:
        days = np.arange(first_round, first_round + rounds) % 7
        means = np.where(days >= 5, self.weekend, 0.3)[:, None, None]
        losses = (rng.random((rounds, self.clients, self.experts)) < means).astype(float)
        losses[..., plan] = 0.0
        return losses


hedgerow.ENVIRONMENTS.add("weekly", Weekly)

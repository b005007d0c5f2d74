"""A plugin to copy: an environment in one class.

    hedgerow run examples/study.toml --plugin examples/my_environment.py --set environment.name=weekly

`plan` fixes what the whole stream shares; `draw` returns losses in [0, 1] of shape (rounds, clients, experts) for consecutive
rounds. Chunks, seeds and rounding are taken care of.
"""

from dataclasses import dataclass

import numpy as np

import hedgerow
from hedgerow.environments.drawn.generated import Generated


@dataclass(frozen=True, kw_only=True)
class Weekly(Generated):
    """One expert never loses; the others are bad at weekends and fair on the other days."""

    weekend: float = 0.8

    def plan(self, rng: np.random.Generator) -> int:
        return int(rng.integers(self.experts))

    def draw(
        self, rng: np.random.Generator, plan: int, first_round: int, rounds: int
    ) -> np.ndarray:
        days = np.arange(first_round, first_round + rounds) % 7
        means = np.where(days >= 5, self.weekend, 0.3)
        losses = (rng.random((rounds, self.clients, self.experts)) < means[:, None, None]).astype(
            float
        )
        losses[..., plan] = 0.0
        return losses


hedgerow.ENVIRONMENTS.add("weekly", Weekly)

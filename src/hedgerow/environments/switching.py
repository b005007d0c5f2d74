"""A best expert that changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.core.checks import at_least, between, expect
from hedgerow.core.lattice import Array
from hedgerow.environments.generated import Generated


@dataclass(frozen=True, kw_only=True)
class Switching(Generated):
    """`segments` equal parts, each with its own best expert: Bernoulli(`mean`) losses, the best with `mean - gap`."""

    segments: int = 4
    mean: float = 0.5
    gap: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("segments", self.segments, 1)
        expect(self.segments <= self.horizon, "segments", self.segments, f"<= horizon={self.horizon}")
        between("mean", self.mean, 0.0, 1.0)
        expect(0 <= self.gap <= self.mean, "gap", self.gap, f"in [0, mean={self.mean}]")

    def plan(self, rng: np.random.Generator) -> np.ndarray:
        best = rng.integers(self.experts, size=self.segments)
        for i in range(1, self.segments):
            if self.experts > 1 and best[i] == best[i - 1]:
                best[i] = (best[i] + 1 + rng.integers(self.experts - 1)) % self.experts
        return best

    def draw(self, rng: np.random.Generator, plan: np.ndarray, first_round: int, rounds: int) -> Array:
        losses = rng.random((rounds, self.clients, self.experts))
        segment = np.arange(first_round, first_round + rounds) * self.segments // self.horizon
        means = np.full((rounds, 1, self.experts), self.mean)
        means[np.arange(rounds), 0, plan[segment]] -= self.gap
        return (losses < means).astype(np.float64)

"""Means that move slowly and smoothly; `switching` has the abrupt kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.core.lattice import Array
from hedgerow.core.validate import between, expect, positive
from hedgerow.environments.drawn.generated import Generated


@dataclass(frozen=True, kw_only=True)
class Drifting(Generated):
    """Bernoulli losses whose means go up and down as sine waves, `cycles` times in the game; the best expert drifts away.

    In round t (from 0) expert k has the mean `mean + swing * sin(2 pi (cycles * t / horizon + phase_k))` at every client, with
    phases drawn uniformly at the start. In one round no mean moves by more than 2 pi * swing * cycles / horizon.
    """

    mean: float = 0.5
    swing: float = 0.4
    cycles: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        between("mean", self.mean, 0.0, 1.0)
        room = min(self.mean, 1 - self.mean)
        expect(
            0 <= self.swing <= room,
            "swing",
            self.swing,
            f"in [0, {room:g}], so that mean={self.mean:g} stays in [0, 1]",
        )
        positive("cycles", self.cycles)

    def plan(self, rng: np.random.Generator) -> Array:
        """Each expert's phase, as a part of a cycle."""
        return rng.random(self.experts)

    def means(self, phases: Array, first_round: int, rounds: int) -> Array:
        """The means (rounds, experts) of consecutive rounds."""
        turns = (
            self.cycles * np.arange(first_round, first_round + rounds)[:, None] / self.horizon
            + phases
        )
        return self.mean + self.swing * np.sin(2 * np.pi * turns)

    def draw(self, rng: np.random.Generator, plan: Array, first_round: int, rounds: int) -> Array:
        means = self.means(plan, first_round, rounds)[:, None, :]
        return (rng.random((rounds, self.clients, self.experts)) < means).astype(np.float64)

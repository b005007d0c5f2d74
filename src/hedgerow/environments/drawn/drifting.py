"""An environment whose means move slowly and smoothly; in `switching` they jump."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from hedgerow.core.environment import Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import between, positive
from hedgerow.environments.drawn.generated import Generated


@dataclass(frozen=True, kw_only=True)
class Drifting(Generated):
    """Bernoulli losses whose means follow sine waves, so that the best expert changes slowly.

    In round t (from 0) expert k has at every client the mean

        mean + swing * sin(2 pi (cycles * t / horizon + phase_k)).

    The phases are drawn uniformly at the start. In one round no mean moves by more than
    2 pi * swing * cycles / horizon.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.
    mean
        The mean loss of every expert over a full cycle, in [0, 1].
    swing
        The amplitude of the waves. `mean - swing` and `mean + swing` must stay in [0, 1].
    cycles
        The number of cycles in the game, above 0.

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.Drifting(clients=2, experts=2, horizon=4)
    >>> phases = environment.start(0).plan
    >>> environment.means(phases, first_round=0, rounds=4).round(2)
    array([[0.7 , 0.11],
           [0.85, 0.59],
           [0.3 , 0.89],
           [0.15, 0.41]])
    """

    mean: float = 0.5
    swing: float = 0.4
    cycles: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        between("mean", self.mean, 0.0, 1.0)
        room = min(self.mean, 1 - self.mean)
        if not 0 <= self.swing <= room:
            raise InvalidValue(
                f"Expected swing={self.swing!r} in [0, {room:g}], so that mean={self.mean:g} stays "
                "in [0, 1]."
            )
        positive("cycles", self.cycles)

    @property
    def traits(self) -> Traits:
        """The best expert changes with every wave; eight pieces in a cycle follow it well."""
        return replace(super().traits, changes=ceil(8 * self.cycles) - 1)

    def plan(self, rng: np.random.Generator) -> Array:
        """Draw the phase of each expert, as a fraction of a cycle."""
        return rng.random(self.experts)

    def means(self, phases: Array, first_round: int, rounds: int) -> Array:
        """Return the means (rounds, experts) of consecutive rounds."""
        turns = (
            self.cycles * np.arange(first_round, first_round + rounds)[:, None] / self.horizon
            + phases
        )
        return self.mean + self.swing * np.sin(2 * np.pi * turns)

    def draw(self, rng: np.random.Generator, plan: Array, first_round: int, rounds: int) -> Array:
        means = self.means(plan, first_round, rounds)[:, None, :]
        losses = rng.random((rounds, self.clients, self.experts))
        return np.less(losses, means, out=losses)  # 0 or 1

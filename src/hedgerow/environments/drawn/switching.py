"""An environment whose best expert changes abruptly."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.environment import Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least, between
from hedgerow.environments.drawn.generated import Counted


@dataclass(frozen=True, kw_only=True)
class Switching(Counted):
    """Bernoulli losses; the best expert changes between `segments` equal parts of the game.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.
    segments
        The number of parts, in [1, horizon].
    mean
        The probability that an expert loses, in [0, 1].
    gap
        By how much the best expert is better, in [0, mean].

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.Switching(clients=10, experts=5, horizon=100, segments=4)
    >>> environment.start(0).plan  # the best expert of each part
    array([2, 0, 4, 3])
    """

    segments: int = 4
    mean: float = 0.5
    gap: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("segments", self.segments, 1)
        if not self.segments <= self.horizon:
            raise InvalidValue(f"Expected segments={self.segments!r} <= horizon={self.horizon}.")
        between("mean", self.mean, 0.0, 1.0)
        if not 0 <= self.gap <= self.mean:
            raise InvalidValue(f"Expected gap={self.gap!r} in [0, mean={self.mean}].")

    @property
    def traits(self) -> Traits:
        return replace(super().traits, changes=self.segments - 1)

    def plan(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the best expert of each part; it differs from that of the part before."""
        best = rng.integers(self.experts, size=self.segments)
        for i in range(1, self.segments):
            if self.experts > 1 and best[i] == best[i - 1]:
                best[i] = (best[i] + 1 + rng.integers(self.experts - 1)) % self.experts
        return best

    def draw(
        self, rng: np.random.Generator, plan: np.ndarray, first_round: int, rounds: int
    ) -> Array:
        losses = rng.random((rounds, self.clients, self.experts))
        segment = np.arange(first_round, first_round + rounds) * self.segments // self.horizon
        means = np.full((rounds, 1, self.experts), self.mean)
        means[np.arange(rounds), 0, plan[segment]] -= self.gap
        return np.less(losses, means, out=losses)  # 0 or 1

    def counts(
        self, rng: np.random.Generator, plan: np.ndarray, first_round: int, rounds: int
    ) -> np.ndarray:
        last = first_round + rounds
        # segment s begins at the first round t with t * segments // horizon = s
        starts = -(-np.arange(self.segments + 1) * self.horizon // self.segments)
        lengths = np.diff(np.clip(starts, first_round, last))
        counted = rng.binomial(rounds * self.clients, self.mean, self.experts)
        for best in np.unique(plan[lengths > 0]):
            at_best = int(lengths[plan == best].sum())
            elsewhere = rng.binomial((rounds - at_best) * self.clients, self.mean)
            counted[best] = rng.binomial(at_best * self.clients, self.mean - self.gap) + elsewhere
        return counted

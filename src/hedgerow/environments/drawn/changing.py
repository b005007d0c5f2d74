"""Losses that change in ways which mislead algorithms that look for changes, or do not.

In `switching` the best expert jumps and in `drifting` it moves smoothly. Here are other patterns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from hedgerow.core.environment import Traits
from hedgerow.core.lattice import Array
from hedgerow.core.validate import one_of
from hedgerow.environments.drawn.generated import Generated

Pattern = Literal["late", "comeback", "alternate", "camps", "sawtooth", "one_coin"]


@dataclass(frozen=True, kw_only=True)
class Changing(Generated):
    """Losses 0 or 1 whose means change in a known pattern; which expert is which is drawn.

    * `"late"`: all experts lose in half of the rounds; from half of the game on one never loses.
    * `"comeback"`: one expert leads in the first third (0.1) and is bad later (0.7); another (0.35)
      is the best of the whole game; the others lose 0.5.
    * `"alternate"`: two experts lose in turn, one in even and one in odd rounds; the others lose
      0.6. The last round says exactly the wrong thing.
    * `"camps"`: half of the experts lose 0.2 and half 0.8, and they swap 64 times; one always loses
      0.4.
    * `"sawtooth"`: every expert loses more and more, from 0 to 1, and then falls to 0, eight times,
      all at different times.
    * `"one_coin"`: one coin, common to all clients, decides in every round which of two camps
      loses 0.9 and which 0.1; one expert loses 0.1 less than its camp.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.
    pattern
        One of the patterns above.

    Examples
    --------
    >>> import hedgerow as hr
    >>> game = hr.Changing(clients=1, experts=2, horizon=16, pattern="sawtooth")
    >>> game.means(np.array([0, 1]), first_round=0, rounds=4)
    array([[0. , 0.5],
           [0.5, 0. ],
           [0. , 0.5],
           [0.5, 0. ]])
    """

    pattern: Pattern = "late"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, pattern=get_args(Pattern))

    @property
    def traits(self) -> Traits:
        changes = {"late": 1, "sawtooth": 8 * self.experts - 1}.get(self.pattern, 0)
        return replace(super().traits, adversary="oblivious", changes=changes)

    def plan(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the order of the experts."""
        return rng.permutation(self.experts)

    def means(self, order: np.ndarray, first_round: int, rounds: int) -> Array:
        """Return the means (rounds, experts) of consecutive rounds, without the coin."""
        experts, horizon = self.experts, self.horizon
        t = np.arange(first_round, first_round + rounds)[:, None]
        rank = np.empty(experts, np.int64)
        rank[order] = np.arange(experts)
        if self.pattern == "late":
            found = np.where((rank == 0) & (t >= horizon // 2), 0.0, 0.5)
        elif self.pattern == "comeback":
            led = np.where(t < horizon // 3, 0.1, 0.7)
            found = np.where(rank == 0, led, np.where(rank == 1, 0.35, 0.5))
        elif self.pattern == "alternate":
            found = np.where(rank < 2, (t + rank) % 2, 0.6)
        elif self.pattern == "camps":
            bad = (64 * t // horizon + rank) % 2
            found = np.where(rank == 0, 0.4, 0.2 + 0.6 * bad)
        elif self.pattern == "sawtooth":
            tooth = max(1, horizon // 8)
            found = (t + rank * tooth // experts) % tooth / tooth
        else:
            found = np.where(rank == 0, -0.1, 0.0) + 0 * t
        return np.asarray(found, float)

    def draw(
        self, rng: np.random.Generator, plan: np.ndarray, first_round: int, rounds: int
    ) -> Array:
        means = self.means(plan, first_round, rounds)
        if self.pattern == "one_coin":
            camp = np.argsort(plan) % 2
            means += np.where(rng.integers(0, 2, (rounds, 1)) == camp, 0.9, 0.1)
        losses = rng.random((rounds, self.clients, self.experts))
        return np.less(losses, means[:, None, :], out=losses)

"""Dynamic regret of points: the loss above that of the best point of every single round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Environment
from hedgerow.core.lattice import Array
from hedgerow.core.measure import Measure
from hedgerow.core.transcript import Plays, charges
from hedgerow.evaluation.best_point import best_point

TOLERANCE = 1e-4  # of the least mean charge of a round


@dataclass(frozen=True)
class RoundOptima:
    """The best points of all rounds.

    Parameters
    ----------
    points
        The best point of each round, (rounds, coordinates).
    totals
        Its charge, added up over the players; the least one is at most `gaps` smaller.
    gaps
        The certified error of each total.
    """

    points: Array
    totals: Array
    gaps: Array


@lru_cache(maxsize=4)
def round_optima(environment: Environment, seed: int) -> RoundOptima:
    """Find the best point of every round of a game that does not see the plays.

    Parameters
    ----------
    environment
        The game; its losses are convex.
    seed
        The seed of the game.

    Examples
    --------
    >>> from hedgerow_papers.zhang2024.streams import DriftingExamples
    >>> game = DriftingExamples(clients=5, features=3, examples=16, horizon=20)
    >>> found = round_optima(game, seed=0)
    >>> found.points.shape, bool((found.totals > 0.1).all()), bool((found.gaps < 1e-3).all())
    ((20, 3), True, True)
    """
    setting, state, found = environment.setting, environment.start(seed), []
    for _ in range(setting.rounds):
        block, state = environment.block(state, 1, None)
        taking_part = (
            block.losses[0] if block.present is None else block.losses[0][block.present[0]]
        )
        found.append(
            best_point(setting.family, setting.experts, lambda r=taking_part: [r], TOLERANCE)
        )
    return RoundOptima(
        np.array([best.point for best in found]),
        np.array([best.total for best in found]),
        np.array([best.gap for best in found]),
    )


class RoundRegret(Measure):
    """Loss above that of the best point of every single round, for convex losses.

    The best points are certified: the true amount is larger by at most the tolerance per round.
    """

    name: ClassVar[str] = "dynamic regret"
    meaning: ClassVar[str] = "loss above that of the best point of each round, mean over players"

    def __init__(self, environment: Environment) -> None:
        super().__init__()
        self.environment, self._best, self._first = environment, np.zeros(0), 0

    def begin(self, seed: int) -> None:
        self._best, self._first = round_optima(self.environment, seed).totals, 0

    def rounds(self, first_round: int, block: Block, plays: np.ndarray | Plays) -> None:
        self._first = first_round
        super().rounds(first_round, block, plays)

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        setting = self.environment.setting
        best = self._best[self._first : self._first + block.rounds]
        return (charges(setting.family, block.losses, plays) - best) / setting.players

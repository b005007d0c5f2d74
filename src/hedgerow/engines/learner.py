"""A small mutable learner for notebooks and applications: `predict()`, `observe(losses)`, round after round."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.core.block import Block, check
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.losses import Linear
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import AlgorithmSpec, Context
from hedgerow.core.setting import Setting
from hedgerow.engines.loop import Engine


class Learner:
    """All clients of one game in one object. Noise is seeded: for simulation, not private.

    >>> from hedgerow.algorithms.experts.follow_the_leader import FollowTheLeader
    >>> learner = Learner(FollowTheLeader(), clients=2, experts=3, horizon=10)
    >>> learner.predict()
    array([0, 0])
    >>> learner.observe([[1, 0, 1], [1, 0, 0]])
    >>> learner.predict()
    array([1, 1])
    """

    def __init__(self, algorithm: AlgorithmSpec, *, clients: int, experts: int, horizon: int, seed: int = 0) -> None:
        self.algorithm = algorithm.build(Setting(clients, experts, horizon))
        self._engine = Engine.vectorised(self.algorithm, SeededNoise(seed), fused=False)
        self._run = self._engine.start()
        self._waiting: np.ndarray | None = None

    @property
    def round(self) -> int:
        """How many rounds are finished."""
        return self._run.round

    def predict(self) -> np.ndarray:
        """The expert each client follows in this round; asking again gives the same answer."""
        if self._waiting is None:
            if self._run.round >= self.algorithm.setting.horizon:
                raise InvalidValue(f"Expected round={self._run.round} < horizon={self.algorithm.setting.horizon}: the game is over.")
            ready, _ = self._engine.exchange(self._run, [])
            self._waiting, self._run = self._engine.play(ready, Context(ready.round))
        return np.array(self._waiting)

    def observe(self, losses: npt.ArrayLike) -> None:
        """The losses of all experts at all clients, (clients, experts), after `predict`."""
        if self._waiting is None:
            raise InvalidValue("Expected predict() before observe().")
        setting = self.algorithm.setting
        rounded = round_to_lattice(np.array(losses, np.float64)[None])
        block = check(Block.of(rounded), Linear(), setting, self._run.round, 1)
        self._run = self._engine.observe(self._run, block.reports[0])
        self._waiting = None

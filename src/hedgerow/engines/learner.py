"""A small mutable learner for notebooks and applications: `predict()`, `observe(losses)`, round after round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hedgerow.core.block import Block, check
from hedgerow.core.certificate import Certificate, with_exact_noise
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.losses import Linear
from hedgerow.core.noise import NoiseSource, SeededNoise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context
from hedgerow.core.setting import Setting
from hedgerow.engines.loop import Engine
from hedgerow.privacy.secure import SecureNoise
from hedgerow.privacy.secure.source import require_secure


class Learner:
    """All clients of one game in one object. Noise is seeded, for simulation, unless a secure `source` is given (`private`).

    >>> from hedgerow.algorithms.experts.follow_the_leader import FollowTheLeader
    >>> learner = Learner(FollowTheLeader(), clients=2, experts=3, horizon=10)
    >>> learner.predict()
    array([0, 0])
    >>> learner.observe([[1, 0, 1], [1, 0, 0]])
    >>> learner.predict()
    array([1, 1])
    """

    def __init__(self, algorithm: AlgorithmSpec, *, clients: int, experts: int, horizon: int, seed: int = 0) -> None:
        self._begin(algorithm, algorithm.build(Setting(clients, experts, horizon)), SeededNoise(seed))

    @classmethod
    def private(cls, algorithm: AlgorithmSpec, *, clients: int, experts: int, horizon: int, source: SecureNoise) -> Learner:
        """For real data: exact noise from the operating system's entropy, and a certificate that says so.

        >>> from hedgerow.algorithms.experts.sparse_vector import SparseVector
        >>> from hedgerow.privacy.secure import SecureNoise
        >>> learner = Learner.private(SparseVector(), clients=2, experts=3, horizon=10, source=SecureNoise())
        >>> sorted(assumption.name for assumption in learner.algorithm.certificate.guarantees[1].assumes)
        ['ENTROPY', 'NO_CARRY_OVER', 'PUBLIC_PARAMETERS', 'TRUSTED_SERVER']
        """
        learner = cls.__new__(cls)
        built = algorithm.build(Setting(clients, experts, horizon))
        if not any(guarantee.protects for guarantee in built.certificate.guarantees):
            raise InvalidValue(f"Expected an algorithm that protects somebody, {built.name} protects nobody.")
        for mechanism in built.certificate.mechanisms:
            if not getattr(mechanism, "exact", True):
                raise Unsupported(f"{built.name} needs {type(mechanism).__name__}, which has no exact sampler.")
        learner._begin(algorithm, replace(built, certificate=with_exact_noise(built.certificate)), _secure(source))
        return learner

    def _begin(self, spec: AlgorithmSpec, algorithm: Algorithm, source: NoiseSource) -> None:
        self._spec = spec
        self._engine = Engine.vectorised(algorithm, source, fused=False)
        self._run = self._engine.start()
        self._waiting: np.ndarray | None = None

    @property
    def spec(self) -> AlgorithmSpec:
        """The choices the algorithm was built from."""
        return self._spec

    @property
    def algorithm(self) -> Algorithm:
        return self._engine.algorithm

    @property
    def certificate(self) -> Certificate:
        """Who can learn what from this game."""
        return self.algorithm.certificate

    @property
    def source(self) -> NoiseSource:
        """Where all noise of this game comes from."""
        return self._engine.source

    @property
    def round(self) -> int:
        """How many rounds are finished."""
        return self._run.round

    def __repr__(self) -> str:
        setting = self.algorithm.setting
        size = f"clients={setting.clients}, experts={setting.experts}, horizon={setting.horizon}"
        return f"<Learner of {self._spec!r}, {size}, {type(self.source).__name__}, after round {self.round}>"

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
        given = np.array(losses, np.float64)
        if given.shape != (setting.clients, setting.experts):
            raise InvalidValue(f"Expected losses of shape {(setting.clients, setting.experts)}, (clients, experts), got {given.shape}.")
        rounded = round_to_lattice(given[None])
        block = check(Block.of(rounded), Linear(), setting, self._run.round, 1)
        self._run = self._engine.observe(self._run, block.reports[0])
        self._waiting = None


def _secure(source: object) -> SecureNoise:
    """`require_secure`, with the way out."""
    try:
        return require_secure(source)
    except InvalidValue as error:
        raise InvalidValue(f"{error} Write source=SecureNoise(), from hedgerow.privacy.") from error

"""A small mutable learner for notebooks and applications: `predict()`, then `observe(losses)`."""

from __future__ import annotations

from dataclasses import replace
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.block import Block, check
from hedgerow.core.certificate import Certificate, with_exact_noise
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.losses import Linear
from hedgerow.core.noise import NoiseSource, SeededNoise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context
from hedgerow.core.setting import Setting
from hedgerow.engines.loop import Engine
from hedgerow.privacy.secure import SecureNoise
from hedgerow.privacy.secure.source import require_secure


class Learner:
    """All clients of one game in one object, played round by round.

    The noise is seeded and serves for simulation. For real data use `Learner.private`.

    Parameters
    ----------
    algorithm
        The algorithm and its choices, for example `hr.SparseVector(epsilon=1.0)`.
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.
    seed
        The seed of the noise; the same seed gives the same plays.

    Examples
    --------
    >>> import hedgerow as hr
    >>> learner = hr.Learner(hr.FollowTheLeader(), clients=2, experts=3, horizon=10)
    >>> learner.predict()
    array([0, 0])
    >>> learner.observe([[1, 0, 1], [1, 0, 0]])
    >>> learner.predict()
    array([1, 1])
    """

    def __init__(
        self, algorithm: AlgorithmSpec, *, clients: int, experts: int, horizon: int, seed: int = 0
    ) -> None:
        self._begin(
            algorithm, algorithm.build(Setting(clients, experts, horizon)), SeededNoise(seed)
        )

    @classmethod
    def private(
        cls,
        algorithm: AlgorithmSpec,
        *,
        clients: int,
        experts: int,
        horizon: int,
        source: SecureNoise,
    ) -> Learner:
        """Return a learner for real data: exact noise from the operating system's entropy.

        The certificate states which assumptions this makes. `source` is the secure noise; the other
        parameters are those of the class.

        >>> import hedgerow as hr
        >>> learner = hr.Learner.private(
        ...     hr.SparseVector(), clients=2, experts=3, horizon=10, source=hr.SecureNoise()
        ... )
        >>> sorted(assumption.name for assumption in learner.certificate.peer.assumes)
        ['ARITHMETIC', 'ENTROPY', 'NO_CARRY_OVER', 'PUBLIC_PARAMETERS', 'TRUSTED_SERVER']
        """
        learner = cls.__new__(cls)
        built = algorithm.build(Setting(clients, experts, horizon))
        if not any(guarantee.protects for guarantee in built.certificate.guarantees):
            raise InvalidValue(
                f"{built.name} protects nobody. Choose an algorithm with a guarantee."
            )
        built.require_exact_noise(algorithm.traits.exact)
        learner._begin(
            algorithm,
            replace(built, certificate=with_exact_noise(built.certificate)),
            require_secure(source),
        )
        return learner

    def _begin(self, spec: AlgorithmSpec, algorithm: Algorithm, source: NoiseSource) -> None:
        self._spec = spec
        self._engine = Engine.vectorised(algorithm, source, fused=False)
        self._run = self._engine.start()
        self._waiting: np.ndarray | None = None
        self._lock = RLock()  # two threads that ask for the same round must get the same answer

    def __reduce_ex__(self, protocol: Any) -> Any:
        if isinstance(self.source, SecureNoise):
            raise TypeError(
                "A private learner cannot be copied or saved: "
                "the copy would answer the same round again with other noise."
            )
        return super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=RLock())

    @property
    def spec(self) -> AlgorithmSpec:
        """The choices from which the algorithm was built."""
        return self._spec

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm, built for this game."""
        return self._engine.algorithm

    @property
    def certificate(self) -> Certificate:
        """Who can learn what from this game."""
        return self.algorithm.certificate

    @property
    def source(self) -> NoiseSource:
        """The source of all noise in this game."""
        return self._engine.source

    @property
    def round(self) -> int:
        """The number of finished rounds."""
        return self._run.round

    def __repr__(self) -> str:
        setting = self.algorithm.setting
        size = f"clients={setting.clients}, experts={setting.experts}, horizon={setting.horizon}"
        source = type(self.source).__name__
        return f"<Learner of {self._spec!r}, {size}, {source}, after round {self.round}>"

    def predict(self) -> np.ndarray:
        """Return the expert that each client follows in this round; repeat calls give the same."""
        with self._lock:
            if self._waiting is None:
                if self._run.round >= self.algorithm.setting.horizon:
                    raise InvalidValue(
                        f"Expected round={self._run.round} < "
                        f"horizon={self.algorithm.setting.horizon}: the game is over."
                    )
                ready, _ = self._engine.exchange(self._run, [])
                self._waiting, self._run = self._engine.play(ready, Context(ready.round))
            return np.array(self._waiting)

    def observe(self, losses: npt.ArrayLike) -> None:
        """Take the losses (clients, experts) of all experts at all clients, after `predict`."""
        setting, given = self.algorithm.setting, np.array(losses, np.float64)
        if given.shape != (setting.clients, setting.experts):
            raise InvalidValue(
                f"Expected losses of shape {(setting.clients, setting.experts)}, "
                f"(clients, experts), got {given.shape}."
            )
        if isinstance(self.source, SecureNoise):
            _check_without_values(given)
        with self._lock:
            if self._waiting is None:
                raise InvalidValue("observe() was called without predict(). Call predict() first.")
            block = check(
                Block.of(round_to_lattice(given[None])), Linear(), setting, self._run.round, 1
            )
            self._run = self._engine.observe(self._run, block.reports[0])
            self._waiting = None


def _check_without_values(losses: np.ndarray) -> None:
    """Refuse losses outside [0, 1] without showing them.

    Error messages end up in logs, so they must not contain private losses. Only the place of the
    wrong loss is named.
    """
    wrong = np.argwhere(~((losses >= 0) & (losses <= 1)))
    if len(wrong):
        raise InvalidValue(
            f"Expected the loss at {tuple(map(int, wrong[0]))} (client, expert) to be in [0, 1]."
        )

"""A small mutable learner for notebooks and applications: `predict()`, then `observe(losses)`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.algorithms.shared.following import first_awake
from hedgerow.core.block import Side, charged, taken
from hedgerow.core.certificate import Certificate, with_exact_noise
from hedgerow.core.environment import Feature, Traits
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family
from hedgerow.core.noise import NoiseSource, SeededNoise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context, RunState
from hedgerow.core.setting import LOSSES, Setting
from hedgerow.core.turn import Turn
from hedgerow.core.validate import masked, numbers
from hedgerow.engines.loop import Engine
from hedgerow.engines.status import Status
from hedgerow.privacy.secure import SecureNoise
from hedgerow.privacy.secure.process import Home
from hedgerow.privacy.secure.source import require_secure

PUBLIC_FEATURES = frozenset({Feature.SIDE_INFORMATION, Feature.SOME_REPORT})


@dataclass(frozen=True)
class _Position:
    """Where a game stands; replaced in one assignment, so that an interrupt leaves it whole."""

    run: RunState
    play: np.ndarray | None = None  # the last play
    side: Side | None = None
    awake: np.ndarray | None = None  # the experts that could be followed; None: all
    played: bool = False  # whether the round is played, and its records are still to come
    last: np.ndarray | None = None  # the last play of the game, once it is over


class Learner:
    """All clients of one game in one object, played round by round.

    The noise is seeded and serves for simulation. For real data use `Learner.private`.

    Parameters
    ----------
    algorithm
        The algorithm and its choices, for example `hr.SparseVector(epsilon=1.0)`.
    clients, experts
        The number of clients and of experts (or coordinates of a point).
    horizon
        The number of rounds. After them the learner goes on with its last plays, learns nothing
        more and spends no more privacy (`over` says so). None: only for algorithms that need none.
    deciders, family
        As in `Setting`: players other than the clients, and the loss family.
    absent
        Whether clients may be absent in some rounds. Then `observe` takes `present`, and the
        certificate says that presence is public.
    sleeping
        Whether experts may sleep in some rounds, for example because a forecast is missing. Then
        `predict` takes `awake`, and the certificate says that this is public.
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
        self,
        algorithm: AlgorithmSpec,
        *,
        clients: int,
        experts: int,
        horizon: int | None = None,
        deciders: int | None = None,
        family: Family = LOSSES,
        absent: bool = False,
        sleeping: bool = False,
        seed: int = 0,
    ) -> None:
        setting = Setting(clients, experts, horizon, deciders, family)
        built = _in_public(algorithm.build(setting), absent, sleeping)
        self._begin(algorithm, built, SeededNoise(seed), absent, sleeping)

    @classmethod
    def private(
        cls,
        algorithm: AlgorithmSpec,
        *,
        clients: int,
        experts: int,
        horizon: int | None = None,
        deciders: int | None = None,
        family: Family = LOSSES,
        absent: bool = False,
        sleeping: bool = False,
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
        setting = Setting(clients, experts, horizon, deciders, family)
        built = private_algorithm(algorithm, setting, absent, sleeping)
        learner._begin(algorithm, built, require_secure(source), absent, sleeping)
        return learner

    def _begin(
        self,
        spec: AlgorithmSpec,
        algorithm: Algorithm,
        source: NoiseSource,
        absent: bool,
        sleeping: bool,
    ) -> None:
        self._spec = spec
        self._absent, self._sleeping = absent, sleeping
        self._engine = Engine.vectorised(algorithm, source, fused=False)
        self._at = _Position(self._engine.start())
        self._width: int | None = None
        self._warned = False
        self._home = Home()
        self._turn = Turn()  # two threads that ask for the same round must get the same answer

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._private:
            raise TypeError(
                "A private learner cannot be copied or saved: "
                "the copy would answer the same round again with other noise."
            )
        return super().__reduce_ex__(protocol)

    @property
    def absent(self) -> bool:
        """Whether clients may be absent."""
        return self._absent

    @property
    def sleeping(self) -> bool:
        """Whether experts may sleep."""
        return self._sleeping

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
        """The number of rounds that the algorithm has finished."""
        return self._at.run.round

    @property
    def over(self) -> bool:
        """Whether the horizon is reached: plays stay as they are, and nothing more is learned."""
        return self.algorithm.setting.over(self.round)

    def status(self) -> Status:
        """Return where the game stands, for monitoring; it draws nothing and shows no record.

        >>> import hedgerow as hr
        >>> learner = hr.Learner(hr.SparseVector(), clients=2, experts=3, horizon=10)
        >>> status = learner.status()
        >>> status.round, status.exchanges, status.epsilon
        (0, 0, 1.0)
        """
        at, algorithm = self._at, self.algorithm  # one read: a consistent picture
        left = algorithm.shortcuts.switches_left
        return Status.of(
            algorithm,
            self._private,
            at.run.round,
            at.run.exchanges,
            at.run.remaining,
            None if left is None else left(at.run.server),
        )

    def __repr__(self) -> str:
        setting = self.algorithm.setting
        width = "experts" if self.algorithm.plays == "expert" else "coordinates"
        size = f"clients={setting.clients}, {width}={setting.experts}, horizon={setting.horizon}"
        if setting.deciders is not None:
            size += f", deciders={setting.deciders}"
        if setting.family != LOSSES:
            size += f", {setting.family}"
        source, over = (
            type(self.source).__name__,
            " (over: repeats its last plays)" if self.over else "",
        )
        return f"<Learner of {self._spec!r}, {size}, {source}, after round {self.round}{over}>"

    def predict(
        self,
        side: npt.ArrayLike | None = None,
        reporting: npt.ArrayLike | None = None,
        awake: npt.ArrayLike | None = None,
    ) -> np.ndarray:
        """Return the play of each player in this round; repeat calls give the same.

        A play is the number of an expert, or a point. After the horizon it is the last play of the
        game, and a warning says so once. `side` (clients, k) and `reporting` (clients,) are what is
        public about the clients in this round, for algorithms that use it. `awake` (clients,
        experts) marks the experts that each client may follow in this round, for a learner with
        `sleeping=True`; a client for which all sleep must be absent. None: all are awake.
        """
        with self._turn.take():
            self._check_process()
            public, choice = self._public(side, reporting), self._choice(awake)
            if not self._at.played:
                go_on = self._frozen if self.over else self._next
                self._at = go_on(public, choice)
            elif (public is not None and not _equal(public, self._at.side)) or (
                choice is not None and not np.array_equal(choice, _all_or(self._at.awake, choice))
            ):
                raise InvalidValue(
                    "This round is already played with other public information. Call observe()."
                )
            return np.array(self._at.play)

    def _public(self, side: npt.ArrayLike | None, reporting: npt.ArrayLike | None) -> Side | None:
        """Return what is public in this round, checked before anything is kept."""
        given = {Feature.SIDE_INFORMATION: side, Feature.SOME_REPORT: reporting}
        found = frozenset(feature for feature, value in given.items() if value is not None)
        traits, algorithm, clients = Traits(features=found), self.algorithm, self._clients
        traits.require_support(algorithm.name, algorithm.supports)
        if not self._at.played and not self.over:
            traits.require_needed(algorithm.name, algorithm.needs)
        values = None if side is None else np.array(side, np.float64)
        mask = None if reporting is None else np.array(reporting)
        if values is not None and (values.ndim != 2 or len(values) != clients):
            raise InvalidValue(f"Expected side of shape ({clients}, k), got {values.shape}.")
        if values is not None and not np.isfinite(values).all():
            raise InvalidValue("Expected finite side information, found NaN or infinity.")
        if mask is not None and (mask.shape != (clients,) or mask.dtype != np.bool_):
            raise InvalidValue(
                f"Expected reporting to be {clients} times True or False, got {mask.dtype} of "
                f"shape {mask.shape}."
            )
        return Side(values, mask) if found else None

    def _choice(self, awake: npt.ArrayLike | None) -> np.ndarray | None:
        """Return which experts are awake, if sleep was declared."""
        if awake is None:
            return None
        if not self._sleeping:
            raise InvalidValue(
                "This learner was made for experts that never sleep, and so was its certificate. "
                "Make it with sleeping=True."
            )
        mask, shape = np.array(awake), (self._clients, self.algorithm.setting.experts)
        if masked(awake) or mask.shape != shape or mask.dtype != np.bool_:
            raise InvalidValue(
                f"Expected awake to be True or False for {shape} (clients, experts), got "
                f"{mask.dtype} of shape {mask.shape}."
            )
        return mask

    @property
    def _private(self) -> bool:
        return isinstance(self.source, SecureNoise)

    def _check_process(self) -> None:
        if self._private:
            self._home.require("learner")

    @property
    def _clients(self) -> int:
        return self.algorithm.setting.clients

    def _next(self, side: Side | None, awake: np.ndarray | None) -> _Position:
        ready = self._engine.exchange(self._at.run, [])
        play, run = self._engine.play(ready, Context(ready.round, _offered(awake), side))
        return _Position(run, play, side, awake, played=True)

    def _frozen(self, side: Side | None, awake: np.ndarray | None) -> _Position:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"The learner has reached its horizon ({self.algorithm.setting.horizon} rounds). "
                "It repeats its last plays, learns nothing more and spends no more privacy.",
                stacklevel=3,
            )
        last = self._at.play if self._at.last is None else self._at.last
        assert last is not None, "a horizon is at least one round"
        play = last if awake is None else first_awake(last, _offered(awake))
        return replace(self._at, play=play, side=side, awake=awake, played=True, last=last)

    def observe(self, losses: npt.ArrayLike, present: npt.ArrayLike | None = None) -> None:
        """Take the losses (clients, experts) of all experts at all clients, after `predict`.

        In other games it takes the record of each client. After the horizon it is ignored.
        `present` (clients,) marks the clients that had a case in this round, for a learner with
        `absent=True`; the rows of the others are not read and may be NaN or masked. None: all had
        one. Losses of experts that slept (`predict`) are not read, either.
        """
        given = self._records(numbers("records", losses, gaps=self._absent or self._sleeping))
        here = None if present is None else self._present(present)
        with self._turn.take():
            self._check_process()
            if not self._at.played:
                raise InvalidValue("observe() was called without predict(). Call predict() first.")
            run = self._at.run
            if not self.over:
                if self._private:
                    self.algorithm.setting.require_exact_sums(self.round + 1)
                run = self._engine.observe(run, self._checked(given, here), self._at.side)
            # in one assignment: an interrupt must not let the records be counted twice
            self._at = replace(self._at, run=run, played=False)

    def _records(self, given: Array) -> Array:
        """Return the records if they have the right shape; separate deciders leave it open."""
        setting = self.algorithm.setting
        wide = setting.family.record_width(setting.experts)
        if setting.deciders is not None and given.ndim == 2:
            wide = self._width = self._width or given.shape[1]
        if given.shape != (setting.clients, wide):
            shape, plain = (setting.clients, wide), setting.family == LOSSES
            expected = (
                f"losses of shape {shape}, (clients, experts)"
                if plain and setting.deciders is None
                else f"records of shape {shape}, one for each client"
            )
            raise InvalidValue(f"Expected {expected}, got {given.shape}.")
        return given

    def _present(self, given: npt.ArrayLike) -> np.ndarray:
        """Return the mask of present clients, if absence was declared."""
        mask = np.array(given)
        if not self._absent:
            raise InvalidValue(
                "This learner was made for clients that are always present, and so was its "
                "certificate. Make it with absent=True."
            )
        if masked(given) or mask.shape != (self._clients,) or mask.dtype != np.bool_:
            raise InvalidValue(
                f"Expected present to be {self._clients} times True or False, got {mask.dtype} of "
                f"shape {mask.shape}."
            )
        return mask

    def _checked(self, given: Array, present: np.ndarray | None) -> Array:
        """Return what the clients see of the records; refuse those out of range."""
        setting, awake = self.algorithm.setting, self._at.awake
        reporting = None if self._at.side is None else self._at.side.reporting
        records = taken(given, setting, self.round, self._private, awake, present, reporting)
        return records if self._at.play is None else charged(records, awake, self._at.play)


def _in_public(algorithm: Algorithm, absent: bool, sleeping: bool) -> Algorithm:
    """The algorithm in a game whose public facts it may be given; clients, experts may be gone."""
    chosen = {Feature.ABSENT_CLIENTS: absent, Feature.SLEEPING_EXPERTS: sleeping}
    gone = frozenset(feature for feature, may in chosen.items() if may)
    Traits(features=gone).require_support(algorithm.name, algorithm.supports)
    if gone and algorithm.setting.deciders is not None:
        raise Unsupported("Clients can be absent, and experts sleep, only where the clients play.")
    game = algorithm.in_game(Traits(features=algorithm.supports & PUBLIC_FEATURES | gone))
    bound = game.claims.regret_bound
    if sleeping and bound is not None and bound.covers != "adaptive":
        # what is reported of sleeping experts reacts to the plays (`proofs/masks.md`)
        return replace(game, claims=replace(game.claims, regret_bound=None))
    return game


def made_with(
    source: SecureNoise | None, algorithm: AlgorithmSpec, seed: int, **game: Any
) -> Learner:
    """A private learner with this source, or one with seeded noise if there is none."""
    if source is None:
        return Learner(algorithm, **game, seed=seed)
    return Learner.private(algorithm, **game, source=source)


def private_algorithm(
    spec: AlgorithmSpec,
    setting: Setting,
    absent: bool = False,
    sleeping: bool = False,
    apart: bool = False,
) -> Algorithm:
    """The algorithm of a deployment: certified for exact noise, or refused.

    `apart`: every client is a separate party, so that clients can add shares of noise.
    """
    built = spec.build(setting)
    if built.certificate.trust == "distributed" and not apart:
        raise Unsupported(
            f"{built.name} with trust='distributed' needs clients that are separate parties, and "
            "helpers (`hedgerow serve`). In one process choose trust='central' or 'local'."
        )
    if not any(guarantee.protects for guarantee in built.certificate.guarantees):
        raise InvalidValue(f"{built.name} protects nobody. Choose an algorithm with a guarantee.")
    built.require_exact_noise(spec.traits.exact)
    exact = replace(built, certificate=with_exact_noise(built.certificate))
    return _in_public(exact, absent, sleeping)


def _offered(awake: np.ndarray | None) -> np.ndarray | None:
    """The experts that may be chosen; a client for which all sleep is absent and may choose any."""
    return None if awake is None else awake | ~awake.any(axis=-1, keepdims=True)


def _all_or(awake: np.ndarray | None, like: np.ndarray) -> np.ndarray:
    return np.ones_like(like) if awake is None else awake


def _equal(one: Side, other: Side | None) -> bool:
    return other is not None and all(
        np.array_equal(np.asarray(getattr(one, part)), np.asarray(getattr(other, part)))
        for part in ("values", "reporting")
    )

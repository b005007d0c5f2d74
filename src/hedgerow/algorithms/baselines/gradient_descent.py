"""Online gradient descent: play a point, and move it against the mean gradient. Not private."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.shared.points import PlaysPoint
from hedgerow.algorithms.shared.schedule import MEANINGS, Schedule
from hedgerow.core.certificate import Channel, Proof, not_private
from hedgerow.core.convex import CrossEntropy, Huber, Logistic, SquaredError
from hedgerow.core.games import Games
from hedgerow.core.lattice import Array
from hedgerow.core.layout import Vector
from hedgerow.core.limits import Broadcasts, Planned, Points, Uploads
from hedgerow.core.losses import Family, Linear
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.core.units import Event, Unit
from hedgerow.core.validate import at_least, positive


@dataclass(frozen=True)
class GradientSum(Upload):
    """The gradients of one client since its last upload, summed. They are exact."""

    gradients: Vector


@dataclass(frozen=True)
class Point(Broadcast):
    """The point to play."""

    point: Vector


@dataclass(frozen=True)
class DescentClientState:
    """The point to play, and the sum of the gradients at this point."""

    point: Vector
    gradients: Vector


@dataclass(frozen=True)
class Follower(PlaysPoint):
    """Plays the broadcast point and adds up gradients."""

    state: ClassVar[type[Any]] = DescentClientState

    width: int
    family: Family

    def start(self, noise: Noise) -> DescentClientState:
        zeros = np.zeros((*noise.batch, self.width))
        return DescentClientState(zeros, zeros)

    def receive(self, state: DescentClientState, broadcast: Point) -> DescentClientState:
        shape = state.gradients.shape
        return DescentClientState(np.broadcast_to(broadcast.point, shape), np.zeros(shape))

    def observe(
        self, state: DescentClientState, reports: Array, noise: Noise
    ) -> DescentClientState:
        gradients = self.family.gradient(reports, state.point)
        return replace(state, gradients=state.gradients + gradients)

    def observe_many(
        self, state: DescentClientState, reports: Array, noise: Noise
    ) -> DescentClientState:
        gradients = self.family.gradient(reports, state.point)
        # added in order of rounds, so that the sum does not depend on how rounds are grouped
        sums = np.add.accumulate(np.concatenate([state.gradients[None], gradients]))
        return replace(state, gradients=sums[-1])

    def upload(
        self, state: DescentClientState, noise: Noise
    ) -> tuple[GradientSum, DescentClientState]:
        return GradientSum(state.gradients), state


@dataclass(frozen=True)
class DescentServerState:
    """The point that is played, and the number of exchanges."""

    point: Vector
    exchanges: int


@dataclass(frozen=True)
class Descent:
    """Moves the point against the mean gradient, into the domain.

    The step is rate / sqrt(k) after k whole batches; a shorter one counts by its squared length.
    """

    state: ClassVar[type[Any]] = DescentServerState

    width: int
    clients: int
    schedule: Schedule
    rate: float
    family: Family

    def open(self, noise: Noise) -> tuple[Point, DescentServerState]:
        point = self.family.domain.centre(self.width)
        return Point(self.schedule.wait(0), point), DescentServerState(point, 0)

    def aggregate(
        self, state: DescentServerState, uploads: GradientSum, noise: Noise
    ) -> tuple[Point, DescentServerState]:
        exchanges = state.exchanges + 1
        step = self.rate / sqrt(self.schedule.squares_of(exchanges) / self.schedule.every**2)
        moved = state.point - step * uploads.gradients / self.clients
        point = self.family.domain.project(moved)
        return Point(self.schedule.wait(exchanges), point), DescentServerState(point, exchanges)


@dataclass(frozen=True)
class GradientDescent(AlgorithmSpec):
    r"""Play a point and move it against the mean gradient of all clients. Not private.

    $x_{k+1} = \Pi(x_k - \eta_k g_k)$, where $g_k$ is the sum over N rounds of the mean gradient of
    the clients at $x_k$. The step is $\eta_k = D / (N G \sqrt{k})$, where D is the diameter of the
    domain and G bounds the gradients; early batches are shorter and take longer steps. No horizon
    is needed. Nothing is protected: clients send exact gradients.

    The regret against the best point is at most 3/2 D G sqrt(N T) over T rounds where N divides T,
    even if losses react to the plays (`proofs/gradient_descent.md#regret`).

    Parameters
    ----------
    every
        Rounds between two exchanges (N), at least 1 (default).
    rate
        The factor of the step, > 0, instead of D / (N G). None (default): D / (N G).
    early
        Whether there are also exchanges before the rounds 1, 2, 4, ... up to `every`. Default:
        True; without them nothing is known in the first `every` rounds.

    Examples
    --------
    >>> import hedgerow as hr
    >>> family = hr.SquaredError()
    >>> learner = hr.Learner(hr.GradientDescent(), clients=1, experts=2, family=family)
    >>> learner.predict()
    array([[0., 0.]])
    >>> learner.observe([[1.0, 0.0, 1.0]])  # two features and a target
    >>> learner.predict()
    array([[1., 0.]])
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        meanings={"rate": "factor of the step", **MEANINGS},
        anytime=True,
        families=(SquaredError, Logistic, Huber, CrossEntropy, Linear),
    )

    every: int = 1
    rate: float | None = None
    early: bool = True

    def __post_init__(self) -> None:
        at_least("every", self.every, 1)
        if self.rate is not None:
            positive("rate", self.rate)

    def resolve(self, setting: Setting) -> Algorithm:
        family, width = setting.family, setting.experts
        diameter, steepest = family.domain.diameter, family.gradient_bound("l2", width)
        schedule = Schedule.of(self.every, self.early)
        best = diameter / (self.every * steepest)
        rate = best if self.rate is None else self.rate
        return Algorithm(
            name="gradient_descent",
            setting=setting,
            client=Follower(width, family),
            server=Descent(width, setting.clients, schedule, rate, family),
            certificate=not_private(
                "this is a non-private reference that exchanges exact gradients",
                {
                    "GradientSum.gradients": Channel.UPLOADS,
                    "Point.rounds": Channel.TIMING,
                    "Point.point": Channel.BROADCASTS,
                },
                family.record,
            ),
            uploads=Uploads(GradientSum),
            broadcasts=Broadcasts(
                Point, {"rounds": Planned(schedule), "point": Points(family.domain, width)}
            ),
            plays="point",
            claims=Claims(regret_bound=self._bound(setting, schedule, diameter, steepest, rate)),
            parameters={"rate": rate, **schedule.shown(setting)},
        )

    def _bound(
        self, setting: Setting, schedule: Schedule, diameter: float, steepest: float, rate: float
    ) -> RegretBound | None:
        if setting.horizon is None:
            return None
        batches = schedule.squares(setting.horizon) / self.every**2  # in whole ones
        length = self.every * steepest  # of the gradient of a whole batch
        value = sqrt(batches) * (diameter**2 / (2 * rate) + rate * length**2)
        return RegretBound(value, "adaptive", Proof("gradient_descent.md", "regret"))

    def games(self) -> Games:
        """Return games of squared errors."""
        family = SquaredError()

        def stream(rng: Any, setting: Setting) -> Array:
            shape = (setting.rounds, setting.clients, setting.experts + 1)
            return family.clip(rng.normal(size=shape)).records

        def pair(rng: Any, unit: Unit) -> tuple[Array, Array]:
            first = stream(rng, setting)
            second = first.copy()
            client = int(rng.integers(setting.clients))
            rounds = slice(None) if not isinstance(unit, Event) else int(rng.integers(len(first)))
            second[rounds, client] = -first[rounds, client]
            return first, second

        setting = Setting(3, 4, 40, family=family)
        return Games(setting, lambda records: Replay(records, family), stream, pair)

"""The client and the server that walk the trees together.

Both know where the walk is, because it depends only on broadcasts. So a broadcast names one expert,
the vertex of the simplex towards which the point moves, and an upload has d numbers.

With noise at vertices, a client sends the sum over the batch of the new vertex, and the server adds
up what it gets along the path. With noise at leaves, a client adds up along the path itself.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Literal

import numpy as np

from hedgerow.core.certificate import Channel
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.layout import Buffer, Matrix, Vector
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Context
from hedgerow_papers.gao2024.gradients import BoundedGradients
from hedgerow_papers.gao2024.trees import (
    Place,
    Plan,
    Step,
    along,
    first_place,
    largest_move,
    moved,
    roots,
    steps,
)

ANNOUNCED = {"Towards.rounds": Channel.TIMING, "Towards.expert": Channel.BROADCASTS}
Placement = Literal["leaf", "vertex"]


@dataclass(frozen=True)
class GradientSum(Upload):
    """Gradients of one client, summed over a batch or along a path; exact or with noise."""

    gradients: Vector


@dataclass(frozen=True)
class Towards(Broadcast):
    """The expert towards which the point moves; -1 in the opening broadcast."""

    expert: int


@dataclass(frozen=True)
class VertexClientState:
    """Where the walk is, and what the client keeps of the rounds of this phase.

    `used` counts the records that entered a batch, `seen` those that were observed. Losses of
    experts are kept as one sum for each root, other records one by one.
    """

    phase: int
    at: int
    point: Vector
    corners: Matrix
    used: int
    seen: int
    path: Matrix
    sums: Matrix
    records: Buffer


@dataclass(frozen=True)
class Schedule:
    """What both roles know: the plans of all phases, and the gradients with their bounds."""

    plans: tuple[Plan, ...]
    gradients: BoundedGradients
    placement: Placement

    @cached_property
    def _first_leaves(self) -> list[int]:
        """The exchange that announces the first leaf of each phase."""
        return [0, *accumulate(len(steps(plan)) for plan in self.plans)]

    def wait(self, exchange: int) -> int | None:
        """The rounds after an exchange: those of a phase before its first leaf; None: no leaf."""
        phase = bisect_right(self._first_leaves, exchange) - 1
        if phase >= len(self.plans):
            return None
        return 2**phase if exchange == self._first_leaves[phase] else 0

    @property
    def most(self) -> int:
        """The largest number of trees in a phase."""
        return max(plan.trees for plan in self.plans)

    def step(self, state: Any) -> Step:
        """The next leaf. Before the first phase there is one without records."""
        if state.phase < 0:
            return Step(0, 0, 0, 0, 0)
        return steps(self.plans[state.phase])[state.at]

    def bound(self, state: Any, step: Step) -> float:
        """The largest norm of a difference of gradients at a right child; public."""
        parent = state.corners[step.level - 1]
        return self.gradients.bound(state.point, parent, largest_move(step.tree, step.level))

    def place_after(self, state: Any, expert: int) -> Place:
        return moved(self.plans, Place(state.phase, state.at, state.point, state.corners), expert)


@dataclass(frozen=True)
class FrankWolfeClient:
    """Plays the current point; at every leaf it sends gradients of records not used before.

    If there is a mechanism `reporting`, it adds noise before anything leaves the client.
    """

    state: ClassVar[type[Any]] = VertexClientState

    schedule: Schedule
    reporting: Mechanism | None = None

    @property
    def _linear(self) -> bool:
        return self.schedule.gradients.family.linear

    def start(self, noise: Noise) -> VertexClientState:
        gradients, place = self.schedule.gradients, first_place(self.schedule.gradients.width)
        width, batch = gradients.width, noise.batch
        return VertexClientState(
            place.phase,
            place.at,
            place.point,
            place.corners,
            used=0,
            seen=0,
            path=np.zeros((*batch, 1, width)),
            sums=np.zeros((*batch, 1, width)),
            records=Buffer.empty(batch, gradients.family.record_width(width)),
        )

    def receive(self, state: VertexClientState, broadcast: Towards) -> VertexClientState:
        place = self.schedule.place_after(state, broadcast.expert)
        state = replace(
            state, phase=place.phase, at=place.at, point=place.point, corners=place.corners
        )
        if broadcast.rounds == 0:
            return state
        batch, (count, width) = state.records.rows.shape[:-2], state.sums.shape[-2:]
        count = max(1, self.schedule.plans[place.phase].trees)
        return replace(
            state,
            used=0,
            seen=0,
            sums=np.zeros((*batch, count, width)),
            records=Buffer.empty(batch, state.records.rows.shape[-1]),
        )

    def play(
        self, state: VertexClientState, context: Context, noise: Noise
    ) -> tuple[Array, VertexClientState]:
        return np.broadcast_to(state.point, (*noise.batch, *state.point.shape)), state

    def play_many(
        self, state: VertexClientState, rounds: int, noise: Noise
    ) -> tuple[Array, VertexClientState]:
        return np.broadcast_to(state.point, (rounds, *noise.batch, *state.point.shape)), state

    def observe(self, state: VertexClientState, reports: Array, noise: Noise) -> VertexClientState:
        return self.observe_many(state, reports[None], noise)

    def observe_many(
        self, state: VertexClientState, reports: Array, noise: Noise
    ) -> VertexClientState:
        plan, first, last = self.schedule.plans[state.phase], state.seen, state.seen + len(reports)
        if not self._linear:
            kept = np.moveaxis(reports[: max(0, plan.used - first)], 0, -2)
            return replace(state, seen=last, records=state.records.extend(kept))
        sums = state.sums.copy()
        for step in roots(plan):
            part = reports[max(step.start - first, 0) : max(step.start + step.count - first, 0)]
            sums[..., step.root, :] += part.sum(axis=0)
        return replace(state, seen=last, sums=sums)

    def upload(
        self, state: VertexClientState, noise: Noise
    ) -> tuple[GradientSum, VertexClientState]:
        step = self.schedule.step(state)
        self._require_fresh(state, step)
        value = increment = self._increment(state, step)
        state = replace(state, used=step.start + step.count)
        if self.schedule.placement == "leaf":
            path = along(state.path, step, increment * 2.0**step.level, step.tree)
            state = replace(state, path=path)
            value = path[..., -1, :] * 2.0 ** (self.schedule.most - step.tree)
        sent = value if self.reporting is None else noise.release(self.reporting, value)
        return GradientSum(sent), state

    def _require_fresh(self, state: VertexClientState, step: Step) -> None:
        """Refuse a batch with a record that was used before, or that is not there."""
        if state.used > step.start or state.seen < step.start + step.count:
            raise InvalidValue(
                f"Expected a batch of records not used before, got records {step.start} to "
                f"{step.start + step.count - 1} with {state.used} used of {state.seen}."
            )

    def _increment(self, state: VertexClientState, step: Step) -> Array:
        """The sum over the batch of the new vertex."""
        schedule, gradients = self.schedule, self.schedule.gradients
        if self._linear:
            own = state.sums[..., step.root, :]
            return own if step.level == 0 else np.zeros_like(own)
        rows = state.records.rows[..., step.start : step.start + step.count, :]
        if step.level == 0:
            return gradients.at(rows, state.point)
        bound = schedule.bound(state, step)
        scale = 1.0
        if schedule.placement == "vertex":  # every vertex then has the same sensitivity
            scale = gradients.reach / (2.0 * bound) if bound > 0 else 0.0
        return gradients.between(rows, state.point, state.corners[step.level - 1], bound, scale)


@dataclass(frozen=True)
class VertexServerState:
    """Where the walk is, and the sums of increments along the path."""

    phase: int
    at: int
    point: Vector
    corners: Matrix
    path: Matrix


@dataclass(frozen=True)
class FrankWolfeServer:
    """Moves the point towards the expert with the smallest estimated gradient.

    If there is a mechanism `adding`, uploads are exact: it adds noise to a vertex's sum, or, with
    noise at leaves, it chooses the expert.
    """

    state: ClassVar[type[Any]] = VertexServerState

    schedule: Schedule
    adding: Mechanism | None = None

    def open(self, noise: Noise) -> tuple[Towards, VertexServerState]:
        place = first_place(self.schedule.gradients.width)
        return self._send(replace(place, phase=-1), -1, np.zeros((1, len(place.point))))

    def aggregate(
        self, state: VertexServerState, uploads: GradientSum, noise: Noise
    ) -> tuple[Towards, VertexServerState]:
        step, value, path = self.schedule.step(state), np.asarray(uploads.gradients), state.path
        if self.schedule.placement == "leaf":
            expert = (
                int(np.argmin(value))
                if self.adding is None
                else int(noise.release(self.adding, value))
            )
        else:
            released = value if self.adding is None else noise.release(self.adding, value)
            path = along(path, step, self.weight(state, step) * released, step.tree)
            expert = int(np.argmin(path[-1]))
        return self._send(state, expert, path)

    def weight(self, state: Any, step: Step) -> float:
        """What a vertex's sum counts for, in units of the sum at the root."""
        if step.level == 0:
            return 1.0
        return (
            2.0**step.level * 2.0 * self.schedule.bound(state, step) / self.schedule.gradients.reach
        )

    def _send(self, state: Any, expert: int, path: Array) -> tuple[Towards, VertexServerState]:
        place = self.schedule.place_after(state, expert)
        rounds = 2**place.phase if place.at == 0 else 0
        after = VertexServerState(place.phase, place.at, place.point, place.corners, path)
        return Towards(rounds, expert), after

"""The roles of online learning: clients send gradients, the server sends the next model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.correlated.decoding import (
    DecodingServer,
    DecodingState,
)
from hedgerow.algorithms.learning.rounds import LocalRound
from hedgerow.core.domain import Domain
from hedgerow.core.lattice import Array
from hedgerow.core.layout import Matrix, Vector, Whole
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Context
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow.running_sums.lattice import LatticeEncoder, memory_of_clients


@dataclass(frozen=True)
class Released(Broadcast):
    """The model of the next round, as one flat vector."""

    model: Vector


@dataclass(frozen=True)
class GradientSums(Upload):
    """The clipped gradients of one client in one round, added up; filtered and noisy, or exact."""

    sums: Vector


@dataclass(frozen=True)
class LearnerState:
    """The released model, the sum for its average, models so far, the round sum, and the filter;
    and how many losses or gradients were not finite.
    """

    model: Vector
    trail: Vector
    models: Whole
    sums: Vector
    memory: Matrix
    odd: Whole


@dataclass(frozen=True)
class LearningClient:
    """Plays the released model, or the average of the released models, and adds up gradients.

    If there is an encoder, the round sum is filtered and gets noise before it leaves the client.
    """

    state: ClassVar[type[Any]] = LearnerState

    work: LocalRound
    average: float | None = None
    encoder: LatticeEncoder | None = None
    reporting: GaussianNoise | None = None

    def start(self, noise: Noise) -> LearnerState:
        shape = (*noise.batch, self.work.width)
        trail = np.zeros(shape if self.average is not None else (*noise.batch, 0))
        memory = memory_of_clients(self.encoder, shape)
        none = np.zeros(noise.batch, np.int64)
        return LearnerState(np.zeros(shape), trail, none, np.zeros(shape), memory, none)

    def receive(self, state: LearnerState, broadcast: Released) -> LearnerState:
        model = np.asarray(broadcast.model)
        shape, trail = state.sums.shape, state.trail
        if self.average is not None:
            one = common_row(trail) * self.average + (1 - self.average) * model
            trail = np.broadcast_to(one, shape)
        return LearnerState(
            np.broadcast_to(model, shape),
            trail,
            np.asarray(state.models + 1),
            np.zeros(shape),
            state.memory,
            state.odd,
        )

    def play(
        self, state: LearnerState, context: Context, noise: Noise
    ) -> tuple[Array, LearnerState]:
        if self.average is None:
            return state.model, state
        weight = 1 - self.average ** int(state.models.flat[0])
        return np.broadcast_to(common_row(state.trail) / weight, state.model.shape), state

    def observe(self, state: LearnerState, reports: Array, noise: Noise) -> LearnerState:
        sums, odd = self.work.sums(common_row(state.model), reports)
        return replace(state, sums=sums, odd=np.asarray(state.odd + odd))

    def upload(self, state: LearnerState, noise: Noise) -> tuple[GradientSums, LearnerState]:
        if self.encoder is None or self.reporting is None:
            return GradientSums(state.sums), state
        before = int(state.models.flat[0]) - 1  # a model arrives after every upload
        values, memory = self.encoder.step_clients(max(0, before), state.memory, state.sums)
        return GradientSums(noise.release(self.reporting, values)), replace(state, memory=memory)


def common_row(values: Array) -> Array:
    """The vector that all clients have in common."""
    return values.reshape(-1, values.shape[-1])[0]


@dataclass(frozen=True)
class TrainerState(DecodingState):
    """The state of a server that decodes sums, and their average for momentum (`trail`)."""

    trail: Vector


@dataclass(frozen=True, kw_only=True)
class TrainingServer(DecodingServer):
    """Sends the next model: a step along the decoded sums of all clients' gradients."""

    state: ClassVar[type[Any]] = TrainerState

    first: Array
    domain: Domain
    rate: float
    momentum: float = 0.0

    def open(self, noise: Noise) -> tuple[Released, TrainerState]:
        return Released(1, self.first), _with_trail(self.start(), np.zeros(self.first.shape))

    def aggregate(
        self, state: TrainerState, uploads: GradientSums, noise: Noise
    ) -> tuple[Released, TrainerState]:
        sums, after = self.running_sums(state, uploads.sums, noise)
        trail = self.momentum * state.trail + (1 - self.momentum) * sums
        model = self.domain.project(self.first - self.rate * trail)
        return Released(1, model), _with_trail(after, trail)


def _with_trail(state: DecodingState, trail: Array) -> TrainerState:
    return TrainerState(state.exchanges, state.filtered, state.decoded, trail)

"""The client that answers one question about its target, and the server that learns weights.

The client says whether the combination was too high. The server adds up answers times forecasts and
shrinks the sums towards 0 as far as they may be noise (`proofs/private_mixture.md#weights`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.shared.points import PlaysPoint
from hedgerow.core.combination import PublicForecasts
from hedgerow.core.lattice import Array
from hedgerow.core.layout import Matrix, Value, Vector
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.privacy.mechanisms import RandomisedResponse

MEMORIES = np.array([[1.0], [0.9]])  # of the two learners
PRIOR = np.array([0.475, 0.475, 0.05])  # of the two learners and the plain average
SHARPNESS = 2.0  # of the weights of a learner
BOLDNESS = 2.0  # the rate above the learners, over the one with the smallest proven bound


@dataclass(frozen=True)
class Answer(Upload):
    """Whether the combination was too high (1) or not (-1), which may be turned by chance.

    `forecasts` are those that the answer is about, minus their mean, and `middle` is the middle of
    the slopes at the level that was drawn. Both are public.
    """

    sign: Value | float
    forecasts: Vector
    middle: Value | float


@dataclass(frozen=True)
class Weights(Broadcast):
    """The weight of each forecaster."""

    point: Vector


@dataclass(frozen=True)
class ClientState:
    """The weights, and the answer to send. The target itself is not kept."""

    point: Vector
    sign: Value
    forecasts: Vector
    middle: Value


@dataclass(frozen=True)
class Answering(PlaysPoint):
    """Plays the weights of the server and answers once about every target."""

    state: ClassVar[type[Any]] = ClientState

    width: int
    family: PublicForecasts
    response: RandomisedResponse | None = None

    def start(self, noise: Noise) -> ClientState:
        shape = (*noise.batch, self.width)
        point = np.broadcast_to(np.full(self.width, 1.0 / self.width), shape)
        return ClientState(point, np.ones(noise.batch), np.zeros(shape), np.zeros(noise.batch))

    def receive(self, state: ClientState, broadcast: Weights) -> ClientState:
        return replace(state, point=np.broadcast_to(broadcast.point, state.forecasts.shape))

    def observe(self, state: ClientState, reports: Array, noise: Noise) -> ClientState:
        family, slopes = self.family, np.array(self.family.slopes)
        level = np.zeros(noise.batch, np.int64)
        if len(slopes) > 1:
            level = np.asarray(noise.index(len(slopes), "level"))  # a public coin
        forecasts = family.at_level(reports, level)
        scores = np.einsum("...d,...d->...", forecasts, state.point)
        low, high = slopes[level, 0], slopes[level, 1]
        middle, half = (low + high) / 2, (high - low) / 2
        share = (family.slope(scores, reports[..., -1], level) - middle) / half
        centred = forecasts - forecasts.mean(axis=-1, keepdims=True)
        return replace(
            state, sign=self._sent(share, noise), forecasts=centred, middle=np.asarray(middle)
        )

    def _sent(self, share: Array, noise: Noise) -> Array:
        """A slope, from -1 to 1, as it may be seen: one sign, turned by chance."""
        if self.response is None:
            return np.asarray(share)
        if self.family.jumps:
            sign = np.where(share > 0, 1.0, -1.0)
        else:  # to a sign with the mean `share`, by a coin that protects nothing
            sign = np.where(2 * noise.draw("uniform", "rounding") - 1 < share, 1.0, -1.0)
        return np.asarray(noise.release(self.response, sign))

    def upload(self, state: ClientState, noise: Noise) -> tuple[Answer, ClientState]:
        return Answer(state.sign[()], state.forecasts, state.middle[()]), state


@dataclass(frozen=True)
class ServerState:
    """What the learners and the weights above them remember; rows of matrices are combinations."""

    sums: Matrix
    squares: Matrix
    noise: Matrix
    combinations: Matrix
    losses: Vector
    total: float
    largest: float


@dataclass(frozen=True)
class Learning:
    """Learns weights from answers: two learners, the plain average, and weights above the three.

    `half` is half the range of slopes and `steepest` the largest; `gain` makes answers unbiased,
    `spare` is the variance that this adds, and `variance` bounds that of the noise in a rate.
    """

    state: ClassVar[type[Any]] = ServerState

    width: int
    half: float
    steepest: float
    gain: float
    spare: float
    variance: float

    def open(self, noise: Noise) -> tuple[Weights, ServerState]:
        zeros = np.zeros((len(MEMORIES), self.width))
        equal = np.full((len(PRIOR), self.width), 1.0 / self.width)
        state = ServerState(zeros, zeros, zeros, equal, np.zeros(len(PRIOR)), 0.0, 0.0)
        return Weights(1, equal[0]), state

    def aggregate(
        self, state: ServerState, uploads: Answer, noise: Noise
    ) -> tuple[Weights, ServerState]:
        squares = uploads.forecasts * uploads.forecasts
        counted = int(np.count_nonzero(squares @ np.ones(self.width)))
        if counted:
            state = self._learn(state, uploads, squares, counted)
        rate = 0.0
        if state.total > 0:
            rate = BOLDNESS * sqrt(log(len(PRIOR)) / (2 * (state.total + state.largest)))
        above = _normalised(np.log(PRIOR) - rate * state.losses)
        return Weights(1, above @ state.combinations), state

    def _learn(
        self, state: ServerState, uploads: Answer, squares: Array, counted: int
    ) -> ServerState:
        forecasts = uploads.forecasts
        reports = uploads.middle + self.half * self.gain * uploads.sign
        gradient = reports @ forecasts / counted
        size = self.half**2 * (np.ones(len(squares)) @ squares) / counted
        spread = np.ptp(state.combinations @ forecasts.T, axis=0)
        shown = (self.steepest * spread.sum() / counted) ** 2
        hidden = self.half**2 * self.variance * float(spread @ spread) / counted**2
        energy = float(shown + hidden) / 8
        learned = replace(
            state,
            sums=MEMORIES * state.sums + gradient,
            squares=MEMORIES**2 * state.squares + size,
            noise=MEMORIES**2 * state.noise + self.spare / counted * size,
            losses=state.losses + state.combinations @ gradient,
            total=state.total + energy,
            largest=max(state.largest, energy),
        )
        return replace(learned, combinations=self._combinations(learned))

    def _combinations(self, state: ServerState) -> Array:
        """The weights of the two learners, shrunk as far as they may be noise; equal weights."""
        deviation = np.sqrt(state.squares + state.noise)
        seen = deviation > 0
        inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=seen)
        scores = state.sums * inverse
        share = (state.noise * inverse**2).sum(axis=1)
        energy = np.einsum("kd,kd->k", scores, scores)
        most = (1 + share / self.width) * share
        kept = np.divide(energy - most, energy, out=np.zeros_like(energy), where=energy > most)
        learned = _normalised(-SHARPNESS * sqrt(log(self.width)) * kept[:, None] * scores)
        return np.vstack([learned, np.full(self.width, 1.0 / self.width)])


def _normalised(logits: Array) -> Array:
    """Weights in proportion to the exponentials, which add up to 1."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)

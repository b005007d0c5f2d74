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


def asked(family: PublicForecasts, records: Array, level: np.ndarray, points: Array) -> Answer:
    """The exact answer about records at a level: the slope at some weights, from -1 to 1."""
    slopes = np.array(family.slopes)
    forecasts = family.at_level(records, level)
    scores = np.einsum("...d,...d->...", forecasts, points)
    low, high = slopes[level, 0], slopes[level, 1]
    middle, half = (low + high) / 2, (high - low) / 2
    share = (family.slope(scores, records[..., -1], level) - middle) / half
    return Answer(share, forecasts - forecasts.mean(axis=-1, keepdims=True), middle)


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
        level, levels = np.zeros(noise.batch, np.int64), len(self.family.slopes)
        if levels > 1:
            level = np.asarray(noise.index(levels, "level"))  # a public coin
        exact = asked(self.family, reports, level, state.point)
        sign = self._sent(np.asarray(exact.sign), noise)
        middle = np.asarray(exact.middle)
        return replace(state, sign=sign, forecasts=exact.forecasts, middle=middle)

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
    total: Value | float
    largest: Value | float


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

    @classmethod
    def exact(cls, family: PublicForecasts, width: int) -> Learning:
        """Return the server for answers without noise."""
        slopes = family.slopes
        half = (slopes[0][1] - slopes[0][0]) / 2  # the same at every level
        steepest = max(max(map(abs, pair)) for pair in slopes)
        return cls(width, half, steepest, 1.0, 0.0, 0.0)

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
        return Weights(1, self.shares(state) @ state.combinations), state

    def shares(self, state: ServerState) -> Array:
        """How much each of the three combinations counts now."""
        rate = np.zeros_like(state.total)
        energy = 2 * (state.total + state.largest)
        np.divide(log(len(PRIOR)), energy, out=rate, where=np.asarray(energy > 0))
        rate = BOLDNESS * np.sqrt(rate)
        return normalised(np.log(PRIOR) - rate[..., None] * state.losses)

    def _learn(
        self, state: ServerState, uploads: Answer, squares: Array, counted: int
    ) -> ServerState:
        forecasts = uploads.forecasts
        reports = uploads.middle + self.half * self.gain * uploads.sign
        gradient = reports @ forecasts / counted
        size = self.half**2 * (np.ones(len(squares)) @ squares) / counted
        # combinations that are equal differ by 0, and not by what rounding leaves
        apart = state.combinations - state.combinations[-1]
        spread = np.ptp(apart @ forecasts.T, axis=0)
        shown = (self.steepest * spread.sum() / counted) ** 2
        hidden = self.half**2 * self.variance * float(spread @ spread) / counted**2
        paid = state.combinations @ gradient
        energy = float(shown + hidden) / 8
        after = self.moved(state, gradient, size, self.spare / counted * size, paid, energy)
        return replace(after, largest=float(after.largest))

    def moved(
        self,
        state: ServerState,
        gradient: Array,
        size: Array,
        noise: Array | float,
        paid: Array,
        energy: Array | float,
    ) -> ServerState:
        """The state after a gradient (..., d), its size and noise, and what combinations paid.

        There may be further axes in front, for clients that learn by themselves.
        """
        learned = replace(
            state,
            sums=MEMORIES * state.sums + gradient[..., None, :],
            squares=MEMORIES**2 * state.squares + size[..., None, :],
            noise=MEMORIES**2 * state.noise + np.asarray(noise)[..., None, :],
            losses=state.losses + paid,
            total=state.total + energy,
            largest=np.maximum(state.largest, energy),
        )
        return replace(learned, combinations=self._combinations(learned))

    def _combinations(self, state: ServerState) -> Array:
        """The weights of the two learners, shrunk as far as they may be noise; equal weights."""
        learned = shrunk_weights(state.sums, state.squares, state.noise)
        equal = np.broadcast_to(1.0 / self.width, (*learned.shape[:-2], 1, self.width))
        return np.concatenate([learned, equal], axis=-2)


def shrunk_weights(sums: Array, squares: Array, noise: Array) -> Array:
    """Weights from noisy sums of gradients (..., d), shrunk as far as these may be noise.

    `squares` is how large exact sums are by chance, squared, and `noise` the variance of the noise.
    """
    width, deviation = sums.shape[-1], np.sqrt(squares + noise)
    seen = deviation > 0
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=seen)
    scores = sums * inverse
    share = (noise * inverse**2).sum(axis=-1)
    energy = np.einsum("...d,...d->...", scores, scores)
    most = (1 + share / width) * share
    kept = np.divide(energy - most, energy, out=np.zeros_like(energy), where=energy > most)
    return normalised(-SHARPNESS * sqrt(log(width)) * kept[..., None] * scores)


def normalised(logits: Array) -> Array:
    """Weights in proportion to the exponentials, which add up to 1."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)

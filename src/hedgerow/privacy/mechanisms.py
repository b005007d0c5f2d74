"""Mechanisms: the only code that draws noise which protects. One object draws the release and knows its scale, so that the
release and the claim cannot drift apart; `AboveThreshold` and `ExponentialMechanism` state their cost as a curve.

Each mechanism has a `purpose` (the name of its noise stream), a `sensitivity` (how far the value handed to `release` may move
between neighbouring inputs), `sample`, `distance` (in which the sensitivity is measured), `uniformise` (maps an output to a
number that is uniform on [0, 1] exactly when the sampler follows its law), `probe` (a value whose output says much
about the amount of noise), `outcomes` (all possible outputs where there are
finitely many) and `scaled` (the same with other noise).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hedgerow.core.checks import positive
from hedgerow.core.errors import InvalidValue
from hedgerow.core.noise import Noise
from hedgerow.privacy.composition import round_up
from hedgerow.privacy.curves import PureDP

Law = Literal["laplace", "exponential"]
Values = npt.NDArray[np.float64]


def _log_survival(law: Law, x: npt.ArrayLike) -> Values:
    """ln Pr(noise > x) at unit scale."""
    x = np.asarray(x, float)
    tail = -np.abs(x)
    if law == "exponential":
        return np.where(x >= 0, tail, 0.0)
    return np.where(x >= 0, tail - np.log(2), np.log1p(-0.5 * np.exp(tail)))


def _log_cdf(law: Law, x: npt.ArrayLike) -> Values:
    """ln Pr(noise <= x) at unit scale."""
    x = np.asarray(x, float)
    if law == "exponential":
        positive_part = np.maximum(x, 0.0)
        with np.errstate(divide="ignore"):
            near, far = np.log(-np.expm1(-positive_part)), np.log1p(-np.exp(-positive_part - (positive_part == 0)))
        return np.where(x > 0, np.where(positive_part < 0.7, near, far), -np.inf)
    return _log_survival(law, -x)


def _log_density(law: Law, x: Values) -> Values:
    if law == "exponential":
        return np.where(x >= 0, -np.maximum(x, 0), -np.inf)
    return -np.abs(x) - np.log(2)


@dataclass(frozen=True)
class AdditiveNoise:
    """value + scale * noise, with Laplace noise or one-sided exponential noise (which only ever raises the value)."""

    purpose: str
    law: Law
    scale: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        positive("sensitivity", self.sensitivity)

    @property
    def curve(self) -> PureDP:
        """Releasing the noisy value itself; one-sided noise alone protects nothing, it only serves inside `AboveThreshold`."""
        return PureDP(round_up(Fraction(self.sensitivity) / Fraction(self.scale)) if self.law == "laplace" else inf)

    def sample(self, value: Any, noise: Noise) -> Any:
        return value + self.scale * noise.draw(self.law, self.purpose, np.shape(value)[len(noise.batch) :])

    def distance(self, value: Any, other: Any) -> float:
        return float(np.abs(np.subtract(value, other)).sum())

    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        del coin
        return float(np.exp(_log_cdf(self.law, (output - value) / self.scale)))

    def outcomes(self, value: Any) -> None:
        del value

    def probe(self) -> float:
        return 0.0

    def scaled(self, factor: float) -> AdditiveNoise:
        return replace(self, scale=self.scale * factor)


@dataclass(frozen=True)
class Comparison:
    """Is margin + scale * noise > 0? The answer to one sparse-vector query; its cost is part of `AboveThreshold`."""

    purpose: str
    law: Law
    scale: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        positive("sensitivity", self.sensitivity)

    def sample(self, value: Any, noise: Noise) -> Any:
        answers = self.answers(value, noise.draw(self.law, self.purpose, np.shape(value)[len(noise.batch) :]))
        return answers if np.ndim(answers) else bool(answers)

    def answers(self, margins: Any, unit_noise: Any) -> Any:
        """The comparison itself: one margin or many."""
        return margins + self.scale * unit_noise > 0

    def distance(self, value: Any, other: Any) -> float:
        return abs(float(value) - float(other))

    def probability(self, margin: float) -> float:
        return float(np.exp(_log_survival(self.law, -margin / self.scale)))

    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        above = self.probability(value)
        likely, happened = (above, output) if above >= 0.5 else (1 - above, not output)
        return coin * likely if happened else likely + coin * (1 - likely)

    def outcomes(self, value: Any) -> tuple[bool, ...]:
        del value
        return (False, True)

    def probe(self) -> float:
        return -self.scale

    def scaled(self, factor: float) -> Comparison:
        return replace(self, scale=self.scale * factor)


@dataclass(frozen=True)
class AboveThreshold:
    """Sparse vector with a fresh noisy threshold for every run: q + noise > threshold + noise ends the run.

    One datum moves all later queries of one run by the same constant (and the queries of no other run), so the cost is
    sensitivity * max(1/threshold_scale, 1/query_scale), once for all runs together: `proofs/sparse_vector.md#one-run`.
    """

    law: Law
    threshold_scale: float
    query_scale: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        positive("threshold_scale", self.threshold_scale)
        positive("query_scale", self.query_scale)
        positive("sensitivity", self.sensitivity)

    @property
    def threshold_noise(self) -> AdditiveNoise:
        return AdditiveNoise("threshold", self.law, self.threshold_scale, self.sensitivity)

    @property
    def comparison(self) -> Comparison:
        return Comparison("query", self.law, self.query_scale, self.sensitivity)

    @property
    def curve(self) -> PureDP:
        return PureDP(round_up(Fraction(self.sensitivity) / Fraction(min(self.threshold_scale, self.query_scale))))

    def begin(self, threshold: float, noise: Noise) -> float:
        """A new run: the noisy threshold."""
        return float(noise.release(self.threshold_noise, threshold))

    def above(self, query: float, noisy_threshold: float, noise: Noise) -> bool:
        """One query of the run."""
        return noise.release(self.comparison, query - noisy_threshold)

    def first_above(self, queries: Values, noisy_threshold: float, unit_noise: Values) -> int | None:
        """Many queries of one run at once: the index of the first answer "above", if any."""
        answers = self.comparison.answers(queries - noisy_threshold, unit_noise)
        first = int(np.argmax(answers))
        return first if answers[first] else None

    def draw_queries(self, count: int, noise: Noise) -> Values:
        """The unit noise of the next `count` queries."""
        return noise.draw(self.law, "query", rounds=count)

    def log_probability(self, queries: npt.ArrayLike, threshold: float, ended: bool) -> float:
        """Exact log-probability of a run: all queries below, except that the last is above where the run `ended`.

        The integral over the threshold noise is split where a factor has a kink, and Gauss-Legendre is exact to rounding on
        each piece.
        """
        return _log_probability(self, tuple(np.asarray(queries, float).tolist()), threshold, ended)


@lru_cache(maxsize=4096)
def _log_probability(run: AboveThreshold, answered: tuple[float, ...], threshold: float, ended: bool) -> float:
    """The integral behind `AboveThreshold.log_probability`."""
    if not answered:
        return 0.0
    queries = np.array(answered)
    below = queries[:-1] if ended else queries
    values, counts = np.unique(below, return_counts=True)
    kinks = np.append(queries, threshold) - threshold
    width = min(run.threshold_scale, run.query_scale)
    low = kinks.min() - 45 * run.threshold_scale if run.law == "laplace" else max(0.0, *(values - threshold), 0.0)
    high = max(low, kinks.max()) + 45 * (run.threshold_scale + run.query_scale)
    grid = np.concatenate([np.linspace(low, high, 2 + int((high - low) / width)), kinks[(kinks > low) & (kinks < high)]])
    edges = np.unique(grid)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, None] / 2
    z = (edges[:-1, None] + half + half * nodes).ravel()
    log_value = np.log((half * weights).ravel() / run.threshold_scale)
    log_value += _log_density(run.law, z / run.threshold_scale)
    for value, count in zip(values, counts, strict=True):
        log_value += count * _log_cdf(run.law, (threshold + z - value) / run.query_scale)
    if ended:
        log_value += _log_survival(run.law, (threshold + z - queries[-1]) / run.query_scale)
    top = log_value.max()
    return float(top + np.log(np.exp(log_value - top).sum())) if np.isfinite(top) else -np.inf


@dataclass(frozen=True)
class ExponentialMechanism:
    """Choose i with probability proportional to exp(-epsilon * score[i] / (2 * sensitivity)): small scores are good.

    epsilon-DP when every score moves by at most `sensitivity`: `proofs/sparse_vector.md#selection`.
    """

    purpose: str
    epsilon: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        positive("sensitivity", self.sensitivity)

    @property
    def curve(self) -> PureDP:
        return PureDP(self.epsilon)

    def _logits(self, scores: Any) -> Values:
        scores = np.asarray(scores, float)
        if not np.isfinite(scores).all():
            raise InvalidValue("Expected finite scores for the exponential mechanism.")
        return (scores.min(axis=-1, keepdims=True) - scores) * (self.epsilon / (2 * self.sensitivity))

    def sample(self, value: Any, noise: Noise) -> Any:
        chosen = np.argmax(self._logits(value) + noise.draw("gumbel", self.purpose, np.shape(value)[len(noise.batch) :]), axis=-1)
        return chosen if np.ndim(chosen) else int(chosen)

    def probabilities(self, scores: Any) -> Values:
        weights = np.exp(self._logits(scores))
        return weights / weights.sum(axis=-1, keepdims=True)

    def log_probability(self, scores: Any, choice: int) -> float:
        logits = self._logits(scores)
        return float(logits[choice] - np.log(np.exp(logits).sum()))

    def distance(self, value: Any, other: Any) -> float:
        return float(np.abs(np.subtract(value, other)).max())

    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        probabilities = self.probabilities(value)
        better = np.asarray(value) < value[output]  # best first: other noise moves mass from one end to the other
        tied = np.flatnonzero(np.asarray(value) == value[output])
        before = probabilities[better].sum() + probabilities[tied[tied < output]].sum()
        return float(before + coin * probabilities[output])

    def outcomes(self, value: Any) -> tuple[int, ...]:
        return tuple(range(len(value)))

    def probe(self) -> Values:
        return np.array([0.0, 3.0 * self.sensitivity / self.epsilon])

    def scaled(self, factor: float) -> ExponentialMechanism:
        return replace(self, epsilon=self.epsilon / factor)

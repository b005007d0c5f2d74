"""The sparse vector technique: compare a noisy query with a noisy threshold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow.core.lattice import exact_scales
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.noise import Noise
from hedgerow.core.rounding import round_up
from hedgerow.core.validate import positive
from hedgerow.privacy.curves import PureDP
from hedgerow.privacy.mechanisms.additive import (
    AdditiveNoise,
    Law,
    Values,
    check_law,
    log_cdf,
    log_density,
    log_survival,
)


@dataclass(frozen=True)
class Comparison(Mechanism):
    """The answer to one sparse-vector query: whether margin + scale * noise > 0.

    Its cost is part of `AboveThreshold`.
    """

    exact: ClassVar[bool] = True  # secure noise has a sampler for it

    purpose: str
    law: Law
    scale: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        check_law(self.law)
        positive("scale", self.scale)
        positive("sensitivity", self.sensitivity)

    def noise_scale(self) -> float:
        return self.scale

    def exact_scales(self, width: int, moved: int = 1) -> tuple[float, float]:
        return exact_scales(self.law, width)

    def words(self) -> str:
        return self.law

    def sample(self, value: Any, noise: Noise) -> Any:
        drawn = noise.draw(
            self.law, self.purpose, np.shape(value)[len(noise.batch) :], scale=self.scale
        )
        answers = self.answers(noise.lattice(value), drawn)
        return answers if np.ndim(answers) else bool(answers)

    def answers(self, margins: Any, drawn: Any) -> Any:
        """Compare one margin or many with 0."""
        return margins + drawn > 0

    def distance(self, value: Any, other: Any) -> float:
        return abs(float(value) - float(other))

    def probability(self, margin: float) -> float:
        return float(np.exp(log_survival(self.law, -margin / self.scale)))

    def log_density(self, value: Any, output: Any) -> float:
        threshold = -np.asarray(value, float) / self.scale
        above, below = log_survival(self.law, threshold), log_cdf(self.law, threshold)
        return float(np.where(output, above, below).sum())

    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        above = self.probability(value)
        likely, happened = (above, output) if above >= 0.5 else (1 - above, not output)
        return coin * likely if happened else likely + coin * (1 - likely)

    def outcomes(self, value: Any) -> tuple[bool, ...]:
        return (False, True)

    def probe(self) -> float:
        return -self.scale

    def scaled(self, factor: float) -> Comparison:
        return replace(self, scale=self.scale * factor)


@dataclass(frozen=True)
class AboveThreshold:
    """The sparse vector technique, with a fresh noisy threshold for every sequence of queries.

    A sequence ends with the first query for which query + noise > threshold + noise.

    Parameters
    ----------
    law
        The law of both noises: "laplace" or "exponential".
    threshold_scale
        The scale of the noise of the threshold, > 0.
    query_scale
        The scale of the noise of a query, > 0.
    sensitivity
        The largest change of a query between neighbouring inputs. Default: 1.

    Guarantee
    ---------
    epsilon-DP with epsilon = sensitivity * max(1 / threshold_scale, 1 / query_scale), once for all
    sequences together. It holds if one datum moves all later queries of one sequence by the same
    constant, and no query of another sequence (`proofs/sparse_vector.md#one-run`).

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.privacy import AboveThreshold
    >>> test = AboveThreshold("laplace", threshold_scale=2.0, query_scale=4.0)
    >>> test.curve
    PureDP(bound=0.5)
    >>> round(float(np.exp(test.log_probability([0.0], threshold=0.0, ended=True))), 6)
    0.5
    """

    law: Law
    threshold_scale: float
    query_scale: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        check_law(self.law)
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
        return PureDP(
            round_up(
                Fraction(self.sensitivity) / Fraction(min(self.threshold_scale, self.query_scale))
            )
        )

    def begin(self, threshold: float, noise: Noise) -> float:
        """Begin a sequence: the noisy threshold."""
        return float(noise.release(self.threshold_noise, threshold))

    def above(self, query: float, noisy_threshold: float, noise: Noise) -> bool:
        """Answer one query of the sequence."""
        return noise.release(self.comparison, query - noisy_threshold)

    def first_above(self, queries: Values, noisy_threshold: float, drawn: Values) -> int | None:
        """Answer many queries at once: the index of the first answer "above", if any."""
        answers = self.comparison.answers(queries - noisy_threshold, drawn)
        first = int(np.argmax(answers))
        return first if answers[first] else None

    def draw_queries(self, count: int, noise: Noise) -> Values:
        """Draw the noise of the next `count` queries."""
        return noise.draw(self.law, self.comparison.purpose, rounds=count, scale=self.query_scale)

    def log_probability(self, queries: npt.ArrayLike, threshold: float, ended: bool) -> float:
        """The exact log-probability of a sequence of answers.

        All queries are below, except the last one if the sequence `ended`. The integral over the
        threshold noise is split where a factor has a kink. Gauss-Legendre is exact to rounding on
        each piece.
        """
        return _log_probability(self, tuple(np.asarray(queries, float).tolist()), threshold, ended)


@lru_cache(maxsize=4096)
def _log_probability(
    run: AboveThreshold, answered: tuple[float, ...], threshold: float, ended: bool
) -> float:
    """Compute the integral for `AboveThreshold.log_probability`."""
    if not answered:
        return 0.0
    queries = np.array(answered)
    below = queries[:-1] if ended else queries
    values, counts = np.unique(below, return_counts=True)
    kinks = np.append(queries, threshold) - threshold
    width = min(run.threshold_scale, run.query_scale)
    low = (
        kinks.min() - 45 * run.threshold_scale
        if run.law == "laplace"
        else max(0.0, *(values - threshold), 0.0)
    )
    high = max(low, kinks.max()) + 45 * (run.threshold_scale + run.query_scale)
    grid = np.concatenate(
        [
            np.linspace(low, high, 2 + int((high - low) / width)),
            kinks[(kinks > low) & (kinks < high)],
        ]
    )
    edges = np.unique(grid)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, None] / 2
    z = (edges[:-1, None] + half + half * nodes).ravel()
    log_value = np.log((half * weights).ravel() / run.threshold_scale)
    log_value += log_density(run.law, z / run.threshold_scale)
    for value, count in zip(values, counts, strict=True):
        log_value += count * log_cdf(run.law, (threshold + z - value) / run.query_scale)
    if ended:
        log_value += log_survival(run.law, (threshold + z - queries[-1]) / run.query_scale)
    top = log_value.max()
    return float(top + np.log(np.exp(log_value - top).sum())) if np.isfinite(top) else -np.inf

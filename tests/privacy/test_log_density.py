"""`log_density` of every mechanism: it adds up to one, agrees with `uniformise`, with scipy and
with frequencies, and stays exact where probabilities are tiny.
"""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hedgerow.core.errors import Unsupported
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.noise import SeededNoise
from hedgerow.privacy.mechanisms import (
    AdditiveNoise,
    Coin,
    Comparison,
    ExponentialMechanism,
    GaussianNoise,
    KNorm,
    NoisyMax,
    RandomisedResponse,
)
from hedgerow.privacy.mechanisms.additive import GaussianShare

SCORES = np.array([0.0, 0.5, 3.0, 0.5])
DISCRETE = [
    (ExponentialMechanism("s", 2.0), SCORES),
    (NoisyMax("s", "exponential", 2.0), SCORES),
    (NoisyMax("s", "gumbel", 2.0, monotone=True), SCORES),
    (Coin("keep", 0.5, 1.0), 0.75),
    (RandomisedResponse("answer", 0.7), -1.0),
    (Comparison("query", "laplace", 2.0), -1.0),
    (Comparison("query", "exponential", 2.0), -1.0),
]
NUMBERS = [
    (AdditiveNoise("r", "laplace", 2.0), stats.laplace(0.5, 2.0)),
    (AdditiveNoise("r", "exponential", 2.0), stats.expon(0.5, 2.0)),
    (GaussianNoise("r", 2.0), stats.norm(0.5, 2.0)),
    (GaussianShare("r", 2.0, honest=3), stats.norm(0.5, 2.0)),
    (KNorm("r", 2.0), stats.laplace(0.5, 2.0)),
]


@pytest.mark.parametrize(("mechanism", "value"), DISCRETE)
def test_probabilities_add_up_to_one(mechanism: Mechanism, value: Any) -> None:
    outcomes = mechanism.outcomes(value)
    assert outcomes is not None
    chances = [exp(mechanism.log_density(value, output)) for output in outcomes]
    assert sum(chances) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(("mechanism", "value"), DISCRETE)
def test_probabilities_are_the_jumps_of_uniformise(mechanism: Mechanism, value: Any) -> None:
    for output in mechanism.outcomes(value) or ():
        jump = mechanism.uniformise(value, output, 1.0) - mechanism.uniformise(value, output, 0.0)
        assert exp(mechanism.log_density(value, output)) == pytest.approx(jump, rel=1e-9)


@pytest.mark.parametrize(("mechanism", "value"), DISCRETE)
def test_probabilities_match_frequencies(mechanism: Mechanism, value: Any) -> None:
    noise, runs = SeededNoise(3).server(), 3000
    drawn = [mechanism.sample(value, noise) for _ in range(runs)]
    outcomes = mechanism.outcomes(value) or ()
    counts = [sum(bool(one == output) for one in drawn) for output in outcomes]
    for factor, right in ((1.0, True), (1.5, False)):
        law = mechanism.scaled(factor)
        expected = runs * np.exp([law.log_density(value, output) for output in outcomes])
        assert (stats.chisquare(counts, expected).pvalue > 1e-4) == right


@pytest.mark.parametrize(("mechanism", "law"), NUMBERS)
def test_densities_of_numbers_are_those_of_scipy(mechanism: Mechanism, law: Any) -> None:
    for output in (0.5, 0.7, 3.0, 90.0):
        assert mechanism.log_density(0.5, output) == pytest.approx(law.logpdf(output), rel=1e-12)
    # the derivative of the distribution function, which is what `uniformise` returns for laws of
    # a number (for the k-norm: that of the absolute value)
    for output in (0.9, 2.0, 5.0):
        step = 1e-5
        slope = (
            mechanism.uniformise(0.5, output + step, 0.0)
            - mechanism.uniformise(0.5, output - step, 0.0)
        ) / (2 * step)
        sides = 2 if isinstance(mechanism, KNorm) else 1
        assert sides * exp(mechanism.log_density(0.5, output)) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("mechanism", [mechanism for mechanism, _ in NUMBERS])
def test_densities_of_vectors_integrate_to_one(mechanism: Mechanism) -> None:
    value, (nodes, weights) = np.array([0.3, -1.0]), np.polynomial.legendre.leggauss(60)
    points = np.concatenate([-15 * (nodes + 1), 15 * (nodes + 1)])  # 0 is a kink
    chances = [
        [exp(mechanism.log_density(value, value + np.array([x, y]))) for x in points]
        for y in points
    ]
    both = 15 * np.concatenate([weights, weights])
    assert both @ np.array(chances) @ both == pytest.approx(1.0, abs=2e-3)


def test_tails_are_exact() -> None:
    far = np.array([0.0, 4000.0])
    for law in ("exponential", "gumbel"):
        expected = -2000 - (log(2) if law == "exponential" else 0.0)
        assert NoisyMax("s", law, 1.0).log_density(far, 1) == pytest.approx(expected, rel=1e-15)
    assert ExponentialMechanism("s", 1.0).log_density(far, 1) == -2000.0
    for mechanism in (AdditiveNoise("r", "laplace", 1.0), KNorm("r", 1.0)):
        assert mechanism.log_density(0.0, 2000.0) == pytest.approx(-2000 - log(2), rel=1e-15)
    coin = Coin("keep", 1.0, 2.0**-20)
    assert coin.log_density(5000.0, True) == pytest.approx(-5000.0)
    assert coin.log_density(0.0, False) == pytest.approx(-20 * log(2) - 2.0**-21, rel=1e-14)
    assert Comparison("query", "laplace", 1.0).log_density(-900.0, True) == -900 - log(2)
    assert Comparison("query", "laplace", 1.0).log_density(900.0, False) == -900 - log(2)
    assert Comparison("query", "exponential", 1.0).log_density(1.0, False) == -np.inf
    short = Comparison("query", "exponential", 1.0).log_density(-(2.0**-40), False)
    assert short == pytest.approx(-40 * log(2), rel=1e-12)


def test_answers_of_many_queries_multiply() -> None:
    comparison = Comparison("query", "laplace", 2.0)
    margins, answers = np.array([-1.0, 2.0]), np.array([True, False])
    single = [comparison.log_density(m, a) for m, a in zip(margins, answers, strict=True)]
    assert comparison.log_density(margins, answers) == pytest.approx(sum(single))


def test_the_law_of_a_sum() -> None:
    share, noise = GaussianShare("r", 2.0, honest=3), SeededNoise(4).server()
    total = share.summed(9)
    assert (total.noise_scale(), total.curve) == (6.0, GaussianNoise("r", 6.0).curve)
    sums = [sum(share.sample(1.0, noise) for _ in range(9)) for _ in range(2000)]
    for law, right in ((total, True), (share.summed(4), False)):
        mapped = [law.uniformise(9.0, one, 0.0) for one in sums]
        assert (stats.kstest(mapped, "uniform").pvalue > 1e-4) == right


def test_a_mechanism_without_a_density_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="KNorm has no law for the sum of 3 releases"):
        KNorm("r", 1.0).summed(3)

    class Silent(KNorm):
        log_density = Mechanism.log_density

    with pytest.raises(Unsupported, match="Silent has no log_density"):
        Silent("r", 1.0).log_density(0.0, 1.0)

"""Privacy curves, composition and mechanisms, each against an independent computation."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from hedgerow.core.errors import InvalidValue
from hedgerow.core.noise import NoNoise, SeededNoise
from hedgerow.core.rounding import round_up
from hedgerow.privacy.composition.steps import pure_sum
from hedgerow.privacy.curves import PureDP
from hedgerow.privacy.mechanisms import (
    AboveThreshold,
    AdditiveNoise,
    Comparison,
    ExponentialMechanism,
    Law,
)

quick = settings(derandomize=True, deadline=None, database=None, max_examples=100)
LAWS: tuple[Law, ...] = ("laplace", "exponential")
SCIPY: dict[str, Any] = {"laplace": stats.laplace, "exponential": stats.expon}


# The curve


def _randomised_response(bound: float, epsilon: float) -> float:
    """The hockey-stick divergence of one bit told truthfully with probability e^b / (1 + e^b), over
    all four events.
    """
    truth = np.exp(bound) / (1 + np.exp(bound))
    one, other = np.array([truth, 1 - truth]), np.array([1 - truth, truth])
    return max(
        float((one - np.exp(epsilon) * other)[list(event)].sum())
        for event in ([], [0], [1], [0, 1])
    )


@quick
@given(st.floats(0, 8), st.floats(-9, 9))
def test_the_pure_curve_is_that_of_randomised_response(bound: float, epsilon: float) -> None:
    assert PureDP(bound).delta(epsilon) == pytest.approx(
        _randomised_response(bound, epsilon), abs=1e-12
    )


@quick
@given(st.floats(0.01, 8), st.floats(0, 1))
def test_epsilon_is_the_least_with_that_delta(bound: float, delta: float) -> None:
    curve = PureDP(bound)
    epsilon = curve.epsilon(delta)
    assert 0 <= epsilon <= bound
    assert curve.delta(epsilon) <= delta + 1e-12
    if epsilon > 1e-6:
        assert curve.delta(epsilon - 1e-6) > delta


def test_extreme_curves() -> None:
    assert PureDP(np.inf).delta(100.0) == 1.0
    assert PureDP(np.inf).epsilon(0.0) == np.inf
    assert PureDP(0.0).delta(0.0) == 0.0
    for bad in (-0.1, np.nan):
        with pytest.raises(InvalidValue, match="epsilon"):
            PureDP(bad)
    with pytest.raises(InvalidValue, match=r"delta=1\.5"):
        PureDP(1.0).epsilon(1.5)


@quick
@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_sums_round_up_and_by_no_more_than_one_float(parts: list[float]) -> None:
    exact = sum(map(Fraction, parts), Fraction(0))
    bound = pure_sum(map(PureDP, parts)).bound
    assert Fraction(bound) >= exact
    assert bound == 0 or Fraction(float(np.nextafter(bound, -np.inf))) < exact


def test_a_third_is_rounded_up_and_a_half_is_not() -> None:
    assert Fraction(round_up(Fraction(1, 3))) > Fraction(1, 3)
    assert round_up(Fraction(1, 2)) == 0.5


def test_an_unbounded_part_makes_the_sum_unbounded() -> None:
    assert pure_sum([PureDP(1.0), PureDP(np.inf)]).bound == np.inf


# The probability of a sparse-vector run


def _by_quadrature(
    law: Law, b1: float, b2: float, queries: list[float], threshold: float, ended: bool
) -> float:
    """The same integral by adaptive quadrature and scipy's distributions."""
    noise, below = SCIPY[law], queries[:-1] if ended else queries

    def integrand(z: float) -> float:
        value = noise.pdf(z, scale=b1) * np.prod(
            [noise.cdf(threshold + z - q, scale=b2) for q in below]
        )
        return value * (noise.sf(threshold + z - queries[-1], scale=b2) if ended else 1.0)

    kinks = sorted({0.0, *(q - threshold for q in queries)})
    edges = [kinks[0] - 40 * b1, *kinks, kinks[-1] + 40 * (b1 + b2)]
    return sum(
        integrate.quad(integrand, a, b, epsabs=1e-15, epsrel=1e-11, limit=200)[0]
        for a, b in pairwise(edges)
    )


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("b1", "b2"), [(1.0, 1.0), (0.5, 3.0), (2.0, 0.4)])
@pytest.mark.parametrize("queries", [[0.3], [0.0, 1.0, 2.5], [4.0, -2.0, 1.0, 1.0], [1.0] * 6])
def test_the_exact_probability_matches_adaptive_quadrature(
    law: Law, b1: float, b2: float, queries: list[float]
) -> None:
    sparse = AboveThreshold(law, b1, b2)
    for ended in (False, True):
        expected = _by_quadrature(law, b1, b2, queries, 1.0, ended)
        assert np.exp(sparse.log_probability(queries, 1.0, ended)) == pytest.approx(
            expected, rel=1e-8
        )


@pytest.mark.parametrize("count", [1, 10, 1000, 100_000])
@pytest.mark.parametrize(("b1", "b2"), [(1.0, 1.0), (0.7, 2.0), (3.0, 0.5)])
@pytest.mark.parametrize("margin", [-1.5, 0.0, 2.0])
def test_long_exponential_runs_match_the_beta_function(
    count: int, b1: float, b2: float, margin: float
) -> None:
    """With u = exp(-(margin + z) / b2) the integral over z is an incomplete beta function."""
    ratio, top = b2 / b1, min(1.0, np.exp(-margin / b2))
    expected = (
        margin / b1
        + np.log(ratio)
        + special.betaln(ratio, count + 1)
        + np.log(special.betainc(ratio, count + 1, top))
    )
    got = AboveThreshold("exponential", b1, b2).log_probability(
        np.full(count, 1.0 - margin), 1.0, False
    )
    assert got == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_all_ways_a_run_can_go_have_probability_one(law: Law) -> None:
    sparse, queries = AboveThreshold(law, 0.8, 1.7), [0.2, 1.4, 0.9, 3.0, 3.0]
    ends = [sparse.log_probability(queries[: n + 1], 1.0, True) for n in range(len(queries))]
    assert np.exp([*ends, sparse.log_probability(queries, 1.0, False)]).sum() == pytest.approx(
        1.0, abs=1e-10
    )
    assert sparse.log_probability([], 1.0, False) == 0.0


def _frequencies(sparse: AboveThreshold, queries: list[float], runs: int) -> np.ndarray:
    """How often the sampler stops at each query, or never."""
    noise, counts = SeededNoise(8).server(), np.zeros(len(queries) + 1, int)
    for _ in range(runs):
        noisy = sparse.begin(1.0, noise)
        counts[
            next((i for i, q in enumerate(queries) if sparse.above(q, noisy, noise)), len(queries))
        ] += 1
    return counts


@pytest.mark.parametrize("law", LAWS)
def test_the_sampler_follows_the_exact_probabilities_and_no_others(law: Law) -> None:
    queries, runs = [0.2, 1.4, 0.9], 20_000

    def expected(sparse: AboveThreshold) -> np.ndarray:
        ends = [sparse.log_probability(queries[: n + 1], 1.0, True) for n in range(3)]
        return runs * np.exp([*ends, sparse.log_probability(queries, 1.0, False)])

    counts = _frequencies(AboveThreshold(law, 0.8, 1.7), queries, runs)
    right, *wrong = (
        expected(AboveThreshold(law, b1, b2))
        for b1, b2 in ((0.8, 1.7), (0.4, 1.7), (0.8, 1.1), (1.2, 2.55))
    )
    assert stats.chisquare(counts, right, sum_check=False).pvalue > 1e-3
    for other in wrong:
        assert stats.chisquare(counts, other, sum_check=False).pvalue < 1e-6


@pytest.mark.parametrize("law", LAWS)
def test_many_queries_at_once_answer_like_one_by_one(law: Law) -> None:
    sparse, queries = AboveThreshold(law, 2.0, 2.0), np.linspace(-3, 6, 40)
    one, many = SeededNoise(6).server(), SeededNoise(6).server()
    for _ in range(200):
        noisy = sparse.begin(1.0, one)
        assert noisy == sparse.begin(1.0, many)
        answers = [sparse.above(float(q), noisy, one) for q in queries]
        first = sparse.first_above(queries, noisy, sparse.draw_queries(len(queries), many))
        assert first == (answers.index(True) if any(answers) else None)


# The cost of a run: one datum moves all later queries of the run by the same constant


def _losses(sparse: AboveThreshold, last_is_moved: bool = True) -> np.ndarray:
    """Log-ratios over long runs: some queries before the datum, n after it, then perhaps one that
    ends the run.
    """
    found = []
    for before, after, level, end in product(
        (0, 1, 3_000), (0, 1, 3_000), (-30.0, 1.0), (None, -30.0, 1.0)
    ):
        if before + after == 0 and end is None:
            continue
        queries = np.concatenate(
            [np.full(before, level), np.full(after, 1.0), [] if end is None else [end]]
        )
        moved = queries + (np.arange(len(queries)) >= before)
        if not last_is_moved:
            moved[-1] = queries[-1]
        logs = [sparse.log_probability(q, 1.0, end is not None) for q in (queries, moved)]
        if np.isfinite(logs).all():
            found.append(logs[0] - logs[1])
    return np.array(found)


SCALES = [(1.0, 1.0), (0.5, 1.5), (1.5, 0.5)]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("b1", "b2"), SCALES)
def test_the_cost_is_approached_and_never_exceeded(law: Law, b1: float, b2: float) -> None:
    sparse = AboveThreshold(law, b1, b2)
    ratios, cost = _losses(sparse), sparse.curve.bound
    assert cost == pytest.approx(max(1 / b1, 1 / b2))
    assert np.abs(ratios).max() <= cost + 1e-8
    assert ratios.max() >= 0.99 / b1  # one direction is paid from the threshold's noise,
    assert -ratios.min() >= 0.99 / b2  # the other from the query's


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("halved", [(0.5, 1.0), (1.0, 0.5)])
def test_half_of_either_noise_costs_more_than_is_said(
    law: Law, halved: tuple[float, float]
) -> None:
    said = AboveThreshold(law, 1.0, 1.0).curve.bound
    assert np.abs(_losses(AboveThreshold(law, *halved))).max() > 1.5 * said


@pytest.mark.parametrize("law", LAWS)
def test_a_datum_that_spares_the_last_query_costs_more(law: Law) -> None:
    """So the shared shift is what makes the cost a maximum and not a sum, and this test would see
    the difference.
    """
    sparse = AboveThreshold(law, 1.0, 1.0)
    assert np.abs(_losses(sparse, last_is_moved=False)).max() > 1.5 * sparse.curve.bound


# Selection and additive noise

SCORES = np.array([0.0, 1.0, 1.0, 2.5, 4.0])


def test_selection_follows_its_probabilities_and_no_others() -> None:
    mechanism, noise = ExponentialMechanism("selection", 1.3, 0.8), SeededNoise(9).server()
    weights = np.exp(-1.3 * SCORES / 1.6)
    assert np.allclose(mechanism.probabilities(SCORES), weights / weights.sum(), rtol=1e-12)
    assert np.allclose(
        [mechanism.log_probability(SCORES, i) for i in range(5)], np.log(weights / weights.sum())
    )
    counts = np.bincount([mechanism.sample(SCORES, noise) for _ in range(20_000)], minlength=5)
    assert stats.chisquare(counts, 20_000 * mechanism.probabilities(SCORES)).pvalue > 1e-3
    twice = ExponentialMechanism("selection", 2.6, 0.8)
    assert stats.chisquare(counts, 20_000 * twice.probabilities(SCORES)).pvalue < 1e-6


def test_selection_costs_at_most_epsilon_and_nearly_so() -> None:
    mechanism = ExponentialMechanism("selection", 2.0, 0.5)
    one, other = np.array([0.5, *np.zeros(4000)]), np.array([0.0, *np.full(4000, 0.5)])
    ratio = mechanism.log_probability(other, 0) - mechanism.log_probability(one, 0)
    assert mechanism.distance(one, other) == mechanism.sensitivity
    assert 0.99 * 2.0 < ratio <= mechanism.curve.range == 2.0


def test_huge_scores_neither_overflow_nor_lose_the_leader() -> None:
    mechanism = ExponentialMechanism("selection", 1.0)
    assert mechanism.probabilities(np.array([1e9, 1e9 + 2, 1e300]))[:2].sum() == pytest.approx(1.0)
    assert mechanism.sample(np.array([5.0, 1e300, 4.0]), NoNoise().server()) == 2


@pytest.mark.parametrize("law", LAWS)
def test_outputs_are_uniform_exactly_under_the_right_scale(law: Law) -> None:
    mechanism, noise = AdditiveNoise("threshold", law, 2.0), SeededNoise(10).server()
    outputs = [mechanism.sample(3.0, noise) for _ in range(4000)]
    for factor, right in ((1.0, True), (2 / 3, False), (3 / 2, False)):
        values = [mechanism.scaled(factor).uniformise(3.0, output, 0.5) for output in outputs]
        assert bool(stats.kstest(values, "uniform").pvalue > 1e-3) == right


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: AdditiveNoise("a", "laplace", 0.0), r"scale=0\.0 > 0"),
        (lambda: AdditiveNoise("a", "laplace", 1.0, -1.0), r"sensitivity=-1\.0 > 0"),
        (lambda: Comparison("a", "laplace", np.inf), "scale=inf"),
        (lambda: ExponentialMechanism("a", 0.0), r"epsilon=0\.0 > 0"),
        (lambda: ExponentialMechanism("a", 1.0, np.nan), "sensitivity=nan"),
        (lambda: AboveThreshold("laplace", 0.0, 1.0), r"scale=0\.0 > 0"),
        (lambda: AboveThreshold("laplace", 1.0, -1.0), r"scale=-1\.0 > 0"),
        (lambda: AboveThreshold("laplace", 1.0, 1.0, np.nan), "sensitivity=nan"),
    ],
)
def test_impossible_parameters_are_refused(make: Any, rule: str) -> None:
    with pytest.raises(InvalidValue, match=rule):
        make()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_selection_refuses_scores_that_are_not_finite(bad: float) -> None:
    with pytest.raises(InvalidValue, match="finite scores"):
        ExponentialMechanism("a", 1.0).sample(np.array([0.0, bad]), SeededNoise(0).server())

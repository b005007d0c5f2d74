"""The regret bounds of online learning hold in simulations, and which losses they speak about."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest

from hedgerow.core.domain import Ball
from hedgerow.core.errors import InvalidValue
from hedgerow.running_sums import Independent, ToeplitzRoot
from hedgerow_papers.zhang2024.theory import (
    LearningRun,
    LossFacts,
    best_step,
    change_of_optima,
    correlated_wins_below,
    dynamic_bound,
    independent_bound,
    largest_growth,
    printed_order,
    static_bound,
)

ROUNDS, WIDTH, DRAWS = 64, 4, 400
LINE = np.linspace(-30, 30, 6001)


def test_a_nonconvex_loss_satisfies_the_assumption() -> None:
    value = LINE**2 / 2 + 0.375 * (1 - np.cos(2 * LINE))
    slope = LINE + 0.75 * np.sin(2 * LINE)
    bend = 1 + 1.5 * np.cos(2 * LINE)
    assert bend.min() < -0.49  # not convex
    assert bend.max() <= 2.5
    assert largest_growth(0.1, value, LINE * slope, abs(LINE)) >= 0.25
    assert largest_growth(2.0, value, LINE * slope, abs(LINE)) < 0  # alpha cannot be large


@pytest.mark.parametrize("alpha", [1e-6, 0.1, 1.0])
def test_a_double_well_does_not(alpha: float) -> None:
    near = np.where(LINE < 0, -1.0, 1.0)
    value, slope = (LINE**2 - 1) ** 2, 4 * LINE * (LINE**2 - 1)
    assert largest_growth(alpha, value, slope * (LINE - near), abs(LINE - near)) < 0


def test_bounded_gradients_leave_no_mu() -> None:
    """Assumptions IV.2 and IV.4 exclude each other: mu is at most 2 B_g over the distance."""
    for reach in (10.0, 100.0, 1000.0):
        x = np.linspace(-reach, reach, 4001)
        value = np.logaddexp(0, x) + np.logaddexp(0, -x) - 2 * log(2)
        assert 0 <= largest_growth(1e-3, value, x * np.tanh(x / 2), abs(x)) <= 2 / reach


def simulated(step: float, deviation: float, decoding: np.ndarray) -> tuple[np.ndarray, ...]:
    """Models of all rounds on quadratics with moving optima, for many draws of noise."""
    rng = np.random.default_rng(3)
    optima = np.cumsum(0.05 * rng.standard_normal((ROUNDS, WIDTH)), axis=0) + 1.0
    noise = deviation / np.sqrt(WIDTH) * rng.standard_normal((DRAWS, ROUNDS, WIDTH))
    sums = np.einsum("rs,nsd->nrd", decoding, noise)
    moves = np.diff(sums, axis=1, prepend=0.0)
    model, models = np.zeros((DRAWS, WIDTH)), []
    for r in range(ROUNDS):
        models.append(model)
        model = model - step * (model - optima[r] + moves[:, r])
    return np.stack(models, axis=1), optima


def losses(models: np.ndarray, optima: np.ndarray) -> np.ndarray:
    return ((models - optima) ** 2).sum(axis=-1) / 2


@pytest.mark.parametrize("kind", [ToeplitzRoot, Independent])
@pytest.mark.parametrize("deviation", [0.0, 3.0, 30.0])
def test_bounds_hold_on_moving_quadratics(kind: type, deviation: float) -> None:
    factors, facts = kind(ROUNDS), LossFacts(smoothness=1.0, mu=1.0)
    step = facts.step_limit
    models, optima = simulated(step, deviation, factors.decoding())
    best = optima.mean(axis=0)
    run = LearningRun(
        ROUNDS, step, deviation, float(np.linalg.norm(best)), change_of_optima(optima, best)
    )
    dynamic = losses(models, optima).mean()
    terms = dynamic_bound(facts, run, factors)
    assert dynamic <= terms.total
    if kind is Independent:
        assert dynamic <= independent_bound(facts, run).total
    if deviation == 30.0:  # the noise term is needed
        assert dynamic > replace(terms, noise=0.0).total
    gap = float(losses(best, optima).mean())
    static = static_bound(facts, run, factors, gap=gap)
    assert dynamic - gap <= static.total
    if deviation == 30.0:
        assert dynamic - gap > replace(static, noise=0.0).total
    assert static.total <= static_bound(facts, run, factors, gap=gap, theta=step).total


@pytest.mark.parametrize("radius", [0.5, 2.0])
def test_bounds_hold_where_models_are_projected(radius: float) -> None:
    """As `OnlineSGD` does it: the sum of all gradients and the noise is projected."""
    factors, facts, deviation = ToeplitzRoot(ROUNDS), LossFacts(smoothness=1.0, mu=1.0), 30.0
    step, rng, ball = facts.step_limit, np.random.default_rng(4), Ball(radius)
    optima = np.cumsum(0.05 * rng.standard_normal((ROUNDS, WIDTH)), axis=0) + 1.0
    noise = deviation / np.sqrt(WIDTH) * rng.standard_normal((DRAWS, ROUNDS, WIDTH))
    sums = np.einsum("rs,nsd->nrd", factors.decoding(), noise)
    total, model, models = np.zeros((DRAWS, WIDTH)), np.zeros((DRAWS, WIDTH)), []
    for r in range(ROUNDS):
        models.append(model)
        total = total + model - optima[r]
        model = ball.project(-step * (total + sums[:, r]))
    played = np.stack(models, axis=1)
    assert (np.linalg.norm(played, axis=-1) > 0.999 * radius).mean() > 0.5  # it is often moved
    best = ball.project(optima.mean(axis=0))
    gap = float(losses(best, optima).mean())
    run = LearningRun(ROUNDS, step, deviation, float(np.linalg.norm(best)))
    static = losses(played, optima).mean() - gap
    assert 0 < static <= static_bound(facts, run, factors, gap=gap).total


def test_drift_needs_what_the_lemma_needs() -> None:
    run = LearningRun(ROUNDS, 0.1, 1.0, 1.0, moved=0.1)
    with pytest.raises(InvalidValue, match="mu > 0"):
        dynamic_bound(LossFacts(1.0), run, ToeplitzRoot(ROUNDS))
    facts = LossFacts(1.0, gradient_bound=2.0, mu=0.5)
    drift = (0.1 + 1 / 12 + 2) * 2 * 0.2**2
    assert dynamic_bound(facts, run, ToeplitzRoot(ROUNDS)).drift == pytest.approx(drift)
    assert independent_bound(facts, run).drift == pytest.approx((0.1 + 2) * 2 * 0.2**2)
    with pytest.raises(InvalidValue, match="limit of Lemma"):
        dynamic_bound(facts, replace(run, step=0.126), ToeplitzRoot(ROUNDS))


def test_change_of_the_optima_counts_as_the_lemma_says() -> None:
    """(12 L + alpha mu) C_R / (alpha^2 R), in both bounds."""
    facts = LossFacts(smoothness=2.0, mu=0.5, alpha=0.8)
    run = LearningRun(rounds=100, step=0.01, deviation=0.5, distance=2.0, change=7.0)
    expected = (12 * 2.0 + 0.8 * 0.5) * 7.0 / (0.8**2 * 100)
    for found in (dynamic_bound(facts, run, ToeplitzRoot(100)), independent_bound(facts, run)):
        assert found.change == pytest.approx(expected)
        assert found.total > expected


def test_noise_terms_meet_where_the_condition_says() -> None:
    facts, factors = LossFacts(0.25), ToeplitzRoot(1000)
    at = correlated_wins_below(facts, factors, 1000)
    fresh = LearningRun(1000, at, 1.0, 1.0)
    shared = replace(fresh, deviation=factors.sensitivity())
    assert dynamic_bound(facts, shared, factors).noise == pytest.approx(
        independent_bound(facts, fresh).noise
    )
    assert at == pytest.approx(0.0173, abs=1e-4)
    assert 1 / log(1000) ** 2 == pytest.approx(0.0210, abs=1e-4)


def test_best_step_of_the_lemma_follows_the_theorem() -> None:
    """Theorem IV.10: the best step falls as R^(-1/3), up to logarithms."""
    facts = LossFacts(0.25)

    def best(rounds: int) -> float:
        factors = ToeplitzRoot(rounds)
        return best_step(
            lambda s: dynamic_bound(facts, LearningRun(rounds, s, 20.0, 2.0), factors).total,
            facts.step_limit,
        )

    assert best(8000) / best(1000) == pytest.approx(0.5, abs=0.06)
    sizes: dict[str, Any] = {
        "width": 100,
        "clients": 20,
        "examples": 5,
        "epsilon": 2.0,
        "delta": 1e-3,
    }
    orders = [printed_order("IV.10", rounds=rounds, **sizes).start for rounds in (1000, 8000)]
    grown = (log(8000) / log(1000)) ** (2 / 3)
    assert orders[1] / orders[0] == pytest.approx(grown / 4)


def test_orders_are_named() -> None:
    with pytest.raises(InvalidValue, match=r"IV\.10"):
        printed_order("IV.9", rounds=9, width=1, clients=1, examples=1, epsilon=1.0, delta=0.1)

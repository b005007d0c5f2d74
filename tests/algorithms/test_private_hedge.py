"""Private Hedge: its law, its rate, its cost, and what its bound covers."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest
from scipy import stats

import hedgerow as hr
from hedgerow.algorithms.dartboard import private_hedge
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.noise import SeededNoise
from hedgerow.engines.broadcasts import broadcasts_of
from support.attacked import attacked

SETTING = hr.Setting(clients=10, experts=100, horizon=512)


def test_draws_have_the_law_of_exponential_weights() -> None:
    algorithm = hr.PrivateHedge(rate=0.8).build(hr.Setting(clients=2, experts=3, horizon=3))
    losses = np.zeros((3, 2, 3))
    losses[0], losses[1, 0] = (0.0, 0.5, 1.0), (1.0, 0.0, 0.25)
    noise = SeededNoise(0)
    drawn = np.array(
        [[sent.expert for sent in broadcasts_of(algorithm, losses, noise)] for _ in range(6000)]
    )
    sums = np.cumsum(losses.sum(axis=1), axis=0)
    for exchange in (1, 2):
        weights = np.exp(-0.8 / 2 * sums[exchange - 1])
        for rate, small in ((weights, False), (weights**2, True)):
            expected = 6000 * rate / rate.sum()
            found = stats.chisquare(np.bincount(drawn[:, exchange], minlength=3), expected)
            assert (found.pvalue < 1e-6) == small


def test_the_rate_is_the_best_one_within_the_budget() -> None:
    tight = hr.PrivateHedge().build(SETTING)
    curve = tight.certificate.peer.curve
    assert 0.99 < curve.epsilon(1e-6) <= 1.0
    free = hr.PrivateHedge(epsilon=5.0).build(SETTING)
    assert free.regret_at_most == pytest.approx(hr.Hedge().build(SETTING).regret_at_most)
    assert free.certificate.peer.curve.epsilon(1e-6) < 3.0  # less than the budget
    pure = hr.PrivateHedge(delta=0.0).build(SETTING)
    assert pure.parameters["rate"] == pytest.approx(10 / 2 / 511)
    assert pure.regret_at_most > 4 * tight.regret_at_most


def test_a_given_rate_is_certified_at_its_true_cost() -> None:
    built = hr.PrivateHedge(rate=1.0, delta=0.0).build(SETTING)
    assert built.certificate.peer.curve.stated() == (pytest.approx(511 * 0.2), 0.0)


def test_many_draws_are_composed_by_concentrated_privacy(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = hr.PrivateHedge().build(SETTING)
    monkeypatch.setattr(private_hedge, "MANY", 100)
    rough = hr.PrivateHedge().build(SETTING)
    assert 0.85 < rough.parameters["rate"] / exact.parameters["rate"] < 0.95
    assert rough.certificate.peer.curve.epsilon(1e-6) <= 1.0


def test_what_the_bound_covers() -> None:
    for every, covers in ((1, "adaptive"), (4, "oblivious")):
        bound = hr.PrivateHedge(every=every).build(SETTING).claims.regret_bound
        assert bound is not None
        assert bound.covers == covers


def test_losses_that_react_cost_little_with_delta_and_much_without() -> None:
    """Where columns are used up, wrong guesses end after about 2 ln(2) / range rounds.

    Some later guesses are wasted on columns that were used up a short time ago.
    """
    game = hr.ConsensusColumns(experts=4000, horizon=500)
    forms = {delta: hr.PrivateHedge(delta=delta) for delta in (0.0, 1e-6)}
    study = hr.run(game, {str(delta): spec for delta, spec in forms.items()}, seeds=3)
    found = {delta: study.regret(str(delta)).mean for delta in forms}
    reach = 2 * hr.PrivateHedge().build(game.setting).parameters["rate"]
    assert 0.8 < found[1e-6] / (2 * log(2) / reach) < 1.5
    assert found[0.0] > 2.5 * found[1e-6]


@pytest.mark.parametrize("delta", [0.0, pytest.param(1e-6, marks=pytest.mark.long)])
def test_every_audit_has_the_expected_verdict(delta: float) -> None:
    rows = attacked("private_hedge", hr.PrivateHedge(delta=delta))
    worst = next(row for row in rows if row.case.name == "worst transcript")
    assert (worst.finding.epsilon or 0.0) > 0.99 * worst.certified


def test_a_false_upload_moves_no_total_beyond_what_losses_can() -> None:
    algorithm = hr.PrivateHedge(delta=0.0).build(hr.Setting(clients=2, experts=2, horizon=8))
    server: Any = algorithm.server
    _, state = server.open(SeededNoise(0).server())
    for false in (2**63 - 1 - 2**19, -(2**62)):
        for honest in (0, 2**20):
            sent = [LossSums(np.array([n, honest])) for n in (false, honest)]
            added = np.sum(
                [algorithm.uploads.bounded(one, rounds=1).losses for one in sent], axis=0
            )
            _, after = server.aggregate(state, LossSums(added), SeededNoise(0).server())
            assert 0 <= after.totals.min() <= after.totals.max() <= 2 * 2**20

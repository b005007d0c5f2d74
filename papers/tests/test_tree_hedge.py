"""Tree hedge: Laplace and Gaussian noise by exact columns, the law of plays, and the bound."""

from __future__ import annotations

from math import inf, log, sqrt
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.audits.runner import AuditRow, attack
from hedgerow.contracts import suite
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.noise import SeededNoise
from hedgerow.core.setting import Setting
from hedgerow.engines.broadcasts import broadcasts_of
from hedgerow.privacy.curves import PureDP
from hedgerow.privacy.mechanisms import AdditiveNoise
from hedgerow_papers.agarwal2017 import tree_hedge
from hedgerow_papers.agarwal2017.attacks import cases
from hedgerow_papers.agarwal2017.tree_game import TreeGame
from hedgerow_papers.agarwal2017.tree_hedge import HedgeBound, TreeHedge
from support.played import regrets


def test_laplace_noise_spends_the_budget_on_the_nodes_of_a_record() -> None:
    """d log2(T) / epsilon: the published scale, exactly what a pure budget needs."""
    built: Any = TreeHedge(epsilon=0.5).build(Setting(3, 10, 100))
    (noise,) = built.certificate.mechanisms
    assert noise.scale == pytest.approx(10 * 7 / 0.5)
    assert built.certificate.entered == 7
    assert built.certificate.peer.curve == PureDP(built.certificate.peer.curve.bound)
    assert 0.5 * (1 - 1e-9) < built.certificate.peer.curve.bound <= 0.5


def test_gaussian_noise_spends_the_budget_on_the_column_norm() -> None:
    built: Any = TreeHedge(mu=0.5).build(Setting(3, 10, 100))
    (noise,) = built.certificate.mechanisms
    assert noise.scale == pytest.approx(sqrt(10 * 7) / 0.5)
    assert built.certificate.composition == "shifts"
    assert built.parameters["deviation"] == pytest.approx(sqrt(10) * 7 / 0.5)


@pytest.mark.parametrize("choices", [{"epsilon": 0.8}, {"mu": 1.0}])
def test_every_sum_has_the_noise_of_all_draws(choices: dict[str, Any]) -> None:
    """Zero losses: variance and fourth moment of h draws, in sums with and without padding."""
    setting = Setting(1, 3000, 12)
    algorithm: Any = TreeHedge(**choices).build(setting)
    losses = np.zeros((12, 1, 3000))
    sent = broadcasts_of(algorithm, losses, SeededNoise(0))
    sums = np.array([broadcast.losses for broadcast in sent])
    assert sums.shape == (12, 3000)
    unit = sums / algorithm.parameters["deviation"]
    assert np.allclose(unit.std(axis=1), 1.0, atol=0.06)
    excess = 3 / 4 if "epsilon" in choices else 0.0  # of four Laplace draws: 3 / h
    assert (unit**4).mean() == pytest.approx(3 + excess, abs=0.15)


def test_without_noise_it_is_hedge() -> None:
    stream = hr.Bernoulli(clients=3, experts=4, horizon=60)
    spec = TreeHedge(mu=inf, every=2)
    built = spec.build(stream.setting)
    assert built.certificate.trust == "none"
    plain = regrets(hr.Hedge(2, built.parameters["rate"]), stream, seeds=2)
    assert np.array_equal(regrets(spec, stream, seeds=2), plain)


@pytest.mark.parametrize("choices", [{"epsilon": 1.0}, {"mu": 0.5}, {"mu": inf}])
def test_the_rate_is_close_to_the_best_of_the_bound(choices: dict[str, Any]) -> None:
    game = TreeGame(Setting(50, 10, 1000), Schedule(2), "each")
    spread = HedgeBound.of(game, TreeHedge(every=2, **choices)._noise(game))
    rate = spread.best_rate()
    others = [spread.bound(rate * factor) for factor in np.geomspace(0.2, 5, 41)]
    assert spread.bound(rate) <= min(others) * 1.01
    assert max(others) > 1.5 * spread.bound(rate)


def test_the_bound_by_hand() -> None:
    spread = HedgeBound(log(8), 4, 3.0, False, 100.0, 1e9)
    assert spread.bound(0.1) == pytest.approx(log(8) / 0.1 + 0.1 * (4 * 9 / 2 + 100))
    laplace = HedgeBound(log(8), 4, 3.0, True, 100.0, 1e9)
    moments = 4 * log(1 / (1 - 0.09))
    assert laplace.bound(0.1) == pytest.approx((log(8) + moments) / 0.1 + 10)
    assert laplace.bound(0.4) == 1e9  # the law has no such moment
    best = HedgeBound(log(8), 4, 3.0, False, 100.0, 1e9)
    total = 2 * sqrt(log(8) * (4 * 9 / 2 + 100))
    assert best.bound(best.best_rate()) == pytest.approx(total)


def test_regret_stays_below_the_bound_and_the_bound_below_guessing() -> None:
    stream = hr.Bernoulli(clients=60, experts=5, horizon=400, mean=0.8, gap=0.6)
    for spec in (TreeHedge(), TreeHedge(delta=1e-6)):
        bound = spec.build(stream.setting).regret_at_most
        assert 0 < regrets(spec, stream, seeds=3).mean() < bound < 0.3 * 0.6 * 400


def test_the_ledger_finds_noise_for_one_node_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: the whole budget is spent on each node that a record is in."""

    def noise(spec: TreeHedge, game: TreeGame) -> AdditiveNoise:
        return AdditiveNoise("node", "laplace", game.change("l1"), game.change("l1"))

    monkeypatch.setattr(TreeHedge, "_noise", noise)
    monkeypatch.setattr(tree_hedge, "_together", lambda one, draws: PureDP(one.curve.bound))
    found = suite.examine("ledger composes", TreeHedge(epsilon=1.5))
    assert found.status == "broken"
    assert "a datum enters" in found.detail


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_audits_reach_the_certificate_and_catch_a_fifth_less_noise(delta: float) -> None:
    rows = [AuditRow(case, attack(case)) for case in cases(TreeHedge(delta=delta))]
    assert [row.verdict for row in rows] == ["holds", "holds", "violated", "violated"]
    shown = rows[1].finding.epsilon
    assert shown is not None
    assert shown > 0.999 * rows[1].certified


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"epsilon": -1.0}, "epsilon=-1.0 > 0"),
        ({"epsilon": 1.0, "mu": 1.0}, "exactly one of"),
        ({"every": 0}, "every=0"),
    ],
)
def test_bad_choices_are_refused(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        TreeHedge(**choices)


def test_what_cannot_be_played_or_audited_is_refused() -> None:
    with pytest.raises(Unsupported, match="needs a horizon"):
        TreeHedge().build(Setting(2, 2, None))
    with pytest.raises(InvalidValue, match="mu=inf finite: without noise"):
        cases(TreeHedge(mu=inf))

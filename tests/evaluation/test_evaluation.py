"""Regret against a direct computation, intervals with their coverage, summaries and pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.block import Block, check
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.losses import Family, Linear
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Counters, Everything, Plays, Traffic
from hedgerow.engines.simulate import simulate
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.evaluation.plots.over_time import plot_regret_over_time
from hedgerow.evaluation.recorder import Recorder, RunResult
from hedgerow.evaluation.statistics import Estimate
from hedgerow.evaluation.summary import summarise
from hedgerow_papers.lines import plot_regret_against
from hedgerow_papers.panels import plot_bars

COUNTERS = Counters(2, 2, Traffic(3, 40, 1, 30))


def _recorded(
    losses: np.ndarray, plays: np.ndarray, block: int, points: int, family: Family | None = None
) -> RunResult:
    """The recorder fed with given plays, block by block."""
    family = Linear() if family is None else family
    width = losses.shape[2] if isinstance(family, Linear) else losses.shape[2] - 1
    setting = Setting(losses.shape[1], width, len(losses))
    recorder = Recorder(replace(setting, family=family), points)
    for first in range(0, len(losses), block):
        part = losses[first : first + block]
        checked = check(
            Block.of(part), replace(setting, family=family), first, len(part), recorder.marks
        )
        played = plays[first : first + block]
        recorder.rounds(first, checked, Plays.of(played) if played.ndim == 3 else played)
    return recorder.result("x", 0, COUNTERS)


def _game(rounds: int = 37, clients: int = 3, experts: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rounds)
    return RecordedArray(rng.random((rounds, clients, experts))).losses, rng.integers(
        experts, size=(rounds, clients)
    )


@pytest.mark.parametrize("block", [1, 7, 40])
def test_an_absent_client_pays_nothing_whatever_its_neighbours_pay(block: int) -> None:
    """Every client has its own plays, so that each loss is looked up."""
    losses = np.random.default_rng(0).random((40, 3, 4))
    losses[np.random.default_rng(1).random((40, 3)) < 0.4] = np.nan
    game, seen = RecordedArray(losses, missing="absent"), Everything()
    recorder = Recorder(game.setting)
    algorithm = Uniform().build(game.setting)
    simulate(algorithm, game, 0, sinks=[recorder, seen], block_rounds=block)
    here = ~np.isnan(losses).any(axis=2)
    given = round_to_lattice(np.nan_to_num(losses))
    own = np.take_along_axis(given, seen.all_plays()[..., None], axis=-1)
    right = np.where(here, own[..., 0], 0.0).sum(axis=1).cumsum() / 3
    assert np.array_equal(recorder.result("x", 0, COUNTERS).loss, right)


def test_an_interval_within_groups_holds_and_leaves_out_the_spread_between_them() -> None:
    """Ten groups far apart, of unequal sizes: the interval holds the mean of their means as often
    as it says, and one that ignores the groups would be many times as wide.
    """
    rng, groups = np.random.default_rng(0), np.repeat(np.arange(10), [2, 3] * 5)
    centres, held, narrower = 50.0 * np.arange(10), 0, []
    for _ in range(600):
        values = centres[groups] + rng.standard_normal(len(groups))
        found = Estimate.within(values, groups)
        held += found.low <= centres.mean() <= found.high
        narrower.append(Estimate.of(values).half_width / found.half_width)
    assert 0.93 <= held / 600 <= 0.97
    assert min(narrower) > 20
    once = Estimate.within([1.0, 2.0], [0, 1])
    assert (once.mean, np.isnan(once.half_width)) == (1.5, True)


@pytest.mark.parametrize("block", [1, 5, 37])
@pytest.mark.parametrize("points", [1, 2, 7, 36, 37, 500])
def test_regret_is_what_full_plays_and_losses_say(block: int, points: int) -> None:
    losses, plays = _game()
    result = _recorded(losses, plays, block, points)
    paid = np.take_along_axis(losses, plays[..., None], axis=2)[..., 0]
    assert result.rounds[-1] == 37
    assert len(result.rounds) == min(points, 37)
    for at, loss, regret in zip(result.rounds, result.loss, result.regret, strict=True):
        common = losses[:at].sum(axis=(0, 1)).min()
        assert loss == pytest.approx(paid[:at].sum() / 3, abs=1e-12)
        assert regret == pytest.approx((paid[:at].sum() - common) / 3, abs=1e-12)
    own = losses.sum(axis=0).min(axis=1).sum()
    assert result.own_best_regret == pytest.approx((paid.sum() - own) / 3, abs=1e-12)
    assert result.switches == (plays[1:] != plays[:-1]).sum() / 3
    assert result.final_regret == result.regret[-1]


@pytest.mark.parametrize("engine", ["vectorised", "in_process"])
@pytest.mark.parametrize("block", [None, 4])
def test_regret_of_a_simulated_game(engine: Any, block: int | None) -> None:
    losses, _ = _game(60)
    environment = RecordedArray(losses)
    for spec in (Hedge(every=5), SparseVector(epsilon=5.0, every=3)):
        recorder, kept = Recorder(environment.setting, 9), Everything()
        counters = simulate(
            spec.build(environment.setting),
            environment,
            3,
            sinks=[recorder, kept],
            engine=engine,
            block_rounds=block,
        )
        result = recorder.result("x", 3, counters)
        paid = np.take_along_axis(losses, kept.all_plays()[..., None], axis=2).sum()
        assert result.final_regret == pytest.approx(
            (paid - losses.sum(axis=(0, 1)).min()) / 3, abs=1e-12
        )
        assert result.exchanges == len(kept.messages)


def test_regret_of_one_common_expert_can_be_negative_but_not_the_own_best() -> None:
    losses = np.zeros((10, 2, 2))
    losses[:, 0, 1] = losses[:, 1, 0] = 1.0
    result = _recorded(losses, np.tile([0, 1], (10, 1)), 3, 4)
    assert result.final_regret == -5.0
    assert result.own_best_regret == 0.0
    assert result.switches == 0.0


def test_points_of_the_simplex_have_a_regret_against_the_best_expert() -> None:
    losses, _ = _game()
    points = np.random.default_rng(1).dirichlet(np.ones(4), size=(37, 3))
    result = _recorded(losses, points, 5, 7)
    paid = (losses * points).sum()
    assert result.final_regret == pytest.approx(
        (paid - losses.sum(axis=(0, 1)).min()) / 3, rel=1e-9
    )


def test_communication_is_copied_from_the_counters() -> None:
    counters = Counters(2, 5, Traffic(3, 40, 1, 30))
    counters.exchanges(7)
    result = Recorder(Setting(2, 3, 4)).result("x", 0, counters)
    assert (result.exchanges, result.uploaded_scalars, result.uploaded_bytes) == (
        7,
        7 * 2 * 3,
        7 * 2 * 40,
    )
    assert (result.broadcast_scalars, result.broadcast_bytes) == (8 * 5 * 1, 8 * 5 * 30)


# Estimates and summaries


@pytest.mark.parametrize("count", [3, 10])
def test_intervals_cover_the_mean_about_95_times_in_100(count: int) -> None:
    """And intervals with the normal quantile, the usual mistake, would not."""
    samples = np.random.default_rng(7).normal(2.0, 3.0, size=(4000, count))
    estimates = [Estimate.of(sample) for sample in samples]
    mistake = stats.norm.ppf(0.975) / stats.t.ppf(0.975, count - 1)
    covered = sum(abs(e.mean - 2.0) <= e.half_width for e in estimates)
    too_few = sum(abs(e.mean - 2.0) <= e.half_width * mistake for e in estimates)
    assert stats.binomtest(covered, 4000, 0.95).pvalue > 1e-4
    assert stats.binomtest(too_few, 4000, 0.95).pvalue < 1e-6


def test_one_seed_has_no_interval() -> None:
    single = Estimate.of([4.0])
    assert (single.mean, single.count, str(single)) == (4.0, 1, "4.00")
    assert np.isnan(single.half_width)
    assert np.isnan([single.low, single.high]).all()
    assert str(Estimate(1.0, 0.5, 3)) == "1.00 ± 0.50"
    assert (Estimate(1.0, 0.5, 3).low, Estimate(1.0, 0.5, 3).high) == (0.5, 1.5)


def _result(label: str, seed: int, regret: float, rounds: int = 8) -> RunResult:
    at = np.arange(1, rounds + 1)
    curve = regret * at / rounds
    return RunResult(label, seed, at, 2 * curve, curve, regret / 2, 3.0 + seed, 4, 10, 100, 20, 200)


def test_summary_rows_are_means_by_label_in_order_of_appearance() -> None:
    rows = summarise([_result("b", 0, 1.0), _result("a", 0, 5.0), _result("b", 1, 3.0)])
    assert [row.label for row in rows] == ["b", "a"]
    row = rows[0]
    assert (row.regret.mean, row.regret.count, row.own_best_regret.mean, row.loss.mean) == (
        2.0,
        2,
        1.0,
        4.0,
    )
    assert (row.switches.mean, row.exchanges.mean, row.numbers_sent.mean, row.bytes_sent.mean) == (
        3.5,
        4.0,
        30.0,
        300.0,
    )
    assert row.regret.half_width == pytest.approx(stats.t.ppf(0.975, 1) * np.sqrt(2) / np.sqrt(2))


# Pictures


def _is_picture(path: Path) -> bool:
    data = path.read_bytes()
    return data.startswith(b"\x89PNG") and len(data) > 10_000


@pytest.mark.parametrize(
    "results",
    [
        [_result(f"label {i}", seed, 1.0 + i + seed) for i in range(10) for seed in range(3)],
        [_result("one seed", 0, 2.0)],
        [_result("one round", 0, 2.0, rounds=1)],
        [_result("zero", 0, 0.0), _result("zero", 1, 0.0)],
        [_result("negative", 0, -3.0), _result("positive", 0, 3.0)],
        [_result("no comparator", 0, float("nan")), _result("no comparator", 1, float("nan"))],
    ],
    ids=["many", "one seed", "one round", "zero", "negative", "nan"],
)
def test_regret_over_time_is_drawn(tmp_path: Path, results: list[RunResult]) -> None:
    plot_regret_over_time(results, tmp_path / "a.png", "A title", "a note")
    assert _is_picture(tmp_path / "a.png")


@pytest.mark.parametrize("worst", [1.0, 0.0, -2.0])
def test_regret_against_a_parameter_is_drawn_with_a_slope(tmp_path: Path, worst: float) -> None:
    """Regret may be zero or negative, where a log axis has no room for it."""
    points = {
        name: {float(x): Estimate(k / x, 0.1, 9) for x in (1, 10, 100)}
        for name, k in (("ours", 5.0), ("theirs", 9.0))
    }
    points["theirs"][100.0] = Estimate(worst, 0.3, 9)
    plot_regret_against(
        points, tmp_path / "with.png", "A title", "clients", slope=-1.0, slope_name="1/m"
    )
    plot_regret_against(points, tmp_path / "without.png", "A title", "clients")
    bounds = {next(iter(points)): {1.0: 20.0, 10.0: 2.0}, "nobody is below": {1.0: 0.5, 10.0: 0.1}}
    plot_regret_against(points, tmp_path / "bounds.png", "A title", "clients", bounds=bounds)
    pictures = [tmp_path / f"{name}.png" for name in ("with", "without", "bounds")]
    assert all(_is_picture(picture) for picture in pictures)
    assert len({picture.read_bytes() for picture in pictures}) == 3


@pytest.mark.parametrize("value", [3.0, 0.0, -1.0])
def test_bars_are_drawn(tmp_path: Path, value: float) -> None:
    groups = {
        "m=1": {"ours": Estimate(value, 0.1, 9), "theirs": Estimate(9.0, 1.0, 9)},
        "m=10": {"ours": Estimate(1.0, float("nan"), 1)},
    }
    plot_bars(groups, tmp_path / "a.png", "A title", "regret")
    assert _is_picture(tmp_path / "a.png")

"""Flu forecasts: figures by hand, a verdict that can fail, a picture, and the whole experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hedgerow.cli import flu_story as flu
from hedgerow.core.setting import Setting
from hedgerow.environments.recorded.flusight import FluSight
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.run import run_study
from hedgerow_papers.experiments.experiment import Studies
from hedgerow_papers.experiments.reproduce import reproduce
from hedgerow_papers.ours import flusight
from hedgerow_papers.ours.flusight import EXPERIMENT, OPEN, PHASED, STATES
from support.made_up import made_up


@pytest.fixture(scope="module")
def story() -> Studies:
    small = flu.story(2, 2, flu.TOGETHER, {PHASED: flu.TOGETHER[PHASED]})
    return {name: run_study(config, workers=1) for name, config in small.items()}


def _follow_the_leader(losses: np.ndarray) -> float:
    """The total loss of following the leader on losses (weeks, models)."""
    totals, paid = np.zeros(losses.shape[1]), 0.0
    for week in losses:
        paid += week[totals.argmin()]
        totals += week
    return paid


def test_errors_without_noise_are_what_a_hand_computes(story: Studies) -> None:
    alone = np.mean([_follow_the_leader(STATES.losses[:, i]) for i in range(53)])
    together = _follow_the_leader(STATES.losses.mean(axis=1))
    assert flu.percent(story["alone-open"], OPEN).mean == pytest.approx(100 * alone / 56)
    found = flu.percent(story["together"], OPEN)
    assert (found.mean, found.half_width) == (pytest.approx(100 * together / 56), 0.0)
    assert pytest.approx(100 * STATES.losses.sum(axis=(0, 1)).min() / 53 / 56) == flu.BEST
    assert flu.BEST < flu.AVERAGE < flu.RANDOM
    assert flu.gained((flu.RANDOM + flu.BEST) / 2) == pytest.approx(0.5)


def test_states_alone_have_their_own_noise_and_no_spread_between_them(story: Studies) -> None:
    runs = story["alone"].of(PHASED)
    assert len(runs) == 2 * 53
    losses = 100 / 56 * np.array([run.loss[-1] for run in runs]).reshape(2, 53)
    found = flu.percent(story["alone"], PHASED)
    assert found.mean == pytest.approx(losses.mean())
    assert found.count == 54
    assert found.half_width < Estimate.of(losses.ravel()).half_width / 1.5


def test_the_story_has_nine_lines_and_a_picture(story: Studies, tmp_path: Path) -> None:
    lines = {line.name: line for line in flu.outcomes(story)}
    assert len(lines) == 9
    assert lines[flu.ALONE].value.mean == flu.percent(story["alone-open"], OPEN).mean
    assert lines["best model in hindsight (CMU-TimeSeries)"].algorithm is None
    assert all(flu.BEST <= line.value.mean <= 20 for line in lines.values())
    flu.picture(story, tmp_path / "flu.png", "a note")
    assert (tmp_path / "flu.png").stat().st_size > 10_000


def _judged(law: Callable[[str, Setting], float]) -> set[str]:
    """The checks that fail if the loss of every game is a function of its study."""
    done = {
        name: made_up(
            config, lambda _, setting, name=name: law(name, setting), seeds=min(config.seeds, 106)
        )
        for name, config in EXPERIMENT.studies(True).items()
    }
    return {check.name for check in EXPERIMENT.judge(done).checks if not check.passed}


def test_the_verdict_can_come_out_the_other_way() -> None:
    """Losses of 56 weeks: first sharing is better than playing alone, then worse."""
    better = _judged(lambda name, setting: 8.9 if setting.clients > 1 else 9.9)
    worse = _judged(lambda name, setting: 9.9 if setting.clients > 1 else 8.9)
    central = {f"{label}/below-alone-not-private" for label in flusight.CENTRAL}
    central |= {f"{label}/below-alone-private" for label in flusight.CENTRAL}
    assert not better & central
    assert central <= worse
    assert {f"weekly/{label}/above-alone" for label in flusight.CENTRAL} <= better
    assert "local/above-alone-not-private" in better - worse
    assert "alone-not-private/gain" in worse - better


def test_the_games_differ_only_in_what_they_say() -> None:
    configs = EXPERIMENT.studies(False)
    games = {name: config.environment for name, config in configs.items()}
    assert all(isinstance(game, FluSight) for game in games.values())
    assert games["together"] == FluSight()
    for name in ("alone", "alone-open"):
        assert games[name] == replace(FluSight(), location="each")
        assert configs[name].seeds % 53 == 0
    assert EXPERIMENT.data == ()  # the table is in the package


@pytest.mark.long
@pytest.mark.parametrize("quick", [True, False])
def test_the_whole_experiment(quick: bool, tmp_path: Path) -> None:
    outcome = reproduce(EXPERIMENT, quick=quick, out=tmp_path / "out", workers=1)
    assert outcome.status == ("quick" if quick else "ran"), outcome.message
    assert outcome.verdict is not None
    assert outcome.verdict.holds is None
    if not quick:
        assert [check.name for check in outcome.verdict.checks if not check.passed] == []
        assert "closes 80 % of the gap" in outcome.message
    assert (tmp_path / "out/flusight.png").stat().st_size > 10_000

"""Lazy experts against the dartboard: the verdict follows the figures, whoever wins, and the experiment runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hedgerow.core.setting import Setting
from hedgerow.evaluation.statistics import Estimate
from hedgerow.experiments import lazy_vs_dartboard as versus
from hedgerow.experiments.lazy_vs_dartboard import DARTBOARD, EXPERIMENT, LAZY, Duel, Point
from hedgerow.experiments.reproduce import reproduce

SOME, OTHER, THIRD = Point(1000, 0.1, 10, 0.0), Point(1000, 1.0, 10, 1e-6), Point(1000, 10.0, 10, 1e-6)


def duel(difference: float, half_width: float = 1.0) -> Duel:
    regrets = {LAZY: Estimate(10.0 + difference, 1.0, 20), DARTBOARD: Estimate(10.0, 1.0, 20)}
    return Duel("bernoulli", 1000, 0.1, 0.0, regrets, Estimate(difference, half_width, 20))


def test_the_words_about_bounds_follow_the_ratios() -> None:
    assert versus.told_bounds({SOME: 1.2, OTHER: 1.07}) == (
        "proven bounds: the dartboard's is smaller at 2 of 2 points (lazy experts' is up to 20% larger), lazy experts' is smaller nowhere"
    )
    mixed = versus.told_bounds({SOME: 0.9, OTHER: 1.5, THIRD: 1.0})
    assert "smaller at 1 of 3 points (lazy experts' is up to 50% larger), equal at 1" in mixed
    assert mixed.endswith("lazy experts' is smaller at T=1000, epsilon=0.1, delta=0")


def test_the_words_about_regret_follow_the_intervals() -> None:
    assert [duel(d).winner for d in (2.0, 0.5, -0.5, -2.0)] == [DARTBOARD, None, None, LAZY]
    told = versus.told_regret([duel(2.0), duel(0.5), duel(-2.0)])
    assert "significantly smaller at 1 of 3 points, 1 are undecided" in told
    assert told.endswith("lazy experts' is significantly smaller at T=1000, epsilon=0.1, delta=0")
    assert versus.told_regret([duel(2.0)]).endswith("lazy experts' is significantly smaller nowhere")


def test_bounds_are_those_of_the_built_algorithms() -> None:
    for name, spec in versus.SPECS.items():
        assert versus.bound(SOME, name) == spec(epsilon=0.1).build(Setting(1, 10, 1000)).regret_at_most


def test_a_small_version_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small: dict[str, Any] = {"EPSILONS": (10.0,), "QUICK_HORIZONS": (200,), "QUICK_PLAYED": ((200, 10.0),), "PLAYED_EXPERTS": 10}
    for name, value in small.items():
        monkeypatch.setattr(versus, name, value)
    outcome = reproduce(EXPERIMENT, quick=True, out=tmp_path / "out", workers=1)
    assert outcome.status == "quick", outcome.message
    assert outcome.verdict is not None
    assert outcome.verdict.reproduces is None
    assert len(outcome.verdict.checks) == 2 + 4 * 3
    assert "of 2 points" in outcome.message
    assert "of 4 points" in outcome.message
    assert (tmp_path / "out/lazy-vs-dartboard.png").stat().st_size > 10_000


@pytest.mark.long
def test_the_full_comparison_is_as_expected(tmp_path: Path) -> None:
    outcome = reproduce(EXPERIMENT, quick=False, out=tmp_path / "out", workers=2)
    assert outcome.verdict is not None
    assert [check.name for check in outcome.verdict.checks if not check.passed] == []

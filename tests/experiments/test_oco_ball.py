"""The experiment on points in a ball: the quick form runs, and the verdict follows the regrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hedgerow.evaluation.statistics import Estimate
from hedgerow.experiments import oco_ball as experiment
from hedgerow.experiments.oco_ball import COVER, TREE, UPDATES, WARM, label
from hedgerow.studies.run import run_study
from hedgerow.studies.study import Study


@pytest.fixture(scope="module")
def done() -> dict[str, Study]:
    configs = experiment.studies(quick=True)
    return {name: run_study(config, workers=1) for name, config in configs.items()}


def test_the_quick_form_is_drawn_and_not_judged(done: dict[str, Study], tmp_path: Path) -> None:
    verdict = experiment.judge(done)
    assert verdict.reproduces is None
    assert all(check.passed for check in verdict.checks)
    experiment.draw(done, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


class Pretended:
    """A finished study with made-up regrets; bounds are those of the real one."""

    def __init__(
        self, real: Any, factor: dict[str, float], slope: dict[str, float], usual: float
    ) -> None:
        self.config, self.algorithms = real.config, real.algorithms
        self.factor, self.slope, self.usual = factor, slope, usual

    def regrets(self, name: str) -> list[float]:
        of, at = name.rsplit("/", 1)
        mean = self.factor[of] * float(at) ** self.slope.get(of, self.usual)
        return [mean * (1 + 0.01 * (i % 3)) for i in range(20)]

    def regret(self, name: str) -> Estimate:
        return Estimate.of(self.regrets(name))


@pytest.mark.parametrize(
    ("factor", "slope", "expected", "failed"),
    [
        ({}, {}, True, ()),
        ({UPDATES: 1.2}, {}, False, ("DP-FTRL minus Limited Updates, lower",)),
        ({COVER: 1.2}, {}, False, ()),
        ({UPDATES: 0.01}, {UPDATES: 1.0}, True, ("slope of regret",)),
    ],
    ids=["all gains", "no gain of updates", "no gain of covers", "a steep regret"],
)
def test_the_verdict_follows_the_regrets(
    done: dict[str, Study],
    monkeypatch: pytest.MonkeyPatch,
    factor: dict[str, float],
    slope: dict[str, float],
    expected: bool,
    failed: tuple[str, ...],
) -> None:
    monkeypatch.setattr(experiment, "is_quick", lambda *_: False)
    monkeypatch.setattr(experiment, "HORIZONS", experiment.QUICK)
    monkeypatch.setattr(experiment, "_bounds", lambda _: ())
    made = {UPDATES: 0.8, WARM: 0.5, TREE: 1.0, COVER: 0.8} | factor
    pretended: Any = {
        name: Pretended(study, made, slope, 0.1 if name == "dimension" else 0.5)
        for name, study in done.items()
    }
    if expected is False and COVER in factor:
        assert experiment.gain(pretended, "line", COVER, float(experiment.QUICK[-1])) < 0
    monkeypatch.setattr(experiment, "slope", _slope_of_one_point(experiment.slope))
    verdict = experiment.judge(pretended)
    assert verdict.reproduces is expected
    broken = [check.name for check in verdict.checks if not check.passed]
    assert len(broken) >= len(failed)
    assert all(any(words in name for name in broken) for words in failed)
    assert bool(broken) == bool(failed)
    assert label(UPDATES, 64) in pretended["rounds"].algorithms


def _slope_of_one_point(real: Any) -> Any:
    """The quick form has one game on a line, which has no slope."""

    def slope(done: Any, study: str, name: str) -> Estimate:
        return Estimate.of([0.5] * 3) if study == "line" else real(done, study, name)

    return slope

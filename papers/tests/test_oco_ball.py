"""The experiment on points in a ball: the quick form runs, and the verdict follows the regrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hedgerow.algorithms.gradient.limited_updates import LimitedUpdates
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.run import run_study
from hedgerow.studies.study import Study
from hedgerow_papers.asi2023 import oco_ball as experiment
from hedgerow_papers.asi2023.oco_ball import COVER, TREE, UPDATES, WARM, label
from hedgerow_papers.experiments.experiment import Check
from support.made_up import BuiltWhenAsked


@pytest.fixture(scope="module")
def done() -> dict[str, Study]:
    configs = experiment.studies(quick=True)
    return {name: run_study(config, workers=1) for name, config in configs.items()}


def test_the_quick_form_is_drawn_and_not_judged(done: dict[str, Study], tmp_path: Path) -> None:
    verdict = experiment.judge(done)
    assert verdict.holds is None
    assert len(verdict.checks) > 0
    assert all(check.passed for check in verdict.checks)
    experiment.draw(done, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


class Pretended:
    """A finished study whose regrets are made-up power laws; the bounds are the real ones."""

    def __init__(
        self, config: StudyConfig, slopes: Mapping[str, float], factors: Mapping[str, float]
    ) -> None:
        self.config, self.algorithms = config, BuiltWhenAsked(config)
        self.slopes, self.factors = slopes, factors

    def regrets(self, name: str) -> list[float]:
        of, at = name.rsplit("/", 1)
        mean = self.factors[of] * float(at) ** self.slopes[of]
        return [mean * (1 + 0.01 * (i % 3)) for i in range(20)]

    def regret(self, name: str) -> Estimate:
        return Estimate.of(self.regrets(name))


SOUND = {"rounds": 0.4, "epsilon": -0.4, "dimension": 0.2, "line": 0.65}
SIZES = {UPDATES: 0.8, WARM: 0.5, TREE: 1.0, COVER: 0.8}
CASES: list[tuple[dict[str, float], tuple[str, str, float] | None, bool, list[str]]] = [
    ({}, None, True, []),
    ({UPDATES: 1.2}, None, True, ["rounds/T=256/regret of DP-FTRL minus Limited Updates, lower"]),
    (
        {UPDATES: 1.2, COVER: 1.2},
        None,
        False,
        ["rounds/T=256/regret of DP-FTRL minus Limited Updates, lower"],
    ),
    ({COVER: 1.2}, None, True, []),
    ({UPDATES: 0.01}, ("rounds", UPDATES, 1.0), True, ["rounds/Limited Updates/slope"]),
    ({UPDATES: 0.01}, ("rounds", TREE, 1.0), True, ["rounds/DP-FTRL/slope", "rounds/DP-FTRL/256/"]),
    ({}, ("epsilon", TREE, 0.0), True, ["epsilon/DP-FTRL/slope of regret, upper"]),
    ({}, ("epsilon", UPDATES, -1.0), True, ["epsilon/Limited Updates/slope of regret, lower"]),
    ({}, ("dimension", TREE, 0.0), True, ["dimension/DP-FTRL/slope of regret, lower"]),
    ({}, ("dimension", UPDATES, 0.5), True, ["dimension/Limited Updates/slope of regret, upper"]),
    ({COVER: 0.1}, ("line", COVER, 1.0), True, ["line/cover/slope of regret, upper"]),
    ({COVER: 6.5}, None, True, ["line/cover/256/lower end", "line/cover/256/share"]),
]


@pytest.mark.parametrize(("sizes", "steep", "reproduces", "failed"), CASES)
def test_the_verdict_follows_the_regrets(
    monkeypatch: pytest.MonkeyPatch,
    sizes: dict[str, float],
    steep: tuple[str, str, float] | None,
    reproduces: bool,
    failed: list[str],
) -> None:
    """Regret grows as sound algorithms' does, but for one slope. Games are short, so bounds are
    quick to compute.
    """
    short = {"HORIZONS": (64, 256), "HORIZON": 256, "WIDTHS": (1, 4), "LINES": (64, 256)}
    for name, value in short.items():
        monkeypatch.setattr(experiment, name, value)
    slopes = {study: dict.fromkeys(SIZES, slope) for study, slope in SOUND.items()}
    if steep is not None:
        slopes[steep[0]][steep[1]] = steep[2]
    pretended: Any = {
        name: Pretended(config, slopes[name], SIZES | sizes)
        for name, config in experiment.studies(quick=False).items()
    }
    verdict = experiment.judge(pretended)
    assert verdict.holds == ("as printed" if reproduces else "no")
    broken = [check.name for check in verdict.checks if not check.passed]
    assert len(broken) == len(failed)
    assert all(any(name.startswith(start) for name in broken) for start in failed)


def of_updates(at: tuple[float, ...], real: Any, horizon: Any) -> dict[str, Study]:
    """Limited Updates in games with slope 1; `real` is the epsilon that is used at a parameter."""
    entries = [
        Entry(
            label(UPDATES, x),
            LimitedUpdates(epsilon=real(x)),
            experiment.game(horizon(x), 2, 1.0),
        )
        for x in at
    ]
    config = StudyConfig("Limited Updates", experiment.game(), tuple(entries), seeds=6)
    return {"epsilon": run_study(config, workers=1)}


def passed(checks: Any) -> list[bool]:
    return [check.passed for check in checks if isinstance(check, Check)]


@pytest.mark.long
def test_noise_that_ignores_epsilon_is_seen() -> None:
    sound = of_updates((0.5, 2.0, 8.0), lambda epsilon: epsilon, lambda _: 512)
    broken = of_updates((0.5, 2.0, 8.0), lambda _: 2.0, lambda _: 512)
    broken["epsilon"] = replace(broken["epsilon"], config=sound["epsilon"].config)
    broken["epsilon"].algorithms.update(sound["epsilon"].algorithms)
    assert passed(experiment.growth(sound, "epsilon", UPDATES))[0]
    assert not passed(experiment.growth(broken, "epsilon", UPDATES))[0]


@pytest.mark.long
def test_an_algorithm_that_stands_still_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "names", lambda _: (UPDATES,))
    for epsilon, learns in ((4.0, True), (1e-3, False)):
        found = of_updates((256.0, 1024.0), lambda _, used=epsilon: used, int)
        done: Any = {"rounds": found["epsilon"]}
        assert passed(experiment.learnt(done, "rounds")) == [learns]

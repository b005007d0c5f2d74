"""Figures 3 and 4 of Zhang et al. 2024: verdicts follow the results, costs are real, runs resume."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.learning.plan import Plan
from hedgerow.core.errors import Interrupted
from hedgerow.evaluation.recorder import RunResult
from hedgerow.running_sums.kinds import factorise
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.run import run_study
from hedgerow_papers.experiments.experiment import Experiment, Verdict, spent
from hedgerow_papers.experiments.reproduce import reproduce
from hedgerow_papers.zhang2024 import figure3, figure4
from hedgerow_papers.zhang2024.mnist import MNIST
from hedgerow_papers.zhang2024.step_search import GRID, SEEDS, Trial, final_losses, losses_by_step
from hedgerow_papers.zhang2024.streams import FederatedSynthetic
from support.played import run_one


def test_the_search_plays_like_the_algorithm() -> None:
    game = FederatedSynthetic(clients=4, features=5, examples=2, horizon=20)
    for local in (True, False):
        spec = hr.OnlineSGD(epsilon=inf, step=3.2, plan=Plan("convex" if local else "start"))
        result, _ = run_one(spec.build(game.setting), game, "own", 7)
        expected = result.figures["test loss"][[17, 18, 19]].mean()  # rounds 18, 19 and 20
        found = final_losses(game, [Trial(3.2, local=local), Trial(6.4, local=local)], 7, 0)
        assert found[0] == pytest.approx(expected, rel=1e-4)
        assert found[1] != pytest.approx(expected, rel=1e-3)


def test_all_steps_are_of_one_grid_and_other_data() -> None:
    steps = [
        *figure3.NOISELESS_STEPS,
        *(step for some in figure3.STEPS.values() for step in some),
        *(step for some in figure3.START_STEPS.values() for step in some),
        *figure3.SHARED_STEPS.values(),
    ]
    assert set(steps) <= set(GRID)
    configs = figure3.studies(quick=False)
    assert all(config.first_seed + config.seeds <= min(SEEDS) for config in configs.values())


class Pretended:
    """A finished study with made-up figures; the algorithms are real."""

    def __init__(self, config: StudyConfig, figures: dict[str, Any], rounds: int) -> None:
        self.config, self.figures = config, figures
        self.rounds = np.arange(1, rounds + 1)

    @property
    def algorithms(self) -> Pretended:
        return self

    def __getitem__(self, name: str) -> Any:
        return self.config.build(next(e for e in self.config.algorithms if e.label == name))

    def of(self, name: str) -> list[RunResult]:
        empty = np.zeros(len(self.rounds))
        return [
            RunResult(
                label=name,
                seed=seed,
                rounds=self.rounds,
                loss=empty,
                regret=empty,
                own_best_regret=0.0,
                switches=0.0,
                exchanges=0,
                uploaded_scalars=0,
                uploaded_bytes=0,
                broadcast_scalars=0,
                broadcast_bytes=0,
                figures={
                    measure: np.full(len(self.rounds), value(name, seed))
                    for measure, value in self.figures.items()
                },
            )
            for seed in range(self.config.seeds)
        ]


EXCESS = {"no noise": 0.0, "independent": 0.1, "tree": 0.04, "optimal": 0.02, "BLT": 0.025}


def pretended_losses(worse: float) -> Any:
    def loss(name: str, seed: int) -> float:
        if name in figure3.specs(2.0) and name.startswith("no noise"):
            return 0.15 + 0.01 * seed
        method = name.split("/", maxsplit=1)[0].split(",", maxsplit=1)[0]
        found = EXCESS.get(method, 0.025) * (worse if method in ("BLT", "square root") else 1.0)
        found *= 0.4 if "averaged" in name else 1.0
        found *= 0.8 if name.endswith(figure3.CERTIFIED) else 1.0
        return 0.15 + 0.01 * seed + found * (1 + 0.05 * seed)

    return loss


@pytest.fixture
def small_figure3(monkeypatch: pytest.MonkeyPatch) -> dict[str, StudyConfig]:
    """The quick form with a very short stream that moves."""
    configs = figure3.studies(quick=True)
    moving = configs[figure3.MOVING]
    short = replace(moving, environment=figure3.moving_game(20), algorithms=moving.algorithms[:1])
    return {**configs, figure3.MOVING: short}


@pytest.mark.parametrize(
    ("worse", "good", "holds"),
    [
        (1.0, True, "as printed"),
        (1.6, False, "as printed"),
        (2.5, False, "with other constants"),
        (5.0, False, "no"),
    ],
)
def test_the_verdict_of_figure_3_follows_the_losses(
    small_figure3: dict[str, StudyConfig], worse: float, good: bool, holds: str
) -> None:
    regrets = {name: 20 * x for name, x in zip(figure3.MOVING_STEPS, (1, 3, 2, 1.5), strict=True)}
    done: Any = {
        name: Pretended(
            config,
            {
                "test loss": pretended_losses(worse),
                "dynamic regret": lambda n, s: 0.01 * regrets.get(n, 20.0),
            },
            20 if name == figure3.MOVING else config.environment.setting.rounds,
        )
        for name, config in small_figure3.items()
    }
    verdict = figure3.judge(done)
    failed = {check.name for check in verdict.checks if not check.passed}
    assert verdict.holds == holds
    assert ("epsilon=0.5/printed noise/BLT/over independent" not in failed) is good
    assert "the dynamic comparator is 0" in verdict.message
    assert "moving/dynamic regret over Lemma IV.9" not in failed
    environment: Any = small_figure3[figure3.MOVING].environment
    assert 0 < figure3.static(environment, 0, 0.1) < figure3.lemma(environment, 0, 0.1)
    least = next(c for c in verdict.checks if c.name == "moving/least loss of a round")
    assert least.obtained > 0.1


def test_printed_noise_of_figure_3_costs_less_than_it_claims() -> None:
    setting = figure3.game(1000).setting
    for epsilon, real in ((0.5, 0.277), (2.0, 1.369)):
        for method, step in (("BLT", 1.6), ("square root", 1.6)):
            spec = figure3.specs(epsilon)[figure3.label(method, figure3.PRINTED)]
            cost = spent(replace(spec, step=step).build(setting))
            assert cost == pytest.approx(real, abs=2e-3)
            ours = figure3.specs(epsilon)[figure3.label(method, figure3.CERTIFIED)]
            assert spent(ours.build(setting)) <= epsilon


ACCURATE = {
    figure4.NONE: 0.96,
    figure4.INDEPENDENT: 0.5,
    figure4.TREE: 0.6,
    figure4.BLT: 0.75,
    figure4.AVERAGED: 0.9,
    figure4.DISTRIBUTED: 0.94,
    figure4.OPTIMAL: 0.76,
    figure4.ROOT: 0.75,
    figure4.OPTIMAL_AVERAGED: 0.9,
    figure4.ROOT_AVERAGED: 0.9,
    figure4.MATCHED: 0.91,
    figure4.LOCAL: 0.4,
}


@pytest.mark.parametrize(("lower", "holds"), [(0.0, True), (0.3, False)])
def test_the_verdict_of_figure_4_follows_the_accuracies(
    lower: float, holds: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def right(name: str, seed: int) -> float:
        if name.startswith("clip"):
            return 0.9 - float(name.split()[1].rstrip(",")) / 100
        worse = name.startswith("BLT") or name == figure4.ROOT
        return ACCURATE[name] - 0.001 * seed - (lower if worse else 0.0)

    configs = figure4.studies(quick=False)
    small = configs[figure4.certified("small")]  # the other networks cost the same
    tau = configs[figure4.printed(10)]
    tau = replace(tau, environment=MNIST(examples=10, model="small"))
    done: Any = {
        figure4.certified("small"): Pretended(small, {"test accuracy": right}, 8),
        figure4.printed(10): Pretended(tau, {"test accuracy": right}, 8),
        figure4.CLIPPED: Pretended(configs[figure4.CLIPPED], {"test accuracy": right}, 8),
    }
    verdict = figure4.judge(done)
    assert verdict.holds == ("with other constants" if holds else "no")
    failed = [check.name for check in verdict.checks if not check.passed]
    assert (failed == []) is holds, failed
    name = "printed, 10 images in a round"
    cost = next(c for c in verdict.checks if c.name == f"{name}/BLT/epsilon")
    assert cost.published == 2.0
    assert cost.obtained == pytest.approx(27.5, abs=0.2)
    accuracies, stated, clips = verdict.tables
    assert dict(zip(accuracies.columns, accuracies.rows[0], strict=True))[name] == "0.958 ± 0.002"
    row = next(row for row in stated.rows if row[1] == "MF (iii), 10 images")
    assert row[2:] == (("-0.150 ± 0.000", "no") if lower else ("+0.150 ± 0.000", "yes"))
    assert ("nearly identical" in verdict.message) is not holds
    assert clips.rows[0] == ("0.25", "0.898", "0.898", "0.898")
    monkeypatch.setattr(figure4, "studies", lambda quick: {n: d.config for n, d in done.items()})
    figure4.draw(done, tmp_path / "four.png")
    assert {file.name for file in tmp_path.iterdir()} == {"four.png", "four-printed.png"}


def test_an_interrupted_reproduction_resumes(tmp_path: Path) -> None:
    """Results that were finished before an error are not run again."""
    game = hr.Realizable(clients=2, experts=3, horizon=10)
    config = StudyConfig("short", game, (Entry("open", hr.Hedge()),), seeds=3)
    fails = [True]

    def judge(done: Any) -> Verdict:
        if fails:
            raise ValueError("power cut")
        return Verdict(None, ())

    def draw(done: Any, path: Path) -> None:
        path.write_bytes(b"picture")

    experiment = Experiment("x", "t", "c", lambda quick: {"one": config}, judge, draw)
    experiment = replace(experiment, resumable=True)
    noted: list[int] = []

    def run() -> Any:
        noted.clear()
        return reproduce(
            experiment,
            quick=False,
            out=tmp_path / "run",
            workers=1,
            progress=lambda name, done, total: noted.append(done),
        )

    assert run().status == "error"
    assert noted == [0, 1, 2, 3]
    assert [file.name.startswith(".x.") for file in tmp_path.iterdir()] == [True]

    def stop(name: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="Finished results are kept"):
        reproduce(experiment, quick=False, out=tmp_path / "run", workers=1, progress=stop)
    fails.clear()
    assert run().status == "ran"
    assert noted == [3]
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def test_trials_of_the_search_are_the_methods_of_the_figure() -> None:
    trials, specs = figure3.methods(2.0), figure3.specs(2.0)
    assert list(trials) == list(specs)
    setting = figure3.game(50).setting
    for name in ("BLT/printed noise", "BLT/certified noise", "optimal, averaged/start"):
        built = specs[name].build(setting)
        sensitivity = 2 * factorise(trials[name].kind, 50).sensitivity()
        scale = built.client.reporting.scale  # pyright: ignore[reportAttributeAccessIssue]
        assert trials[name].multiplier * sensitivity == pytest.approx(scale, rel=5e-3)
    assert trials["no noise"].multiplier == 0.0


@pytest.mark.long
@pytest.mark.parametrize("epsilon", figure3.BUDGETS)
def test_the_search_finds_the_steps_of_the_figure_again(epsilon: float) -> None:
    """Up to neighbours on the grid that are nearly as good."""
    found, others = losses_by_step(figure3.game(), figure3.methods(epsilon)), 0
    shared = [found.pop(figure3.label(m, figure3.SHARED)) for m in figure3.MF]
    means = {step: np.mean([losses[step] for losses in shared]) for step in GRID}
    assert min(means, key=means.__getitem__) == figure3.SHARED_STEPS[epsilon]
    for name, spec in figure3.specs(epsilon).items():
        if name.endswith(figure3.SHARED):
            continue
        losses, own = found[name], spec.step or 0.0
        best = min(losses, key=losses.__getitem__)
        assert abs(GRID.index(own) - GRID.index(best)) <= 1
        start = name.endswith("start")
        quiet = min(found[figure3.NOISELESS_START if start else figure3.NOISELESS].values())
        assert losses[own] - quiet <= 1.03 * (losses[best] - quiet)
        others += own != best
    assert others <= 3


@pytest.mark.long
def test_the_quick_form_of_figure_3_runs(tmp_path: Path) -> None:
    done = {
        name: run_study(config, workers=1) for name, config in figure3.studies(quick=True).items()
    }
    verdict = figure3.judge(done)
    assert np.isfinite([check.obtained for check in verdict.checks]).all()
    figure3.draw(done, tmp_path / "three.png")
    assert len(list(tmp_path.iterdir())) == 4

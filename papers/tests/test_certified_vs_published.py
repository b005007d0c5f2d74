"""Printed against certified constants: the ratio's interval means what it says, and the verdict is
what certificates say.
"""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from pathlib import Path

import numpy as np
import pytest

from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.studies.run import run_study
from hedgerow.studies.study import Study
from hedgerow_papers.asi2023.certified_potential import Potential
from hedgerow_papers.ours import certified_vs_published as experiment
from hedgerow_papers.ours.certified_vs_published import (
    AS_PROVEN,
    CERTIFIED,
    DOUBLING,
    GAPS,
    GOOD,
    PRINTED,
    label,
    pairs,
    study_name,
)
from hedgerow_papers.statistics import Ratio

FIRST = study_name(GOOD, GAPS[0])


def _seeds(rng: np.random.Generator, times: float) -> tuple[np.ndarray, np.ndarray]:
    """Regrets that a seed moves up or down together, those of the first side `times` as large on
    average.
    """
    common = 10 + rng.standard_normal(20)
    return times * (common + rng.standard_normal(20) / 2), common + rng.standard_normal(20) / 2


@pytest.mark.parametrize(("times", "held"), [(3.0, True), (3.5, False)])
def test_the_interval_holds_the_true_ratio_as_often_as_it_says(times: float, held: bool) -> None:
    rng = np.random.default_rng(0)
    found = [Ratio.of(*_seeds(rng, times)) for _ in range(500)]
    part = np.mean([one.low <= 3.0 <= one.high for one in found])
    assert 0.92 <= part <= 0.98 if held else part < 0.05


def test_pairing_makes_the_interval_narrower() -> None:
    over, under = _seeds(np.random.default_rng(0), 3.0)
    paired, shuffled = Ratio.of(over, under), Ratio.of(over, np.roll(under, 1))
    assert paired.value == shuffled.value
    assert paired.high / paired.low < shuffled.high / shuffled.low


def test_a_ratio_that_cannot_be_said_is_not_said() -> None:
    assert str(Ratio.of([6.0], [2.0])) == "3"
    assert isnan(Ratio.of([6.0, 6.0], [1.0, -1.0]).value)
    with pytest.raises(ValueError, match="got 2 and 1"):
        Ratio.of([1.0, 2.0], [1.0])


def test_every_pair_is_played_on_every_gap() -> None:
    studies = experiment.studies(quick=True)
    for name, pair in pairs(1000).items():
        for gap in GAPS:
            played = [
                entry
                for entry in studies[study_name(pair.stream, gap)].algorithms
                if entry.label.startswith(name)
            ]
            assert len(played) == (3 if pair.judged else 2)
            assert all(entry.environment is None for entry in played)


def test_the_certified_side_has_the_epsilon_that_the_printed_one_costs() -> None:
    specs = {
        entry.label: entry.algorithm for entry in experiment.studies(quick=True)[FIRST].algorithms
    }
    wrong = specs[label("potential (pure)", AS_PROVEN)]
    assert isinstance(wrong, Potential)
    assert wrong.epsilon == pytest.approx(1.9, abs=0.01)
    loose = specs[label("sparse vector (pure)", AS_PROVEN)]
    assert isinstance(loose, SparseVector)
    assert loose.epsilon == pytest.approx(0.75)


def test_printed_doubling_is_sparse_vector_with_its_threshold() -> None:
    """K = 6 * 5 + 24 ln(2e5) draws of eta = eps0 / 2K, eps0 = 1 / (2 ln T): 4 / eta is 47600."""
    spec = experiment.doubling_in_print(clients=10, horizon=10_000)
    assert spec.epsilon == pytest.approx(1 / 18.4207, rel=1e-5)
    assert spec.switches == 30 + 293
    assert spec.threshold == pytest.approx(10 + 8 * 323 * 18.4207 + 8 * 31.32 * 18.4207, rel=1e-3)


@pytest.fixture(scope="module")
def done() -> dict[str, Study]:
    return {
        name: run_study(config, workers=1)
        for name, config in experiment.studies(quick=True).items()
    }


@pytest.mark.long
def test_the_quick_run_says_what_each_claim_is_worth(
    done: dict[str, Study], tmp_path: Path
) -> None:
    verdict = experiment.judge(done)
    assert verdict.holds != "as printed"
    assert (
        "confirmed in 4 of 6 cases, not for potential (pure), potential (approximate):"
        in verdict.message
    )
    assert (
        "dartboard (approximate): claimed epsilon = 1, proven 0.0395 (confirmed)" in verdict.message
    )
    assert "potential (pure): claimed epsilon = 1, proven 1.91 (not confirmed)" in verdict.message
    certificates = [check for check in verdict.checks if "epsilon of the" in check.name]
    assert len(certificates) == len(pairs(1000))
    assert all(check.passed for check in certificates)
    experiment.draw(done, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


@pytest.mark.long
def test_the_verdict_follows_the_certificates(done: dict[str, Study]) -> None:
    """Other algorithms in the place of the printed ones: their certificates count, not the names."""
    study, names = done[FIRST], [name for name in pairs(1000) if name.startswith("potential")]

    def judged(*swaps: tuple[str, str]) -> experiment.Verdict:
        swapped = {label(name, PRINTED): study.algorithms[by] for name, by in swaps}
        return experiment.judge(
            {**done, FIRST: replace(study, algorithms=study.algorithms | swapped)}
        )

    mended = judged(*[(name, label(name, CERTIFIED)) for name in names])
    assert mended.holds == "as printed"
    assert "confirmed in 6 of 6 cases;" in mended.message
    broken = judged(("sparse vector (pure)", label("potential (pure)", PRINTED)))
    assert "confirmed in 3 of 6 cases, not for sparse vector (pure), potential" in broken.message


@pytest.mark.long
def test_an_expert_given_up_by_printed_doubling_is_noticed(done: dict[str, Study]) -> None:
    study = done[FIRST]

    def check(study: Study) -> experiment.Check:
        checks = experiment.judge({**done, FIRST: study}).checks
        return next(
            check for check in checks if check.name.startswith(f"{DOUBLING}/experts given up")
        )

    assert check(study).passed
    restless = [
        replace(run, switches=1.0) if run.label.startswith(f"{DOUBLING}/{PRINTED}") else run
        for run in study.results
    ]
    assert not check(replace(study, results=restless)).passed

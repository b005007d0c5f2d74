"""The distance to the lower bound: verdicts on made-up results."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hedgerow.algorithms.registry import variants
from hedgerow.contracts.games import has_experts
from hedgerow.core.registry import EXPERIMENTS
from hedgerow.studies.config import StudyConfig
from hedgerow_papers.experiments.experiment import Verdict
from hedgerow_papers.experiments.reproduce import reproduce
from hedgerow_papers.ours import distance_to_lower_bound as distance
from support.made_up import made_up


@cache
def configs() -> dict[str, StudyConfig]:
    return distance.studies(quick=False)


def judged(now: float, others: float) -> Verdict:
    """Regrets of `sparse_vector` and of all others, in units of the bound."""
    shares, done = {distance.NOW: now}, {}
    for size in distance.PROMISED:
        bound = distance.least(size)
        for stream in distance.family(size[0], size[2]):
            name = distance.study_name(size, stream)
            study = done[name] = made_up(configs()[name], lambda *_, bound=bound: bound, seeds=4)
            for i, result in enumerate(study.results):
                regret = result.regret * shares.get(result.label, others)
                study.results[i] = replace(result, regret=regret)
    return distance.judge(done)


def failed(verdict: Verdict) -> set[str]:
    return {check.name.rpartition("/")[2] for check in verdict.checks if not check.passed}


def test_the_verdict_could_come_out_the_other_way() -> None:
    fine = judged(now=1.03, others=3.0)
    assert fine.holds == "as printed"
    assert failed(fine) == set()
    assert "m=10, epsilon=10, d=100: sparse_vector 3.47" in fine.message
    impossible = judged(now=1.03, others=0.9)
    assert impossible.holds != "as printed"
    assert failed(impossible) == {"algorithms below the floor of halving"}
    worse = judged(now=2.5, others=3.0)
    assert worse.holds == "as printed"  # the claim is about the floor only
    assert failed(worse) == {"worst regret, lower end"}


def test_the_limits_are_near_the_floor_where_epsilon_is_large() -> None:
    size = (10, 10.0, 100)
    assert distance.least(size) == pytest.approx(distance.floor(100))
    slightly = judged(now=1.06, others=3.0)
    assert failed(slightly) == {"worst regret, lower end"}
    assert distance.PROMISED[size] < 1.05 * distance.floor(100)


def test_every_algorithm_for_experts_takes_part() -> None:
    """`price-of-not-knowing` judges those that follow changes; votes protect whole clients."""
    elsewhere = ("watched_", "window_", "block_", "vote_", "repeated_votes")
    here = {type(spec) for spec in distance.algorithms(1.0).values()}
    ours = {n: s for n, s in variants().items() if type(s).__module__.startswith("hedgerow.")}
    for name, spec in ours.items():
        if has_experts(spec) and hasattr(spec, "epsilon") and not name.startswith(elsewhere):
            assert type(spec) in here, name


def test_studies_have_names_of_folders() -> None:
    assert [name for name in configs() if "/" in name] == []


@pytest.mark.long
def test_the_quick_reproduction_runs(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["distance-to-lower-bound"]
    outcome = reproduce(experiment, quick=True, out=tmp_path / "out", workers=1)
    assert outcome.status == "quick"
    assert (tmp_path / "out" / "distance-to-lower-bound.png").stat().st_size > 10_000

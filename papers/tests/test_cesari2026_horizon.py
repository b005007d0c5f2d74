"""Regret that does not grow with the horizon: verdicts on made-up curves, and the experiment in its
quick form.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.core.registry import EXPERIMENTS
from hedgerow.evaluation.recorder import BEST_EXPERT, MEAN_EXPERT
from hedgerow.studies.config import StudyConfig
from hedgerow.studies.study import Study
from hedgerow_papers.cesari2026 import horizon
from hedgerow_papers.experiments.experiment import Verdict
from hedgerow_papers.experiments.reproduce import reproduce
from support.made_up import made_up

Curve = Callable[[np.ndarray], np.ndarray]
ROUNDS = 2 ** np.array(horizon.LOGS)
PAID = {MEAN_EXPERT: 1e6, BEST_EXPERT: 0.0}  # so that every published bound can be missed


def _studies(with_gap: Curve, without: Curve, private_adds: float = 0.0) -> dict[str, Study]:
    """Regret is the same function of the rounds on all streams with a gap, and another one on that
    without; privacy adds to both.
    """
    laws = {**dict.fromkeys(horizon.STREAMS, with_gap), horizon.CONTROL: without}

    def law(stream: str, entry: str) -> np.ndarray:
        return laws[stream](ROUNDS) + (0.0 if entry.startswith(horizon.OPEN) else private_adds)

    def done(stream: str, config: StudyConfig) -> Study:
        return made_up(config, lambda entry, _: law(stream, entry), ROUNDS, PAID, seeds=100)

    return {stream: done(stream, config) for stream, config in horizon.studies(quick=False).items()}


def _judged(with_gap: Curve, without: Curve) -> Verdict:
    return horizon.judge(_studies(with_gap, without))


def test_regret_is_read_at_rounds_that_were_recorded() -> None:
    study, label = (
        _studies(np.sqrt, np.sqrt)[horizon.CONTROL],
        horizon.label(horizon.prefix(), 1, 0.0),
    )
    assert horizon.regret_at(study, label, 16).mean() == pytest.approx(256, rel=0.01)
    with pytest.raises(AssertionError, match="after 2048 rounds was not recorded"):
        horizon.regret_at(study, label, 11)


def test_the_verdict_sees_growth_and_its_absence() -> None:
    flat, growing = (lambda t: np.full(len(t), 20.0)), np.sqrt
    good = _judged(flat, growing)
    assert good.holds == "as printed"
    assert all(check.passed for check in good.checks)
    logarithmic = _judged(lambda t: np.log(t) ** 2, growing)
    assert logarithmic.holds != "as printed"
    far = _judged(lambda t: np.full(len(t), 1e5), growing)
    assert far.holds != "as printed"  # nothing grows, but it is above what was published
    blind = _judged(flat, flat)
    assert [check.name for check in blind.checks if not check.passed] == [
        f"{horizon.CONTROL}/m={m}/growth from 2^18 to 2^20, lower end" for m in horizon.CLIENTS
    ]


def test_what_privacy_adds_is_judged_by_its_term_of_the_bound() -> None:
    """10 is more than ten clients may add at epsilon = 1 (7.4), and less than one client may."""
    verdict = horizon.judge(_studies(lambda t: np.full(len(t), 20.0), np.sqrt, 10.0))
    failed = [check.name for check in verdict.checks if not check.passed]
    assert failed == [
        f"{stream}/m=10/gap={gap:g}/epsilon=1/what privacy adds, upper end, limit its term"
        for stream in horizon.STREAMS
        for gap in horizon.GAPS
    ]


@pytest.mark.long
def test_quick_reproduction_runs(tmp_path: Path) -> None:
    outcome = reproduce(
        EXPERIMENTS["cesari2026-horizon"], quick=True, out=tmp_path / "out", workers=1
    )
    assert outcome.status == "quick"
    for file in ("cesari2026-horizon.png", "cesari2026-horizon-m=10.png"):
        assert (tmp_path / "out" / file).stat().st_size > 10_000


@pytest.mark.parametrize("name", horizon.STREAMS)
def test_every_stream_has_the_smallest_gap_it_names(name: str) -> None:
    for entry in horizon.studies(quick=True)[name].algorithms:
        environment: Any = entry.environment
        means = np.sort(environment.plan(np.random.default_rng(0)))
        assert f"gap={means[1] - means[0]:g}" in entry.label

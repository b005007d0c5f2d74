"""The experiment on prior work: what the papers quote, and a verdict that follows from regret."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt
from pathlib import Path

import pytest

from hedgerow.studies.run import run_study
from hedgerow.studies.study import Study
from hedgerow_papers.asi2023 import prior_work as experiment
from hedgerow_papers.asi2023.prior_work import NOISE, PRINTED, PURE_WEIGHTS, SERIES, WEIGHTS


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> dict[str, Study]:
    """The experiment in few rounds and with few experts; the verdict may be either one."""
    monkeypatch.setattr(experiment, "HORIZON", 64)
    monkeypatch.setattr(experiment, "EXPERTS", (2, 4, 8))
    configs = experiment.studies(quick=True)
    return {name: run_study(replace(c, seeds=2), workers=1) for name, c in configs.items()}


def test_what_the_paper_quotes() -> None:
    """sqrt(T ln d), and ln^2 T ln d / epsilon times d or sqrt(d ln(1/delta))."""
    first, logs = sqrt(8192 * log(8)), log(8) * 9.0109**2  # ln 8192
    assert experiment.quoted(PURE_WEIGHTS, 8) == pytest.approx(first + 8 * logs, rel=1e-5)
    price = sqrt(8 * log(1e6)) * logs
    assert experiment.quoted(WEIGHTS, 8) == pytest.approx(first + price, rel=1e-5)


def test_the_verdict_follows_the_regret(done: dict[str, Study], tmp_path: Path) -> None:
    verdict = experiment.judge(done)
    regimes = verdict.checks[:5]
    assert (verdict.holds == "as printed") == all(check.passed for check in regimes)
    assert f"{sum(check.passed for check in regimes)} of 5 comparisons" in verdict.message
    spent = {c.name.split("/")[0]: c for c in verdict.checks if c.name.endswith("really spent")}
    assert len(spent) == len(SERIES) - 1
    assert all(check.passed for check in spent.values())
    assert spent[PRINTED].obtained < 0.5 < spent[NOISE].obtained
    assert spent[PRINTED].published == 1.0
    experiment.draw(done, tmp_path / "picture.png")
    assert len(list(tmp_path.glob("*.png"))) == 2


@pytest.mark.long
def test_eight_seeds_show_who_wins_with_many_experts() -> None:
    configs = {n: replace(c, seeds=8) for n, c in experiment.studies(quick=True).items()}
    verdict = experiment.judge({n: run_study(c, workers=1) for n, c in configs.items()})
    many = [check for check in verdict.checks if check.name.startswith(("d=32/", "d=512/"))]
    assert len(many) > 5
    assert all(check.passed for check in many)

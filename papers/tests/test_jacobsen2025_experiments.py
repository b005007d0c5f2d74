"""Hospital reports: the quick form of both experiments runs, and the full one keeps its figures."""

from __future__ import annotations

import os
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow_papers.experiments.reproduce import reproduce
from hedgerow_papers.jacobsen2025 import figure1 as jacobsen2025_figure1
from hedgerow_papers.jacobsen2025 import figure2 as jacobsen2025_figure2
from hedgerow_papers.jacobsen2025 import table1 as jacobsen2025_table1
from hedgerow_papers.jacobsen2025.hospitals import FILES
from hedgerow_papers.jacobsen2025.table1 import MUS, PUBLISHED, STATES, entries, label
from support.made_up import made_up

REAL = Path(os.environ.get("HEDGEROW_DATA", "../shared/data")) / FILES[-1]


def test_the_published_table_is_complete() -> None:
    """RW-Meta is between the trees and the best linear model in every printed row."""
    assert PUBLISHED.keys() == STATES.keys()
    for rows in PUBLISHED.values():
        assert len(rows) == len(MUS)
        for meta, least_noise, least_regret, best in rows:
            assert least_regret < least_noise < meta < best
    labels = [entry.label for mu in MUS for entry in entries("NM", mu)]
    assert len(labels) == len(set(labels)) == len(MUS) * 14
    assert label("RW-Meta", inf) in labels


@pytest.mark.skipif(not REAL.is_file(), reason=f"no {REAL}")
@pytest.mark.parametrize("module", [jacobsen2025_table1, jacobsen2025_figure2])
def test_claims_on_hospitals_follow_the_gains_and_need_the_data_of_the_paper(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEDGEROW_DATA", str(REAL.parents[1]))
    configs = module.studies(quick=True)
    for entry in configs["NM"].algorithms:  # also those without noise
        assert configs["NM"].build(entry).certificate.guarantees

    def judged(gain: float) -> str | None:
        done = {state: made_up(config, lambda *_: 20.0) for state, config in configs.items()}
        for study in done.values():
            for run in study.results:
                if run.label.endswith(f"/{jacobsen2025_table1.META}"):
                    changed: Any = run.figures
                    changed["gain"] = np.array([gain])
        return module.judge(done).holds

    assert judged(40.0) is None, "an excerpt judges no claim"
    monkeypatch.setattr(module, "whole", lambda _: True)
    assert (judged(40.0), judged(15.0)) == ("as printed", "no")


@pytest.mark.parametrize(("share", "holds"), [(1.0, "as printed"), (0.5, "with other constants")])
def test_the_printed_law_is_judged_by_the_batches_that_are_played(
    share: float, holds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A law as large as the certified one holds; one of half the size is too small."""

    def law(arrival: int, size: int) -> float:
        return share * jacobsen2025_figure1.certified_at_most(arrival, "published", size)

    monkeypatch.setattr(jacobsen2025_figure1, "printed_at_most", law)
    done = {
        name: made_up(config, lambda *_: 1.0)
        for name, config in jacobsen2025_figure1.studies(quick=True).items()
    }
    assert jacobsen2025_figure1.judge(done).holds == holds


@pytest.mark.long
@pytest.mark.skipif(not REAL.is_file(), reason=f"no {REAL}")
@pytest.mark.parametrize("module", [jacobsen2025_table1, jacobsen2025_figure2])
def test_the_quick_form_runs(
    module: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEDGEROW_DATA", str(REAL.parents[1]))
    experiment = module.EXPERIMENT  # pyright: ignore
    outcome = reproduce(experiment, quick=True, out=tmp_path / "run", workers=1)
    assert outcome.status == "quick", outcome.message
    assert (tmp_path / f"run/{experiment.id}.png").stat().st_size > 50_000


@pytest.mark.long
@pytest.mark.skipif(not REAL.is_file(), reason=f"no {REAL}")
def test_table_1_keeps_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDGEROW_DATA", str(REAL.parents[1]))
    outcome = reproduce(
        jacobsen2025_table1.EXPERIMENT, quick=False, out=tmp_path / "run", workers=2
    )
    assert outcome.verdict is not None, outcome.message
    assert [check.name for check in outcome.verdict.checks if not check.passed] == []

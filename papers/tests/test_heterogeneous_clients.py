"""The sweep over heterogeneity: where two ways of learning are even, with an interval that means
what it says.
"""

from __future__ import annotations

from math import isnan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hedgerow.evaluation.statistics import Estimate
from hedgerow_papers.experiments.reproduce import reproduce
from hedgerow_papers.ours.heterogeneous_clients import EXPERIMENT, crossing
from hedgerow_papers.statistics import first_root

POINTS = np.linspace(0, 1, 6)


def _measured(rng: np.random.Generator, truth: float) -> Estimate:
    return Estimate.of(truth + rng.standard_normal(30))


def test_the_interval_holds_the_true_crossing_as_often_as_it_says() -> None:
    """The curve 5 x - 1.5 meets 0.2 at 0.34, which is none of the points at which it is measured."""
    rng, held, widths = np.random.default_rng(0), 0, []
    for _ in range(400):
        found = crossing({x: _measured(rng, 5 * x - 1.5) for x in POINTS}, _measured(rng, 0.2))
        assert found.low <= found.at <= found.high
        held += found.low <= 0.34 <= found.high
        widths.append(found.high - found.low)
    assert 0.92 <= held / 400 <= 0.999
    assert np.median(widths) == pytest.approx(2 * 1.96 * np.sqrt(2 / 30) / 5, rel=0.25)


def test_curves_that_never_meet_have_no_crossing() -> None:
    rng = np.random.default_rng(0)
    found = crossing({x: _measured(rng, x - 9) for x in POINTS}, _measured(rng, 0.0))
    assert isnan(found.at)
    assert isnan(found.low)
    assert isnan(found.high)
    assert crossing({x: _measured(rng, x + 9) for x in POINTS}, _measured(rng, 0.0)).at == 0.0


def test_the_first_root_counts() -> None:
    assert first_root({0.0: -1.0, 1.0: 1.0, 2.0: -1.0, 3.0: 1.0}) == 0.5


def test_the_verdict_follows_where_the_two_are_even() -> None:
    """Alone costs 50, so together at 500 rounds is as good up to a fraction 50 / 250."""
    off = 1 + 0.01 * np.array([-1, 1, -1, 1])

    def study(price: float) -> Any:
        def of(label: str) -> list[Any]:
            paid = 50.0 if label == "alone" else 1.0 + price * float(label.partition("=")[2])
            return [SimpleNamespace(own_best_regret=paid * share) for share in off]

        return SimpleNamespace(of=of)

    def failed(price: float) -> list[str]:
        names = ("private-together", "private-alone", "not-private-together", "not-private-alone")
        found = EXPERIMENT.judge(dict.fromkeys(names, study(price))).checks
        return [check.name for check in found if not check.passed and "forecast" in check.name]

    assert failed(250.0) == []
    assert failed(150.0) == ["private/even-at/high-end-over-forecast"]
    assert failed(400.0) == ["private/even-at/low-end-over-forecast"]


@pytest.mark.long
def test_the_quick_sweep_sees_both_effects(tmp_path: Path) -> None:
    outcome = reproduce(EXPERIMENT, quick=True, out=tmp_path / "sweep", workers=1)
    assert outcome.status == "quick", outcome.message
    assert outcome.verdict is not None
    assert outcome.verdict.holds is None
    effects = [check for check in outcome.verdict.checks if "-alone" in check.name]
    assert [check.passed for check in effects] == [True, True]  # five seeds say no more
    assert "until a fraction 0.0" in outcome.message
    assert (tmp_path / "sweep/heterogeneous-clients.png").stat().st_size > 10_000


@pytest.mark.long
def test_the_full_sweep_is_as_expected(tmp_path: Path) -> None:
    outcome = reproduce(EXPERIMENT, quick=False, out=tmp_path / "sweep", workers=2)
    assert outcome.verdict is not None
    assert [check.name for check in outcome.verdict.checks if not check.passed] == []

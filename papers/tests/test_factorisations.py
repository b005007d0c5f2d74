"""The experiment on factorisations: known figures, the wrong bound in print, and the verdict."""

from __future__ import annotations

from math import log, pi, sqrt
from pathlib import Path
from typing import Any, get_args

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from hedgerow.running_sums import Kind, ToeplitzRoot
from hedgerow.studies.run import run_study
from hedgerow.studies.study import Study
from hedgerow_benchmarks import correlated as benchmark
from hedgerow_papers.zhang2024 import factorisations as experiment
from hedgerow_papers.zhang2024 import table1
from hedgerow_papers.zhang2024.factorisations import QUICK


@pytest.fixture(scope="module")
def done() -> dict[str, Study]:
    configs = experiment.studies(quick=True)
    return {name: run_study(config, workers=1) for name, config in configs.items()}


def test_known_figures_for_1000_rounds() -> None:
    known: dict[Kind, float] = {
        "independent": 31.62,
        "naive_tree": 9.49,
        "tree": 6.74,
        "blt": 3.265,
        "root": 3.265,
    }
    for kind, value in known.items():
        assert experiment.scaled(kind, 1000).max == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize(("rounds", "printed", "exact"), [(4, 1.370, 1.488), (1000, 3.128, 3.265)])
def test_the_printed_column_norm_is_too_small(rounds: int, printed: float, exact: float) -> None:
    assert experiment.printed_norm(rounds) == pytest.approx(printed, abs=5e-4)
    assert experiment.column("root", rounds) == pytest.approx(exact, abs=5e-4)
    assert experiment.column("root", rounds) <= experiment.larger_norm(rounds)


@pytest.mark.parametrize("rounds", [1, 2, 3, 10, 30, 100, 10_000, 100_000])
def test_the_larger_bound_is_large_enough_and_the_printed_one_never(rounds: int) -> None:
    found = experiment.column("root", rounds)
    assert experiment.printed_norm(rounds) < found <= experiment.larger_norm(rounds)


def test_the_quick_run_names_what_is_wrong_in_print(done: dict[str, Study], tmp_path: Path) -> None:
    verdict = experiment.judge(done)
    assert verdict.holds != "as printed"
    assert f"{3 * len(QUICK)} of {4 * len(QUICK)} printed bounds on norms hold" in verdict.message
    assert f"fails at {len(QUICK)} of {len(QUICK)} R" in verdict.message
    computed = [check for check in verdict.checks if "regret" not in check.name]
    assert all(check.passed for check in computed)
    printed = [check for check in computed if "eq. (8)" in check.name and check.op == ">="]
    assert [check.published for check in printed] == [1 + log(4 * r / 5) / pi for r in QUICK]
    experiment.draw(done, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    (shown,) = verdict.tables
    assert [row[0] for row in shown.rows] == list(table1.ROWS)


@pytest.mark.parametrize("rounds", [64, 4096])
def test_table_1_is_computed_at_the_best_step(rounds: int) -> None:
    """Both sides of a best step are worse; sums of start and noise have known least values."""
    fresh, size, error = table1._noise(rounds)
    known = {"[1]": 1.0, "[3]": 1 + fresh**2, "[8]": 1 + 2 * size * error}
    for work, square in known.items():
        least = table1.DISTANCE * sqrt(square / rounds)
        assert table1.bound(work, rounds).total == pytest.approx(least, rel=1e-6)
        for factor in (0.8, 1.25):
            step = table1.DISTANCE / sqrt(square * rounds) * factor
            assert table1.terms(work, rounds, step).total > 1.02 * least
    totals = {work: table1.bound(work, rounds).total for work in table1.ROWS}
    assert totals["[1]"] < totals["[3]"] < totals["[8]"]
    assert totals[table1.OURS] > totals[table1.OURS_FRESH], "only in millions of rounds is it less"


def test_the_verdict_follows_the_norms(
    done: dict[str, Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a bound in print that is large enough, the claim is confirmed."""
    monkeypatch.setattr(experiment, "printed_norm", experiment.larger_norm)
    verdict = experiment.judge(done)
    assert verdict.holds == "as printed"
    wrong = [check for check in verdict.checks if not check.passed and "column" in check.name]
    assert len(wrong) == len(QUICK)  # we expect that the printed bound fails


def test_one_name_and_one_colour_for_each_factorisation(
    done: dict[str, Study], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn: dict[str, dict[str, str]] = {}

    def read(figure: Figure, path: Path, **choices: Any) -> None:
        left, right = figure.axes
        for line in left.get_lines():
            drawn.setdefault("left", {})[str(line.get_label())] = to_hex(line.get_color())
        bars = [to_hex(line.get_color()) for line in right.get_lines() if line.get_marker() == "o"]
        labels = [experiment.LABELS[kind] for kind in experiment.KINDS]
        drawn["right"] = dict(zip(labels, bars, strict=True))

    monkeypatch.setattr(Figure, "savefig", read)
    experiment.draw(done, tmp_path / "picture.png")
    known = {label: drawn["left"][label] for label in experiment.LABELS.values()}
    assert set(experiment.LABELS) == set(get_args(Kind))
    assert len(set(known.values())) == len(known)
    assert drawn["right"].items() <= known.items()


def test_the_coefficients_of_jax_privacy_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no dependency: without it nothing is claimed about it."""
    for found, expected in (
        (lambda: None, None),
        (lambda: lambda rounds, buffers: ToeplitzRoot(rounds).coefficients(), 3.265),
    ):
        monkeypatch.setattr(experiment, "jax_privacy", found)
        experiment.theirs.cache_clear()
        assert experiment.theirs(1000) == (expected and pytest.approx(expected, abs=1e-3))
    experiment.theirs.cache_clear()


def test_the_search_is_judged_only_beside_jax_privacy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "without_caches", lambda *_: 1e-3)
    monkeypatch.setattr(benchmark, "jax_privacy", lambda: None)
    alone = next(benchmark.search_rows())
    assert (alone.ratio, alone.limit) == (None, None)
    assert alone.value == 1.0

    def slow(rounds: int, buffers: int) -> int:
        return sum(range(rounds * 1000 * buffers))

    monkeypatch.setattr(benchmark, "jax_privacy", lambda: slow)
    beside = next(benchmark.search_rows())
    assert beside.ratio is not None
    assert beside.ratio < 1
    assert beside.limit == 0.02

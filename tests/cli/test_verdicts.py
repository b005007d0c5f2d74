"""The command line: reproduce, bench and contracts judge, and say so in JSON and by their exit
codes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hedgerow.cli import contracts
from hedgerow.core.registry import EXPERIMENTS
from hedgerow_benchmarks.benchmark import BENCHMARKS, Benchmark, Row
from hedgerow_papers.commands.reproduce import selected
from hedgerow_papers.experiments.experiment import Check
from support.command import Answer, Command

EXPERIMENT_FIELDS = {
    *("id", "status", "message", "holds", "passed", "checks", "tables", "communication"),
}
CHECK_FIELDS = {"name", "published", "obtained", "op", "limit", "passed"}


def _reproduced(answer: Answer) -> list[dict[str, Any]]:
    document = answer.document()
    assert set(document) == {"experiments"}
    for row in document["experiments"]:
        assert set(row) == EXPERIMENT_FIELDS | {"run"}
        assert all(set(check) == CHECK_FIELDS for check in row["checks"])
    return document["experiments"]


@pytest.mark.parametrize(("name", "code", "passed"), [("good", 0, True), ("impossible", 1, False)])
def test_a_full_run_is_judged(
    hedgerow: Command, tmp_path: Path, name: str, code: int, passed: bool
) -> None:
    answer = hedgerow("reproduce", name, "--plugin", "plugin.py", "--out", "x", "--json")
    (row,) = _reproduced(answer)
    assert answer.code == code
    assert (row["status"], row["holds"], row["passed"], row["message"], row["run"]) == (
        "ran",
        "as printed",
        passed,
        "a note",
        "x",
    )
    assert (row["checks"][0]["published"], row["checks"][0]["passed"]) == (1.5, passed)
    assert json.loads((tmp_path / "x" / "verdict.json").read_text()) == row
    assert (tmp_path / "x" / f"{name}.png").exists()


def test_a_quick_run_is_shown_but_not_judged(hedgerow: Command) -> None:
    answer = hedgerow("reproduce", "impossible", "--quick", "--plugin", "plugin.py", "--json")
    (row,) = _reproduced(answer)
    assert answer.code == 0
    assert (row["status"], row["holds"], row["passed"], row["checks"][0]["passed"]) == (
        "quick",
        None,
        None,
        None,
    )


def test_pictures_are_named_and_a_range_of_one_value_is_one_value(
    hedgerow: Command, tmp_path: Path
) -> None:
    shown = hedgerow("reproduce", "good", "--plugin", "plugin.py", "--out", "x").out
    assert "picture: x/good.png" in shown
    rows = [line for line in shown.splitlines() if "only" in line]
    assert rows
    assert all(" to " not in row for row in rows)


def test_of_many_checks_those_are_printed_that_tell_most() -> None:
    """The failed ones and the tightest of each kind, in their order; all where they are few."""
    wide = [Check(f"m={m}/share", 0.1, "<=", 1.0) for m in range(30)]
    near, grown, failed = (
        Check("m=30/share", 0.9, "<=", 1.0),
        Check("m=1/growth", 5.0, ">=", 2.0),
        Check("m=2/growth", 1.0, ">=", 2.0),
    )
    few, many = (
        [*wide, near, failed, grown],
        [*wide, near, *[grown] * 9, failed, Check("m=3/growth", 0.5, ">=", 2.0)],
    )
    assert selected(few) == few
    assert selected(many) == [near, *many[-2:]]
    assert selected(many, judged=False) == [near, many[-1]]


def test_missing_data_is_an_error_only_for_a_named_experiment(
    hedgerow: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EXPERIMENTS, "_things", {})
    named = hedgerow("reproduce", "needs-data", "--plugin", "plugin.py", "--json")
    assert named.code == 2
    del EXPERIMENTS._things["ill"]
    everything = hedgerow("reproduce", "--all", "--json")
    assert everything.code == 0
    rows = {row["id"]: row for row in _reproduced(everything)}
    assert {name: row["status"] for name, row in rows.items()} == {
        "good": "quick",
        "impossible": "quick",
        "needs-data": "no-data",
    }
    assert "https://example.org/absent" in rows["needs-data"]["message"]
    assert rows["needs-data"]["run"] is None


def test_an_experiment_that_fails_is_an_error_that_does_not_pass(
    hedgerow: Command, tmp_path: Path
) -> None:
    answer = hedgerow("reproduce", "ill", "--plugin", "plugin.py", "--json")
    (row,) = _reproduced(answer)
    assert (answer.code, row["status"], row["passed"], row["message"]) == (
        1,
        "error",
        False,
        "the judge is ill",
    )
    assert not (tmp_path / "runs").exists()
    assert "the judge is ill" in hedgerow("reproduce", "ill").out


@pytest.mark.parametrize(("ratio", "code"), [(2.0, 0), (4.0, 1)])
def test_bench_compares_with_its_limits(
    hedgerow: Command, monkeypatch: pytest.MonkeyPatch, ratio: float, code: int
) -> None:
    rows = [Row("a/m=1", ratio, "sum", 5.0, "ns", "<=", 3.0), Row("informs", 9.0, "sum", 5.0, "ns")]
    monkeypatch.setitem(BENCHMARKS._things, "simulate", Benchmark(lambda: rows))
    answer = hedgerow("bench", "simulate", "--json")
    assert answer.code == code
    shown = answer.document()["rows"]
    assert all(
        set(row)
        == {
            *("name", "ratio", "spread", "against", "op", "failure"),
            *("limit", "passed", "value", "unit"),
        }
        for row in shown
    )
    assert [row["passed"] for row in shown] == [code == 0, None]
    assert "a/m=1" in hedgerow("bench", "simulate").out


def test_contracts_are_listed_with_their_outcome(
    hedgerow: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contracts, "examine", cache(contracts.examine))  # the second call is free
    answer = hedgerow("contracts", "uniform", "--json")
    document = answer.document()
    assert answer.code == 0
    assert document["algorithm"] == "uniform"
    assert {row["status"] for row in document["contracts"]} <= {"holds", "not applicable"}
    assert {"contract", "status", "detail"} == set(document["contracts"][0])
    assert "not applicable" in hedgerow("contracts", "uniform").out


# The real command: what embedded defaults print, in a process of its own


def _process(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hedgerow.cli.main", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_demo_writes_a_picture_and_one_document(tmp_path: Path) -> None:
    done = _process(tmp_path, "demo", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert len(document["summary"]) == 4
    assert len(document["average_error_percent"]) == 9
    for rows in document["combined"].values():
        losses = {row["name"]: row["loss"] for row in rows["ways"]}
        assert losses["private"] < losses["plain average"]
    assert len(document["combined"]) == 2
    for picture in ("combined.png", "flusight.png", "regret.png", "weights.png"):
        assert (tmp_path / document["run"] / picture).stat().st_size > 10_000


def test_the_demo_says_what_is_public_and_where_the_data_come_from(
    hedgerow: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hedgerow.cli import demo

    monkeypatch.setattr(demo, "SEEDS", 2)
    monkeypatch.setattr(demo, "PASSES", 1)
    answer = hedgerow("demo", "--out", "demo")
    words = " ".join(answer.out.split())
    assert answer.code == 0, answer.err
    for expected in (
        "12 models, complete in hindsight",
        "20 models, complete in the first 4 weeks",
        "not significantly better than the best single model",
        "one target of one client in one round (forecasts are public)",
        "53 US states and territories, 56 weeks, 12 models",
        "together, private, trusted server",
        "In reality these numbers are public.",
        "server (sees broadcasts, plays, timing, uploads): no guarantee",
        "simulation: not private; data: CDC FluSight, CC BY 4.0 (some models MIT)",
        "where brackets contain 0, other weeks may show something else",
        "Picture: demo/combined.png",
        "Picture: demo/weights.png",
        "Picture: demo/flusight.png",
    ):
        assert expected in words


@pytest.mark.long
def test_the_quick_figure_prints_one_document(tmp_path: Path) -> None:
    done = _process(tmp_path, "reproduce", "gao2024-figure2", "--quick", "--json")
    (row,) = _reproduced(Answer(done.returncode, done.stdout, done.stderr))
    assert (done.returncode, row["status"], row["passed"]) == (0, "quick", None)
    assert {"certified/m=10/N=1/regret", "published/m=1/N=1/regret"} <= {
        check["name"] for check in row["checks"]
    }
    assert (tmp_path / row["run"] / "gao2024-figure2.png").stat().st_size > 10_000

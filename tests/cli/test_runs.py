"""`hedgerow runs`: what was run, when, with which results; broken folders are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import hedgerow as hr
from hedgerow.cli.runs import SHOWN, cells
from hedgerow.studies.storage.finished import ListedRun
from hedgerow.studies.study import Study
from support.command import Command


@pytest.fixture(autouse=True)
def unplotted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs without their picture, which takes most of the time."""
    monkeypatch.setattr(Study, "plot", lambda _, path: Path(path).write_bytes(b""))


def test_runs_are_listed_with_what_one_looks_for(hedgerow: Command, tmp_path: Path) -> None:
    assert "There is no folder runs" in hedgerow("runs").err
    ran = hedgerow("run", "study.toml", "--out", "runs/first", "--tag", "paper", "--tag", "old")
    assert ran.code == 0, ran.err
    study = (tmp_path / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(f'tags = ["paper", "new"]{study}'.replace("A study", "B"))
    assert hedgerow("run", "study.toml", "--out", "runs/more/second", "--tag", "new").code == 0
    learner = hr.Learner.private(
        hr.SparseVector(), clients=2, experts=3, horizon=10, source=hr.SecureNoise()
    )
    hr.record_deployment(learner, tmp_path / "runs" / "live", title="Ward 3")
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "privacy.json").write_text("{")
    document = hedgerow("runs", "--json").document()
    runs = {row["run"]: row for row in document["runs"]}
    assert set(runs) == {"runs/first", "runs/more/second", "runs/live", "runs/broken"}
    assert runs["runs/first"]["title"] == "A study"
    assert runs["runs/first"]["tags"] == ["paper", "old"]
    assert runs["runs/more/second"]["tags"] == ["paper", "new"]
    assert runs["runs/first"]["algorithms"] == {"private": "sparse_vector", "hedge": "hedge"}
    assert runs["runs/first"]["regret"]["hedge"]["seeds"] == 2
    assert runs["runs/first"]["written"].startswith("20")
    assert runs["runs/first"]["stamp"] == "simulation: not private"
    assert (runs["runs/live"]["stamp"], runs["runs/live"]["regret"]) == (None, {})
    assert "cannot be read" in runs["runs/broken"]["problem"]
    assert [row["run"] for row in document["runs"]][-1] == "runs/broken"
    text = hedgerow("runs").out
    for word in ("runs/first", "A study", "private: ", " ± ", "paper, old", "Ward 3", "deployed"):
        assert word in text
    chosen = hedgerow("runs", "--tag", "paper", "--tag", "new", "--json").document()
    assert [row["run"] for row in chosen["runs"]] == ["runs/more/second"]
    assert hedgerow("runs", "--tag", "nothing").out == "No finished runs in runs.\n"
    here = hedgerow("runs", ".", "--tag", "nothing").out
    assert here == f"No finished runs in {tmp_path}.\n"


def test_a_run_of_many_algorithms_is_shown_in_a_few_lines() -> None:
    names = tuple((f"a{i}", "hedge") for i in range(20))
    many = ListedRun(Path("runs/many"), "Many", "2026-11-16T12:00", algorithms=names)
    lines = cells(many)[3].splitlines()
    assert (len(lines), lines[-1]) == (SHOWN, "and 13 more (--json)")
    assert len(cells(replace(many, algorithms=names[:SHOWN]))[3].splitlines()) == SHOWN


def test_tags_are_words(hedgerow: Command, tmp_path: Path) -> None:
    study = (tmp_path / "study.toml").read_text()
    for tags, reason in (("3", "Expected tags=3 to be a list"), ("[1]", "Expected tags=[1]")):
        (tmp_path / "study.toml").write_text(f"tags = {tags}\n{study}")
        assert reason in hedgerow("run", "study.toml").err

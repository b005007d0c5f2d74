"""Data files: named relative to the study file, found from anywhere, the same under two paths."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.core.errors import InvalidValue
from hedgerow.studies.config import load_study
from hedgerow.studies.storage.folder import write_study
from hedgerow.studies.study import Study
from support.command import Command
from support.paths import EXAMPLES

LOSSES = (EXAMPLES / "recorded_losses.csv").read_text()
STUDY = """
seeds = 2
[environment]
name = "recorded"
path = "losses.csv"
[[algorithms]]
name = "hedge"
[[algorithms]]
name = "uniform"
environment = { name = "absent", of = { name = "recorded", path = "data/more.csv" } }
"""


@pytest.fixture(autouse=True)
def unplotted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs without their picture, which takes most of the time."""
    monkeypatch.setattr(Study, "plot", lambda _, path: Path(path).write_bytes(b""))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A study with its data, away from the current folder."""
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    (folder / "losses.csv").write_text(LOSSES)
    (folder / "data" / "more.csv").write_text(LOSSES)
    (folder / "study.toml").write_text(STUDY)
    return folder


def test_paths_are_relative_to_the_study_file(
    hedgerow: Command, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "losses.csv").write_text("another file in the current folder")
    config = load_study(Path("project/study.toml"))
    assert config.environment == hr.Recorded(str(project / "losses.csv"))
    assert str(project / "data" / "more.csv") in repr(config.algorithms[1].environment)
    answer = hedgerow("run", "project/study.toml", "--out", "results")
    assert answer.code == 0, answer.err
    assert hedgerow("verify", "results").code == 0


def test_the_folder_of_data_comes_first(hedgerow: Command, project: Path, tmp_path: Path) -> None:
    (tmp_path / "chosen").mkdir()
    flat = "round,client,a,b\n0,x,0.5,1\n1,x,0.25,0\n"
    (tmp_path / "chosen" / "losses.csv").write_text(flat)
    answer = hedgerow("run", "project/study.toml", "--data", "chosen", "--out", "results")
    assert answer.code == 0, answer.err
    written = tomllib.loads((tmp_path / "results" / "config.toml").read_text())
    assert written["environment"]["path"] == str(tmp_path / "chosen" / "losses.csv")


def test_the_configuration_of_a_run_runs_from_anywhere(
    hedgerow: Command, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hedgerow("run", "project/study.toml", "--out", "first").code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert hedgerow("run", "../first/config.toml", "--out", "second").code == 0
    one, other = (
        tomllib.loads((folder / "config.toml").read_text())
        for folder in (tmp_path / "first", tmp_path / "elsewhere" / "second")
    )
    assert one["environment"] == other["environment"]
    assert one["algorithms"] == other["algorithms"]


def test_the_configuration_of_a_run_in_python_has_whole_paths(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    game = hr.Recorded(Path("losses.csv"))  # pyright: ignore[reportArgumentType]
    study = hr.run(game, {"u": hr.Uniform()}, seeds=1)
    (tmp_path / "saved").mkdir()
    write_study(study, tmp_path / "saved", tmp_path / "saved")
    written = tomllib.loads((tmp_path / "saved" / "config.toml").read_text())
    assert written["environment"]["path"] == str(project / "losses.csv")


def test_one_file_under_two_paths_is_the_same(
    hedgerow: Command, project: Path, tmp_path: Path
) -> None:
    shutil.copytree(project, tmp_path / "copy")
    for name in ("project", "copy"):
        assert hedgerow("run", f"{name}/study.toml", "--out", f"of-{name}").code == 0
    answer = hedgerow("compare", "of-project", "of-copy")
    assert answer.code == 0
    assert "no losses in common" not in answer.out
    assert "paired, 2 seeds" in answer.out
    assert "Nothing differs in configuration" in answer.out
    # another file is another game, and its path is named
    (tmp_path / "copy" / "losses.csv").write_text(LOSSES.replace("0.5", "0.25"))
    assert hedgerow("run", "copy/study.toml", "--out", "of-other").code == 0
    changed = hedgerow("compare", "of-project", "of-other").out
    assert "Not on the same streams in A and B: hedge." in changed
    assert "environment path" in changed
    assert "hedge: losses" in changed


def test_an_array_is_not_a_file() -> None:
    reason = r"got ndarray of shape \(4, 2, 3\)\. For losses in an array use hr\.RecordedArray"
    with pytest.raises(InvalidValue, match=reason):
        hr.Recorded(np.zeros((4, 2, 3)))  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match=r"Expected path to name a file, got int"):
        hr.Recorded(3)  # pyright: ignore[reportArgumentType]

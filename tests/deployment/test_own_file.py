"""A client's own file: what the manifest says is in it, gaps, growing files, and eight commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.deployment.config import from_table
from hedgerow.deployment.manifest import Manifest, ManifestRefused
from hedgerow.deployment.own_file import COMBINED, FileForm, OwnFile, play_file
from support.keys import NOBODY
from support.paths import ROOT
from support.simulated import SimulatedStudy, small_study

FORM = FileForm("date", "2026-01-05", target="seen", largest_error=10.0)
ROWS = ("2026-01-05,1,3,2", "2026-01-06,4,6,5", "2026-01-07,2,9,8")


def _file(place: Path, rows: Sequence[str] = ROWS, head: str = "date,north,south,seen") -> Path:
    path = place / "own.csv"
    path.write_text("\n".join([head, *rows, ""]), encoding="utf-8")
    return path


def _study(place: Path, form: FileForm = FORM, **choices: Any) -> SimulatedStudy:
    usual: dict[str, Any] = {"clients": 1, "experts": 2, "horizon": 3, "names": ("north", "south")}
    return small_study(place / "study", file=form, **{**usual, **choices})


def _combined(place: Path, **choices: Any) -> SimulatedStudy:
    form = FileForm("date", "2026-01-05", target="seen")
    return _study(place, form, algorithm="private_mixture", family=COMBINED, **choices)


def _played(study: SimulatedStudy, path: Path, **choices: Any) -> tuple[list[str], bool]:
    said = list[str]()
    learner = study.learner(0)
    over = play_file(learner, OwnFile(path, learner.client.manifest), said.append, **choices)
    return said, over


def test_losses_are_those_of_the_manifest(tmp_path: Path) -> None:
    """The order of columns in the file does not matter: they are read by name."""
    path = _file(tmp_path, ["3,2026-01-05,2,1"], "south,date,seen,north")
    study = _study(tmp_path)
    row = OwnFile(path, study.manifest).row(0)
    assert row is not None
    assert row.record is not None
    assert row.record.tolist() == [0.1, 0.1]
    said, over = _played(study, _file(tmp_path))
    assert (said[0], len(said), over) == ("round,follow", 4, True)
    assert {line.split(",")[1] for line in said[1:]} <= {"north", "south"}
    study.close()


def test_a_combination_is_that_of_a_simulation(tmp_path: Path) -> None:
    study = _combined(tmp_path, choices={"epsilon": "1", "at_home": True})
    said, over = _played(study, _file(tmp_path))
    assert over
    assert study.running_server().public()["weights"].keys() == {"north", "south"}
    for line, forecasts in zip(said[1:], ([1, 3], [4, 6], [2, 9]), strict=True):
        _, forecast, *weights = line.split(",")
        assert float(forecast) == pytest.approx(np.dot(np.array(weights, float), forecasts), 1e-3)
    form = np.array([[[1.0, 3.0]], [[4.0, 6.0]], [[2.0, 9.0]]])
    game = hr.Combining(hr.ForecastTable(form, np.array([[2.0], [5.0], [8.0]])))
    rows = OwnFile(tmp_path / "own.csv", study.manifest)
    for number, record in enumerate(game.records[:, 0]):
        row = rows.row(number)
        assert row is not None
        assert row.record is not None
        assert row.record.tolist() == record.tolist()
    study.close()


def test_a_growing_file_is_played_as_it_grows(tmp_path: Path) -> None:
    study = _combined(tmp_path)
    path = _file(tmp_path, ["2026-01-05,1,3,"])  # forecasts, and no target yet
    said, over = _played(study, path)
    assert (len(said), over) == (2, False)
    _file(tmp_path, ["2026-01-05,1,3,2"])
    said, over = _played(study, path)
    assert (said[1].split(",")[0], over) == ("2026-01-05", False)
    rows = [list(ROWS[:2]), list(ROWS)]
    said, over = _played(
        study, path, every=60.0, sleep=lambda _: _file(tmp_path, rows.pop(0)) and None
    )
    assert [line.split(",")[0] for line in said[1:]] == ["2026-01-06", "2026-01-07"]
    assert over
    study.close()


def test_a_folder_of_files_is_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "days"
    folder.mkdir()
    for number, row in enumerate(ROWS):
        _file(tmp_path, [row]).rename(folder / f"{number}.csv")
    study = _study(tmp_path)
    assert _played(study, folder)[1]
    shutil.copy(folder / "0.csv", folder / "3.csv")
    with pytest.raises(InvalidValue, match="repeats the round"):
        OwnFile(folder, study.manifest)
    study.close()


def test_a_missing_day_is_absence_where_that_is_allowed(tmp_path: Path) -> None:
    path = _file(tmp_path, [ROWS[0], ROWS[2]])
    study = _study(tmp_path, features=("absent clients",))
    said, over = _played(study, path)
    assert (len(said), over) == (4, True)
    study.close()
    strict = _study(tmp_path / "strict")
    with pytest.raises(InvalidValue, match="no whole row for 2026-01-06"):
        _played(strict, path)
    strict.close()


@pytest.mark.parametrize(
    ("rows", "head", "text"),
    [
        (ROWS, "date,north,west,seen", "column 'south'"),
        (ROWS, "date,north,south,came", "column 'seen'"),
        (ROWS, "day,north,south,seen", "column 'date'"),
        (["2026-01-05,1,,2"], "date,north,south,seen", "no value in column 'south'"),
        (["2026-01-05,1,many,2"], "date,north,south,seen", "Expected numbers in column 'south'"),
        ([ROWS[0], ROWS[0]], "date,north,south,seen", "repeats the round"),
    ],
)
def test_files_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, rows: Sequence[str], head: str, text: str
) -> None:
    study = _study(tmp_path)
    with pytest.raises(HedgerowError, match=text) as refused:
        OwnFile(_file(tmp_path, rows, head), study.manifest)
    assert ("Rename the column: the study" in str(refused.value)) == text.startswith("column")
    odd = OwnFile(_file(tmp_path, [*ROWS, "2026-01-09,1,2,-999"]), study.manifest)
    assert odd.notes[0].startswith("1 target is -999")
    study.close()


def test_losses_by_name_are_put_in_order(tmp_path: Path) -> None:
    study = _study(tmp_path)
    learner = study.learner(0)
    learner.observe(0, {"south": 1.0, "north": 0.0})
    learner.observe(0, [0.0, 1.0])  # the same
    for wrong, text in (({"south": 1.0}, "'north' is missing"), ({"b": 1}, "missing")):
        with pytest.raises(InvalidValue, match=text):
            learner.observe(1, wrong)
    with pytest.raises(InvalidValue, match="'west' is not in the manifest"):
        learner.observe(1, {"north": 0.0, "south": 1.0, "west": 0.5})
    study.close()


def test_the_manifest_says_what_is_compared(tmp_path: Path) -> None:
    study = _study(tmp_path)
    words = "\n".join(study.manifest.words())
    for text in ("in this order: north, south", "column 'date', from 2026-01-05", "divided by 10"):
        assert text in words
    changed = study.manifest.to_bytes().replace(b'"largest_error":10.0', b'"largest_error":20.0')
    assert Manifest.read(changed).digest != study.manifest.digest  # all sign what is compared
    with pytest.raises(ManifestRefused, match="scale"):
        Manifest.read(changed.replace(b'"target":"seen"}', b'"scale":0.0,"target":"seen"}'))
    study.close()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ({"round": "date", "first": "soon"}, "to be a date such as 2026-01-03"),
        ({"round": "date", "first": 0, "target": "seen"}, "largest_error is missing"),
        ({"round": "date", "first": 0, "target": "seen", "loss": "cubic"}, "loss"),
        ({"first": 0}, "round"),
    ],
)
def test_study_files_with_a_wrong_form_are_refused(file: dict[str, Any], text: str) -> None:
    setting = {"experts": 2, "horizon": 9, "names": ("a", "b")}
    table = {"algorithm": {"name": "sparse_vector"}, "setting": setting, "file": file}
    with pytest.raises(InvalidValue, match=text):
        from_table({**table, "clients": {"x": 64 * "a"}}, environ={}).manifest(NOBODY)


def test_three_sites_take_eight_commands(tmp_path: Path) -> None:
    """The script that the docs show: TLS, own files, and no code."""
    script = ROOT / "src/hedgerow/examples/three_sites.sh"
    lines = script.read_text(encoding="utf-8").splitlines()
    assert sum(line.strip().startswith(("hedgerow", "openssl")) for line in lines) == 4
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    made = subprocess.run(
        ["sh", str(script), str(tmp_path / "out")],
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert made.stdout.startswith("8 commands, ")
    for site in ("Dale", "Larch", "Fern"):
        head, *rows = (tmp_path / f"out/{site}.plays.csv").read_text().splitlines()
        assert head == "round,forecast,weight of north,weight of south"
        assert 25 <= len(rows) <= 30
        assert len({row.split(",", 2)[2] for row in rows}) > 10  # weights are learned

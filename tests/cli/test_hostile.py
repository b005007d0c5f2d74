"""Names that would command the terminal are shown; places that cannot be written to are refused
before anything is computed.
"""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from hedgerow.cli import run
from hedgerow.core.text import one_line, visible
from hedgerow.studies.config import load_study
from hedgerow.studies.run import run_study
from hedgerow.studies.storage.digest import write_digest
from hedgerow.studies.storage.folder import write_study
from hedgerow_papers.commands import gallery, reproduce
from support.command import STUDY, Answer, Command

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m\x00"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_controls_are_shown_and_other_signs_stay() -> None:
    assert visible("\x1b[31mred\x7f\x9b\r\u202e") == "␛[31mred␡�␍�"
    assert not CONTROLS.search(visible("".join(map(chr, range(0xE000)))))
    plain = "Übung 1 × 2 → 3\tβ\n日本 👍"
    assert visible(plain) == plain
    assert one_line("a\nb\tc") == "a␊b␉c"
    visible("\ud800 alone").encode()  # can be written


@pytest.mark.parametrize("what", ["title", "label"])
def test_a_study_with_controls_in_its_names_is_refused(
    hedgerow: Command, tmp_path: Path, what: str
) -> None:
    old = {"title": '"A study"', "label": '"private"'}[what]
    text = STUDY.replace(old, json.dumps(f"evil{HOSTILE}\n").replace("\\u0000", "\\u0001"))
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    answer = hedgerow("run", "study.toml")
    assert answer.code == 2
    assert f"Expected {what}='evil" in answer.err
    assert "without control characters" in answer.err
    assert not CONTROLS.search(answer.err)


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder from elsewhere, with controls and markup in every name."""
    folder = tmp_path_factory.mktemp("poisoned")
    (folder / "study.toml").write_text(STUDY)
    (folder / "results").mkdir()
    write_study(
        run_study(load_study(folder / "study.toml"), workers=1), folder / "results", Path("r")
    )
    (folder / "results" / "digest.json").unlink()
    file = folder / "results" / "privacy.json"
    table = json.loads(file.read_text())
    table["title"] = f"title{HOSTILE}[bold]<b>"
    table["run"] = f"run{HOSTILE}"
    table["versions"]["numpy"] = f"2{HOSTILE}"
    file.write_text(json.dumps(table))
    write_digest(folder / "results")
    return folder / "results"


def _safe(answer: Answer) -> None:
    for text in (answer.out, answer.err):
        assert not CONTROLS.search(text), repr(CONTROLS.search(text))


def test_names_in_a_foreign_run_folder_are_shown_not_obeyed(
    hedgerow: Command, poisoned: Path, tmp_path: Path
) -> None:
    shutil.copytree(poisoned, tmp_path / "results")
    answer = hedgerow("statement", "results")
    assert answer.code == 0, answer.err
    _safe(answer)
    for folder in (tmp_path / "results" / "statement").iterdir():
        for file in folder.iterdir():
            text = file.read_text(encoding="utf-8")
            assert not CONTROLS.search(text), file
            if file.suffix == ".svg":
                ET.fromstring(text)
            if file.name == "statement.html":
                assert "title␛]0;owned␇␛[2J" in text
                assert "<b>" not in text
    for command in (("verify", "results"), ("compare", "results", "results")):
        _safe(hedgerow(*command))


def test_errors_show_what_a_file_says(hedgerow: Command, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        STUDY.replace("every = 4", json.dumps(f"every{HOSTILE}") + " = 4"), encoding="utf-8"
    )
    answer = hedgerow("run", "study.toml")
    assert answer.code == 2
    assert "Unknown key" in answer.err or "Cannot read" in answer.err
    _safe(answer)
    (tmp_path / "losses.csv").write_text(f"round,client,{HOSTILE},b\n0,0,2,3\n", encoding="utf-8")
    (tmp_path / "study.toml").write_text(
        '[environment]\nname = "recorded"\npath = "losses.csv"\n[[algorithms]]\nname = "hedge"\n'
    )
    answer = hedgerow("run", "study.toml")
    assert answer.code == 2
    _safe(answer)


def _dangling(place: Path) -> None:
    place.symlink_to("nowhere/at/all")


def _inside_a_file(place: Path) -> None:
    place.parent.write_text("a file")


def _inside_a_dangling_link(place: Path) -> None:
    place.parent.symlink_to("nowhere")


WRONG: dict[str, tuple[str, Callable[[Path], None] | None, str]] = {
    "a dangling link": ("out", _dangling, "is a link to nowhere/at/all, which does not exist"),
    "a file in the way": ("way/out", _inside_a_file, "way is a file"),
    "a dangling link in the way": ("way/out", _inside_a_dangling_link, "leads nowhere"),
    "an unwritable folder": ("/proc/out", None, "Cannot write to --out /proc/out"),
}


@pytest.mark.parametrize("case", list(WRONG))
@pytest.mark.parametrize("command", ["run", "reproduce", "gallery"])
def test_a_place_that_cannot_be_written_to_is_refused_first(
    hedgerow: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, command: str
) -> None:
    place, make, reason = WRONG[case]
    if make is not None:
        make(tmp_path / place)

    def computed(*_: object, **__: object) -> None:
        pytest.fail("something was computed")

    monkeypatch.setattr(run, "studies_identity", computed)
    monkeypatch.setattr(reproduce, "run_experiment", computed)
    monkeypatch.setattr(gallery, "exhibits", computed)
    arguments = {
        "run": ("run", "study.toml"),
        "reproduce": ("reproduce", "good", "--plugin", "plugin.py"),
        "gallery": ("gallery", "--quick"),
    }[command]
    before = sorted(tmp_path.iterdir())
    answer = hedgerow(*arguments, "--out", place)
    assert answer.code == 2
    assert reason in answer.err or (command == "gallery" and "leads nowhere" in answer.err)
    assert sorted(tmp_path.iterdir()) == before


def test_runs_that_cannot_be_written_to_are_refused_first(
    hedgerow: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").write_text("a file")
    monkeypatch.setattr(run, "studies_identity", lambda *_: pytest.fail("something was computed"))
    answer = hedgerow("run", "study.toml")
    assert answer.code == 2
    assert "Cannot write to runs/:" in answer.err
    assert "runs is a file" in answer.err

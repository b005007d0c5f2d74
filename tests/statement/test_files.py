"""Files: one folder for each label, whole or absent, and nobody else's files are touched."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hedgerow.records.schema import read_record
from hedgerow.statement.files import FILES, write
from hedgerow.statement.statement import folder_names
from support.command import Command
from support.statements import EXAMPLE


def test_nothing_half_written(tmp_path: Path) -> None:
    out = tmp_path / "statements"
    with pytest.raises(TypeError):
        write({"a": {"statement.md": 3}}, out)  # pyright: ignore[reportArgumentType]
    assert list(tmp_path.iterdir()) == []


def test_labels_become_folders(run: Path) -> None:
    found = read_record(run)
    labels = ("a b", "a-b", "../x", "A b", "!")
    renamed = replace(
        found, algorithms=[replace(found.algorithms[0], label=label) for label in labels]
    )
    assert list(folder_names(renamed).values()) == ["a-b", "a-b-2", "x", "a-b-3", "algorithm"]


def test_one_statement_for_every_algorithm(made: Command, tmp_path: Path) -> None:
    answer = made("statement", "results")
    assert answer.code == 0
    out = tmp_path / "results" / "statement"
    assert {p.name for p in out.iterdir()} == {"private", "hedge"}
    assert all({p.name for p in folder.iterdir()} == set(FILES) for folder in out.iterdir())
    assert "NO GUARANTEE" in answer.out
    assert "Open, to be filled in" in answer.out
    assert "data_curators" in answer.out
    assert "not audited" in answer.out


def test_json_is_what_the_file_holds(made: Command, tmp_path: Path) -> None:
    printed = made(
        "statement",
        "results",
        "--algorithm",
        "private",
        "--details",
        str(EXAMPLE),
        "--out",
        "chosen",
        "--json",
    ).document()
    (single,) = printed["statements"]
    assert printed["out"] == "chosen"
    assert {p.name for p in (tmp_path / "chosen").iterdir()} == {"private"}
    file = json.loads((tmp_path / "chosen" / "private" / "statement.json").read_text())
    assert single == {"folder": "chosen/private", **file}
    assert file["open"] == []
    assert file["choices"]["epsilon"] == 5.0


def test_statements_are_replaced_and_others_stay(made: Command, tmp_path: Path) -> None:
    made("statement", "results", "--algorithm", "private")
    made("statement", "results", "--algorithm", "hedge")
    out = tmp_path / "results" / "statement"
    page = out / "private" / "statement.md"
    before = page.read_text()
    assert made("statement", "results", "--details", str(EXAMPLE)).code == 0
    assert {p.name for p in out.iterdir()} == {"private", "hedge"}
    assert page.read_text() != before
    assert not [p for p in out.parent.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("foreign", ["notes.txt", "private/notes.txt", "private/statement.md"])
def test_other_peoples_files_are_never_touched(made: Command, tmp_path: Path, foreign: str) -> None:
    file = tmp_path / "mine" / foreign
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    answer = made("statement", "results", "--out", "mine")
    assert answer.code == 2
    held = foreign.split("/", maxsplit=1)[0]
    text = f"--out mine holds {held!r}, which is not a statement. Choose another folder."
    assert text in answer.err
    assert [p for p in (tmp_path / "mine").rglob("*") if p.is_file()] == [file]
    assert file.read_text() == "mine"

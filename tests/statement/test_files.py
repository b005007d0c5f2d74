"""Files: one folder for each label, whole or absent, and nobody else's files are touched."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from hedgerow.records.schema import read_record
from hedgerow.statement.files import KEPT, write_statements
from hedgerow.statement.statement import statement_folder_names
from hedgerow.studies.storage.digest import write_digest
from support.command import Command
from support.statements import EXAMPLE


def test_nothing_half_written(tmp_path: Path) -> None:
    out = tmp_path / "statements"
    with pytest.raises(TypeError):
        write_statements({"a": {"statement.md": 3}}, out)  # pyright: ignore[reportArgumentType]
    assert list(tmp_path.iterdir()) == []


def test_labels_become_folders(run: Path) -> None:
    found = read_record(run)
    labels = ("a b", "a-b", "../x", "A b", "!")
    renamed = replace(
        found, algorithms=[replace(found.algorithms[0], label=label) for label in labels]
    )
    assert list(statement_folder_names(renamed).values()) == [
        "a-b",
        "a-b-2",
        "x",
        "a-b-3",
        "algorithm",
    ]


def test_one_statement_for_every_algorithm(made: Command, tmp_path: Path) -> None:
    answer = made("statement", "results")
    assert answer.code == 0
    out = tmp_path / "results" / "statement"
    assert {p.name for p in out.iterdir()} == {"private", "hedge"}
    assert all({p.name for p in folder.iterdir()} == KEPT for folder in out.iterdir())
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


def _keys(folder: Path, name: str) -> tuple[str, str]:
    """The files of a new private key and of its public one."""
    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return str(private), str(public)


def test_an_edited_statement_is_found_wherever_it_is(made: Command, tmp_path: Path) -> None:
    """Without the run: by its digest and, if the editor writes another digest, by its signature."""
    private, public = _keys(tmp_path, "ours")
    forger, _ = _keys(tmp_path, "theirs")
    assert made("statement", "results", "--algorithm", "private", "--sign", private).code == 0
    sent = tmp_path / "sent"
    shutil.copytree(tmp_path / "results/statement/private", sent)
    answer = made("verify", "sent", "--key", public)
    assert (answer.code, "signed by the given key" in answer.out) == (0, True)
    assert made("verify", "results").code == 0
    page = sent / "statement.html"
    text = page.read_text(encoding="utf-8")
    assert re.search(r"[0-9.]+ to 1\b", text)
    page.write_text(re.sub(r"[0-9.]+ to 1\b", "2 to 1", text), encoding="utf-8")
    for named in ("sent", "sent/statement.html"):
        answer = made("verify", named)
        assert (answer.code, "statement.html has changed" in answer.out) == (1, True)
    write_digest(sent)  # the editor covers it up, without a key and with one
    assert made("verify", "sent", "--key", public).code == 1
    write_digest(sent, Path(forger))
    answer = made("verify", "sent", "--key", public)
    assert (answer.code, "signed by another key" in answer.out) == (1, True)
    assert "--sign is for run folders" in made("verify", "sent", "--sign", private).err

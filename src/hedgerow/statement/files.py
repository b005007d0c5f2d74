"""The files of a statement: JSON, Markdown, HTML, registry record, picture."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InvalidValue
from hedgerow.statement.page import PICTURE, statement_html, statement_markdown, statement_page
from hedgerow.statement.picture import statement_svg
from hedgerow.statement.registry import registry_yaml
from hedgerow.statement.statement import Statement
from hedgerow.statement.words.attackers import plain_words
from hedgerow.studies.storage import digest
from hedgerow.studies.storage.place import check_writable

PLACE = "statement"
"""The folder of statements in a run folder."""
FILES = ("statement.md", "statement.json", "statement.html", "registry.yaml", PICTURE)
KEPT = {*FILES, digest.FILE}


def rendered_statement(statement: Statement) -> dict[str, str]:
    """The text of every file of a statement, by name."""
    page, picture = statement_page(statement), statement_svg(statement)
    return {
        "statement.md": statement_markdown(page),
        "statement.json": json.dumps(statement_document(statement), indent=2, allow_nan=False)
        + "\n",
        "statement.html": statement_html(page, picture),
        "registry.yaml": registry_yaml(statement),
        PICTURE: picture,
    }


def is_statement(folder: Path) -> bool:
    """Whether a folder holds a statement and nothing else."""
    if (
        folder.is_symlink()
        or not folder.is_dir()
        or not {file.name for file in folder.iterdir()} <= KEPT
    ):
        return False
    try:
        return (
            json.loads((folder / "statement.json").read_text(encoding="utf-8"))["format"] == FORMAT
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def check_statement_folder(out: Path) -> None:
    """Refuse a folder that holds anything but statements."""
    if out.exists() and not out.is_dir():
        raise InvalidValue(f"--out {out} is a file. Choose a folder.")
    check_writable(out.resolve().parent if out.exists() else out, f"--out {out}")
    for inside in sorted(out.iterdir()) if out.is_dir() else []:
        if not is_statement(inside):
            raise InvalidValue(
                f"--out {out} holds {inside.name!r}, which is not a statement. "
                "Choose another folder."
            )


def write_statements(
    statements: Mapping[str, Mapping[str, str]], out: Path, key: Path | None = None
) -> None:
    """Write files by folder and name, with a digest; statements of other algorithms in `out` stay.

    `key` is the private key that signs them. None: the one that `HEDGEROW_KEY` names, or none.
    """
    check_statement_folder(out)
    place = out.resolve()
    try:
        partial = _hidden_folder(place, "partial")
    except OSError as error:
        raise InvalidValue(f"Cannot write to {out}: {error.strerror}.") from error
    try:
        if place.is_dir():
            shutil.copytree(place, partial, dirs_exist_ok=True)
        for folder, files in statements.items():
            (partial / folder).mkdir(exist_ok=True)
            for name, text in files.items():
                (partial / folder / name).write_text(text, encoding="utf-8")
            digest.write_digest(partial / folder, key)
        _swap(partial, place)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _hidden_folder(place: Path, word: str) -> Path:
    """Make a new hidden folder next to `place`."""
    place.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        candidate = place.with_name(f".{place.name}.{word}-{number}")
        try:
            candidate.mkdir()
        except FileExistsError:
            continue
        return candidate
    raise AssertionError("unreachable")


def _swap(partial: Path, place: Path) -> None:
    """Put the new folder where the old one was; put the old one back if that fails."""
    if not place.exists():
        partial.rename(place)
        return
    old = _hidden_folder(place, "old")
    place.rename(old / place.name)
    try:
        partial.rename(place)
    except BaseException:
        (old / place.name).rename(place)
        old.rmdir()
        raise
    shutil.rmtree(old)


FORMAT = "hedgerow privacy statement 1"


def _point(statement: Statement, records: int) -> dict[str, float] | None:
    point = statement.of_records(records)
    return None if point is None else asdict(point)


def statement_document(statement: Statement) -> dict[str, Any]:
    """The statement as plain values, with the unrounded numbers of the certificate."""
    run, details = statement.run, statement.details
    persons = None
    if (
        statement.by_person
        and details.records_per_client is not None
        and statement.all_runs is not None
    ):
        persons = {
            "records_per_client": details.records_per_client,
            "clients_per_person": details.clients_per_person,
            "at_one_client": _point(statement, details.records_per_client),
            "across_sites": None if statement.most is None else _point(statement, statement.most),
        }
    return {
        "format": FORMAT,
        "stamp": statement.stamp,
        "title": statement.title,
        "written": str(statement.written),
        "expires": None if details.expires is None else str(details.expires),
        "plain_words": plain_words(statement),
        "run": {
            "folder": run.run,
            "title": run.title,
            "written": run.written,
            "played": run.played,
            "signer": statement.signature.signer,
        },
        **asdict(statement.algorithm),
        "person": persons,
        "noise": asdict(run.noise),
        "versions": run.versions,
        "code": asdict(run.code),
        "ledger": None if statement.ledger is None else asdict(statement.ledger),
        "audit": None
        if statement.audit is None
        else {**asdict(statement.audit), "passed": statement.audit.passed},
        "details": {
            key: str(value) if isinstance(value, date) else value
            for key, value in asdict(details).items()
        },
        "open": list(statement.open),
    }

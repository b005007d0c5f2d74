"""Checks statements: by their own digest, and in a run folder against what the run gives.

A statement is written after the run is signed, so it has its own digest, which may be signed.
In a run folder it is also made again from the run, with the date, the details and the audit that it
names, and compared byte by byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.records.schema import AlgorithmRecord, RunRecord
from hedgerow.statement.audit import Audit, difference
from hedgerow.statement.details import Details
from hedgerow.statement.files import FILES, PLACE, is_statement, rendered
from hedgerow.statement.statement import Signature, Statement, folder_names
from hedgerow.studies.storage import digest


def statement_differences(run: Path, record: RunRecord, signer: str | None) -> list[str]:
    """What is wrong with the statements in a run folder, in words.

    Parameters
    ----------
    run
        The run folder.
    record
        Its record, which was checked.
    signer
        The public key that signed the run; None: nobody.
    """
    place, found = run / PLACE, list[str]()
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        return [f"{PLACE} is not a folder of statements"]
    labels = {name: label for label, name in folder_names(record).items()}
    algorithms = {algorithm.label: algorithm for algorithm in record.algorithms}
    for folder in sorted(place.iterdir()) if place.is_dir() else []:
        shown = f"{PLACE}/{folder.name}"
        if folder.name not in labels or not is_statement(folder):
            found.append(f"{shown} is not a statement of this run")
            continue
        try:
            found += [f"{shown}/{one}" for one in digest.verify(folder).differences]
            found += _differences(folder, shown, record, algorithms[labels[folder.name]], signer)
        except (HedgerowError, OSError, ValueError, KeyError, TypeError, RecursionError):
            found.append(f"{shown}/statement.json does not fit this run")
    return found


def _differences(
    folder: Path, shown: str, record: RunRecord, algorithm: AlgorithmRecord, signer: str | None
) -> Iterator[str]:
    table = json.loads((folder / "statement.json").read_text(encoding="utf-8"))
    written = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
    again = [
        {name: text.encode() for name, text in rendered(stated).items()}
        for stated in _made_again(table, record, algorithm, signer)
    ]
    if written not in again:
        names = [name for name in FILES if written.get(name) not in [one[name] for one in again]]
        for name in names or ["statement.md"]:
            yield f"{shown}/{name} is not what `hedgerow statement` writes for this run"


def _made_again(
    table: dict[str, Any], record: RunRecord, algorithm: AlgorithmRecord, signer: str | None
) -> Iterator[Statement]:
    """The statement of this run with the same date, details and audit.

    Whether the signature was compared with a known key is only in its words.
    """
    audit = None
    if table["audit"] is not None:
        audit = TypeAdapter(Audit).validate_python(table["audit"])
        if difference(audit, algorithm) is not None:
            raise InvalidValue("The audit is of another algorithm.")
    details = TypeAdapter(Details).validate_python(table["details"])
    named = table["run"]["signer"]
    if named not in (None, signer):
        raise InvalidValue("The statement names another signer.")
    for checked in (False, True):
        day, signature = date.fromisoformat(table["written"]), Signature(named, checked)
        yield Statement(record, algorithm, details, audit, day, signature)

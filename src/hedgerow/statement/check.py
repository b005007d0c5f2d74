"""Checks statements: by their own digest, and in a run folder against what the run gives.

A statement is written after the run is signed, so it has its own digest, which may be signed.
In a run folder, or that of a deployment, it is also made again from the run or the ledger, with the
date, the details and the audit that it names, and compared byte by byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.deployment.record import SERVER, read_deployment
from hedgerow.records.provenance import Code
from hedgerow.records.schema import AlgorithmRecord, LedgerRecord, RunRecord
from hedgerow.statement.audit import Audit, audit_difference
from hedgerow.statement.files import FILES, PLACE, is_statement, rendered_statement
from hedgerow.statement.statement import Details, Signature, Statement, statement_folder_names
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
    labels = {name: label for label, name in statement_folder_names(record).items()}
    algorithms = {algorithm.label: algorithm for algorithm in record.algorithms}
    for folder in sorted(place.iterdir()) if place.is_dir() else []:
        shown = f"{PLACE}/{folder.name}"
        if folder.name not in labels or not is_statement(folder):
            found.append(f"{shown} is not a statement of this run")
            continue
        try:
            found += [f"{shown}/{one}" for one in digest.verify_digest(folder).differences]
            found += _differences(folder, shown, record, algorithms[labels[folder.name]], signer)
        except (HedgerowError, OSError, ValueError, KeyError, TypeError, RecursionError):
            found.append(f"{shown}/statement.json does not fit this run")
    return found


def ledger_differences(folder: Path, place: Path) -> list[str]:
    """What a statement says that its ledger in the folder `place` does not give, in words.

    The statement may be earlier than the ledger is now. The sums of an account that has grown since
    are as the statement says.
    """
    try:
        table = json.loads((folder / "statement.json").read_text(encoding="utf-8"))
        stated = TypeAdapter(LedgerRecord).validate_python(table["ledger"])
        found = read_deployment(place, stated)
        run, code = table["run"], TypeAdapter(Code).validate_python(table["code"])
        record = replace(found.record, run=run["folder"], written=run["written"])
        record = replace(record, played=run["played"], versions=table["versions"], code=code)
        signer = stated.signed[SERVER]
        (algorithm,) = record.algorithms
        return list(_differences(folder, folder.name, record, algorithm, signer, stated))
    except HedgerowError as error:
        return [f"{folder.name} does not fit its ledger: {error}"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return [f"{folder.name}/statement.json does not fit its ledger"]


def _differences(
    folder: Path,
    shown: str,
    record: RunRecord,
    algorithm: AlgorithmRecord,
    signer: str | None,
    ledger: LedgerRecord | None = None,
) -> Iterator[str]:
    table = json.loads((folder / "statement.json").read_text(encoding="utf-8"))
    written = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
    again = [
        {name: text.encode() for name, text in rendered_statement(stated).items()}
        for stated in _made_again(table, record, algorithm, signer, ledger)
    ]
    if written not in again:
        names = [name for name in FILES if written.get(name) not in [one[name] for one in again]]
        for name in names or ["statement.md"]:
            yield f"{shown}/{name} is not what `hedgerow statement` writes for this run"


def _made_again(
    table: dict[str, Any],
    record: RunRecord,
    algorithm: AlgorithmRecord,
    signer: str | None,
    ledger: LedgerRecord | None,
) -> Iterator[Statement]:
    """The statement of this run with the same date, details and audit.

    Whether the signature was compared with a known key is only in its words.
    """
    audit = None
    if table["audit"] is not None:
        audit = TypeAdapter(Audit).validate_python(table["audit"])
        if audit_difference(audit, algorithm) is not None:
            raise InvalidValue("The audit is of another algorithm.")
    details = TypeAdapter(Details).validate_python(table["details"])
    named = table["run"]["signer"]
    if named not in (None, signer):
        raise InvalidValue("The statement names another signer.")
    for checked in (False, True):
        day, signature = date.fromisoformat(table["written"]), Signature(named, checked)
        yield Statement(record, algorithm, details, audit, day, signature, ledger)

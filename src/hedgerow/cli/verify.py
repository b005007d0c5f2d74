"""`hedgerow verify RUN`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.options import Debug, Json, Plugins, PublicKey, apply_options
from hedgerow.cli.output import OUT, print_json, say
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.deployment.record import SERVER, is_deployment, read_deployment
from hedgerow.records.schema import FILE
from hedgerow.statement.check import ledger_differences, statement_differences
from hedgerow.statement.files import PLACE, is_statement
from hedgerow.studies.rebuild import check_certificates
from hedgerow.studies.storage.digest import Verdict, sign_run, verify_digest
from hedgerow.studies.storage.finished import finished_record

STATED = (
    "The statement is as it was written. A signature shows who wrote it, not that it is true: what "
    "it says is checked with the run or the ledger."
)
HELD = "What the statements say follows from this ledger."
UNSEEN = (
    "The data are not here: the number of clients, experts and rounds, the gaps and the losses "
    "are as the record says."
)

ENTERED = (
    "The statements follow from this run. Their date, details and audit are as their author "
    "entered them: nobody has signed these."
)


def verify(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run folder that `hedgerow run` or `record_deployment` wrote, a statement, or "
            "the folder of a study at its server or at a client."
        ),
    ],
    key: PublicKey = None,
    sign: Annotated[
        Path | None,
        typer.Option(
            "--sign",
            metavar="PRIVATE.pem",
            help="Sign the run with this Ed25519 key, if it is ok and nobody else has signed it.",
        ),
    ] = None,
    json: Json = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Check that a run, statement or ledger is as written.

    Every file is compared with digest.json, and every certificate is computed again from the
    recorded choices. Statements in the folder are written again and compared; their date, details
    and audit are as their author entered them. A statement alone is compared with its own digest.
    Of a deployment all signatures, hashes and charges are checked, and that its own key signed its
    statements, unless --key names another; stop its process first.

    Example: hedgerow verify runs/my-study --key public.pem

    Without a signature this finds accidental changes only. If the variable HEDGEROW_KEY names a
    private key, runs are signed as they are written. Exit code 1: something differs.
    """
    apply_options(plugin)
    run = _of_statements(run)
    stated = run if run.is_dir() else run.parent
    if is_deployment(stated) or is_statement(stated):
        if sign is not None:
            raise InvalidValue("--sign is for run folders; `hedgerow statement --sign` signs here.")
        return _alone(stated, key, json)
    record = finished_record(run)
    found = verify_digest(run, key)
    differences, seen = list(found.differences), True
    try:
        seen = check_certificates(record, run)
    except HedgerowError as error:
        differences.append(str(error))
    differences += statement_differences(run, record, found.signer)
    if sign is not None:
        if differences:
            raise InvalidValue(f"{run} is not signed: {differences[0]}.")
        sign_run(run, sign, key)
        found = verify_digest(run, key)
    ok = found.ok and not differences
    if json:
        print_json({**_document(run, found, differences, ok), "data_found": seen})
        return 0 if ok else 1
    for line in differences:
        say(f"differs: {line}")
    say(f"{'ok' if ok else 'not ok'}: {run}, {found.words()}")
    if not seen:
        OUT.print(UNSEEN, markup=False)
    say(f"sha256 {found.sha256}")
    if ok and (run / PLACE).exists():
        OUT.print(ENTERED, markup=False)
    return 0 if ok else 1


def _of_statements(folder: Path) -> Path:
    """The run or ledger whose folder `statement` this is; any other folder is as given."""
    whole = folder.absolute()
    if whole.name == PLACE and ((whole.parent / FILE).is_file() or is_deployment(whole.parent)):
        return folder.parent if folder.name else whole.parent
    return folder


def _alone(folder: Path, key: Path | None, json: bool) -> int:
    """Check a statement by its digest, or the ledger of a deployment with its statements."""
    folders, words, own, ledger = [folder], STATED, None, None
    strangers: list[str] = []
    if is_deployment(folder):
        ledger = folder
        found = read_deployment(folder).ledger
        words = f"study {found.study}: {found.entries} entries, head {found.head}"
        inside = sorted((folder / PLACE).glob("*"))
        folders = [one for one in inside if is_statement(one)]
        strangers = [f"{one} is not a statement" for one in inside if one not in folders]
        own = found.signed[found.party or SERVER]
    elif folder.parent.name == PLACE and is_deployment(folder.parent.parent):
        ledger, words = folder.parent.parent, HELD
    rows = [(one, verify_digest(one, key)) for one in folders]
    if ledger is not None:
        more = {one: ledger_differences(one, ledger) for one, _ in rows}
        rows = [(one, replace(v, differences=(*v.differences, *more[one]))) for one, v in rows]
    if own is not None and key is None:  # the ledger names the key that signs its statements
        rows = [(one, replace(verdict, known=verdict.signer == own)) for one, verdict in rows]
    ok = not strangers and all(verdict.ok for _, verdict in rows)
    if json:
        shown = [
            _document(one, verdict, list(verdict.differences), verdict.ok) for one, verdict in rows
        ]
        whole = {"ok": ok, "folder": str(folder), "words": words, "differences": strangers}
        print_json({**whole, "statements": shown})
        return 0 if ok else 1
    for difference in strangers:
        say(f"differs: {difference}")
    for one, verdict in rows:
        for difference in verdict.differences:
            say(f"differs: {difference}")
        mine = own is not None and key is None and verdict.known
        signed = "signed by the key of this ledger" if mine else verdict.words()
        text = f"{'ok' if verdict.ok else 'not ok'}: {one}, {signed}"
        say(text)
    if is_deployment(folder) or ok:
        say(words)
    return 0 if ok else 1


def _document(run: Path, found: Verdict, differences: list[str], ok: bool) -> dict[str, object]:
    return {
        "run": str(run),
        "ok": ok,
        "differences": differences,
        "sha256": found.sha256,
        "signer": found.signer,
        "signer_known": found.known,
    }

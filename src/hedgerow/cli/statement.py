"""`hedgerow statement RUN`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.options import Debug, Json, Plugins, PublicKey, apply_options
from hedgerow.cli.output import ERR, OUT, print_indented, print_json, say
from hedgerow.core.errors import InvalidValue
from hedgerow.deployment.record import SERVER, is_deployment, party_key, read_deployment
from hedgerow.records.schema import AlgorithmRecord, LedgerRecord, RunRecord
from hedgerow.statement.audit import Audit, audit_difference, audit_now, read_audit
from hedgerow.statement.files import (
    PLACE,
    check_statement_folder,
    rendered_statement,
    statement_document,
    write_statements,
)
from hedgerow.statement.statement import (
    Signature,
    Statement,
    algorithms_to_state,
    read_details,
    statement_folder_names,
)
from hedgerow.statement.words.attackers import audit_words, plain_words
from hedgerow.statement.words.conditions import ledger_words
from hedgerow.statement.words.phrases import is_loud
from hedgerow.studies.rebuild import check_certificates
from hedgerow.studies.storage import digest
from hedgerow.studies.storage.finished import finished_record
from hedgerow.studies.storage.keys import read_public


def statement(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run folder that `hedgerow run` or `record_deployment` wrote, or the folder of "
            "a study at its server or at a client."
        ),
    ],
    algorithm: Annotated[
        str | None,
        typer.Option("--algorithm", help="Only the algorithm with this label. Default: all."),
    ] = None,
    details: Annotated[
        Path | None,
        typer.Option(
            "--details",
            metavar="FILE.toml",
            help="Facts that software cannot know; see examples/statement_details.toml.",
        ),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Audit the algorithms now, and state the result.")
    ] = False,
    audit_file: Annotated[
        Path | None,
        typer.Option(
            "--audit-file",
            metavar="FILE.json",
            help="State the result of `hedgerow audit NAME --json > FILE.json`.",
        ),
    ] = None,
    key: PublicKey = None,
    sign: Annotated[
        Path | None,
        typer.Option(
            "--sign",
            metavar="PRIVATE.pem",
            help="The Ed25519 key that signs the statements. Default: that of HEDGEROW_KEY or, for "
            "a deployment, of its server or client.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the statements. Default: RUN/statement."),
    ] = None,
    json: Json = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Write a privacy statement for each algorithm of a run.

    The first page is to sign, the second for readers who calculate. Both come as Markdown, JSON and
    HTML to print, with a registry record.

    Example: hedgerow statement runs/my-study --details examples/statement_details.toml

    For a deployment, give the folder of the server, or of a study at a client, and stop its process
    first: signatures and all hashes are checked, and a ledger that does not fit is refused. The
    statement of a client lists what its data set has spent in all studies.

    Everything is taken from the run folder as it was written. The certificate is computed again
    from the recorded choices, and a folder in which it differs is refused. Only a signature shows
    who wrote a run: give --key. Statements are signed with --sign, and `hedgerow verify STATEMENT`
    finds any change. Existing statements are replaced; a folder with other files is
    never written to. Exit code 1: an audit has an unexpected verdict.
    """
    apply_options(plugin)
    place = run / PLACE if out is None else out
    today = date.today()
    added = read_details(details, today)
    record, ledger = _read(run)
    algorithms = algorithms_to_state(record, algorithm)
    check_statement_folder(place)
    signature = _signature(run, key, ledger)
    audits = _audits(algorithms, audit, audit_file)
    statements = {
        a.label: Statement(record, a, added, audits[a.label], today, signature, ledger)
        for a in algorithms
    }
    names = statement_folder_names(record)
    files = {names[label]: rendered_statement(stated) for label, stated in statements.items()}
    write_statements(files, place, sign or (None if ledger is None else party_key(run)))
    failed = any(found is not None and not found.passed for found in audits.values())
    if json:
        print_json(
            {
                "out": str(place),
                "statements": [
                    {"folder": str(place / names[label]), **statement_document(stated)}
                    for label, stated in statements.items()
                ],
            }
        )
        return 1 if failed else 0
    alike: dict[tuple[str, ...], list[str]] = {}  # what is said of several algorithms is said once
    for label, stated in statements.items():
        audited = f"audit: {audit_words(stated, run)}"
        words = (*plain_words(stated), audited, *ledger_words(stated))
        alike.setdefault(words, []).append(str(place / names[label]))
    for words, folders in alike.items():
        for folder in folders:
            OUT.print(folder, style="bold", markup=False, soft_wrap=True)
        for text in words:
            print_indented(text, style="red" if is_loud(text) else None)
    say(f"{run}: {signature.words}")
    missing = list(dict.fromkeys(name for stated in statements.values() for name in stated.open))
    if missing:
        OUT.print(
            f"Open, to be filled in with --details FILE.toml: {', '.join(missing)}", markup=False
        )
    return 1 if failed else 0


def _read(run: Path) -> tuple[RunRecord, LedgerRecord | None]:
    """The record of a run or a deployment; refuse one that is not as it was written."""
    if is_deployment(run):
        found = read_deployment(run)
        return found.record, found.ledger
    record = finished_record(run)
    check_certificates(record, run)
    return record, None


def _signature(run: Path, key: Path | None, ledger: LedgerRecord | None) -> Signature:
    """Who signed; refuse a run whose files have changed, or that the key has not signed."""
    if ledger is not None:
        signer = ledger.signed[SERVER]
        if key is not None and read_public(key) != signer:
            raise InvalidValue(f"{run} is signed by {signer}, another key. Ask for the right one.")
        return Signature(signer, key is not None)
    found = digest.verify_digest(run, key)
    if found.known is False:
        raise InvalidValue(f"{run} is {found.words()}. Ask for the run with the right signature.")
    if found.differences:
        raise InvalidValue(
            f"{run} is not as it was written: {'; '.join(found.differences)}. "
            f"`hedgerow verify {run}` shows more."
        )
    return Signature(found.signer, found.known is True)


def _audits(
    algorithms: list[AlgorithmRecord], now: bool, file: Path | None
) -> dict[str, Audit | None]:
    """The audit of each algorithm by label. An audit from a file must fit one of them."""
    found: dict[str, Audit | None] = {algorithm.label: None for algorithm in algorithms}
    if now and file is not None:
        raise InvalidValue("--audit and --audit-file exclude each other. Give one of them.")
    if file is not None:
        given = read_audit(file)
        differences = {
            algorithm.label: audit_difference(given, algorithm) for algorithm in algorithms
        }
        if all(why is not None for why in differences.values()):
            text = "; ".join(f"{label}: {why}" for label, why in differences.items())
            raise InvalidValue(f"{file} is not an audit of this run ({text}). Audit it again.")
        return {label: given if why is None else None for label, why in differences.items()}
    if now:
        with ERR.status("auditing") as status:
            done: list[tuple[AlgorithmRecord, Audit | None]] = []
            for algorithm in algorithms:
                same = next(
                    (audited for earlier, audited in done if earlier.choices == algorithm.choices),
                    None,
                )
                done.append((algorithm, same or audit_now(algorithm, status.update)))
        return {algorithm.label: audited for algorithm, audited in done}
    return found

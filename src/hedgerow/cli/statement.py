"""`hedgerow statement RUN`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.options import Debug, Json, Plugins, prepare
from hedgerow.cli.output import ERR, OUT, print_json
from hedgerow.core.errors import InvalidValue
from hedgerow.records.schema import AlgorithmRecord
from hedgerow.statement.audit import Audit, audit_now, difference, read_audit
from hedgerow.statement.details import read_details
from hedgerow.statement.document import document
from hedgerow.statement.files import check_out, rendered, write
from hedgerow.statement.statement import Statement, chosen, folder_names
from hedgerow.statement.words import audit_words, is_loud, plain_words
from hedgerow.studies.storage.finished import finished_record


def statement(
    run: Annotated[
        Path,
        typer.Argument(help="A run folder, as `hedgerow run` or `record_deployment` writes it."),
    ],
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm", help="Only the algorithm with this label. Default: all of them."
        ),
    ] = None,
    details: Annotated[
        Path | None,
        typer.Option(
            "--details",
            metavar="FILE.toml",
            help="What software cannot know; see examples/statement_details.toml.",
        ),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Attack the algorithms now, and state the result.")
    ] = False,
    audit_file: Annotated[
        Path | None,
        typer.Option(
            "--audit-file",
            metavar="FILE.json",
            help="State the result of `hedgerow audit NAME --json > FILE.json`.",
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

    Write a one-page privacy statement for every algorithm of a run: Markdown, JSON, a page to print, and a registry record.

    Example: hedgerow statement runs/my-study --algorithm private --details examples/statement_details.toml

    Everything is taken from the run folder as it was written. A folder with other files in it is never written to; statements
    that are there already are replaced. Exit code 1: an audit has a verdict that is not the expected one.
    """
    prepare(plugin)
    place = run / "statement" if out is None else out
    today = date.today()
    record, added = finished_record(run), read_details(details, today)
    algorithms = chosen(record, algorithm)
    check_out(place)
    audits = _audits(algorithms, audit, audit_file)
    statements = {a.label: Statement(record, a, added, audits[a.label], today) for a in algorithms}
    names = folder_names(record)
    write({names[label]: rendered(said) for label, said in statements.items()}, place)
    failed = any(found is not None and not found.passed for found in audits.values())
    if json:
        print_json(
            {
                "out": str(place),
                "statements": [
                    {"folder": str(place / names[label]), **document(said)}
                    for label, said in statements.items()
                ],
            }
        )
        return 1 if failed else 0
    for label, said in statements.items():
        OUT.print(f"[bold]{place / names[label]}[/bold]", soft_wrap=True)
        for told in plain_words(said):
            OUT.print(f"  {told}", markup=False, style="red" if is_loud(told) else None)
        OUT.print(f"  audit: {audit_words(said)}", markup=False)
    if added.open:
        OUT.print(
            f"Open, to be filled in with --details FILE.toml: {', '.join(added.open)}", markup=False
        )
    return 1 if failed else 0


def _audits(
    algorithms: list[AlgorithmRecord], now: bool, file: Path | None
) -> dict[str, Audit | None]:
    """The audit of each algorithm by label; one from a file must be of an algorithm that is stated."""
    found: dict[str, Audit | None] = {algorithm.label: None for algorithm in algorithms}
    if now and file is not None:
        raise InvalidValue("Expected --audit or --audit-file, and not both.")
    if file is not None:
        given = read_audit(file)
        differences = {algorithm.label: difference(given, algorithm) for algorithm in algorithms}
        if all(why is not None for why in differences.values()):
            told = "; ".join(f"{label}: {why}" for label, why in differences.items())
            raise InvalidValue(f"Expected {file} to be an audit of this run ({told}).")
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

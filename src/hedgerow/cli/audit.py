"""`hedgerow audit NAME`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.cli.options import Debug, Json, Settings
from hedgerow.cli.output import ERR, OUT, print_json
from hedgerow.experiments.audit import audit_document, audit_rows
from hedgerow.experiments.config import parse_setting, typed


def audit(
    name: Annotated[str, typer.Argument(help="An algorithm; see `hedgerow list`.")],
    calibration: Annotated[str | None, typer.Option("--calibration", help="certified or published.")] = None,
    settings: Settings = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Attack an algorithm on its worst neighbouring streams, and set what was shown against its certificate.

    Exact ratio: the likelihoods of transcripts made by hand, no sampling. Glass box: real runs, judged by their exact
    likelihoods. Black box: real runs, judged by how often each outcome came up.

    Example: hedgerow audit sparse_vector --set epsilon=1

    The null must show nothing; noise cut by half and planted bugs must be caught ("violated" is then what we expect). Exit code
    1: a verdict is not the expected one.
    """
    given = dict(parse_setting(text) for text in settings or [])
    if calibration is not None:
        given["calibration"] = calibration
    spec = typed(ALGORITHMS[name], given, name)
    with ERR.status("auditing") as status:
        rows = audit_rows(name, spec, status.update)
    if json:
        print_json(audit_document(name, spec, rows))
        return 0 if all(row.passed for row in rows) else 1
    table = Table(title=f"audit of {name}", title_justify="left")
    table.add_column("case")
    table.add_column("method")
    for heading in ("delta", "certified epsilon", "shown epsilon", "confidence", "verdict", "expected"):
        table.add_column(heading, justify="right")
    for row in rows:
        shown = "-" if row.finding.epsilon is None else f"{row.finding.epsilon:.4g}"
        colour = "green" if row.passed else "red"
        confidence = f"{row.finding.confidence:.4g}"
        verdict = f"[{colour}]{row.verdict}[/]"
        numbers = (f"{row.case.delta:g}", f"{row.certified:.4g}", shown, confidence)
        table.add_row(row.case.name, row.case.method, *numbers, verdict, row.case.expected)
    OUT.print(table)
    return 0 if all(row.passed for row in rows) else 1

"""`hedgerow audit NAME`."""

from __future__ import annotations

from typing import Annotated

import typer

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.audits.case import AuditCase
from hedgerow.audits.runner import AuditRow, audit_document, audit_rows
from hedgerow.cli.options import Debug, Json, Plugins, Settings, prepare
from hedgerow.cli.output import ERR, OUT, print_json
from hedgerow.cli.tables import new_table
from hedgerow.studies.config import parse_setting
from hedgerow.studies.typed import typed

UNSEEN = (
    "* computed for an observer that sees all releases; this one sees fewer, so a number above the"
    " certified one is inconclusive"
)


def audit(
    name: Annotated[str, typer.Argument(help="An algorithm; see `hedgerow list`.")],
    calibration: Annotated[
        str | None,
        typer.Option(
            "--calibration", help="The calibration to audit, such as certified or published."
        ),
    ] = None,
    settings: Settings = None,
    json: Json = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Attack an algorithm and check its certificate.

    The attacks use the worst neighbouring streams. The epsilon that they show must not exceed the
    certified one.

    Exact ratio: the likelihoods of chosen transcripts, without sampling. Glass box: real runs,
    judged by their exact likelihoods. Black box: real runs, judged by the frequency of each
    outcome. Replayed releases: real runs, judged by the exact likelihoods of all that was released
    about the data, so the server that sees uploads is attacked, too.

    Example: hedgerow audit sparse_vector --set epsilon=1

    Each row names its claim: the whole certificate, or a part that its streams isolate. It also
    names the parameters if they are not yours, because some games show more in fewer runs.

    The null case must show nothing. Halved noise and planted bugs must be caught: there the
    expected verdict is "violated". Exit code 1: a verdict is not the expected one.
    """
    prepare(plugin)
    given = dict(parse_setting(text) for text in settings or [])
    if calibration is not None:
        given["calibration"] = calibration
    spec = typed(ALGORITHMS[name], given, name)
    with ERR.status("auditing") as status:
        rows = audit_rows(name, spec, status.update)
    if json:
        print_json(audit_document(name, spec, rows))
        return 0 if all(row.passed for row in rows) else 1
    _show(name, rows)
    return 0 if all(row.passed for row in rows) else 1


def _show(name: str, rows: list[AuditRow]) -> None:
    """Print one line per case; a case with parameters other than the user's refers to a note."""
    notes = list(dict.fromkeys(_played(row.case) for row in rows if row.case.parameters))
    observers = sorted({row.case.observer.value for row in rows})
    title = f"audit of {name}: epsilon certified and shown to {', '.join(observers)}"
    numbers = ("delta", "certified", "shown", "confidence", "verdict", "expected")
    table = new_table(("case", "claim", "method"), numbers, title=title)
    for row in rows:
        case, shown = row.case, "-" if row.finding.epsilon is None else f"{row.finding.epsilon:.4g}"
        unseen = "" if row.finding.seen else "*"
        claim = (
            f"{case.claim} ({notes.index(_played(case)) + 1})" if case.parameters else case.claim
        )
        method = f"{case.method}, {case.runs:,} runs" if case.runs else case.method
        numbers = (
            f"{case.delta:g}",
            f"{row.certified:.4g}",
            shown + unseen,
            f"{row.finding.confidence:.4g}",
        )
        verdict = f"[{'green' if row.passed else 'red'}]{row.verdict}[/]"
        table.add_row(case.name, claim, method, *numbers, verdict, case.expected)
    OUT.print(table)
    for number, note in enumerate(notes, start=1):
        OUT.print(f"({number}) played with {note}", markup=False)
    if not all(row.finding.seen for row in rows):
        OUT.print(UNSEEN, markup=False)


def _played(case: AuditCase) -> str:
    values = {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in case.parameters.items()
    }
    return ", ".join(f"{name} = {value}" for name, value in values.items())

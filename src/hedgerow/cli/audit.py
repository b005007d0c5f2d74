"""`hedgerow audit NAME`."""

from __future__ import annotations

from typing import Annotated

import typer

from hedgerow.algorithms.registry import ALGORITHMS, variants
from hedgerow.audits.case import AuditCase
from hedgerow.audits.registry import AUDITS
from hedgerow.audits.runner import AuditRow, audit_document, audit_rows, tightest
from hedgerow.cli.options import Debug, Json, Plugins, Settings, apply_options
from hedgerow.cli.output import ERR, OUT, print_json
from hedgerow.cli.tables import new_table
from hedgerow.core.errors import InvalidValue
from hedgerow.records.plain import typed
from hedgerow.studies.config import parse_setting

WIDE = 110  # columns; in a narrower terminal all that is text goes into one column
UNSEEN = (
    "* computed for an observer that sees all releases; this one sees fewer. If the claim is"
    ' "all releases", the proof promises the certified number to such an observer too. Otherwise a'
    " number above the certified one is inconclusive."
)


def audit(
    name: Annotated[
        str | None,
        typer.Argument(help="An algorithm; see `hedgerow list`. None: how tight every audit is."),
    ] = None,
    settings: Settings = None,
    json: Json = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Attack an algorithm and check its certificate.

    The attacks use the worst neighbouring streams. The epsilon that they show must not exceed the
    certified one.

    Exact ratio: the likelihoods of chosen transcripts, or of all transcripts of a short game. Exact
    releases: how far the data move all that real runs release, in units of the noise that was
    really added, so the server that sees uploads is attacked, too. Neither depends on sampling.
    Real runs are then tested against the laws on which the numbers rest.

    Example: hedgerow audit sparse_vector --set epsilon=1

    Each row names its claim: the whole certificate, all releases if the observer sees fewer, or a
    part that its streams isolate. It also names the parameters if they are not yours, because some
    games show more.

    The null case must show nothing. Noise that is a fifth too small and planted bugs must be
    caught: there the expected verdict is "violated". Exit code 1: a verdict is not the expected
    one.

    Without a name: for every algorithm, how much of its certificate the strongest attack shows.
    """
    apply_options(plugin)
    if name is None:
        return _all(settings, json)
    given = dict(parse_setting(text) for text in settings or [])
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
    numbers = ("delta", "certified", "shown", "verdict", "expected")
    wide = OUT.width >= WIDE
    table = new_table(("case", "claim", "method") if wide else ("case",), numbers, title=title)
    for row in rows:
        case, shown = row.case, "-" if row.finding.epsilon is None else f"{row.finding.epsilon:.4g}"
        unseen = "" if row.finding.seen else "*"
        claim = (
            f"{case.claim} ({notes.index(_played(case)) + 1})" if case.parameters else case.claim
        )
        method = f"{case.method}, {case.runs:,} runs" if case.runs else case.method
        numbers = (f"{case.delta:g}", f"{row.certified:.4g}", shown + unseen)
        verdict = f"[{'green' if row.passed else 'red'}]{row.verdict}[/]"
        texts = (case.name, claim, method) if wide else (f"{case.name}\n  {claim}; {method}",)
        table.add_row(*texts, *numbers, verdict, case.expected)
    OUT.print(table)
    for number, note in enumerate(notes, start=1):
        OUT.print(f"({number}) played with {note}", markup=False)
    if not all(row.finding.seen for row in rows):
        OUT.print(UNSEEN, markup=False)


def _all(choices: object, json: bool) -> int:
    """Print the certified epsilon over the shown one, for every algorithm and form."""
    if choices:
        raise InvalidValue("Name an algorithm, or leave out --set.")
    rows = dict[str, AuditRow]()
    with ERR.status("auditing") as status:
        for form, spec in variants().items():
            name = form.split(",")[0]
            if name in AUDITS:
                status.update(f"auditing: {form}")
                rows[form] = tightest(name, spec)
    if json:
        print_json({form: row.to_dict() for form, row in rows.items()})
        return 0
    numbers = ("delta", "certified", "shown", "certified / shown")
    title = "epsilon that is certified, and that the strongest attack shows"
    wide = OUT.width >= WIDE
    texts = ("algorithm", "trust", "case")
    table = new_table(texts if wide else texts[:1], numbers, title=title)
    for form, row in rows.items():
        shown, trust = row.finding.epsilon or 0.0, row.case.algorithm.certificate.trust
        ratio = f"{row.certified / shown:.3f}" if shown else "-"
        values = f"{row.case.delta:g}", f"{row.certified:.4g}", f"{shown:.4g}", ratio
        words = (form, trust, row.case.name)
        table.add_row(*(words if wide else (f"{form}\n  {trust}; {row.case.name}",)), *values)
    OUT.print(table)
    return 0


def _played(case: AuditCase) -> str:
    values = {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in case.parameters.items()
    }
    return ", ".join(f"{name} = {value}" for name, value in values.items())

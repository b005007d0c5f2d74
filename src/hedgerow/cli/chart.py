"""The tables of `hedgerow choose --chart`: every algorithm on common streams."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from hedgerow.cli.output import OUT, print_json, progress_bar
from hedgerow.core.validate import at_least
from hedgerow.evaluation.summary import bound_words
from hedgerow.records.schema import STAMP
from hedgerow.studies.choose.candidates import (
    KINDS,
    TALKS,
    TRUSTS,
    Choice,
    Kind,
    Row,
    choices,
    measure,
    of_kind,
    streams,
)
from hedgerow.studies.choose.record import document

HEADINGS = ("algorithm", "trust", "talk")
NONE = "none: more than half the regret of guessing"


def chart(seeds: int, json: bool) -> None:
    """Measure and print the tables of the documentation."""
    at_least("seeds", seeds, 2)
    with progress_bar("choose") as update:
        rows = measure(seeds, lambda stream, done, total: update(f"playing {stream}", done, total))
    if json:
        print_json(document(rows, seeds))
        return
    rounds = {name: environment.setting.rounds for name, environment in streams().items()}
    chosen = choices(rows)
    for kind in KINDS:
        OUT.print(_measured(rows, kind, rounds))
        OUT.print(_named([choice for choice in chosen if choice.kind == kind.id]))
    OUT.print(f"mean regret ± half-width of its 95 % interval, {seeds} seeds; {STAMP}")


def _measured(rows: Sequence[Row], kind: Kind, rounds: dict[str, int]) -> Table:
    table = Table(title=f"If {kind.words}: regret", title_justify="left", title_style="bold")
    for heading in HEADINGS:
        table.add_column(heading)
    for heading in (*kind.streams, "proven"):
        table.add_column(heading, justify="right")
    for row in sorted(of_kind(rows, kind), key=lambda row: row.worst(kind)[1].mean):
        worst, _ = row.worst(kind)
        cells = [
            f"[bold]{row.regret[name]}[/bold]" if name == worst else str(row.regret[name])
            for name in kind.streams
        ]
        bound = row.proven(kind, rounds)
        trust = row.candidate.trust or "not private"
        table.add_row(
            row.candidate.label,
            trust,
            row.candidate.talk,
            *cells,
            "-" if bound is None else bound_words(bound),
        )
    return table


def _named(chosen: Sequence[Choice]) -> Table:
    table = Table(title="choose", title_justify="left")
    for heading in ("trust", "talk", "delta = 0", "a delta is allowed", "smallest proven bound"):
        table.add_column(heading)
    for trust in TRUSTS:
        for talk in TALKS:
            choice = next(c for c in chosen if (c.trust, c.talk) == (trust, talk))
            proven = (
                "-"
                if choice.proven is None
                else f"{choice.proven}: {bound_words(choice.proven_bound or 0.0)}"
            )
            table.add_row(
                trust,
                talk,
                "; ".join(choice.pure) or NONE,
                "; ".join(choice.approximate) or NONE,
                proven,
            )
    return table

"""How the command line speaks: results to standard output, everything else to standard error, errors in one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from hedgerow.studies.run import Study

OUT = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
BOUND = "bound: what is proven of the expected regret on these losses"
ERR = Console(stderr=True, highlight=False)


def print_json(document: Any) -> None:
    """One valid JSON document and nothing else."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


@contextmanager
def progress_bar(title: str) -> Iterator[Any]:
    """A bar on standard error that vanishes when done; yields `update(description, done, total)`."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=ERR, transient=True, disable=not ERR.is_terminal) as bar:
        task = bar.add_task(title, total=None)

        def update(description: str, done: int, total: int) -> None:
            bar.update(task, description=description, completed=done, total=total)

        yield update


def digits(value: float) -> str:
    """Four digits, or a whole number with its thousands apart.

    >>> digits(52.3456), digits(20730.4)
    ('52.35', '20,730')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def bound_words(value: float) -> str:
    """A proven upper bound: the same, a whole number rounded upward.

    >>> bound_words(52.3456), bound_words(10000.0), bound_words(23715.2)
    ('52.35', '10,000', '23,716')
    """
    return f"{ceil(value):,}" if value >= 1000 else digits(value)


def summary(study: Study, title: str) -> Table:
    """The summary table of a study; "bound" is what is proven of the expected regret on these losses, where anything is."""
    bounds = study.regret_bounds()
    proven = any(bound is not None for bound in bounds.values())
    table = Table(title=title, title_justify="left", title_style="bold")
    if proven:
        table.caption, table.caption_justify, table.caption_style = BOUND, "left", ""
    table.add_column("")
    for heading in ("regret", *(("bound",) if proven else ()), "own-best regret", "switches", "exchanges", "numbers sent", "bytes sent"):
        table.add_column(heading, justify="right")
    for row in study.summary():
        counts = [f"{e.mean:,.0f}" for e in (row.exchanges, row.scalars, row.bytes)]
        bound = bounds[row.label]
        cell = () if not proven else ("-" if bound is None else bound_words(bound),)
        table.add_row(row.label, str(row.regret), *cell, str(row.own_best_regret), f"{row.switches.mean:.1f}", *counts)
    return table


def comparators(study: Study) -> Table | None:
    """The losses of the algorithms and, beside them, of the comparators on the same losses; a column for each stream of losses."""
    streams = study.streams()
    table = Table(title="comparators", title_justify="left", title_style="bold")
    table.add_column("")
    for name in streams:
        table.add_column(f"loss ({name})" if name else "loss", justify="right")
    for part in ("algorithms", "comparators"):
        paid = [getattr(stream, part) for stream in streams.values()]
        for label in dict.fromkeys(label for losses in paid for label in losses):
            table.add_row(label, *(str(losses.get(label, "")) for losses in paid))
        table.add_section()
    return table if any(stream.comparators for stream in streams.values()) else None

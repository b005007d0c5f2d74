"""`hedgerow runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from hedgerow.cli.options import Debug, Json
from hedgerow.cli.output import OUT, print_json, say
from hedgerow.cli.tables import new_table
from hedgerow.core.errors import InvalidValue
from hedgerow.core.text import one_line
from hedgerow.studies.storage.finished import ListedRun, listed_runs
from hedgerow.studies.storage.unfinished import RUNS, all_unfinished

SHOWN = 8  # lines of one run


def runs(
    folder: Annotated[Path, typer.Argument(help="The folder to look in.")] = RUNS,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="Only runs with this tag; may be repeated."),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the runs in a folder, the latest first.

    Each run is shown with its title, date, algorithms, regrets and tags.

    Example: hedgerow runs --tag paper

    A study gets tags from `tags = ["paper"]` in its TOML file, or from `hedgerow run --tag paper`.
    """
    if not folder.is_dir():
        raise InvalidValue(f"There is no folder {folder}. Name the folder with your runs.")
    found = [run for run in listed_runs(folder) if {*(tag or [])} <= {*run.tags}]
    unfinished = all_unfinished(folder)
    if json:
        print_json(
            {
                "runs": [run.to_dict() for run in found],
                "unfinished": [str(run.final) for run in unfinished],
            }
        )
        return
    if found:
        table = new_table(("run", "title", "written", "regret", "tags"))
        rows = [cells(run) for run in found]
        table.columns[0].min_width = min(40, max(len(row[0]) for row in rows))  # to be copied
        for row in rows:
            table.add_row(*map(Text, row))
        OUT.print(table)
    else:
        place = folder if folder.name else folder.absolute()
        say(f"No finished runs in {place}.")
    for left in unfinished:
        say(f"unfinished: {left.final}, {left.words()}; {left.command}")


def cells(run: ListedRun) -> tuple[str, ...]:
    """Run, title, date, one line for each algorithm, tags."""
    if run.problem is not None:
        return (str(run.path), one_line(run.problem), "", "", "")
    regrets = dict(run.regrets)
    lines = [
        f"{one_line(label)}: {regrets[label]}"
        if label in regrets
        else f"{one_line(name)}, deployed"
        for label, name in run.algorithms
    ]
    if len(lines) > SHOWN:
        lines = [*lines[: SHOWN - 1], f"and {len(lines) - SHOWN + 1} more (--json)"]
    date = one_line(run.written.replace("T", " ")[:16])
    return str(run.path), one_line(run.title), date, "\n".join(lines), one_line(", ".join(run.tags))

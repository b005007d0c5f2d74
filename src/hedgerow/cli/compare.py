"""`hedgerow compare A B ...`."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from hedgerow.cli.options import Debug, Json
from hedgerow.cli.output import OUT, print_json, say
from hedgerow.cli.tables import new_table
from hedgerow.core.errors import InvalidValue
from hedgerow.core.text import one_line
from hedgerow.studies.compare import HEADINGS, NO_CHANGES, Comparison
from hedgerow.studies.compare import compare as compare_folders
from hedgerow.studies.storage.place import check_new

DEFAULT = Path("comparison.png")


def compare(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Two or more run folders; the others are compared with the first."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE.png",
            help="The picture; must not exist. Default: a new comparison.png.",
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare finished runs: regrets and what else differs.

    Example: hedgerow compare runs/before runs/after --out difference.png

    If a label saw the same losses in both runs, the difference is paired seed by seed. Otherwise
    the samples count as independent (Welch). Each interval holds with 95 %.
    """
    picture = _free(out)
    comparison = compare_folders(folders)
    comparison.plot(picture)
    if json:
        print_json({**comparison.to_dict(), "picture": str(picture)})
        return
    for letter, name in comparison.names.items():
        say(f"{letter} = {name}")
    OUT.print(_table(comparison))
    for note in comparison.notes:
        OUT.print(f"Note: {note}", markup=False)
    _show_changes(comparison)
    say(f"Picture: {picture}")


def _free(out: Path | None) -> Path:
    if out is None:
        return next(
            p
            for n in count(1)
            if not (p := DEFAULT if n == 1 else DEFAULT.with_stem(f"{DEFAULT.stem}-{n}")).exists()
        )
    if out.suffix != ".png":
        raise InvalidValue(f"Expected --out {out} to end in .png.")
    if out.exists():
        raise InvalidValue(f"--out {out} already exists. Choose another name or delete it.")
    check_new(out)
    return out


def _table(comparison: Comparison) -> Table:
    table = new_table(
        HEADINGS[:2], HEADINGS[2:-1], HEADINGS[-1:], title="Regret, and its difference from A"
    )
    last = None
    for row in comparison.rows:
        if last not in (None, row.label):
            table.add_section()
        label = "" if last == row.label else one_line(row.label)
        table.add_row(Text(label), *map(Text, row.cells()[1:]))
        last = row.label
    return table


def _show_changes(comparison: Comparison) -> None:
    if not comparison.changes:
        OUT.print(NO_CHANGES)
        return
    OUT.print("What differs:")
    for line in comparison.change_lines():
        say(f"  {line}")

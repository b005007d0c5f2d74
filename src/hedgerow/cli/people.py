"""`hedgerow people`: how many records the persons of a file have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.options import Debug, Json
from hedgerow.cli.output import OUT, print_json


def people(
    file: Annotated[Path, typer.Argument(help="A CSV or Parquet file, or a folder of them.")],
    person: Annotated[
        str, typer.Option("--person", metavar="COLUMN", help="The column that names the person.")
    ],
    rounds: Annotated[
        str, typer.Option("--round", metavar="COLUMN", help="The column of rounds.")
    ] = "round",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Count the people behind a file, to say what to protect.

    Example: hedgerow people ward.csv --person patient --round week

    It prints in how many rounds one person is at most, how close two of them are, and the unit that
    covers everybody, for `hedgerow client init --unit` and the study. All of it stays on this
    machine: the numbers are not protected, so do not publish them.
    """
    from hedgerow.deployment.own_file import counted

    found = counted(file, person, rounds)
    document = {
        "rows": found.rows,
        "people": found.people,
        "rounds": found.rounds,
        "apart": found.apart,
        "unit": found.unit.text(),
    }
    if json:
        print_json(document)
        return
    for text in (
        f"{found.rows:,} rows of {found.people:,} people",
        f"most rounds of one person: {found.rounds:,}",
        f"least distance between two of them: {found.apart:,} (in rounds of this file)",
        f"to cover everybody: --unit {found.unit.text()}",
        "These numbers are not protected. Declare rather more if more people will come.",
    ):
        OUT.print(text, highlight=False, markup=False, soft_wrap=True)

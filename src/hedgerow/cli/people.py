"""`hedgerow people`: how many records the people in a file have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.options import Debug, Json, columns_by_option
from hedgerow.cli.output import print_json, say


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

    It prints the most rounds of one person, the least distance between two of them, and the unit
    that covers everybody, for `hedgerow client init --unit` and the study. The numbers are not
    protected: keep them on this machine.
    """
    from hedgerow.deployment.own_file import counted

    with columns_by_option():
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
        "These numbers are not protected. Declare more if later files may have more.",
    ):
        say(text)

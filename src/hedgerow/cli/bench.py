"""`hedgerow bench`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from hedgerow.benchmarks.registry import BENCHMARKS
from hedgerow.cli.options import Debug, Json
from hedgerow.cli.output import ERR, OUT, print_json
from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import nearest


def bench(
    name: Annotated[str | None, typer.Argument(help=f"One of: {', '.join(BENCHMARKS)}. Default: all.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Measure speed and memory as ratios.

    Measure speed and memory as ratios within one process, so that machines can be compared.

    `simulate` sets whole games of the private algorithms (validation, protocol, regret) against reading the same losses once. Exit
    code 1: a limit is broken.
    """
    if name is not None and name not in BENCHMARKS:
        raise InvalidValue(f"Unknown benchmark {name!r}; {nearest(name, BENCHMARKS)}")
    rows = []
    table = Table()
    table.add_column("benchmark", no_wrap=True)
    for heading in ("ratio", "limit", "passed"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("against", overflow="fold")
    table.add_column("measured", overflow="fold")
    with ERR.status("measuring"):
        for chosen in BENCHMARKS if name is None else [name]:
            rows += list(BENCHMARKS[chosen]())
    if json:
        print_json({"rows": [row.to_dict() for row in rows]})
    else:
        for row in rows:
            limit = "" if row.limit is None else f"{row.op} {row.limit:g}"
            verdict = {True: "[green]yes[/green]", False: "[red]no[/red]", None: ""}[row.passed]
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            value = f"{row.value:,.0f}" if row.value >= 100 else f"{row.value:.3g}"
            table.add_row(row.name, ratio, limit, verdict, row.against or "", f"{value} {row.unit}")
        OUT.print(table)
    return 1 if any(row.passed is False for row in rows) else 0

"""`hedgerow bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from hedgerow.cli.options import Debug, Json
from hedgerow.cli.output import ERR, OUT, print_json
from hedgerow.cli.tables import VERDICTS, new_table
from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import nearest
from hedgerow_benchmarks.benchmark import BENCHMARKS, retried


def bench(
    name: Annotated[
        str | None, typer.Argument(help=f"One of: {', '.join(BENCHMARKS)}. Default: all.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A short form with wider limits, for busy machines; measures twice before it "
            "fails.",
        ),
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Measure speed and memory as ratios.

    Both sides of a ratio are measured in one process, so that results of different machines can
    be compared.

    `simulate` compares whole games of every algorithm (validation, protocol, regret) with reading
    the same losses once; its limits are for compiled sums, which `make setup` builds. Each ratio is
    followed by half the distance between its quartiles. Exit code 1: a limit is exceeded.
    """
    if name is not None and name not in BENCHMARKS:
        raise InvalidValue(f"Unknown benchmark {name!r}; {nearest(name, BENCHMARKS)}")
    chosen = dict(BENCHMARKS.items()) if name is None else {name: BENCHMARKS[name]}
    if quick and name is not None and chosen[name].quick is None:
        raise InvalidValue(f"{name} has no quick form. Omit --quick.")
    rows = []
    with ERR.status("measuring"):
        for benchmark in chosen.values():
            if not quick:
                rows += benchmark.rows()
            elif benchmark.quick is not None:
                rows += retried(benchmark.quick)
    if json:
        print_json({"rows": [row.to_dict() for row in rows]})
    else:
        table = new_table(("benchmark",), ("ratio", "limit", "passed"), ("against", "measured"))
        for column in table.columns[:4]:
            column.no_wrap = True
        for row in rows:
            limit = "" if row.limit is None else f"{row.op} {row.limit:g}"
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            ratio += "" if row.spread is None else f" ± {row.spread / 2:.2f}"
            value = f"{row.value:,.0f}" if row.value >= 100 else f"{row.value:.3g}"
            table.add_row(
                row.name,
                ratio,
                limit,
                VERDICTS[row.passed],
                row.against or "",
                row.failure or f"{value} {row.unit}",
            )
        OUT.print(table)
    return 1 if any(row.passed is False for row in rows) else 0

"""`hedgerow contracts NAME`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.cli.options import Debug, Json, Plugins, Settings, apply_options
from hedgerow.cli.output import OUT, print_json, progress_bar
from hedgerow.cli.tables import new_table
from hedgerow.contracts.suite import CONTRACTS, ON_BOTH_SOURCES, examine
from hedgerow.records.plain import typed
from hedgerow.studies.config import parse_setting


def contracts(
    name: Annotated[str, typer.Argument(help="An algorithm; see `hedgerow list`.")],
    settings: Settings = None,
    json: Json = False,
    plugin: Plugins = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure", help="Check only the contracts on noise, with the system's entropy."
        ),
    ] = False,
    debug: Debug = False,
) -> int:
    """Check an algorithm against the contracts.

    Every registered algorithm must keep the contracts, also one from a plugin.

    Example: hedgerow contracts my_algorithm --plugin my_algorithm.py

    Exit code 1: a contract is broken. "not applicable" never counts as passed.
    """
    apply_options(plugin)
    spec = typed(ALGORITHMS[name], dict(parse_setting(text) for text in settings or []), name)
    outcomes = []
    with progress_bar(name) as update:
        chosen = ON_BOTH_SOURCES if secure else tuple(CONTRACTS)
        for done, contract in enumerate(chosen):
            update(contract, done, len(chosen))
            outcomes.append(examine(contract, spec, secure=secure))
    if json:
        print_json({"algorithm": name, "contracts": [asdict(outcome) for outcome in outcomes]})
    else:
        table = new_table(("contract", "status", ""), title=f"contracts of {name}")
        colour = {"holds": "green", "not applicable": "yellow", "broken": "red"}
        for outcome in outcomes:
            table.add_row(
                outcome.contract, Text(outcome.status, colour[outcome.status]), Text(outcome.detail)
            )
        OUT.print(table)
    return 1 if any(outcome.status == "broken" for outcome in outcomes) else 0

"""`hedgerow choose`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.cli.options import (
    Data,
    Debug,
    Json,
    Models,
    Plugins,
    apply_options,
    columns_by_option,
)
from hedgerow.cli.output import OUT, print_indented, print_json, progress_bar
from hedgerow.cli.tables import table_from_cells
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue
from hedgerow.environments.recorded.forecasts import Forecasts
from hedgerow.environments.recorded.losses import Recorded
from hedgerow.records.schema import STAMP
from hedgerow.studies.choose.ranking import choose as ranked
from hedgerow.studies.config import Entry, load_study

FIXED = "fixed"


def choose(
    file: Annotated[
        Path | None,
        typer.Argument(help="Your own losses: a CSV or Parquet file, or a study in TOML."),
    ] = None,
    clients: Annotated[int | None, typer.Option("--clients", help="Default: 10.")] = None,
    experts: Annotated[int | None, typer.Option("--experts", help="Default: 100.")] = None,
    horizon: Annotated[
        int | None, typer.Option("--horizon", help="The number of rounds. Default: 1024.")
    ] = None,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The privacy budget.")] = 1.0,
    delta: Annotated[
        float,
        typer.Option("--delta", help="The second part of the budget; 0: only pure algorithms."),
    ] = 0.0,
    trust: Annotated[
        str,
        typer.Option(
            "--trust",
            help="central (a trusted server), distributed (secure aggregation) or local (nobody is "
            "trusted).",
        ),
    ] = "central",
    every: Annotated[
        int,
        typer.Option(
            "--every", help="At least this many rounds between two exchanges, after early ones."
        ),
    ] = 1,
    losses: Annotated[
        str | None,
        typer.Option(
            "--losses",
            help="What is known of the losses. never, rarely: how often the best expert is wrong; "
            "law: they follow one law; changing: the best expert changes; fixed: they are fixed in "
            "advance (default); reacting: they react to the plays; unknown: nothing, and the "
            "algorithm that is rarely far from the best comes first.",
        ),
    ] = None,
    best_loss: Annotated[
        float,
        typer.Option("--best-loss", help="With rarely: what the best expert loses at most."),
    ] = 0.0,
    target: Annotated[
        str | None,
        typer.Option("--target", help="In a CSV file of forecasts: the column of what came true."),
    ] = None,
    largest_error: Annotated[
        float | None,
        typer.Option("--largest-error", help="With --target: the largest error that counts."),
    ] = None,
    round_column: Annotated[
        str, typer.Option("--round", help="The column of rounds, in a CSV file.")
    ] = "round",
    models: Models = None,
    client_column: Annotated[
        str, typer.Option("--client", help="The column of clients, in a CSV file.")
    ] = "client",
    gaps: Annotated[
        float,
        typer.Option("--gaps", help="The share of values that will be missing, in [0, 1)."),
    ] = 0.0,
    seeds: Annotated[int, typer.Option("--seeds", help="Seeds for each stream.")] = 5,
    plugin: Plugins = None,
    data: Data = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Rank the private algorithms for your setting.

    Example: hedgerow choose --clients 12 --experts 5 --horizon 120 --losses law

    The algorithms that fit are played on streams like yours. The first line below the table says
    what to take. The table has the regret on typical streams and on the worst one, the bound that
    is proven, and what privacy costs: the regret above that of the best algorithm without privacy.

    With a file, the algorithms are played on your own losses, or with --target and --largest-error
    on your own forecasts. Such a choice looks at the data, and no certificate covers it.
    """
    apply_options(plugin, data)
    own, entries = (
        (None, ())
        if file is None
        else _own(file, target, largest_error, round_column, client_column, models)
    )
    if own is not None and losses is not None:
        raise InvalidValue("Give a file or --losses, not both: the file has the losses.")
    options: dict[str, Any] = {"trust": trust, "best_loss": best_loss, "seeds": seeds}
    options |= {"gaps": gaps, "entries": entries}
    with progress_bar("choose") as update:
        ranking = ranked(
            losses or FIXED if own is None else own,
            clients=clients,
            experts=experts,
            horizon=horizon,
            epsilon=epsilon,
            delta=delta,
            every=every,
            progress=lambda stream, done, total: update(f"playing {stream}", done, total),
            **options,
        )
    if json:
        print_json(ranking.to_json())
        return
    OUT.print(table_from_cells(ranking.question, ranking.table()))
    for line in ranking.lines():
        print_indented(line, indent=0)
    OUT.print(STAMP, markup=False)


def _own(
    file: Path,
    target: str | None,
    largest_error: float | None,
    round_: str,
    client: str,
    models: str | None,
) -> tuple[Environment, tuple[Entry, ...]]:
    """The losses of a file, and the algorithms of a study; gaps are allowed here."""
    if file.suffix == ".toml":
        config = load_study(file)
        return config.environment, config.algorithms
    columns: dict[str, Any] = {"round": round_, "client": client, "missing": "absent"}
    if target is None and models is not None:
        raise InvalidValue("--models names columns of forecasts: give --target too.")
    if target is not None and largest_error is None:
        raise InvalidValue(
            "--largest-error is missing: the largest error that counts, in the units of the "
            "target. It is public, so choose it without looking at the data."
        )
    names = None if models is None else tuple(models.split(","))
    found = (
        Recorded(str(file), **columns)
        if target is None
        else Forecasts(str(file), target, largest_error, experts=names, **columns)
    )
    try:
        with columns_by_option():
            _ = found.setting
    except InvalidValue as error:
        if target is not None:
            raise
        advice = "For forecasts, add --target COLUMN --largest-error NUMBER."
        raise InvalidValue(f"{error} {advice}") from None
    return found, ()

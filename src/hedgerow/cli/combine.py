"""`hedgerow combine FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.cli.options import Data, Debug, Json, Models, apply_options, columns_by_option
from hedgerow.cli.output import OUT, print_indented, print_json, say
from hedgerow.cli.tables import table_from_cells
from hedgerow.core.errors import InvalidValue
from hedgerow.environments.recorded.forecast_table import ForecastTable
from hedgerow.studies.combine import combine as combine_table
from hedgerow.studies.storage.place import check_new


def combine(
    file: Annotated[Path, typer.Argument(help="A CSV or Parquet file of forecasts and targets.")],
    client: Annotated[str, typer.Option("--client", help="The column of clients.")] = "client",
    round_: Annotated[
        str, typer.Option("--round", help="The column of rounds: dates, or whole numbers.")
    ] = "round",
    target: Annotated[
        str, typer.Option("--target", help="The column of what came true. It is secret.")
    ] = "target",
    models: Models = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="For a long file: the column with the name of the model."),
    ] = None,
    forecast: Annotated[
        str, typer.Option("--forecast", help="For a long file: the column of forecasts.")
    ] = "forecast",
    scale: Annotated[
        str,
        typer.Option("--scale", help="What errors are divided by: a number > 0, or a column."),
    ] = "1",
    loss: Annotated[
        str, typer.Option("--loss", help='"absolute", "pinball" or "squared".')
    ] = "absolute",
    quantile: Annotated[
        float, typer.Option("--quantile", help="What forecasts are for. Only with pinball.")
    ] = 0.5,
    epsilon: Annotated[
        float, typer.Option("--epsilon", help="The privacy budget of one target.")
    ] = 1.0,
    late: Annotated[
        int, typer.Option("--late", help="After how many further rounds a target is known.")
    ] = 0,
    cut_off: Annotated[
        float | None, typer.Option("--cut-off", help="The largest loss that counts in the table.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", help="How many private runs are made.")] = 20,
    published: Annotated[
        bool,
        typer.Option("--published", help="Clients show what they use, so nothing is mixed in."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.png", help="Draw the weights; must not exist."),
    ] = None,
    data: Data = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Combine forecasts from a file, privately and otherwise.

    Example: hedgerow combine stations.csv --client station --round date --target measured

    All other columns are forecasts of models, or those of --models; empty cells are gaps. The file
    is played as a game: in every round clients use a weighted average of the forecasts, and answer
    one bit about the target. This is a simulation; real data need a deployment (docs/deploy.md).
    """
    apply_options(data=data)
    if out is not None:
        if out.suffix != ".png":
            raise InvalidValue(f"Expected --out {out} to end in .png.")
        check_new(out)
    columns: dict[str, Any] = {"client": client, "round": round_, "target": target}
    columns |= {"model": model, "forecast": forecast, "scale": _number_or_name(scale)}
    choices: dict[str, Any] = {"loss": loss, "quantile": quantile, "cut_off": cut_off}
    choices |= {"published": published}
    with columns_by_option():
        table = ForecastTable.read(file, models=models and models.split(","), **columns)
    found = combine_table(table, epsilon=epsilon, late=late, seeds=seeds, **choices)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        found.plot(out)
    if json:
        print_json({**found.to_dict(), "picture": None if out is None else str(out)})
        return
    rounds, clients, models = found.table.forecasts.shape
    OUT.print(
        table_from_cells(f"{models} models, {clients} clients, {rounds} rounds", found.cells())
    )
    for note in found.notes:
        OUT.print(f"Note: {note}", markup=False)
    OUT.print("A private run, by its certificate:", markup=False)
    for guarantee in found.certificate.guarantees:
        print_indented(guarantee.words())
    if out is not None:
        say(f"Picture: {out}")


def _number_or_name(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text

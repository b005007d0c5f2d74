"""`hedgerow view`."""

from __future__ import annotations

import json
import os
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any
from urllib.parse import quote as link

import numpy as np
import typer

from hedgerow.cli.options import Debug, Json
from hedgerow.cli.output import print_json, say, write_page
from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import needs
from hedgerow.records.schema import check_format
from hedgerow.studies.report import page_of_runs, regret_band, report_page
from hedgerow.studies.storage.finished import ListedRun, listed_runs
from hedgerow.studies.storage.folder import FORMAT
from hedgerow.studies.storage.unfinished import RUNS, refuse_unfinished

with needs("runs"):
    import pyarrow as pa
    import pyarrow.parquet as pq


def view_of(folder: Path) -> str:
    """The page of a finished run."""
    refuse_unfinished(folder)
    check_format(folder / "summary.json", FORMAT)
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        curves = _curves(folder)
        seeds = summary["game"]["seeds"], summary["game"]["first_seed"]
        repeat = [
            f"hedgerow run {quote(str(folder / 'config.toml'))}",
            f"hedgerow verify {quote(str(folder))}",
        ]
        more = [f"Seeds {seeds[1]} to {seeds[1] + seeds[0] - 1}: the results are the same again."]
        return report_page(summary, curves, [*repeat, *more])
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise InvalidValue(
            f"Cannot read the run folder {folder}: {' '.join(str(error).split())}. Run it again."
        ) from error


def _curves(folder: Path) -> dict[str, list[list[float]]]:
    """For each label the rounds, and the mean regret with its band."""
    table = pq.read_table(folder / "curves.parquet", filters=[("metric", "=", "regret")])
    columns = {name: table[name].to_numpy() for name in ("label", "seed", "round", "value")}
    found: dict[str, list[list[float]]] = {}
    for label in dict.fromkeys(columns["label"].tolist()):
        mine = columns["label"] == label
        rounds = np.unique(columns["round"][mine])
        values: Any = columns["value"][mine].reshape(-1, len(rounds))
        found[label] = regret_band(values, rounds)
    return found


def index_of(
    folder: Path, runs: Sequence[ListedRun], pages: Mapping[Path, Path], place: Path
) -> str:
    """A page that lists runs and links to theirs; `place` is its own folder."""
    rows = [
        (
            link(Path(os.path.relpath(pages[run.path], place)).as_posix()),
            f"{run.title} ({run.written[:10]})",
            [f"{label}: regret {regret}" for label, regret in run.regrets],
        )
        for run in runs
    ]
    return page_of_runs(f"Runs in {folder}", rows)


INDEX = "view.html"


def view(
    folder: Annotated[
        Path, typer.Argument(help="A run folder, or a folder with several runs.")
    ] = RUNS,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The page to write. Default: beside the runs, as NAME.html."),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Open the page in a browser.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a page about a run: who followed what.

    Example: hedgerow view runs/20260801-101500-stations --show

    It shows the regret over time, the experts that were followed, every client and the
    certificates. It needs no network and no script. With a folder of several runs, each gets a
    page, and one more lists them.
    """
    if not folder.is_dir():
        raise InvalidValue(f"There is no folder {folder}. Name a run folder or a folder of runs.")
    links: dict[Path, Path] = {}
    if (folder / "summary.json").is_file():
        page = folder.with_name(f"{folder.name}.html") if out is None else out
        links[folder] = page
        write_page(page, view_of(folder))
    else:
        found = [run for run in listed_runs(folder) if run.regrets and run.problem is None]
        if not found:
            raise InvalidValue(f"There is no finished run in {folder}. `hedgerow run` makes one.")
        page = folder / INDEX if out is None else out
        for run in found:
            own = run.path.with_name(f"{run.path.name}.html")
            write_page(own, view_of(run.path))
            links[run.path] = own
        write_page(page, index_of(folder, found, links, page.parent))
    if json:
        print_json({"page": str(page), "runs": [str(own) for own in links.values()]})
        return
    say(f"Written: {page}")
    if show:
        webbrowser.open(page.absolute().as_uri())

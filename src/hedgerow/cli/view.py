"""`hedgerow view`."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.options import Debug, Json
from hedgerow.cli.output import print_json, say, write_page
from hedgerow.core.errors import InvalidValue
from hedgerow.studies.storage.listing import listed_runs
from hedgerow.studies.storage.unfinished import RUNS
from hedgerow.studies.view import index_of, view_of

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

"""`hedgerow gallery`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

import hedgerow
from hedgerow.cli.options import Data, Debug, Json, Plugins, Workers, apply_options
from hedgerow.cli.output import print_json, progress_bar, say, write_page
from hedgerow.core.errors import InvalidValue
from hedgerow.core.registry import EXPERIMENTS
from hedgerow.records.schema import STAMP
from hedgerow.studies.storage.place import check_writable
from hedgerow_papers.experiments.gallery import Exhibit, exhibits
from hedgerow_papers.experiments.gallery_page import MARK, duration, html, state

PAGE = "index.html"


def gallery(
    out: Annotated[
        Path,
        typer.Option("--out", help="Folder for the page; an existing gallery is replaced."),
    ] = Path("gallery"),
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Fewer seeds if there is no full result; shown, but not judged."
        ),
    ] = False,
    workers: Workers = None,
    json: Json = False,
    plugin: Plugins = None,
    data: Data = None,
    debug: Debug = False,
) -> int:
    """Make one page with all experiments and their verdicts.

    Each experiment has its picture, its time and the command that reproduces it.

    Example: hedgerow gallery --quick --out gallery

    A result under runs/ is reused if configuration, code, versions and losses are unchanged.
    Otherwise the experiment is run. The page is a single self-contained file. Exit code 1: a check
    or an experiment failed.
    """
    apply_options(plugin, data, workers)
    page = out / PAGE
    _check(page)
    options = [
        *(part for path in plugin or [] for part in ("--plugin", path)),
        *(() if data is None else ("--data", str(data))),
    ]
    with progress_bar("gallery") as update:
        shown = exhibits(
            dict(EXPERIMENTS.items()),
            quick=quick,
            workers=workers,
            options=options,
            progress=lambda id, name, done, total: update(f"{id}: {name}", done, total),
            seen=None if json else _show,
        )
    made_by = f"hedgerow {hedgerow.__version__}, {datetime.now():%Y-%m-%d %H:%M}; {STAMP}"
    write_page(page, html(shown, made_by))
    if json:
        print_json({"page": str(page), "experiments": [_table(exhibit) for exhibit in shown]})
    else:
        say(f"Gallery: {page}")
    return 1 if any(exhibit.outcome["passed"] is False for exhibit in shown) else 0


def _check(page: Path) -> None:
    if page.parent.exists() and not page.parent.is_dir():
        raise InvalidValue(f"--out {page.parent} is a file. Choose a folder.")
    check_writable(page.parent, f"--out {page.parent}")
    if page.exists() and MARK not in page.read_text(encoding="utf-8", errors="replace")[:1000]:
        raise InvalidValue(f"{page} already exists and is not a gallery. Choose another folder.")


def _show(exhibit: Exhibit) -> None:
    how = "ran" if exhibit.written is None else "reused"
    text = (
        exhibit.outcome["message"]
        if exhibit.outcome["status"] in ("error", "no-data")
        else exhibit.outcome["run"]
    )
    say(f"{exhibit.id}: {state(exhibit)} ({how}, {duration(exhibit.seconds)}; {text})")


def _table(exhibit: Exhibit) -> dict[str, object]:
    details = {
        "title": exhibit.title,
        "command": exhibit.command,
        "seconds": exhibit.seconds,
        "reused": exhibit.written is not None,
    }
    return {**exhibit.outcome, **details}

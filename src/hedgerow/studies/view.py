"""The pages of finished runs, from their folders."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import quote as link

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import needs
from hedgerow.records.schema import check_format
from hedgerow.studies.report import band, index_page, page
from hedgerow.studies.storage.folder import FORMAT
from hedgerow.studies.storage.listing import ListedRun
from hedgerow.studies.storage.unfinished import refuse_unfinished

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
        return page(summary, curves, [*repeat, *more])
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
        found[label] = band(values, rounds)
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
    return index_page(f"Runs in {folder}", rows)

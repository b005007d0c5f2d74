"""The runs in a folder: title, date, algorithms, regrets and tags. Nothing is computed."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow.evaluation.statistics import Estimate
from hedgerow.evaluation.summary import estimate_json
from hedgerow.records.schema import FILE


@dataclass(frozen=True)
class ListedRun:
    """A run in a list.

    Parameters
    ----------
    path
        The run folder.
    title, written
        What the run is called, and when it was written (UTC).
    stamp
        Marks a simulation; None for a deployment.
    algorithms
        The names of the algorithms by label.
    regrets
        The regret by label; a deployment has none.
    tags
        The tags of the study.
    problem
        Why the folder could not be read; None: it could.
    """

    path: Path
    title: str = ""
    written: str = ""
    stamp: str | None = None
    algorithms: tuple[tuple[str, str], ...] = ()
    regrets: tuple[tuple[str, Estimate], ...] = ()
    tags: tuple[str, ...] = ()
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `hedgerow runs --json` prints them."""
        return {
            "run": str(self.path),
            "title": self.title,
            "written": self.written,
            "stamp": self.stamp,
            "algorithms": dict(self.algorithms),
            "regret": {label: estimate_json(found) for label, found in self.regrets},
            "tags": list(self.tags),
            "problem": self.problem,
        }


def listed_runs(folder: Path) -> list[ListedRun]:
    """All finished runs below a folder, the latest first; hidden folders are left out."""
    found = [
        _read(file.parent)
        for file in sorted(folder.rglob(FILE))
        if not any(part.startswith(".") for part in file.relative_to(folder).parts)
    ]
    return sorted(found, key=lambda run: run.written, reverse=True)


def _read(path: Path) -> ListedRun:
    try:
        record = json.loads((path / FILE).read_text(encoding="utf-8"))
        table: dict[str, Any] = {}
        if (path / "config.toml").is_file():
            table = tomllib.loads((path / "config.toml").read_text(encoding="utf-8"))
        rows: list[Any] = []
        if (path / "summary.json").is_file():
            rows = json.loads((path / "summary.json").read_text(encoding="utf-8"))["summary"]
        return ListedRun(
            path,
            str(record["title"]),
            str(record["written"]),
            record["stamp"],
            tuple((str(a["label"]), str(a["algorithm"])) for a in record["algorithms"]),
            tuple((str(row["label"]), _estimate(row["regret"])) for row in rows),
            tuple(map(str, table.get("tags", []))),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return ListedRun(path, problem=f"cannot be read: {' '.join(str(error).split())}")


def _estimate(table: dict[str, Any]) -> Estimate:
    values = (table[name] for name in ("mean", "half_width"))
    mean, half = (float("nan") if value is None else float(value) for value in values)
    return Estimate(mean, half, int(table["seeds"]))

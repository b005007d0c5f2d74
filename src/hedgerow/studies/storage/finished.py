"""Read finished run folders: all of one, or a list of many. Plugins are not needed."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import needs
from hedgerow.evaluation.statistics import Estimate
from hedgerow.evaluation.summary import estimate_json
from hedgerow.records.schema import FILE, RunRecord, check_format, read_record
from hedgerow.studies.storage.folder import FORMAT
from hedgerow.studies.storage.unfinished import refuse_unfinished

with needs("runs"):
    import pyarrow as pa
    import pyarrow.parquet as pq


@dataclass(frozen=True)
class FinishedRun:
    """A finished run.

    Parameters
    ----------
    path
        The run folder.
    config
        The resolved configuration.
    record
        The certificates and where the run comes from.
    regrets
        The final regret by label and seed.
    losses
        The fingerprint of the losses by label.
    """

    path: Path
    config: dict[str, Any]
    record: RunRecord
    regrets: dict[str, dict[int, float]]
    losses: dict[str, str]

    def environment(self, label: str) -> dict[str, Any]:
        """The environment of a label, as plain values."""
        return self._row(label).get("environment", self.config["environment"])

    def algorithm(self, label: str) -> dict[str, Any]:
        """The name and parameters of a label's algorithm, as plain values."""
        return {
            key: value
            for key, value in self._row(label).items()
            if key not in ("label", "environment")
        }

    def _row(self, label: str) -> dict[str, Any]:
        return next(row for row in self.config["algorithms"] if row["label"] == label)


def finished_record(path: Path) -> RunRecord:
    """The privacy record of a finished run.

    An unfinished run is refused, with the command that finishes it.
    """
    refuse_unfinished(path)
    return read_record(path)


def read_run(path: Path) -> FinishedRun:
    """Read a finished run. Errors name what is missing, broken or of another version."""
    refuse_unfinished(path)
    if (path / "summary.json").is_file():
        check_format(path / "summary.json", FORMAT)
    record = read_record(path)
    try:
        config = tomllib.loads((path / "config.toml").read_text(encoding="utf-8"))
        losses = json.loads((path / "summary.json").read_text(encoding="utf-8"))["losses"]
        rows = pq.read_table(
            path / "results.parquet", filters=[("metric", "=", "regret")]
        ).to_pylist()
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise InvalidValue(
            f"Cannot read the run folder {path}: {' '.join(str(error).split())}"
        ) from error
    regrets: dict[str, dict[int, float]] = {row["label"]: {} for row in config["algorithms"]}
    for row in rows:
        regrets.setdefault(row["label"], {})[row["seed"]] = row["value"]
    for label, found in regrets.items():
        if (
            not found
            or label not in losses
            or not any(row["label"] == label for row in config["algorithms"])
        ):
            raise InvalidValue(
                f"The files in {path} do not agree: {label!r} is not in all of them. Run it again."
            )
    return FinishedRun(path, config, record, regrets, losses)


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

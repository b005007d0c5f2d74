"""Read a finished run folder: its configuration, results and guarantees. Plugins are not needed."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import needs
from hedgerow.records.schema import RunRecord, check_format, read_record
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

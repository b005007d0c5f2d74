"""Build the privacy record of a study: its certificates, and where the run comes from."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from hedgerow.core.environment import Environment
from hedgerow.records.build import algorithm_record
from hedgerow.records.provenance import code, seeded_noise, versions
from hedgerow.records.schema import FORMAT, STAMP, AlgorithmRecord, RunRecord
from hedgerow.studies.config import to_table
from hedgerow.studies.study import Study


def draws_afresh(environment: Environment) -> bool:
    """Whether every seed has new data. Only environments that declare it in their traits do."""
    return environment.traits.fresh


def _whole_losses(environment: Environment) -> str | None:
    """A fingerprint of all losses; None if the environment has none."""
    return None if environment.traits.sees_plays else environment.fingerprint()


def _algorithms(study: Study) -> list[AlgorithmRecord]:
    config = to_table(study.config)
    algorithms = []
    for row, entry in zip(config["algorithms"], study.config.algorithms, strict=True):
        choices = {key: value for key, value in row.items() if key not in ("label", "environment")}
        table, environment = (
            row.get("environment", config["environment"]),
            study.config.environment_of(entry),
        )
        algorithm, fresh = study.algorithms[row["label"]], draws_afresh(environment)
        data, runs = ("drawn", 1) if fresh else ("recorded", study.config.seeds)
        losses = None if fresh else _whole_losses(environment)
        algorithms.append(
            algorithm_record(row["label"], algorithm, choices, data, runs, table, losses)
        )
    return algorithms


def record_of(study: Study, final: Path) -> RunRecord:
    """The privacy record of a study run into the folder `final`; always that of a simulation."""
    return RunRecord(
        format=FORMAT,
        title=study.config.title,
        run=str(final),
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        played=None,
        stamp=STAMP,
        noise=seeded_noise(study.config.first_seed, study.config.seeds),
        code=code(),
        versions=versions(),
        algorithms=_algorithms(study),
    )

"""Write a run folder: tables, resolved configuration, summary, privacy record and picture.

The tables are tidy Parquet files. The folder appears only when it is complete.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.environment import Environment, numbered
from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import needs
from hedgerow.records import schema
from hedgerow.records.build import algorithm_record
from hedgerow.records.plain import json_text
from hedgerow.records.provenance import code_provenance, library_versions, seeded_noise
from hedgerow.records.schema import FILE, STAMP, AlgorithmRecord, RunRecord, record_to_json
from hedgerow.studies.config import study_table, study_with_paths
from hedgerow.studies.report import study_summary
from hedgerow.studies.storage.digest import write_digest
from hedgerow.studies.storage.identity import study_fingerprints
from hedgerow.studies.storage.place import check_new
from hedgerow.studies.storage.unfinished import Kept
from hedgerow.studies.study import Study

with needs("runs"):
    import pyarrow as pa
    import pyarrow.parquet as pq
    import tomli_w

FORMAT = "hedgerow run 3"


@dataclass(frozen=True)
class RunFolder:
    """A folder being written: where to write (`path`) and its name once complete (`final`)."""

    path: Path
    final: Path


def _reserve(out: Path | None, name: str) -> tuple[Path, Path]:
    """Create a hidden folder to write in, and reserve its final name; two runs never share one."""
    if out is not None:
        check_new(out)
    base = Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{name}" if out is None else out
    for number in count(1):
        final = base if number == 1 or out is not None else base.with_name(f"{base.name}-{number}")
        partial = final.with_name(
            f".{final.name}.partial" if out is None else f".{final.name}.partial-{number}"
        )
        if final.exists():
            continue
        try:
            partial.mkdir(parents=True)
        except FileExistsError:
            continue
        return partial, final
    raise AssertionError("unreachable")


@contextmanager
def fresh_folder(out: Path | None, name: str) -> Iterator[RunFolder]:
    """Open a folder that gets its final name only if the body ends without an error.

    Without `out`, it gets a new name under `runs/`. An `out` that exists is refused.
    """
    try:
        partial, final = _reserve(out, name)
    except OSError as error:
        raise InvalidValue(f"Cannot write to {out or 'runs'}: {error.strerror}.") from error
    try:
        yield RunFolder(partial, final)
        partial.rename(final)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        if out is None:
            with suppress(OSError):  # not empty: it holds other runs
                partial.parent.rmdir()
        raise


def _summary(study: Study, final: Path) -> dict[str, Any]:
    return {"run": str(final), **study_summary(study)}


def study_document(study: Study, record: RunRecord) -> dict[str, Any]:
    """The document that `--json` prints: the summary of a study and its certificates by label."""
    certificates = {algorithm.label: record_to_json(algorithm) for algorithm in record.algorithms}
    return {**_summary(study, Path(record.run)), "certificates": certificates}


def write_study(
    study: Study,
    folder: Path,
    final: Path,
    losses: Mapping[str, str] | None = None,
    picture: bool = True,
) -> RunRecord:
    """Write a study into a folder and return its privacy record.

    `summary.json` holds the figures, `privacy.json` the certificates, `digest.json` a hash of every
    file.

    Parameters
    ----------
    study
        The results.
    folder
        An existing folder to write into.
    final
        The name that the folder will have.
    losses
        The fingerprints of the losses by label. None: they are computed.
    picture
        Whether to draw the regret.
    """
    config = study_with_paths(study_table(study.config), Path())  # runs from any folder
    (folder / "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
    curves, finals = [], []
    for r in study.results:
        for metric, values in {"loss": r.loss, "regret": r.regret, **r.figures}.items():
            columns = {
                "label": [r.label] * len(r.rounds),
                "seed": [r.seed] * len(r.rounds),
                "round": r.rounds,
            }
            curves.append(
                pa.table({**columns, "metric": [metric] * len(r.rounds), "value": values})
            )
        other = ("label", "seed", "rounds", "loss", "regret", "comparators", "figures")
        other += ("following", "segments")
        single = {f.name: float(getattr(r, f.name)) for f in fields(r) if f.name not in other}
        single |= {f"comparator: {name}": loss for name, loss in r.comparators.items()}
        single |= {name: float(curve[-1]) for name, curve in r.figures.items()}
        finals += [
            (r.label, r.seed, metric, value)
            for metric, value in {"regret": r.final_regret, **single}.items()
        ]
    pq.write_table(pa.concat_tables(curves), folder / "curves.parquet")
    names = ("label", "seed", "metric", "value")
    pq.write_table(
        pa.table(dict(zip(names, map(list, zip(*finals, strict=True)), strict=True))),
        folder / "results.parquet",
    )
    summary = {
        "format": FORMAT,
        **_summary(study, final),
        "losses": losses or study_fingerprints(study.config),
    }
    record = study_record(study, final)
    for name, document in (("summary.json", summary), (FILE, record_to_json(record))):
        (folder / name).write_text(json_text(document), encoding="utf-8")
    if study.kept:
        names = {
            entry.label: study.config.environment_of(entry) for entry in study.config.algorithms
        }
        _write_kept(study.kept, names, folder)
    if picture:
        study.plot(folder / "regret.png")
    write_digest(folder)
    return record


def _write_kept(kept: list[Kept], games: Mapping[str, Environment], folder: Path) -> None:
    """Write all plays and messages.

    `plays.parquet` has the columns label, seed, round, client, play, and the names of the client
    and the expert. `messages.parquet` has label,
    seed, round, direction, client, field, values.
    """
    tables = []
    for run in kept:
        rounds, clients = run.plays.shape[:2]
        experts, who = np.array(games[run.label].expert_names), games[run.label].client_names
        people = who if len(who) == clients else numbered("player", clients)
        points = run.plays.ndim > 2
        tables.append(
            pa.table(
                {
                    "label": [run.label] * (rounds * clients),
                    "seed": [run.seed] * (rounds * clients),
                    "round": np.repeat(np.arange(rounds), clients),
                    "client": np.tile(np.arange(clients), rounds),
                    "play": run.plays.reshape(rounds * clients, -1).tolist()
                    if points
                    else run.plays.ravel(),
                    "client name": np.tile(np.array(people), rounds),
                    "expert": [None] * (rounds * clients)
                    if points
                    else np.where(run.plays >= 0, experts[run.plays], "").ravel(),
                }
            )
        )
    pq.write_table(pa.concat_tables(tables), folder / "plays.parquet")
    rows = [(run.label, run.seed, *message) for run in kept for message in run.messages]
    columns = ("label", "seed", "round", "direction", "client", "field", "values")
    data = map(list, zip(*rows, strict=True)) if rows else [[] for _ in columns]
    pq.write_table(pa.table(dict(zip(columns, data, strict=True))), folder / "messages.parquet")


def _algorithms(study: Study) -> list[AlgorithmRecord]:
    config = study_with_paths(study_table(study.config), Path())
    algorithms = []
    for row, entry in zip(config["algorithms"], study.config.algorithms, strict=True):
        choices = {key: value for key, value in row.items() if key not in ("label", "environment")}
        table = row.get("environment", config["environment"])
        environment, algorithm = study.config.environment_of(entry), study.algorithms[row["label"]]
        traits, losses = environment.traits, None
        if not (traits.fresh or traits.sees_plays):
            losses = environment.fingerprint()
        data, runs = ("drawn", 1) if traits.fresh else ("recorded", study.config.seeds)
        algorithms.append(
            algorithm_record(row["label"], algorithm, choices, data, runs, table, losses)
        )
    return algorithms


def study_record(study: Study, final: Path) -> RunRecord:
    """The privacy record of a study run into the folder `final`; always that of a simulation."""
    return RunRecord(
        format=schema.FORMAT,
        title=study.config.title,
        run=str(final),
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        played=None,
        stamp=STAMP,
        noise=seeded_noise(study.config.first_seed, study.config.seeds),
        code=code_provenance(),
        versions=library_versions(),
        algorithms=_algorithms(study),
    )

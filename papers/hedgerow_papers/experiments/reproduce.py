"""Run experiments, write their verdicts, and find earlier results that are still fresh."""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from hedgerow.algorithms.printed import load, printed_numbers
from hedgerow.core.errors import HedgerowError, Interrupted, InvalidValue, MissingData
from hedgerow.core.extras import needs
from hedgerow.engines.simulate import setting_of
from hedgerow.environments.recorded.data import find
from hedgerow.evaluation.summary import Stream, finite
from hedgerow.records.plain import json_text
from hedgerow.studies.run import run_study
from hedgerow.studies.storage.folder import fresh_folder, write_study
from hedgerow.studies.storage.identity import Table, studies_identity
from hedgerow.studies.storage.unfinished import RUNS, ResultStore
from hedgerow.studies.study import Study
from hedgerow_papers.experiments.experiment import Experiment, Verdict

with needs("runs"):
    import tomli_w

Status = Literal["ran", "quick", "no-data", "error"]
Progress = Callable[[str, int, int], None]
VERDICT = "verdict.json"
ORIGIN = "reproduction.toml"
FORMAT = "hedgerow reproduction 1"


@dataclass(frozen=True)
class Sent:
    """What the messages of one algorithm hold: means over seeds, and the printed count.

    `printed` is the number that a theorem states with its hidden constant 1, `formula` how; None if
    no paper states one for this algorithm.
    """

    study: str
    label: str
    numbers: float
    bytes: float
    printed: float | None
    formula: str | None

    @classmethod
    def of(cls, name: str, study: Study) -> list[Sent]:
        """One line for every algorithm of a study."""
        load()
        rows, found = {row.label: row for row in study.summary()}, []
        for entry in study.config.algorithms:
            row = rows[entry.label]
            setting = setting_of(study.config.environment_of(entry), entry.alone)
            count = None if entry.alone else printed_numbers(entry.algorithm, setting)
            theirs = (None, None) if count is None else (count.value, count.formula)
            means = row.numbers_sent.mean, row.bytes_sent.mean
            found.append(cls(name, entry.label, *means, *theirs))
        return found


@dataclass(frozen=True)
class Outcome:
    """One experiment's row in the report."""

    id: str
    status: Status
    message: str
    verdict: Verdict | None = None
    folder: Path | None = None
    seconds: float = 0.0
    streams: dict[str, dict[str, Stream]] = field(default_factory=dict)
    sent: tuple[Sent, ...] = ()

    @property
    def passed(self) -> bool | None:
        """Whether our expectations hold; None for a quick run, which is not judged."""
        if self.status == "error":
            return False
        if self.status != "ran" or self.verdict is None:
            return None
        return all(check.passed for check in self.verdict.checks)

    def to_dict(self) -> dict[str, Any]:
        judged = self.status == "ran"
        checks = [] if self.verdict is None else self.verdict.checks
        return {
            "id": self.id,
            "status": self.status,
            "message": self.message,
            "holds": self.verdict.holds if judged and self.verdict is not None else None,
            "passed": self.passed,
            "run": None if self.folder is None else str(self.folder),
            "checks": [
                {
                    "name": check.name,
                    "published": check.published,
                    "obtained": finite(check.obtained),
                    "op": check.op,
                    "limit": check.limit,
                    "passed": check.passed if judged else None,
                    **(
                        {}
                        if finite(check.obtained) is not None
                        else {"reason": "not a finite number"}
                    ),
                }
                for check in checks
            ],
            "tables": [] if self.verdict is None else [asdict(t) for t in self.verdict.tables],
            "communication": [asdict(sent) for sent in self.sent],
        }


def reproduce(
    experiment: Experiment,
    *,
    quick: bool,
    out: Path | None,
    workers: int | None,
    progress: Progress | None = None,
) -> Outcome:
    """Run one experiment into a new folder; errors become part of the outcome."""
    began = perf_counter()
    try:
        outcome = _reproduce(experiment, quick, out, workers, progress, began)
    except Interrupted:
        raise
    except MissingData as error:
        outcome = Outcome(experiment.id, "no-data", str(error))
    except Exception as error:  # the other experiments are still reported
        text = (
            str(error) if isinstance(error, HedgerowError) else f"{type(error).__name__}: {error}"
        )
        outcome = Outcome(experiment.id, "error", text)
    return replace(outcome, seconds=perf_counter() - began)


def _data(experiment: Experiment) -> dict[str, str]:
    """Hashes of the files that an experiment needs; raises MissingData if one is missing."""
    found = {}
    for name, source in experiment.data:
        with find(name, source).open("rb") as stream:
            found[name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


def _reproduce(
    experiment: Experiment,
    quick: bool,
    out: Path | None,
    workers: int | None,
    progress: Progress | None,
    began: float,
) -> Outcome:
    data = _data(experiment)
    with fresh_folder(out, experiment.id) as folder:
        configs, studies = experiment.studies(quick), {}
        for name in configs:  # before hours of work
            if Path(name).name != name:
                raise InvalidValue(f"Expected study={name!r} to be the name of one folder.")
        now = studies_identity(configs)
        origin = {
            "format": FORMAT,
            "id": experiment.id,
            "quick": quick,
            "identity": {**now, "data": data},
        }
        kept = _kept_results(experiment, out, origin) if experiment.resumable else None
        for name, config in configs.items():
            note = (
                None
                if progress is None
                else (lambda done, total, name=name: progress(name, done, total))
            )
            store = None if kept is None else _store(kept / name)
            try:
                studies[name] = run_study(config, workers=workers, progress=note, store=store)
            except KeyboardInterrupt as stop:
                if store is None:
                    raise
                text = "Interrupted. Finished results are kept; the same command goes on."
                raise Interrupted(text) from stop
            (folder.path / name).mkdir()
            places, losses = (folder.path / name, folder.final / name), now["losses"][name]
            # Drawing many studies takes a quarter of a quick run; the page shows none of them.
            write_study(studies[name], *places, losses, picture=not quick)
        verdict = experiment.judge(studies)
        experiment.draw(studies, folder.path / f"{experiment.id}.png")
        streams = {
            name: {own or study.config.own_name(): s for own, s in study.streams().items()}
            for name, study in studies.items()
        }
        outcome = Outcome(
            experiment.id,
            "quick" if quick else "ran",
            verdict.message,
            verdict,
            folder.final,
            streams=streams,
            sent=tuple(line for name, study in studies.items() for line in Sent.of(name, study)),
        )
        (folder.path / VERDICT).write_text(json_text(outcome.to_dict()), encoding="utf-8")
        origin |= {
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": perf_counter() - began,
        }
        (folder.path / ORIGIN).write_text(tomli_w.dumps(origin), encoding="utf-8")
    if kept is not None:
        shutil.rmtree(kept, ignore_errors=True)
    return outcome


def _kept_results(experiment: Experiment, out: Path | None, origin: Table) -> Path:
    """The hidden folder of an interrupted reproduction: its name says what results depend on."""
    known = json.dumps(origin, sort_keys=True, default=str)
    key = hashlib.sha256(known.encode()).hexdigest()[:16]
    return (RUNS if out is None else out.parent) / f".{experiment.id}.{key}.results"


def _store(folder: Path) -> ResultStore:
    folder.mkdir(parents=True, exist_ok=True)
    return ResultStore(folder)


@dataclass(frozen=True)
class Reproduction:
    """An earlier run of an experiment: folder, verdict, duration in seconds, time of writing."""

    folder: Path
    verdict: dict[str, Any]
    seconds: float
    written: str


def _read(folder: Path, experiment: Experiment, quick: bool) -> tuple[Table, Reproduction] | None:
    """What the result in a folder depends on, and the result.

    None if the folder is incomplete or is not of this form of this experiment.
    """
    try:
        origin = tomllib.loads((folder / ORIGIN).read_text(encoding="utf-8"))
        if (origin["format"], origin["id"], origin["quick"]) != (FORMAT, experiment.id, quick):
            return None
        verdict = json.loads((folder / VERDICT).read_text(encoding="utf-8"))
        if not (folder / f"{experiment.id}.png").is_file():
            return None
        seconds, written = float(origin["seconds"]), str(origin["written"])
        return origin["identity"], Reproduction(folder, verdict, seconds, written)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def fresh_result(experiment: Experiment, quick: bool, place: Path) -> Reproduction | None:
    """The latest result in a folder of runs that equals what a new run would give; or None.

    Configuration, code, versions and losses must all be the same.
    """
    found = [_read(file.parent, experiment, quick) for file in _latest_first(place)]
    if not any(found):  # what a run depends on takes time to find out
        return None
    now = tomllib.loads(
        tomli_w.dumps({**studies_identity(experiment.studies(quick)), "data": _data(experiment)})
    )
    return next((result for before, result in filter(None, found) if before == now), None)


def _latest_first(place: Path) -> Iterator[Path]:
    """The records of complete reproductions, latest first; a hidden folder is incomplete."""
    files = [file for file in place.glob(f"*/{ORIGIN}") if not file.parent.name.startswith(".")]
    yield from sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)

"""Run experiments and say what was published, what was obtained, and whether it holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hedgerow.core.errors import HedgerowError, MissingData
from hedgerow.environments.data import find
from hedgerow.evaluation.summary import Stream
from hedgerow.experiments.experiment import Experiment, Verdict
from hedgerow.experiments.folder import finite, fresh_folder, write_study
from hedgerow.experiments.study import run_study

Status = Literal["ran", "quick", "no-data", "error"]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Outcome:
    """One experiment's line in the report."""

    id: str
    status: Status
    message: str
    verdict: Verdict | None = None
    folder: Path | None = None
    streams: dict[str, dict[str, Stream]] = field(default_factory=dict)

    @property
    def passed(self) -> bool | None:
        """Whether our expectations held; a quick run is not judged by them."""
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
            "reproduces": self.verdict.reproduces if judged and self.verdict is not None else None,
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
                    **({} if finite(check.obtained) is not None else {"reason": "not a finite number"}),
                }
                for check in checks
            ],
        }


def reproduce(experiment: Experiment, *, quick: bool, out: Path | None, workers: int | None, progress: Progress | None = None) -> Outcome:
    """Run one experiment into a folder of its own."""
    try:
        for name, source in experiment.data:
            find(name, source)
        with fresh_folder(out, experiment.id) as folder:
            studies = {}
            for name, config in experiment.studies(quick).items():
                note = None if progress is None else (lambda done, total, name=name: progress(name, done, total))
                studies[name] = run_study(config, workers=workers, progress=note)
                (folder.path / name).mkdir()
                write_study(studies[name], folder.path / name, folder.final / name)
            verdict = experiment.judge(studies)
            experiment.draw(studies, folder.path / f"{experiment.id}.png")
            streams = {name: study.streams() for name, study in studies.items()}
            outcome = Outcome(experiment.id, "quick" if quick else "ran", verdict.message, verdict, folder.final, streams)
            (folder.path / "verdict.json").write_text(json.dumps(outcome.to_dict(), indent=2, allow_nan=False), encoding="utf-8")
        return outcome
    except MissingData as error:
        return Outcome(experiment.id, "no-data", str(error))
    except Exception as error:  # whatever an experiment does wrong, the others are still reported
        told = str(error) if isinstance(error, HedgerowError) else f"{type(error).__name__}: {error}"
        return Outcome(experiment.id, "error", told)

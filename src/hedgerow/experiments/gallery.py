"""Collect the pictures and verdicts of all experiments for the gallery.

An experiment without a fresh result is run. `gallery_page` makes one page of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow.core.errors import HedgerowError, Interrupted
from hedgerow.experiments.experiment import Experiment
from hedgerow.experiments.pictures import pictures
from hedgerow.experiments.reproduce import fresh_result, reproduce
from hedgerow.studies.storage.unfinished import RUNS

Progress = Callable[[str, str, int, int], None]


@dataclass(frozen=True)
class Exhibit:
    """One experiment in the gallery.

    `outcome` is its row of `hedgerow reproduce --json`. `written` is the time of the run if an
    earlier result was reused. The main picture comes first; a failed experiment has no pictures.
    """

    title: str
    claim: str
    command: str
    outcome: dict[str, Any]
    seconds: float
    pictures: tuple[bytes, ...]
    written: str | None = None

    @property
    def id(self) -> str:
        return self.outcome["id"]


def command_of(name: str, quick: bool, options: Sequence[str]) -> str:
    """The command line that runs this experiment again."""
    return shlex.join(["hedgerow", "reproduce", name, *(["--quick"] if quick else []), *options])


def exhibit(
    name: str,
    experiment: Experiment,
    *,
    quick: bool,
    workers: int | None,
    options: Sequence[str] = (),
    progress: Progress | None = None,
) -> Exhibit:
    """The fresh result of an experiment or, if there is none, a new one.

    A full result is shown even where a quick one would do.
    """
    for form in (False, True) if quick else (False,):
        with suppress(HedgerowError, OSError):  # running it again reports the error
            found = fresh_result(experiment, form, RUNS)
            if found is not None:
                outcome = {**found.verdict, "run": str(found.folder)}
                shown, command = _read(found.folder, experiment), command_of(name, form, options)
                return Exhibit(
                    experiment.title,
                    experiment.claim,
                    command,
                    outcome,
                    found.seconds,
                    shown,
                    found.written,
                )
    note = (
        None
        if progress is None
        else (lambda study, done, total: progress(name, study, done, total))
    )
    done = reproduce(experiment, quick=quick, out=None, workers=workers, progress=note)
    shown = () if done.folder is None else _read(done.folder, experiment)
    return Exhibit(
        experiment.title,
        experiment.claim,
        command_of(name, quick, options),
        done.to_dict(),
        done.seconds,
        shown,
    )


def _read(folder: Path, experiment: Experiment) -> tuple[bytes, ...]:
    return tuple(file.read_bytes() for file in pictures(folder, experiment.id))


def exhibits(
    experiments: Mapping[str, Experiment],
    *,
    quick: bool,
    workers: int | None,
    options: Sequence[str] = (),
    progress: Progress | None = None,
    seen: Callable[[Exhibit], None] | None = None,
) -> list[Exhibit]:
    """All experiments in order; one that fails does not stop the others."""
    shown: list[Exhibit] = []
    for name, experiment in experiments.items():
        try:
            shown.append(
                exhibit(
                    name,
                    experiment,
                    quick=quick,
                    workers=workers,
                    options=options,
                    progress=progress,
                )
            )
        except KeyboardInterrupt as stop:
            done = sum(bool(exhibit.pictures) for exhibit in shown)
            kept = f"{done} of {len(experiments)} experiments are done and need not run again"
            raise Interrupted(f"Interrupted in {name}: {kept}. No page was written.") from stop
        except OSError as error:
            raise HedgerowError(f"Cannot read the results of {name}: {error}") from error
        if seen is not None:
            seen(shown[-1])
    return shown

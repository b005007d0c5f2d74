"""Collect the pictures and verdicts of all experiments for the gallery.

An experiment without a fresh result is run. `gallery_page` makes one page of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hedgerow.core.errors import HedgerowError, Interrupted
from hedgerow.core.registry import EXPERIMENTS
from hedgerow.studies.storage.unfinished import RUNS
from hedgerow_papers.experiments.experiment import Experiment
from hedgerow_papers.experiments.pictures import pictures
from hedgerow_papers.experiments.reproduce import fresh_result, reproduce
from hedgerow_papers.experiments.side_by_side import side_by_side

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
    """All experiments in order; one that fails does not stop the others.

    Several run at the same time if there are several cores; `seen` is called as each ends.
    """
    shown: dict[str, Exhibit] = {}

    def here(name: str) -> Exhibit:
        return exhibit(
            name,
            experiments[name],
            quick=quick,
            workers=workers,
            options=options,
            progress=progress,
        )

    def done(name: str, found: Exhibit) -> None:
        shown[name] = found
        if seen is not None:
            seen(found)
        if progress is not None:
            progress(name, "done", len(shown), len(experiments))

    try:
        elsewhere = partial(_exhibit_in_worker, quick, tuple(options))
        side_by_side(list(experiments), workers, here, elsewhere, done)
    except KeyboardInterrupt as stop:
        ready = sum(bool(exhibit.pictures) for exhibit in shown.values())
        kept = f"{ready} of {len(experiments)} experiments are done and need not run again"
        running = next(name for name in experiments if name not in shown)
        raise Interrupted(f"Interrupted in {running}: {kept}. No page was written.") from stop
    except OSError as error:
        running = next(name for name in experiments if name not in shown)
        raise HedgerowError(f"Cannot read the results of {running}: {error}") from error
    return [shown[name] for name in experiments]


def _exhibit_in_worker(quick: bool, options: Sequence[str], name: str) -> Exhibit:
    """The exhibit of a registered experiment, in a separate process."""
    return exhibit(name, EXPERIMENTS[name], quick=quick, workers=1, options=options)

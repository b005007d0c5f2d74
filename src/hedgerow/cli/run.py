"""`hedgerow run FILE.toml`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.options import Data, Debug, Json, Out, Plugins, Settings, Workers, apply_options
from hedgerow.cli.output import OUT, aside, print_indented, print_json, progress_bar
from hedgerow.cli.tables import comparators_table, summary_table, table_from_cells
from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import at_least
from hedgerow.privacy.curves.pure import bounded_range_words
from hedgerow.records.schema import STAMP
from hedgerow.studies.config import StudyConfig, load_study, study_from_table
from hedgerow.studies.run import check_engine, run_study
from hedgerow.studies.storage.folder import study_document, write_study
from hedgerow.studies.storage.identity import code_identity, identity_differences, studies_identity
from hedgerow.studies.storage.place import check_writable
from hedgerow.studies.storage.unfinished import (
    RUNS,
    Unfinished,
    all_unfinished,
    check_free,
    new_run,
    resumed_run,
    unfinished_at,
)
from hedgerow.studies.study import Study

NOTHING = "no guarantee against any observer"


def run(
    file: Annotated[
        Path,
        typer.Argument(
            help="A study in TOML: an environment and algorithms; see examples/study.toml."
        ),
    ],
    folder: Annotated[
        Path | None,
        typer.Argument(help="With --resume: the unfinished run, if there are several."),
    ] = None,
    settings: Settings = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="The first seed; the others follow.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Also write all plays and messages.")
    ] = False,
    alone: Annotated[
        bool,
        typer.Option("--alone", help="Also play every algorithm with every client by itself."),
    ] = False,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="A word to find the run by (`hedgerow runs`); may be repeated."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Resume an interrupted run, given by its study file or its folder."
        ),
    ] = False,
    out: Out = None,
    workers: Workers = None,
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor",
            help="Where seeds are played: dask://HOST:PORT, ray or processes.",
        ),
    ] = None,
    json: Json = False,
    plugin: Plugins = None,
    data: Data = None,
    debug: Debug = False,
) -> None:
    """Run a study from a TOML file and write a run folder.

    Every algorithm is run on every seed.

    Example: hedgerow run examples/study.toml --set algorithms.0.epsilon=4 --set seeds=50

    Algorithms are addressed by number (from 0) or by label.

    Each result is saved as soon as it is finished. After Ctrl-C or a crash, resume with `hedgerow
    run FILE.toml --resume` and the same options, or with `hedgerow run --resume FOLDER`. Only
    missing results are run, and the final results are the same as without the interruption.

    The folder holds config.toml (all values resolved), curves.parquet and results.parquet (tidy
    tables), summary.json (figures and notes), privacy.json (certificates, for `hedgerow
    statement`), regret.png and digest.json (hashes, for `hedgerow verify`).
    """
    apply_options(plugin, data, workers)
    settings = [*(settings or []), *(["alone=true"] if alone else [])]
    if seed is not None:
        at_least("seed", seed, 0)
    options = [
        *(part for path in plugin or [] for part in ("--plugin", path)),
        *(() if data is None else ("--data", str(data))),
    ]
    working: AbstractContextManager[Unfinished]
    if not resume:
        if folder is not None:
            raise InvalidValue(
                f"Two paths were given, {file} and {folder}. A folder needs --resume."
            )
        config = _tagged(load_study(file, settings, seed), tag)
        check_engine(config)
        if out is None:
            check_writable(RUNS, f"{RUNS}/")
            _print_unfinished(file.stem)
        else:
            check_free(out)
        found = studies_identity({"study": config})
        working = new_run(out, file.stem, found, keep, options)
    elif file.is_file():
        config = _tagged(load_study(file, settings, seed), tag)
        found = studies_identity({"study": config})
        place = out if folder is None else folder
        working = resumed_run(
            _same(file.stem, found["studies"]["study"]) if place is None else _named(place),
            found,
            keep,
        )
    else:
        if folder is not None or settings or seed is not None or keep or out is not None or tag:
            raise InvalidValue(
                f"There is no study file {file}. "
                "To resume a run by its folder, give no other arguments: it keeps its options."
            )
        begun = _named(file)
        config = _stored(begun)
        found = studies_identity({"study": config})
        working = resumed_run(begun, found, begun.keep)
        keep = begun.keep
    with working as unfinished:
        with progress_bar(config.title) as update:
            study = run_study(
                config,
                workers=workers,
                keep=keep,
                progress=lambda done, total: update(config.title, done, total),
                store=unfinished.store,
                executor=executor,
            )
        record = write_study(study, unfinished.draft, unfinished.final, found["losses"]["study"])
    if json:
        print_json(study_document(study, record))
        return
    _print(study)
    OUT.print(f"{STAMP}. Results in {record.run}", markup=False)


def _tagged(config: StudyConfig, tags: list[str] | None) -> StudyConfig:
    """The study with more tags."""
    return replace(config, tags=(*dict.fromkeys((*config.tags, *(tags or ()))),))


def _print(study: Study) -> None:
    """Print regrets, notes, comparators and guarantees."""
    OUT.print(summary_table(study))
    for line in (*study.unit_lines(), *study.together_words(), *study.note_lines()):
        print_indented(line, indent=0)
    followed = study.following_table()
    if followed:
        OUT.print(table_from_cells("who was followed", followed, numbers=False))
    segments = study.segment_table()
    if segments:
        OUT.print(table_from_cells("against the best sequence of experts", segments))
    beside = comparators_table(study)
    if beside is not None:
        OUT.print(beside)
    for labels, lines in guarantees(study):
        print_indented(f"{'; '.join(labels)}:", indent=0)
        for line in lines:
            print_indented(line)
    meaning = bounded_range_words(
        g.words()
        for algorithm in study.algorithms.values()
        for g in algorithm.certificate.guarantees
    )
    if meaning:
        OUT.print(meaning, markup=False)


def guarantees(study: Study) -> list[tuple[list[str], tuple[str, ...]]]:
    """What each observer can learn, with all labels for which it is the same."""
    found: dict[tuple[str, ...], list[str]] = {}
    for label in study.algorithms:
        given = study.algorithms[label].certificate.guarantees
        protects = any(guarantee.protects for guarantee in given)
        lines = tuple(g.words() for g in given) if protects else (NOTHING,)
        found.setdefault(lines, []).append(label)
    return [(labels, lines) for lines, labels in found.items()]


def _listed(runs: Sequence[Unfinished]) -> str:
    return ", ".join(f"{run.final} ({run.words()})" for run in runs[:3]) + (
        f" and {len(runs) - 3} more" if len(runs) > 3 else ""
    )


def _print_unfinished(name: str) -> None:
    """Mention interrupted runs of this study, which a new run leaves unchanged."""
    runs = all_unfinished(RUNS, name)
    if runs:
        text = (
            f"Unfinished: {_listed(runs)}. "
            f"This is a new run. To resume the old one: {runs[0].command}"
        )
        aside(text)


def _named(folder: Path) -> Unfinished:
    found = unfinished_at(folder)
    if found is not None:
        return found
    if (folder / "config.toml").is_file():
        raise InvalidValue(f"The run {folder} is complete. There is nothing to resume.")
    others = all_unfinished(folder.parent)
    raise InvalidValue(
        f"There is no study file or unfinished run at {folder}. "
        f"Unfinished runs beside it: {_listed(others) or 'none'}."
    )


def _same(name: str, study: dict[str, object]) -> Unfinished:
    """The unfinished run of a study file under `runs/`; of several, the one with the same study."""
    runs = all_unfinished(RUNS, name)
    if not runs:
        raise InvalidValue(
            f"There is no unfinished run of {name} in {RUNS}/. Start a new run without --resume."
        )
    same = [run for run in runs if run.study == study]
    if len(same) > 1 or (not same and len(runs) > 1):
        raise InvalidValue(
            f"There are several unfinished runs of {name}: {_listed(same or runs)}. "
            "Name one of them after --resume."
        )
    return (same or runs)[0]


def _stored(run: Unfinished) -> StudyConfig:
    """The configuration of an unfinished run.

    Changed code and missing plugins are reported first, to avoid confusing errors.
    """
    now = code_identity()
    different = identity_differences({key: run.identity[key] for key in now}, now)
    try:
        return study_from_table(run.study)
    except InvalidValue as error:
        if different:
            raise InvalidValue(
                f"{run.final} has changed since it began: {'; '.join(different[:6])}. "
                "Undo these changes, or start a new run without --resume."
            ) from error
        raise

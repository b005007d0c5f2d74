"""`hedgerow run FILE.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.options import Data, Debug, Json, Out, Plugins, Settings, Workers, prepare
from hedgerow.cli.output import OUT, print_json, progress_bar, summary
from hedgerow.core.checks import at_least
from hedgerow.environments.adversaries import notes
from hedgerow.experiments.config import load
from hedgerow.experiments.folder import fresh_folder, study_document, write_study
from hedgerow.experiments.study import STAMP, run_study


def run(
    file: Annotated[Path, typer.Argument(help="A study in TOML: an environment and algorithms; see examples/study.toml.")],
    settings: Settings = None,
    seed: Annotated[int | None, typer.Option("--seed", help="The first seed; the others follow.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Also keep all plays and all messages.")] = False,
    out: Out = None,
    workers: Workers = None,
    json: Json = False,
    plugin: Plugins = None,
    data: Data = None,
    debug: Debug = False,
) -> None:
    """Run the study in FILE.toml on all its seeds and write a run folder.

    Example: hedgerow run examples/study.toml --set algorithms.0.epsilon=4 --set seeds=50

    Algorithms are addressed by number (from 0) or by label.

    The folder holds config.toml (everything resolved), curves.parquet and results.parquet (tidy tables), summary.json with the
    certificates, privacy.json for `hedgerow statement`, and regret.png.
    """
    prepare(plugin, data, workers)
    if seed is not None:
        at_least("seed", seed, 0)
    config = load(file, settings or [], seed)
    with fresh_folder(out, file.stem) as folder:
        with progress_bar(config.title) as update:
            study = run_study(config, workers=workers, keep=keep, progress=lambda done, total: update(config.title, done, total))
        write_study(study, folder.path, folder.final)
    final = folder.final
    told = {entry.label: notes(study.algorithms[entry.label], config.environment_of(entry)) for entry in config.algorithms}
    if json:
        print_json({**study_document(study, final), "notes": {label: said for label, said in told.items() if said}})
        return
    OUT.print(summary(study, config.title))
    for label, algorithm in study.algorithms.items():
        guarantees = algorithm.certificate.guarantees
        if not any(guarantee.protects for guarantee in guarantees):
            OUT.print(f"{label}: no guarantee to anybody", markup=False)
            continue
        for guarantee in guarantees:
            OUT.print(f"{label}: {guarantee.words()}", markup=False)
    for label, said in told.items():
        for note in said:
            OUT.print(f"{label}: note: {note}", markup=False)
    OUT.print(f"{STAMP}. Results in {final}", markup=False)

"""Rebuild the certificates of a run from the choices that it records, and compare.

A file can be edited. What the recorded choices guarantee cannot: it is computed again.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.environment import Environment, Traits
from hedgerow.core.errors import HedgerowError, InvalidValue, MissingData
from hedgerow.core.family_text import family_of
from hedgerow.core.model import Model
from hedgerow.core.protocol import SHOWN_BY_THE_GAME, Algorithm, AlgorithmSpec
from hedgerow.core.setting import LOSSES, Setting
from hedgerow.engines.learner import private_algorithm
from hedgerow.records.build import algorithm_record
from hedgerow.records.plain import first_difference, typed
from hedgerow.records.provenance import PACKAGE, hash_of, seeded_noise
from hedgerow.records.schema import AlgorithmRecord, RunRecord, spec_choices
from hedgerow.studies.config import StudyConfig, study_from_table, study_table


def check_certificates(run: RunRecord, folder: Path) -> bool:
    """Raise if a certificate of a run is not what the recorded choices give.

    Return whether recorded data were there. If not, the size of the game, its gaps and the
    fingerprint of its losses are believed.

    Parameters
    ----------
    run
        The record of the run, as it was read.
    folder
        The run folder. The choices of a study are in its `config.toml`, those of a deployment in
        the record itself.
    """
    file = folder / "config.toml"
    config = _config(file, run) if file.is_file() else None
    if config is None and run.played is None:
        raise InvalidValue(f"{folder} has no config.toml, so {run.title!r} cannot be checked.")
    if config is not None:
        labels = [[entry.label for entry in config.algorithms], [a.label for a in run.algorithms]]
        if labels[0] != labels[1]:
            raise InvalidValue(
                f"{folder / 'privacy.json'} has the algorithms {', '.join(labels[1])}, but "
                f"config.toml has {', '.join(labels[0])}. {_advice(run)}"
            )
        _check_seeds(run, folder, config)
    complete = True
    for recorded in run.algorithms:
        again, seen = (_deployed(recorded), True) if config is None else _studied(recorded, config)
        complete = complete and seen
        found = first_difference(_compared(recorded), _compared(again))
        if found is not None:
            place, was, now = found
            raise InvalidValue(
                f"{folder / 'privacy.json'} is not the certificate of {recorded.label!r}: "
                f"{place} is {was}, but the recorded choices give {now}. {_advice(run)}"
            )
    return complete


def _check_seeds(run: RunRecord, folder: Path, config: StudyConfig) -> None:
    """Raise if the results have other labels, seeds or losses than the study and its record."""
    from hedgerow.studies.storage.finished import read_run

    finished = read_run(folder)
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    for recorded in run.algorithms:
        found, label = sorted(finished.regrets.get(recorded.label, ())), recorded.label
        if found != list(seeds):
            raise InvalidValue(
                f"{folder / 'results.parquet'} has {len(found)} seeds of {label!r}, but "
                f"config.toml has {len(seeds)}, from {seeds[0]} on. {_advice(run)}"
            )
        if recorded.losses not in (None, finished.losses.get(label)):
            raise InvalidValue(
                f"{folder / 'privacy.json'} and summary.json name other losses of {label!r}. "
                f"{_advice(run)}"
            )
    noise = seeded_noise(config.first_seed, config.seeds)
    if not run.noise.secure and run.noise != noise:
        raise InvalidValue(
            f"{folder / 'privacy.json'} says that the noise was {run.noise.words!r}, but "
            f"config.toml gives {noise.words!r}. {_advice(run)}"
        )


def _advice(run: RunRecord) -> str:
    if hash_of(PACKAGE)[0] != run.code.sha256:
        return "Other code wrote the run: use that version, or run it again."
    if any(algorithm.data == "recorded" for algorithm in run.algorithms):
        return "The file, or the data, were changed. Run it again."
    return "The file was changed. Run it again."


def _compared(record: AlgorithmRecord) -> dict[str, Any]:
    """What must agree; guarantees and mechanisms by name."""
    table = asdict(record)
    table["guarantees"] = _by_name(table["guarantees"], "observer")
    table["mechanisms"] = _by_name(table["mechanisms"], "purpose")
    return table


def _by_name(rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """Rows by name; the second of the same name is called `name #2`, and so on."""
    found: dict[str, Any] = {}
    for row in rows:
        same = sum(name.split(" #")[0] == row[key] for name in found)
        found[f"{row[key]} #{same + 1}" if same else row[key]] = row
    return found


def _config(file: Path, run: RunRecord) -> StudyConfig:
    try:
        return study_from_table(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, HedgerowError) as error:
        plugins = ", ".join(run.code.plugins)
        hint = f" The run used {plugins}: add --plugin FILE.py." if plugins else ""
        raise InvalidValue(f"Cannot rebuild the study of {file}: {error}{hint}") from error


def _studied(recorded: AlgorithmRecord, config: StudyConfig) -> tuple[AlgorithmRecord, bool]:
    """The record of an algorithm of a study, as it would be now; whether its data are there."""
    table = study_table(config)
    found = [
        (row, entry)
        for row, entry in zip(table["algorithms"], config.algorithms, strict=True)
        if entry.label == recorded.label
    ]
    if not found:
        raise InvalidValue(f"config.toml has no algorithm with the label {recorded.label!r}.")
    ((row, entry),) = found
    environment = config.environment_of(entry)
    choices = {key: value for key, value in row.items() if key not in ("label", "environment")}
    seen = True
    try:
        fresh = environment.traits.fresh
        built = config.build(entry)
        shown = not fresh and not environment.traits.sees_plays
        losses = environment.fingerprint() if shown else None
    except MissingData:  # the data have moved: the record has the size of the game, and its gaps
        seen, traits, losses = False, _traits(environment, recorded), recorded.losses
        fresh = traits.fresh
        built = entry.algorithm.build(_setting(recorded)).in_game(traits)
    again = algorithm_record(
        recorded.label,
        built,
        choices,
        "drawn" if fresh else "recorded",
        1 if fresh else config.seeds,
        row.get("environment", table["environment"]),
        losses,
    )
    return again, seen


def _traits(environment: Environment, recorded: AlgorithmRecord) -> Traits:
    """What the game shows; if only the data tell, what the record says that it shows."""
    try:
        return environment.traits
    except MissingData:
        guarantees = recorded.guarantees
        return Traits(
            features=frozenset(
                feature
                for feature, (assumption, narrower) in SHOWN_BY_THE_GAME.items()
                if any(assumption.name in one.assumes for one in guarantees)
                or (narrower and any(narrower in one.adjacency for one in guarantees))
            )
        )


def _deployed(recorded: AlgorithmRecord) -> AlgorithmRecord:
    """The record of a deployed learner, from the choices in its own record."""
    name = str(recorded.choices.get("name"))
    spec: AlgorithmSpec = typed(ALGORITHMS[name], spec_choices(recorded), name)
    gaps = (recorded.choices.get(name) is True for name in ("absent", "sleeping"))
    built: Algorithm = private_algorithm(spec, _setting(recorded), *gaps)
    return algorithm_record(recorded.label, built, recorded.choices, "real")


def _setting(recorded: AlgorithmRecord) -> Setting:
    size = recorded.setting
    family = family_of(size["family"], Model.stand_in) if "family" in size else LOSSES
    return Setting(
        size["clients"],
        size["experts"] if "experts" in size else size["coordinates"],
        size["horizon"],
        size.get("deciders"),
        family,
    )

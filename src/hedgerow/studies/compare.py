"""Compare run folders: regrets, their differences from the first run, and what else differs.

If a label saw the same losses in both runs, differences are paired seed by seed. Otherwise the two
samples count as independent (Welch). Each interval holds with 95 %; they do not hold jointly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.evaluation.statistics import Estimate, welch
from hedgerow.evaluation.summary import aligned, estimate_json, finite
from hedgerow.studies.config import PATH
from hedgerow.studies.storage.finished import FinishedRun, read_run
from hedgerow.studies.storage.identity import ADAPTIVE, flat_study_table, shown

FEWEST = 2
"""The least number of common seeds for a paired difference."""
HEADINGS = ("label", "run", "regret", "seeds", "difference from A", "times A", "interval")
NOTHING = ("-", "-", "-")
NO_CHANGES = "Nothing differs in configuration, privacy, code and versions."


@dataclass(frozen=True)
class Difference:
    """How much more regret a label has than in the first run.

    Parameters
    ----------
    mean
        The difference of the mean regrets. Positive: more regret than the first run.
    half_width
        The half-width of its 95 % interval; NaN for one seed.
    ratio
        The quotient of the mean regrets; None if the first is not positive.
    method
        Paired by seed, or Welch for independent samples.
    seeds
        The number of pairs, or the size of the smaller sample.
    """

    mean: float
    half_width: float
    ratio: float | None
    method: Literal["paired", "Welch"]
    seeds: int

    @property
    def estimate(self) -> Estimate:
        return Estimate(self.mean, self.half_width, self.seeds)

    def cells(self) -> tuple[str, str, str]:
        """The difference, the ratio and the kind of interval, as table cells."""
        if not isfinite(self.mean):
            return NOTHING
        ratio = "-" if self.ratio is None else f"{self.ratio:.3g}"
        method = (
            f"paired, {self.seeds} seed{'s' if self.seeds > 1 else ''}"
            if self.method == "paired"
            else "Welch"
        )
        interval = method if isfinite(self.half_width) else f"{method}: none, one seed"
        return self.estimate.words(sign=True), ratio, interval


@dataclass(frozen=True)
class Row:
    """One label in one run.

    `difference` is None in the first run, and for a label that the first run does not have.
    """

    label: str
    run: str
    regret: Estimate
    difference: Difference | None

    def cells(self) -> tuple[str, ...]:
        """One value for each of `HEADINGS`."""
        regret = str(self.regret) if isfinite(self.regret.mean) else "no comparator"
        difference = NOTHING if self.difference is None else self.difference.cells()
        return (self.label, self.run, regret, str(self.regret.count), *difference)


@dataclass(frozen=True, repr=False)
class Comparison:
    """A comparison of finished runs. Print it for the table.

    Parameters
    ----------
    names
        The folders by letter; A is the run the others are compared with.
    rows
        The regret of every label in every run, and its difference from A.
    changes
        What differs between the runs, by name, with one value for each run.
    notes
        What a reader must know, such as labels that did not see the same losses.
    """

    names: dict[str, str]
    rows: list[Row]
    changes: dict[str, list[Any]]
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `hedgerow compare --json` prints them."""
        return {
            "runs": self.names,
            "rows": [_row_table(row) for row in self.rows],
            "changes": {
                name: dict(zip(self.names, map(_plain, values), strict=True))
                for name, values in self.changes.items()
            },
            "notes": self.notes,
        }

    def change_lines(self) -> list[str]:
        """What differs between the runs, one line each."""
        return [
            f"{name}: "
            + "; ".join(f"{a} {_short(v)}" for a, v in zip(self.names, values, strict=True))
            for name, values in self.changes.items()
        ]

    def plot(self, path: str | Path) -> None:
        """Draw the regrets and their differences into a PNG file.

        The file appears only when it is complete.
        """
        from hedgerow.evaluation.plots.comparison import plot_comparison

        regrets: dict[str, dict[str, Estimate]] = {}
        differences: dict[str, dict[str, Estimate]] = {}
        for row in self.rows:
            regrets.setdefault(row.label, {})[row.run] = row.regret
            away = differences.setdefault(row.label, {})
            if row.difference is not None:
                away[row.run] = row.difference.estimate
        picture = Path(path)
        draft = picture.with_name(f".{picture.name}.draft")
        try:
            picture.parent.mkdir(parents=True, exist_ok=True)
            plot_comparison(self.names, regrets, differences, draft)
            draft.replace(picture)
        except OSError as error:
            raise InvalidValue(f"Cannot write to {picture}: {error.strerror}.") from error
        finally:
            with suppress(OSError):
                draft.unlink()

    def __str__(self) -> str:
        runs = [f"{letter} = {name}" for letter, name in self.names.items()]
        table = aligned([HEADINGS, *(row.cells() for row in self.rows)])
        changes = (
            ["What differs:", *(f"  {line}" for line in self.change_lines())]
            if self.changes
            else [NO_CHANGES]
        )
        return "\n".join([*runs, table, *(f"Note: {note}" for note in self.notes), *changes])

    def __repr__(self) -> str:
        return str(self)


def compare(folders: Sequence[str | Path]) -> Comparison:
    """Compare finished runs: regrets, their differences from the first run, and what else differs.

    Parameters
    ----------
    folders
        Two or more run folders; the others are compared with the first.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.compare(["runs/before"])
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: There is no run folder at runs/before. ...
    """
    if not isinstance(folders, list | tuple):
        given = folders if isinstance(folders, str | Path) else type(folders).__name__
        raise InvalidValue(
            f"Expected a list of run folders, which `hedgerow run` writes, got {given}."
        )
    return compare_runs([read_run(Path(folder)) for folder in folders])


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else shown(value)


def _plain(value: Any) -> Any:
    return finite(value) if isinstance(value, float) else value


def _row_table(row: Row) -> dict[str, Any]:
    away = row.difference
    how = (
        None
        if away is None
        else {**estimate_json(away.estimate), "ratio": away.ratio, "method": away.method}
    )
    return {
        "label": row.label,
        "run": row.run,
        "regret": estimate_json(row.regret),
        "difference": how,
    }


def _ratio(over: float, under: float) -> float | None:
    return over / under if under > 0 and isfinite(over) else None


def paired_difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """The difference second minus first, pair by pair.

    >>> paired_difference([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])
    Difference(mean=1.0, half_width=0.0, ratio=1.5, method='paired', seeds=3)
    """
    one, other = np.asarray(first, float), np.asarray(second, float)
    estimate = Estimate.of(other - one)
    return Difference(
        estimate.mean,
        estimate.half_width,
        _ratio(float(other.mean()), float(one.mean())),
        "paired",
        len(one),
    )


def unpaired_difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """The difference second minus first of independent samples with unequal variances."""
    one, other = Estimate.of(first), Estimate.of(second)
    found = welch(other, one)
    return Difference(
        found.mean, found.half_width, _ratio(other.mean, one.mean), "Welch", found.count
    )


def regret_difference(first: FinishedRun, other: FinishedRun, label: str) -> Difference:
    """The regret of a label in `other` minus that in `first`; paired if losses are the same."""
    before, after = first.regrets[label], other.regrets[label]
    common = sorted(before.keys() & after.keys())
    if _share_losses(first, other, label, label) and len(common) >= FEWEST:
        return paired_difference([before[s] for s in common], [after[s] for s in common])
    return unpaired_difference(list(before.values()), list(after.values()))


def compare_runs(runs: Sequence[FinishedRun]) -> Comparison:
    """Compare two or more runs with the first of them."""
    if not 2 <= len(runs) <= len(ascii_uppercase):
        raise InvalidValue(
            f"Expected 2 to {len(ascii_uppercase)} run folders to compare, got {len(runs)}."
        )
    for one, other in combinations(runs, 2):
        if one.path.resolve() == other.path.resolve():
            raise InvalidValue(f"{one.path} is given twice. Name each run folder once.")
    letters = ascii_uppercase[: len(runs)]
    labels = list(dict.fromkeys(label for run in runs for label in run.regrets))
    rows = []
    for label in labels:
        for letter, run in zip(letters, runs, strict=True):
            if label in run.regrets:
                against = (
                    regret_difference(runs[0], run, label)
                    if run is not runs[0] and label in runs[0].regrets
                    else None
                )
                rows.append(
                    Row(label, letter, Estimate.of(list(run.regrets[label].values())), against)
                )
    names = {letter: str(run.path) for letter, run in zip(letters, runs, strict=True)}
    return Comparison(names, rows, changes_between_runs(runs), _notes(runs, letters))


def _notes(runs: Sequence[FinishedRun], letters: str) -> list[str]:
    first, notes = runs[0], []
    for letter, run in zip(letters[1:], runs[1:], strict=True):
        common = [label for label in first.regrets if label in run.regrets]
        if not common:
            notes.append(
                f"A and {letter} have no label in common, so there is no difference to show."
            )
        if not any(
            _share_losses(first, run, one, other) for one in first.regrets for other in run.regrets
        ):
            notes.append(
                f"A and {letter} have no losses in common: "
                "their regrets are not on the same streams."
            )
            continue
        apart = [label for label in common if not _share_losses(first, run, label, label)]
        if apart:
            notes.append(f"Not on the same streams in A and {letter}: {', '.join(apart)}.")
        few = [
            c
            for c in common
            if c not in apart and len(first.regrets[c].keys() & run.regrets[c].keys()) < FEWEST
        ]
        if few:
            notes.append(
                f"Fewer than {FEWEST} common seeds in A and {letter}, so not paired: "
                f"{', '.join(few)}."
            )
        if any(
            np.isnan(list(r.regrets[label].values())).any()
            for label in common
            for r in (first, run)
        ):
            notes.append(f"Some regrets in A or {letter} have no comparator and are not shown.")
    return notes


def _share_losses(one: FinishedRun, other: FinishedRun, label: str, another: str) -> bool:
    """Whether these labels saw the same losses in two runs.

    That needs equal environments, equal fingerprints, and losses that do not depend on the plays.
    The same file may have two paths.
    """
    same = _without_paths(one.environment(label)) == _without_paths(other.environment(another))
    return same and one.losses[label] == other.losses[another] != ADAPTIVE


def _without_paths(environment: Mapping[str, Any]) -> dict[str, Any]:
    """An environment without the paths of its data; the fingerprint says whether these differ."""
    return {
        name: value for name, value in flat_study_table(environment).items() if not _is_path(name)
    }


def _is_path(name: str) -> bool:
    return name.rsplit(".", maxsplit=1)[-1].rsplit(" ", maxsplit=1)[-1] == PATH


def changes_between_runs(runs: Sequence[FinishedRun]) -> dict[str, list[Any]]:
    """What differs between the runs: configuration, losses, privacy, code and versions.

    Titles are not compared.
    """
    labels = list(dict.fromkeys(label for run in runs for label in run.regrets))
    common = [label for label in labels if all(label in run.regrets for run in runs)]
    tables = [_described(run, common) for run in runs]
    for label in labels:
        if label not in common:
            for run, table in zip(runs, tables, strict=True):
                table[f"label {label!r}"] = "there" if label in run.regrets else "not there"
        elif all(
            _without_paths(run.environment(label)) == _without_paths(runs[0].environment(label))
            for run in runs
        ):  # in different environments the losses differ anyway
            for run, table in zip(runs, tables, strict=True):
                table[f"{label}: losses"] = run.losses[label]
    moved = bool(common) and all(
        _share_losses(runs[0], run, label, label) for run in runs for label in common
    )
    names = [
        name
        for name in dict.fromkeys(name for table in tables for name in table)
        if not (moved and _is_path(name))  # the same data, elsewhere
    ]
    found = {name: [table.get(name) for table in tables] for name in names}
    return {
        name: values
        for name, values in found.items()
        if any(value != values[0] for value in values[1:])
    }


def _described(run: FinishedRun, labels: Sequence[str]) -> dict[str, Any]:
    """Everything that is compared of a run and of these labels, by the name shown to the user."""
    first, last = run.config["first_seed"], run.config["first_seed"] + run.config["seeds"] - 1
    common = run.config["environment"]
    values: dict[str, Any] = {"seeds": f"{first} to {last}", "engine": run.config["engine"]}
    values |= {f"environment {name}": value for name, value in flat_study_table(common).items()}
    for record in run.record.algorithms:
        label = record.label
        if label not in labels:
            continue
        values |= {
            f"{label}: {name}": value
            for name, value in flat_study_table(run.algorithm(label)).items()
        }
        values |= {
            f"{label}: environment {name}": v
            for name, v in flat_study_table(run.environment(label)).items()
            if v != common.get(name)
        }
        for guarantee in record.guarantees:
            values[f"{label}: privacy against {guarantee.observer}"] = (
                "none" if guarantee.curve is None else guarantee.curve.words
            )
    values["code"] = run.record.code.sha256
    values |= {f"plugin {name}": value for name, value in run.record.code.plugins.items()}
    return values | {f"version of {name}": value for name, value in run.record.versions.items()}

"""A client's own CSV or Parquet file, played as the manifest of its study says.

The manifest names the columns, what a round is and what losses are. So a file of another client
with the same columns means the same, and one that lacks a column is refused by name before
anything is sent. A file may grow while the study goes on, and so may a folder of files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import date, timedelta
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hedgerow.core.combination import PublicForecasts
from hedgerow.core.environment import Feature
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.people import identified
from hedgerow.core.units import Person
from hedgerow.core.validate import at_least
from hedgerow.deployment.logs import log
from hedgerow.environments.recorded.combining import LARGEST_TARGET
from hedgerow.environments.recorded.forecasts import check_loss, forecast_losses
from hedgerow.environments.recorded.table import (
    ColumnError,
    coded,
    line,
    number_column,
    read_table,
    require_columns,
)
from hedgerow.records.plain import typed

if TYPE_CHECKING:
    from hedgerow.deployment.learner import ClientLearner
    from hedgerow.deployment.manifest import Manifest

SHOWN = frozenset({Feature.ABSENT_CLIENTS, Feature.SOME_REPORT, Feature.SLEEPING_EXPERTS})
SAME = "Rename the column: the study says what it is called in the files of all clients."
KINDS = (".csv", ".gz", ".parquet", ".pq")
LONGEST_FORECASTS = 2.0**20
COMBINED = (
    f"Combination(of=AbsoluteError(feature_norm={LONGEST_FORECASTS}, target={LARGEST_TARGET}))"
)


@dataclass(frozen=True)
class FileForm:
    """What the file of every client has, beside a column for each expert.

    Parameters
    ----------
    round
        The column of rounds: dates, or whole numbers.
    first
        The first round: a date such as 2026-01-03, or a whole number.
    step
        Days from one round to the next, or 1 for numbers in order. Default 1.
    target
        The column with what came true; the columns of experts have their forecasts. None (default):
        they have losses in [0, 1].
    loss, largest_error, quantile
        With a target, where one expert is followed: the losses, as in `hr.Forecasts`.
    scale
        Where forecasts are combined: what errors are divided by, a number or a column. Default 1.
    person
        The column with the person of each row. A round then has any number of rows, and its losses
        are their mean; a round without rows counts as losses of 0. None (default): one row each.

    Examples
    --------
    >>> form = FileForm("date", "2026-01-03", step=7, target="seen", largest_error=50.0)
    >>> form.name_of(2)
    '2026-01-17'
    """

    round: str
    first: str
    step: int = 1
    target: str | None = None
    loss: str = "absolute"
    largest_error: float | None = None
    quantile: float = 0.5
    scale: float | str = 1.0
    person: str | None = None

    def __post_init__(self) -> None:
        at_least("step", self.step, 1)
        _ = self._start
        if not isinstance(self.scale, str) and not 0 < self.scale < np.inf:
            raise InvalidValue(f"Expected scale={self.scale!r} to be a finite number > 0.")

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Self:
        """A form from plain values, such as the table [file] of a study file."""
        given = dict(table)
        if isinstance(given.get("first"), date | int):
            given["first"] = str(given["first"])
        for name in ("largest_error", "scale"):
            if isinstance(given.get(name), int):
                given[name] = float(given[name])
        return typed(cls, given, "file")

    def to_dict(self) -> dict[str, Any]:
        """The plain values of what is not at its default."""
        usual = {f.name: f.default for f in fields(self)}
        return {name: value for name, value in asdict(self).items() if value != usual[name]}

    @cached_property
    def _start(self) -> date | int:
        try:
            return int(self.first) if self.first.isdecimal() else date.fromisoformat(self.first)
        except ValueError:
            raise InvalidValue(
                f"Expected first={self.first!r} to be a date such as 2026-01-03, or a whole number."
            ) from None

    def name_of(self, number: int) -> str:
        """What a round is called in files."""
        if isinstance(self._start, int):
            return str(self._start + self.step * number)
        return str(self._start + timedelta(days=self.step * number))

    def number_of(self, name: str) -> int:
        """The round that files call by this name.

        >>> FileForm("date", "2026-01-03", step=7).number_of("2026-01-17")
        2
        """
        try:
            when = int(name) if isinstance(self._start, int) else date.fromisoformat(name)
            away = when - self._start  # type: ignore[operator]
            number, rest = divmod(away if isinstance(away, int) else away.days, self.step)
        except ValueError:
            number, rest = -1, 0
        if number < 0 or rest:
            raise InvalidValue(
                f"{name!r} is no round of this study: they are called {self.name_of(0)}, "
                f"{self.name_of(1)} and so on."
            )
        return number

    def words(self, combined: bool) -> list[str]:
        """The form in a few lines, for a person who decides whether to join."""
        days = "every day" if self.step == 1 else f"every {self.step} days"
        every = "" if isinstance(self._start, int) else f", {days}"
        what = "a row of" if self.person is None else "all rows with one value in"
        lines = [f"a round is {what} column {self.round!r}, from {self.first}{every}"]
        if self.person is not None:
            lines.append(
                f"a row is of the person in column {self.person!r}, whose id stays at the client; "
                "losses of a round are the mean of its rows"
            )
        if self.target is None:
            return [*lines, "the file has losses in [0, 1]"]
        if combined:
            unit = self.scale if isinstance(self.scale, float) else f"column {self.scale!r}"
            return [
                *lines,
                f"forecasts of {self.target!r} are combined; errors are divided by {unit}",
            ]
        size = "" if self.largest_error is None else f", divided by {self.largest_error:g}"
        return [*lines, f"a loss is the {self.loss} error of a forecast of {self.target!r}{size}"]

    def check(
        self, names: Sequence[str] | None, combined: bool, plays: frozenset[Feature] = frozenset()
    ) -> None:
        """Refuse a form that does not fit the game."""
        if self.person is not None and (combined or plays & SHOWN):
            raise InvalidValue(
                f"Leave out the column person={self.person!r}, or absent and reporting clients, "
                "sleeping experts and combined forecasts: a round in which a client is missing "
                "would show when a person was there."
            )
        if names is None:
            raise InvalidValue(
                f"Expected names={names!r} to name the columns of the experts, in order."
            )
        if combined:
            if self.target is None:
                raise InvalidValue("Expected target=None to name the column that came true.")
        elif self.target is not None:
            check_loss(self.loss, self.largest_error, self.quantile)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Row:
    """One round in the file; a `record` of None: the target is not known yet.

    `people` are the ids of those that it is about, where the file names them.
    """

    given: Array
    awake: np.ndarray | None
    record: Array | None
    people: tuple[str, ...] | None = None


class OwnFile:
    """The file of one client, or a folder of files.

    Parameters
    ----------
    path
        The file, or a folder with CSV and Parquet files that have the same columns.
    manifest
        The manifest of the study, which says what is in it.
    through
        Where rows name persons: the last round that is over, by its name. Rows of later rounds are
        not read, and rounds up to it count as losses of 0 if they have no rows. It must be chosen
        without looking at the rows, because others see in how many rounds this client takes part.
    """

    def __init__(self, path: Path, manifest: Manifest, through: str | None = None) -> None:
        form = manifest.setting.get("file")
        if form is None:
            raise InvalidValue(
                f"The manifest of {manifest.title!r} does not say what a file has: its study file "
                "needs a table [file]. Report losses as JSON lines, without --csv."
            )
        self.path, self.form = path, FileForm.read(form)
        self.names: tuple[str, ...] = tuple(manifest.setting["names"])
        self.family, self.plays = manifest.family, manifest.plays
        self.combined = isinstance(self.family, PublicForecasts)
        if through is not None and self.form.person is None:
            raise InvalidValue("--through is for files whose rows name persons. Leave it out.")
        self.through = None if through is None else self.form.number_of(through)
        self._rows: dict[str, Row] = {}
        self.read()

    def read(self) -> None:
        """Read all files; a missing column, a text or a second row of a round is refused."""
        self.notes: tuple[str, ...] = ()
        rows: dict[str, Row] = {}
        several: dict[str, list[Row]] = {}
        for file in files_at(self.path):
            for at, (name, row) in enumerate(self._rows_of(file)):
                if self.form.person is not None:
                    several.setdefault(name, []).append(row)
                    continue
                if name in rows:
                    where = line(at, file).capitalize()
                    raise InvalidValue(f"{where} of {file} repeats the round of another row.")
                rows[name] = row
        self._rows = rows | {name: _of_people(found) for name, found in several.items()}

    def _rows_of(self, file: Path) -> Iterator[tuple[str, Row]]:
        form, table = self.form, read_table(file, self.form.person)
        roles = {"round": form.round}
        roles |= {} if form.target is None else {"target": form.target}
        roles |= {"scale": form.scale} if isinstance(form.scale, str) else {}
        roles |= {} if form.person is None else {"person": form.person}
        try:
            require_columns(table, roles, file, self.names)
        except ColumnError as error:
            raise InvalidValue(f"{error.text} {SAME}") from None
        given = np.stack([number_column(table, name, file) for name in self.names], axis=-1)
        rounds = [_text(one) for one in table[form.round].tolist()]
        target = None if form.target is None else number_column(table, form.target, file)
        self.notes += () if target is None else coded(target)
        scale = np.full(len(given), 1.0 if isinstance(form.scale, str) else form.scale)
        if isinstance(form.scale, str):
            scale = number_column(table, form.scale, file)
        people = None if form.person is None else ids_of(table, form.person, file)
        over = {form.name_of(number) for number in range((self.through or 0) + 1)}
        for at, name in enumerate(rounds):
            if people is not None:
                if self.through is not None and name not in over:
                    continue
                known = None if target is None else target[at]
                row = self._followed(given[at], known, at, file)
                if row.record is None:
                    raise InvalidValue(
                        f"{line(at, file).capitalize()} of {file} is not whole. A round that is "
                        "over must not wait for one person: fill it in, or leave out the row."
                    )
                yield name, replace(row, people=(people[at],))
            elif self.combined:
                assert target is not None
                yield name, self._combined(given[at], target[at], scale[at], at, file)
            else:
                yield (
                    name,
                    self._followed(given[at], None if target is None else target[at], at, file),
                )

    def _combined(self, given: Array, target: float, scale: float, at: int, file: Path) -> Row:
        there = ~np.isnan(given)
        if not there.any():
            return Row(given, None, None)
        if not scale > 0:
            where = line(at, file)
            raise InvalidValue(f"Expected a scale > 0 in {where} of {file}.")
        filled = np.where(there, given, np.median(given[there]))
        if np.isnan(target):
            return Row(filled, None, None)
        centre = filled.mean()
        seen = np.clip((target - centre) / scale, -LARGEST_TARGET, LARGEST_TARGET)
        return Row(filled, None, np.append((filled - centre) / scale, seen))

    def _followed(self, given: Array, target: float | None, at: int, file: Path) -> Row:
        there, form = ~np.isnan(given), self.form
        if there.any() and not there.all() and Feature.SLEEPING_EXPERTS not in self.plays:
            missing = self.names[int(there.argmin())]
            raise InvalidValue(
                f"{line(at, file).capitalize()} of {file} has no value in column {missing!r}, and "
                "in this study no expert may sleep. Fill it in, or leave out the row."
            )
        awake = None if there.all() or not there.any() else there
        if not there.any() or (target is not None and np.isnan(target)):
            return Row(given, awake, None)
        losses = given
        if target is not None:
            choices: Any = {"largest_error": form.largest_error, "quantile": form.quantile}
            losses, _ = forecast_losses(given, target, loss=form.loss, **choices)  # type: ignore[arg-type]
        if not ((losses >= 0) & (losses <= 1))[there].all():
            raise InvalidValue(f"A loss in {line(at, file)} of {file} lies outside [0, 1].")
        return Row(given, awake, np.where(there, losses, 0.0))

    @property
    def comes_first(self) -> bool:
        """Whether the row of a round is needed to play it: for forecasts, and for who is awake."""
        return self.combined or Feature.SLEEPING_EXPERTS in self.plays

    def row(self, number: int) -> Row | None:
        """The row of a round; None: there is none. Without people its losses are 0."""
        found = self._rows.get(self.form.name_of(number))
        if found is None and self.form.person is not None and self.is_past(number):
            nothing = np.zeros(len(self.names))
            return Row(nothing, None, nothing, ())
        return found

    def is_past(self, number: int) -> bool:
        """Whether a round is over: a later one has a target, or it is no later than `through`."""
        if self.form.person is not None:
            return self.through is not None and number <= self.through
        later = (self._rows.get(self.form.name_of(at)) for at in range(number + 1, number + 1000))
        return any(row is not None and row.record is not None for row in later)


@dataclass(frozen=True)
class Count:
    """How many rows and people a file has, and the most rounds of one person."""

    rows: int
    people: int
    rounds: int
    apart: int

    @property
    def unit(self) -> Person:
        """The unit that covers everybody."""
        return Person(self.rounds, apart=self.apart if self.rounds > 1 else 1)


def counted(path: Path, person: str, rounds: str) -> Count:
    """Count the people behind the rows of a file or of a folder of files; rounds are in order."""
    rows: list[tuple[str, str]] = []
    for file in files_at(path):
        table = read_table(file, person)
        require_columns(table, {"round": rounds, "person": person}, file)
        ids = ids_of(table, person, file)
        rows += zip(map(_text, table[rounds].tolist()), ids, strict=True)
    order = {when: at for at, when in enumerate(sorted({when for when, _ in rows}, key=_in_order))}
    seen: dict[str, set[int]] = {}
    for when, who in rows:
        seen.setdefault(who, set()).add(order[when])
    gaps = [b - a for each in seen.values() for a, b in pairwise(sorted(each))]
    most = max((len(each) for each in seen.values()), default=1)
    return Count(len(rows), len(seen), most, min(gaps, default=1))


def _in_order(when: str) -> tuple[int, str]:
    """Numbers by size, dates and texts as they are written."""
    return (int(when), "") if when.isdecimal() else (0, when)


def files_at(path: Path) -> list[Path]:
    """The file, or the CSV and Parquet files in a folder."""
    found = [path]
    if path.is_dir():
        found = sorted(one for one in path.iterdir() if one.suffix in KINDS)
    if not found or not all(one.is_file() for one in found):
        raise InvalidValue(f"There is no CSV or Parquet file at {path}.")
    return found


def ids_of(table: Mapping[str, Any], column: str, file: Any) -> list[str]:
    """The people of all rows; an empty cell is refused, and no error shows an id."""
    found: list[str] = []
    for at, who in enumerate(np.asarray(table[column]).tolist()):
        whole = isinstance(who, float) and who.is_integer()  # a column of numbers with a gap
        if who is None or (isinstance(who, float) and not whole) or not str(who).strip():
            raise InvalidValue(
                f"{line(at, file).capitalize()} of {file} names no person in column {column!r}, as "
                "a whole number or a text. Fill it in, or leave out the row."
            )
        found.append(identified(int(who) if isinstance(who, float) else who))
    return found


def _of_people(rows: Sequence[Row]) -> Row:
    """One round of several rows: the mean of their losses, if all are known."""
    people = tuple(sorted({who for row in rows for who in row.people or ()}))
    records = [row.record for row in rows]
    known = [record for record in records if record is not None]
    mean = np.mean(known, axis=0) if len(known) == len(records) else None
    return Row(rows[0].given, None, mean, people)


def _text(when: Any) -> str:
    """A round as a manifest writes it: a date without a time, or a number."""
    return str(when).partition(" ")[0].partition("T")[0]


def play_file(
    learner: ClientLearner,
    file: OwnFile,
    say: Callable[[str], None],
    every: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Play the rounds of a file, and say what to follow in each; return whether the game is over.

    `say` gets lines of CSV: the round, then the expert to follow, or the combined forecast and its
    weights. With `every`, the file is read again after that many seconds where a row is missing;
    without it, the play of the next round is said and this returns.
    """
    form, number = file.form, learner.round
    if form.person is not None and file.through is None:
        raise InvalidValue(
            f"Rows of {file.path} name persons, so which rounds are over must not depend on them. "
            f"Give the last one that is over, such as --through {form.name_of(number)}."
        )
    if form.person is not None and every is not None:
        raise InvalidValue(
            "With --every it would show when a person's row arrives. Start the command again with "
            "a later --through when more rounds are over."
        )
    weights = [f"weight of {name}" for name in file.names]
    say(",".join(["round", "forecast", *weights] if file.combined else ["round", "follow"]))

    def wait(target: bool) -> Row | None:
        """The row of the round, with its target or without; as it is, if nobody waits."""
        while every is not None and not file.is_past(number):
            row = file.row(number)
            if row is not None and (row.record is not None or not target):
                break
            sleep(every)
            file.read()
        return file.row(number)

    while not learner.over:
        number = learner.round
        row = wait(target=False) if file.comes_first else file.row(number)
        if row is None and file.comes_first and not file.is_past(number):
            return False
        play = learner.predict(None if row is None else row.awake)
        if learner.round != number:
            missed, go_on = form.name_of(number), form.name_of(learner.round)
            log("rounds were over without this client", first=missed, next=go_on)
            continue
        if row is not None or not file.combined:
            say(",".join([form.name_of(number), *_said(file, row, play)]))
        row = wait(target=True)
        if row is not None and row.record is not None:
            about = f"{learner.client.account.name}, {form.name_of(number)}"
            learner.observe(
                number, row.record, about=about if file.combined else None, people=row.people
            )
        elif not file.is_past(number):
            return False
        elif Feature.ABSENT_CLIENTS in file.plays:
            learner.observe(number, None)
        else:
            raise InvalidValue(
                f"{file.path} has no whole row for {form.name_of(number)}, and in this study no "
                "client may be absent. Fill the row in."
            )
    learner.finish()
    return True


def _said(file: OwnFile, row: Row | None, play: np.ndarray) -> list[str]:
    if not file.combined:
        return [file.names[int(play)]]
    assert row is not None
    return [f"{float(play @ row.given):.10g}", *(f"{weight:.4f}" for weight in play)]

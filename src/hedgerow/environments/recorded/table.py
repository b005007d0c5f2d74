"""Tables of recorded data: one row for each round and client, in any order of rows.

Cells may be private, and errors end up in logs: an error names the file, the row, the column and
what is wrong, and shows no cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from math import isnan
from operator import index
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.extras import needs
from hedgerow.core.lattice import Array
from hedgerow.environments.recorded.data import find

Missing = Literal["absent"] | None
RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns?, got (\d+)")
"""What pyarrow says of a row with other cells than the heading."""
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
FEW = 10  # rows that show nothing yet
ALL = (
    "Every algorithm here needs the losses of all experts, also of those that were not followed. "
    "If only the outcome of the followed one is known, there is nothing to compare."
)
CODES = (-99.0, -999.0, -9999.0)  # that often stand for missing values
DECLARE = 'For gaps, declare missing = "absent".'


class Frame:
    """A DataFrame of the caller, read like a file; errors call it "the DataFrame".

    Pandas, polars and all others with the dataframe interchange (or Arrow's) can be read.

    >>> import pyarrow
    >>> read_table(Frame(pyarrow.table({"round": [0, 1]})))["round"].tolist()
    [0, 1]
    """

    def __init__(self, data: Any) -> None:
        with needs("runs"):
            import pyarrow as pa
            from pyarrow import interchange

        try:
            direct = hasattr(data, "__arrow_c_stream__") or isinstance(data, pa.Table)
            self.table = pa.table(data) if direct else interchange.from_dataframe(data)
        except (pa.ArrowInvalid, TypeError, ValueError, AttributeError, NotImplementedError):
            raise InvalidValue(
                "The DataFrame cannot be read. Give each column one type: numbers, dates or texts."
            ) from None  # its text may quote a cell

    def __str__(self) -> str:
        return "the DataFrame"

    __repr__ = __str__


Source = Path | Frame
"""Where a table comes from."""


def is_frame(thing: object) -> bool:
    """Whether this is a DataFrame."""
    return hasattr(thing, "__dataframe__") or hasattr(thing, "__arrow_c_stream__")


def source_of(path: Any) -> Source:
    """The file that a path names, or the DataFrame itself."""
    return path if isinstance(path, Frame) else find(path, here=True)


@dataclass(frozen=True, eq=False)
class Gaps:
    """Who and what is missing in recorded data; None: nothing.

    `present` (rounds, clients) marks the clients that have a case, `awake` (rounds, clients,
    experts) the experts that can be followed. Both are public (`proofs/masks.md`).
    """

    present: np.ndarray | None = None
    awake: np.ndarray | None = None


NO_GAPS = Gaps()


def split(values: Array, empty: str = "There is no value.") -> tuple[Array, Gaps]:
    """Return the values (rounds, clients, experts) with zeros for NaN, and where the gaps are.

    A client without any value in a round is absent. An expert without a value at a present client
    sleeps there. `empty` is the error if there is no value at all.

    >>> values, gaps = split(np.array([[[0.5, np.nan], [np.nan, np.nan]]]))
    >>> values.tolist(), gaps.present.tolist(), gaps.awake.tolist()
    ([[[0.5, 0.0], [0.0, 0.0]]], [[True, False]], [[[True, False], [True, True]]])
    """
    missing = np.isnan(values)
    if not missing.any():
        return values, NO_GAPS
    present = np.asarray(~missing.all(axis=-1))
    if not present.any():
        raise InvalidValue(empty)
    known = (~missing).sum(axis=-1)[present]
    if values.shape[-1] > 1 and len(known) >= FEW and (known == 1).all():
        raise InvalidValue(f"In every round, each client has the loss of one expert only. {ALL}")
    awake = ~missing | ~present[..., None]
    return np.where(missing, 0.0, values), Gaps(
        None if present.all() else present, None if awake.all() else awake
    )


def _refuse_other_text(path: Path) -> None:
    """Raise if a CSV file separates columns by semicolons or is not UTF-8; no cell is shown."""
    with suppress(OSError), path.open("rb") as file:
        start = file.readline(2**16)
        if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InvalidValue(f"{path} is UTF-16 text. Save it as UTF-8.")
        if start.count(b";") > start.count(b","):
            raise InvalidValue(
                f"{path} separates columns by semicolons. Save it with commas between columns, and "
                "points in numbers."
            )


def read_table(path: Source, text: str | None = None) -> dict[str, Any]:
    """Return the columns of a CSV or Parquet file, or of a DataFrame, by name.

    The column `text` of a CSV file is read as it is written: 007 stays "007".
    """
    with needs("runs"):
        import pyarrow as pa
        from pyarrow import csv, parquet

    try:
        if isinstance(path, Frame):
            table = path.table
        elif _is_parquet(path):
            table = parquet.read_table(path)
        elif path.suffix in (".csv", ".gz"):
            if path.suffix == ".csv":
                _refuse_other_text(path)
            # one thread: only then does an error know its line
            given = csv.ReadOptions(use_threads=False)
            kinds = {} if text is None else {text: pa.string()}
            kept = csv.ConvertOptions(column_types=kinds, strings_can_be_null=bool(kinds))
            table = csv.read_csv(path, given, convert_options=kept)
        else:
            raise InvalidValue(f"Expected a .csv, .csv.gz or .parquet file, got {path}.")
        names = table.column_names
    except UnicodeDecodeError:
        raise InvalidValue(f"Expected UTF-8 text in {path}; save the file as UTF-8.") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise unreadable(path, error) from None  # its text may quote a whole row
    for at, name in enumerate(names):  # in a file without a heading, a name is a private cell
        if name in names[:at]:
            raise InvalidValue(
                f"Columns {names.index(name) + 1} and {at + 1} of {path} have the same name. "
                "Rename or remove one."
            )
        if pa.types.is_binary(table.schema.field(at).type):
            raise InvalidValue(
                f"Expected UTF-8 text in column {at + 1} of {path}; save the file as UTF-8."
            )
    return {
        name: np.full(len(table), np.nan)  # no cell has a value
        if pa.types.is_null(table.schema.field(name).type)
        else table[name].to_numpy()
        for name in table.column_names
    }


def filled_in(values: Array) -> bool:
    """Whether all but one loss of every row are the same constant, as if they were filled in.

    >>> filled_in(np.tile([[0.3, 0.5, 0.5], [0.5, 0.5, 0.9]], (5, 1)))
    True
    >>> filled_in(np.tile([[0.3, 0.4, 0.5], [0.5, 0.5, 0.9]], (5, 1)))
    False
    """
    rows = values.reshape(-1, values.shape[-1])
    if rows.shape[1] < 3 or len(rows) < FEW:
        return False
    found, counts = np.unique(rows, return_counts=True)
    other = rows != found[counts.argmax()]
    return bool((other.sum(axis=1) <= 1).all() and other.any(axis=0).sum() > 1)


def unreadable(path: Source, error: Exception) -> HedgerowError:
    """The error for a table that cannot be read, without the text of the original one."""
    found = RAGGED.search(str(error))
    if found is not None:
        row, expected, got = found.groups()
        where = "A line" if row is None else f"Line {row}"
        return HedgerowError(
            f"Cannot read {path}: {where} has {got} cell{'s' * (got != '1')}, but the heading has "
            f"{expected}. Columns are separated by commas."
        )
    if isinstance(error, OSError) and error.strerror:
        return HedgerowError(f"Cannot read {path}: {error.strerror}.")
    empty = "Empty CSV" in str(error)
    kind = "a Parquet file" if _is_parquet(path) else "a CSV file in UTF-8"
    return HedgerowError(
        f"Cannot read {path}: {'it is empty' if empty else f'it is damaged, or not {kind}'}."
    )


class ColumnError(InvalidValue):
    """A column is missing or has text in it.

    `text` says what is wrong, `hint` what to do in Python or in a study file, and `option` what to
    do on the command line.
    """

    def __init__(self, text: str, hint: str = "", option: str = "") -> None:
        super().__init__(f"{text} {hint}".rstrip())
        self.text, self.option = text, option


def forecasters(table: dict[str, Any], roles: dict[str, str]) -> dict[str, str]:
    """What to do about a column of text among those of forecasts: `hint` and `option`."""
    fit = [name for name in table if name not in roles.values() and table[name].dtype.kind in "iuf"]
    say = "Name the columns with forecasts:"
    return {"hint": f"{say} experts = {fit}.", "option": f"{say} --models {','.join(fit)}"}


def coded(targets: Array) -> tuple[str, ...]:
    """Say how many targets look like a code for a gap.

    >>> coded(np.array([1.0, -999.0, -999.0]))
    ('2 targets are -999, which often means that a value is missing: leave such cells empty',)
    """
    counts = {code: int((targets == code).sum()) for code in CODES}
    return tuple(
        f"{count:,} {'target is' if count == 1 else 'targets are'} {code:g}, which often means "
        "that a value is missing: leave such cells empty"
        for code, count in counts.items()
        if count
    )


def require_columns(
    table: dict[str, Any], roles: dict[str, str], path: Source, others: Iterable[str] = ()
) -> None:
    """Raise unless the table has these columns, and no column has two roles.

    `roles` are the names of columns by the parameter that sets them.
    """
    columns = list(roles.values())
    for name in columns:
        if columns.count(name) != 1:
            raise InvalidValue(f"Expected column={name!r} to have one role only.")
    commas = "" if _is_parquet(path) else " (columns are separated by commas)"
    found = f"in {path}{commas}, found {headings(table)}"
    for role, column in roles.items():
        if column not in table:
            rename = "Rename a column, or name it with"
            raise ColumnError(
                f"Expected a column {column!r} {found}.",
                f'{rename} {role} = "...".',
                f"{rename} --{role} COLUMN.",
            )
    for column in others:
        if column not in table:
            raise ColumnError(f"Expected a column {column!r} {found}.")


def headings(table: dict[str, Any]) -> str:
    """The names of the columns; not if they are the cells of a file without a heading.

    Each row has a round, which is a number or a date, so each heading that is a row shows one.

    >>> headings({"round": 0, "b": 0}), headings({"2026-01-31": 0, "north": 0})
    ("'round', 'b'", 'a first line that is a row of data: put a line with names above it')
    """
    if any(_is_number(name) or _is_date(name) for name in table):
        return "a first line that is a row of data: put a line with names above it"
    return ", ".join(map(repr, table))


def _is_iso(value: object) -> bool:
    return isinstance(value, str) and ISO_DATE.match(value) is not None


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_parquet(path: Source) -> bool:
    return isinstance(path, Frame) or path.suffix in (".parquet", ".pq")


def line(row: int, path: Source) -> str:
    """Where the row with this index is: a line of a text file has a heading above it.

    >>> line(0, Path("a.csv")), line(0, Path("a.parquet"))
    ('line 2', 'row 1')
    """
    return f"row {row + 1}" if _is_parquet(path) else f"line {row + 2}"


def is_missing(values: np.ndarray) -> np.ndarray:
    """Where a value is None, NaN or an empty text."""
    found = [
        value is None or value == "" or (isinstance(value, float | np.floating) and isnan(value))
        for value in values.ravel()
    ]
    return np.array(found, bool).reshape(values.shape)


def refuse_gap(row: int, name: str, path: Source) -> NoReturn:
    """Raise: this row has no value in this column, and gaps are not declared."""
    where = line(row, path).capitalize()
    raise InvalidValue(f"{where} of {path} has no value in column {name!r}. {DECLARE}")


def number_column(
    table: dict[str, Any], name: str, path: Source, hint: str = "", option: str = ""
) -> Array:
    """Return a column of numbers, NaN for empty cells; name the line of the first text."""
    column = table[name]
    if column.dtype.kind not in "biuf":
        wrong = next((i for i, value in enumerate(column) if not _is_number(value)), 0)
        raise ColumnError(
            f"Expected numbers in column {name!r} of {path}, got {_kind(column[wrong])} in "
            f"{line(wrong, path)}.",
            hint,
            option,
        )
    return column.astype(np.float64)


def finite_column(
    table: dict[str, Any], name: str, path: Source, hint: str = "", option: str = ""
) -> Array:
    """Return a column of finite numbers, NaN for empty cells."""
    column = number_column(table, name, path, hint, option)
    infinite = np.flatnonzero(np.isinf(column))
    if len(infinite):
        where = line(int(infinite[0]), path)
        raise InvalidValue(f"Expected finite numbers ({where}, {name!r} of {path}).")
    return column


def _kind(value: object) -> str:
    """What a cell holds, in a word, without its value."""
    return "text" if isinstance(value, str) else f"a {type(value).__name__}"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return value is None or value == ""
    return True


def dates_in(column: np.ndarray, name: str, path: Source) -> np.ndarray | None:
    """Return a column of dates or times; None if it holds something else."""
    if column.dtype == object and len(column) and all(map(_is_iso, column.tolist())):
        try:
            column = column.astype("datetime64[us]")
        except ValueError:
            return None
    if column.dtype == object and len(column) and hasattr(column[0], "isoformat"):
        column = column.astype("datetime64[us]")
    if column.dtype.kind != "M":
        return None
    if np.isnat(column).any():
        raise InvalidValue(f"Expected a date in every row of column {name!r} of {path}.")
    return column


def no_round(column: np.ndarray, path: Source) -> str:
    """Say in which line there is neither a date nor a whole number."""
    empty = is_missing(column)
    if empty.any() and not empty.all():  # other numbers of the column were read as fractions
        return f"an empty cell in {line(int(empty.argmax()), path)}"
    for row, value in enumerate(column.tolist()):
        if isinstance(value, str) and value.strip().isdecimal():
            continue
        try:
            datetime.fromisoformat(value) if isinstance(value, str) else index(value)
        except (TypeError, ValueError):
            return f"{_kind(value)} in {line(row, path)}"
    return "dates and numbers"


@dataclass(frozen=True)
class Grid:
    """Where the rows of a table belong: `cell` is round * clients + client, for each row.

    `rounds` and `clients` are the values of the two columns, in order.
    """

    rounds: np.ndarray
    clients: np.ndarray
    cell: np.ndarray

    @classmethod
    def of(
        cls, rounds: np.ndarray, when: np.ndarray, names: np.ndarray, path: Source, missing: Missing
    ) -> Grid:
        """`when` are the numbers of the rounds of all rows, `names` their clients.

        Rows without a client are refused, two rows for one round and client, and missing rows
        unless declared.
        """
        unnamed = is_missing(names) if names.dtype.kind not in "iu" else np.zeros(1, bool)
        if unnamed.any():
            where = line(int(unnamed.argmax()), path).capitalize()
            raise InvalidValue(
                f"{where} of {path} does not name its client. Fill it in, or remove the row."
            )
        clients, who = np.unique(
            names if names.dtype.kind in "iu" else names.astype(str), return_inverse=True
        )
        cell = when * len(clients) + who
        order = np.argsort(cell, kind="stable")
        repeated = np.flatnonzero(np.diff(cell[order]) == 0)
        if len(repeated):
            first, again = (int(order[repeated[0] + i]) for i in (0, 1))
            raise InvalidValue(
                f"{line(again, path).capitalize()} of {path} repeats the round and the client of "
                f"{line(first, path)}. Keep one row for each round and client."
            )
        if missing is None and len(cell) != len(rounds) * len(clients):
            full = np.arange(len(cell))
            gap = int((cell[order] != full).argmax()) if (cell[order] != full).any() else len(cell)
            at, which = divmod(gap, len(clients))
            seen = np.flatnonzero(when == at)
            whose = line(int((who == which).argmax()), path)
            that = f"the round of {line(int(seen[0]), path)}" if len(seen) else f"round {at}"
            raise InvalidValue(
                f"The client of {whose} of {path} has no row for {that}. "
                f"Add one row for each round and client. {DECLARE}"
            )
        return cls(rounds, clients, cell)

    @property
    def client_names(self) -> tuple[str, ...]:
        """The clients as texts; numbers are called clients."""
        numbers = self.clients.dtype.kind in "iu"
        return tuple(f"client {name}" if numbers else str(name) for name in self.clients)

    def spread(self, values: Array) -> Array:
        """Return the values (rows, k) by round and client; NaN where there is no row."""
        wide = np.full((len(self.rounds) * len(self.clients), values.shape[1]), np.nan)
        wide[self.cell] = values
        return wide.reshape(len(self.rounds), len(self.clients), values.shape[1])

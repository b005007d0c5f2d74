"""Tables of recorded data: one row for each round and client, in any order of rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.lattice import Array

Missing = Literal["absent"] | None
DECLARE = 'For gaps, declare missing = "absent".'


@dataclass(frozen=True, eq=False)
class Gaps:
    """Who and what is missing in recorded data; None: nothing.

    `present` (rounds, clients) marks the clients that have a case, `awake` (rounds, clients,
    experts) the experts that can be followed. Both are public (`proofs/masks.md`).
    """

    present: np.ndarray | None = None
    awake: np.ndarray | None = None


NO_GAPS = Gaps()


def split(values: Array) -> tuple[Array, Gaps]:
    """Return the values (rounds, clients, experts) with zeros for NaN, and where the gaps are.

    A client without any value in a round is absent. An expert without a value at a present client
    sleeps there.

    >>> values, gaps = split(np.array([[[0.5, np.nan], [np.nan, np.nan]]]))
    >>> values.tolist(), gaps.present.tolist(), gaps.awake.tolist()
    ([[[0.5, 0.0], [0.0, 0.0]]], [[True, False]], [[[True, False], [True, True]]])
    """
    missing = np.isnan(values)
    if not missing.any():
        return values, NO_GAPS
    present = np.asarray(~missing.all(axis=-1))
    awake = ~missing | ~present[..., None]
    return np.where(missing, 0.0, values), Gaps(
        None if present.all() else present, None if awake.all() else awake
    )


def read_table(path: Path) -> dict[str, Any]:
    """Return the columns of a CSV or Parquet file by name."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        if path.suffix in (".parquet", ".pq"):
            table = parquet.read_table(path)
        elif path.suffix in (".csv", ".gz"):
            table = csv.read_csv(path)
        else:
            raise InvalidValue(f"Expected a .csv, .csv.gz or .parquet file, got {path}.")
    except (pa.ArrowInvalid, OSError) as error:
        raise HedgerowError(f"Cannot read {path}: {str(error).splitlines()[0]}") from error
    for name in table.column_names:
        if table.column_names.count(name) > 1:
            raise InvalidValue(
                f"The column {name!r} occurs more than once in {path}. Rename or remove the others."
            )
    for name in table.column_names:
        if pa.types.is_binary(table.schema.field(name).type):
            raise InvalidValue(
                f"Expected UTF-8 text in column {name!r} of {path}; save the file as UTF-8."
            )
    return {name: table[name].to_numpy() for name in table.column_names}


def require_columns(table: dict[str, Any], names: tuple[str, ...], path: Path) -> None:
    """Raise unless the table has these columns."""
    for column in names:
        if column not in table:
            raise InvalidValue(
                f"Expected a column {column!r} in {path} (columns are separated by commas), "
                f"found {', '.join(table)}."
            )


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
        cls, rounds: np.ndarray, when: np.ndarray, names: np.ndarray, path: Path, missing: Missing
    ) -> Grid:
        """`when` are the numbers of the rounds of all rows, `names` their clients.

        Two rows for one round and client are refused, and so are missing rows unless declared.
        """
        clients, who = np.unique(
            names if names.dtype.kind in "iu" else names.astype(str), return_inverse=True
        )
        cell = when * len(clients) + who
        order = np.argsort(cell, kind="stable")
        repeated = np.flatnonzero(np.diff(cell[order]) == 0)
        if len(repeated):
            row = int(order[repeated[0] + 1])
            raise InvalidValue(
                f"Line {row + 2} of {path} repeats round {rounds[when[row]]} of client "
                f"{names[row]!r}. Keep one row for each round and client."
            )
        if missing is None and len(cell) != len(rounds) * len(clients):
            full = np.arange(len(cell))
            gap = int((cell[order] != full).argmax()) if (cell[order] != full).any() else len(cell)
            at, which = divmod(gap, len(clients))
            raise InvalidValue(
                f"Round {rounds[at]} of client {clients[which].item()!r} is missing in {path}. "
                f"Add one row for each round and client. {DECLARE}"
            )
        return cls(rounds, clients, cell)

    def spread(self, values: Array) -> Array:
        """Return the values (rows, k) by round and client; NaN where there is no row."""
        wide = np.full((len(self.rounds) * len(self.clients), values.shape[1]), np.nan)
        wide[self.cell] = values
        return wide.reshape(len(self.rounds), len(self.clients), values.shape[1])

"""Recorded losses: an array, or a CSV or Parquet file.

A file has the columns `round` and `client` and one column for each expert, named after the expert.
Each pair of a round (0, 1, 2, ...) and a client (any whole numbers or names) has exactly one row,
in any order. Losses lie in [0, 1]. `examples/recorded_losses.csv` is a small file of this form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Environment, fingerprint_of
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.lattice import Array, Units, check_unit_range, round_to_lattice, to_units
from hedgerow.core.setting import Setting
from hedgerow.environments.recorded.data import find


class _Replay(Environment):
    """Replays consecutive rounds of an array, as views."""

    losses: Array

    @property
    def setting(self) -> Setting:
        rounds, clients, experts = self.losses.shape
        return Setting(clients, experts, rounds)

    def start(self, seed: int) -> int:
        del seed
        return 0

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        del past_plays
        return Block.of(self.losses[state : state + rounds]), state + rounds

    def fingerprint(self) -> str:
        return fingerprint_of(self.losses)

    def sums(self, state: int, rounds: int) -> tuple[Units, int]:
        """Add up the recorded losses; nothing is drawn."""
        return to_units(self.losses[state : state + rounds].sum(axis=(0, 1))), state + rounds


@dataclass(frozen=True, eq=False)
class RecordedArray(_Replay):
    """Losses from an array, rounded to the lattice once.

    Parameters
    ----------
    losses
        Numbers in [0, 1] of shape (rounds, clients, experts).

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> hr.RecordedArray(np.zeros((4, 2, 3))).setting
    Setting(clients=2, experts=3, horizon=4, deciders=None)
    """

    losses: Array = field(repr=False)

    def __post_init__(self) -> None:
        given = np.asarray(self.losses)
        if given.ndim != 3 or given.dtype.kind not in "biuf":
            raise InvalidValue(
                f"Expected losses as numbers of shape (rounds, clients, experts), "
                f"got {given.dtype} of shape {given.shape}."
            )
        if 0 in given.shape:
            raise InvalidValue(
                f"Expected at least one round, client and expert, got shape {given.shape}."
            )
        values = np.ascontiguousarray(given, np.float64)
        check_unit_range("loss", values)
        object.__setattr__(self, "losses", round_to_lattice(values))

    @classmethod
    def on_lattice(cls, losses: Array) -> RecordedArray:
        """Use losses that are already rounded, without a copy."""
        made = cls.__new__(cls)
        object.__setattr__(made, "losses", losses)
        return made


@dataclass(frozen=True)
class Recorded(_Replay):
    """Losses from a CSV or Parquet file.

    The file has the columns `round` and `client` and one column for each expert.

    Parameters
    ----------
    path
        The file, relative to the folder of `--data`, the current folder or a data folder; or
        absolute.

    Examples
    --------
    >>> from importlib.resources import files
    >>> import hedgerow as hr
    >>> environment = hr.Recorded(str(files("hedgerow") / "examples" / "recorded_losses.csv"))
    >>> environment.setting
    Setting(clients=3, experts=4, horizon=120, deciders=None)
    """

    path: str

    @cached_property
    def losses(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        return read_losses(find(self.path, here=True))[0]

    def __getstate__(self) -> dict[str, str]:
        """Keep only the path: worker processes read the file themselves."""
        return {"path": self.path}


def read_losses(path: Path) -> tuple[Array, list[str]]:
    """Return the losses (rounds, clients, experts) and the names of the experts."""
    table = read_table(path)
    for column in ("round", "client"):
        if column not in table:
            raise InvalidValue(
                f"Expected a column {column!r} in {path} (columns are separated by commas), "
                f"found {', '.join(table)}."
            )
    experts = [name for name in table if name not in ("round", "client")]
    if not experts:
        raise InvalidValue(
            f"Expected at least one expert column besides round and client in {path}."
        )
    numbers = table["round"]
    if not len(numbers):
        raise InvalidValue(f"Expected at least one row in {path}.")
    if numbers.dtype.kind not in "iu":
        raise InvalidValue(
            f"Expected whole round numbers 0, 1, 2, ... in {path}, got {numbers.dtype}."
        )
    names = table["client"]
    clients, client = np.unique(
        names if names.dtype.kind in "iu" else names.astype(str), return_inverse=True
    )
    if numbers.min() != 0:
        raise InvalidValue(
            f"Expected rounds numbered from 0 in {path}, got {numbers.min()} as the first."
        )
    rounds = int(numbers.max()) + 1
    position = numbers.astype(np.int64) * len(clients) + client
    order = np.argsort(position, kind="stable")
    repeated = np.flatnonzero(np.diff(position[order]) == 0)
    if len(repeated):
        row = int(order[repeated[0] + 1])
        raise InvalidValue(
            f"Line {row + 2} of {path} repeats round {numbers[row]} of client {names[row]!r}. "
            "Keep one row for each round and client."
        )
    if len(numbers) != rounds * len(clients):
        gap = (
            int(np.flatnonzero(position[order] != np.arange(len(order)))[0])
            if (position[order] != np.arange(len(order))).any()
            else len(order)
        )
        when, which = divmod(gap, len(clients))
        raise InvalidValue(
            f"Round {when} of client {clients[which].item()!r} is missing in {path}. "
            "Add one row for each round and client."
        )
    wide = np.empty((len(numbers), len(experts)))
    for i, name in enumerate(experts):
        column = table[name]
        if column.dtype.kind not in "biuf":
            raise InvalidValue(
                f"Expected numbers in column {name!r} of {path}, got {column.dtype}."
            )
        bad = np.flatnonzero(~((column >= 0) & (column <= 1)))
        if len(bad):
            place = f"line {bad[0] + 2}, column {name!r} of {path}; an empty cell counts as nan"
            raise InvalidValue(f"Expected loss={float(column[bad[0]])!r} in [0, 1] ({place}).")
        wide[:, i] = column
    return round_to_lattice(wide[order].reshape(rounds, len(clients), len(experts))), experts


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

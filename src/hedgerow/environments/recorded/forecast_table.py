"""A table of public forecasts and secret targets: from arrays, or from a CSV or Parquet file.

A wide file has a column for each model. A long file has one row for each round, client and model,
with a column for the model's name and one for its forecast; the target is repeated in these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any, Self

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least, numbers
from hedgerow.environments.recorded.data import find
from hedgerow.environments.recorded.forecasts import round_column
from hedgerow.environments.recorded.table import (
    Frame,
    Grid,
    Source,
    finite_column,
    forecasters,
    is_frame,
    is_missing,
    line,
    read_table,
    require_columns,
)


@dataclass(frozen=True, eq=False)
class ForecastTable:
    """Forecasts of several models for several clients and rounds, and what came true.

    Parameters
    ----------
    forecasts
        Numbers of shape (rounds, clients, models). NaN: the model has no forecast.
    targets
        What came true, of shape (rounds, clients). NaN: it is not known.
    scale
        What errors are divided by, > 0: a number, or numbers of shape (rounds, clients). It is
        public and known before the round, so do not compute it from later targets. Default 1.
    models, clients, rounds
        Names, in order. Default: numbers.

    Examples
    --------
    >>> import hedgerow as hr
    >>> table = hr.ForecastTable([[[1.0, 3.0]], [[2.0, 5.0]]], [[2.0], [4.0]], models=("a", "b"))
    >>> table.average.tolist(), table.models
    ([[2.0], [3.5]], ('a', 'b'))
    """

    forecasts: Array
    targets: Array
    scale: Array | float = 1.0
    models: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    rounds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = numbers("forecasts", self.forecasts, gaps=True)
        targets = numbers("targets", self.targets, gaps=True)
        scale = numbers("scale", self.scale)
        if given.ndim != 3 or 0 in given.shape or targets.shape != given.shape[:2]:
            raise InvalidValue(
                "Expected forecasts of shape (rounds, clients, models) and targets of shape "
                f"(rounds, clients), got {given.shape} and {targets.shape}."
            )
        for name, values in (("forecast", given), ("target", targets)):
            if np.isinf(values).any():
                raise InvalidValue(f"Expected every {name} to be finite. Leave it out, as NaN.")
        if scale.shape not in ((), targets.shape):
            raise InvalidValue(f"Expected scale of shape {targets.shape}, got {scale.shape}.")
        if not ((scale > 0) & np.isfinite(scale)).all():
            raise InvalidValue("Expected a finite scale > 0 in every round and for every client.")
        if given.shape[2] < 2:
            raise InvalidValue(
                "Expected forecasts of at least 2 models: one model cannot be combined."
            )
        empty = np.isnan(given).all(axis=(1, 2))
        if empty.any():
            name = self.rounds[int(empty.argmax())] if self.rounds else int(empty.argmax())
            raise InvalidValue(f"No model has a forecast in round {name}. Leave the round out.")
        if np.isnan(targets).all():
            raise InvalidValue("No target is known. Check that this is the right column.")
        for field, size in zip(("rounds", "clients", "models"), given.shape, strict=True):
            names = tuple(map(str, getattr(self, field))) or tuple(map(str, range(size)))
            if len(names) != size:
                raise InvalidValue(f"Expected {field}={len(names)!r} names for {size} {field}.")
            if len(set(names)) != size:
                raise InvalidValue(f"Expected {field}={names!r} to be different.")
            object.__setattr__(self, field, names)
        for field, value in (("forecasts", given), ("targets", targets)):
            object.__setattr__(self, field, value)
        object.__setattr__(self, "scale", np.broadcast_to(scale, targets.shape))

    @property
    def awake(self) -> np.ndarray:
        """Where models have a forecast."""
        return ~np.isnan(self.forecasts)

    @property
    def present(self) -> np.ndarray:
        """Where a client has a forecast and a target (rounds, clients)."""
        return self.awake.any(axis=2) & ~np.isnan(self.targets)

    @property
    def average(self) -> Array:
        """The plain average of the forecasts that there are; 0 where there are none."""
        awake = self.awake
        total = np.where(awake, self.forecasts, 0.0).sum(axis=2)
        return total / np.maximum(awake.sum(axis=2), 1)

    @cached_property
    def median(self) -> Array:
        """The median of the forecasts that there are; 0 where there are none."""
        somebody = self.awake.any(axis=2, keepdims=True)
        given = np.where(somebody, self.forecasts, 0.0)
        return np.nanmedian(given, axis=2)

    @property
    def filled(self) -> Array:
        """The forecasts, with the median of the others in the place of a missing one."""
        return np.where(self.awake, self.forecasts, self.median[..., None])

    def name_of(self, round: int, client: int) -> str:
        """Return what a ledger calls a target: its client and its round.

        >>> names = {"clients": ("Ohio",), "rounds": ("2026-01-03",)}
        >>> table = ForecastTable([[[1.0, 3.0]]], [[2.0]], **names)
        >>> table.name_of(0, 0)
        'Ohio, 2026-01-03'
        """
        return f"{self.clients[client]}, {self.rounds[round]}"

    def complete_at_first(self, rounds: int) -> ForecastTable:
        """Return the models that have most (four fifths) of the forecasts of the first rounds.

        Such a choice of models is possible in advance.
        """
        at_least("rounds", rounds, 1)
        kept = self.awake[:rounds].mean(axis=(0, 1)) >= 0.8
        names = tuple(name for name, keep in zip(self.models, kept, strict=True) if keep)
        return replace(self, forecasts=self.forecasts[..., kept], models=names)

    @classmethod
    def read(
        cls,
        path: str | PathLike[str] | Frame,
        *,
        target: str = "target",
        round: str = "round",
        client: str = "client",
        models: Sequence[str] | None = None,
        scale: str | float = 1.0,
        model: str | None = None,
        forecast: str = "forecast",
    ) -> Self:
        """Read a CSV or Parquet file; rows are in any order, and empty cells are gaps.

        Parameters
        ----------
        path
            The file, found like that of `hr.Recorded`, or a DataFrame.
        target, round, client
            The names of the columns with what came true, with rounds (dates, or whole numbers) and
            with clients.
        models
            The names of the columns with forecasts. None (default): all that have no other role.
        scale
            The name of a column with what errors are divided by, or a number. Default 1.
        model, forecast
            For a long file: the names of the columns with the model and with its forecast.
        """
        file = Frame(path) if is_frame(path) else find(str(path), here=True)
        table = read_table(file)
        roles = {"round": round, "client": client, "target": target}
        roles |= {"scale": scale} if isinstance(scale, str) else {}
        if model is not None:
            require_columns(table, {**roles, "model": model, "forecast": forecast}, file)
            table = _widened(table, roles, model, forecast, file)
        require_columns(table, roles, file, models or ())
        names = tuple(models or (name for name in table if name not in roles.values()))
        for name in names:
            if name in roles.values():
                raise InvalidValue(f"Expected models={name!r} to have no other role.")
        advice = {} if models or model is not None else forecasters(table, roles)
        if not len(table[round]):
            raise InvalidValue(f"Expected at least one row in {file}.")
        found, when = round_column(table[round], round, file)
        grid = Grid.of(found, when, table[client], file, "absent")
        wide = grid.spread(
            np.stack(
                [finite_column(table, name, file, **advice) for name in names]
                + [finite_column(table, name, file) for name in list(roles.values())[2:]],
                axis=-1,
            )
        )
        count = len(names)
        units = scale if not isinstance(scale, str) else wide[..., count + 1]
        if isinstance(scale, str):
            missing = np.isnan(wide[..., count + 1]) & ~np.isnan(wide[..., count])
            if missing.any():
                raise InvalidValue(f"Column {scale!r} of {file} has no scale for some target.")
            units = np.where(np.isnan(wide[..., count + 1]), 1.0, wide[..., count + 1])
        if not count:
            raise InvalidValue(f"Expected at least two columns of forecasts in {file}.")
        return cls(
            wide[..., :count],
            wide[..., count],
            units,
            names,
            tuple(map(str, grid.clients)),
            tuple(map(_text, grid.rounds)),
        )


def _text(when: Any) -> str:
    """A round as people write it: a date without the time where the time is midnight."""
    text = str(when)
    return text.partition("T")[0] if text.endswith(("T00:00:00", "T00:00:00.000000")) else text


def _widened(
    table: dict[str, Any], roles: dict[str, str], model: str, forecast: str, path: Source
) -> dict[str, Any]:
    """A long table with one row for each round and client, and a column for each model."""
    unnamed = is_missing(table[model].astype(object))
    if unnamed.any():
        where = line(int(unnamed.argmax()), path).capitalize()
        raise InvalidValue(f"{where} of {path} does not name its model. Fill it in, or remove it.")
    names, which = np.unique(table[model].astype(str), return_inverse=True)
    keys = [table[roles[part]] for part in ("round", "client")]
    coded = [np.unique(key.astype(str), return_inverse=True)[1] for key in keys]
    cell = coded[0] * (coded[1].max(initial=0) + 1) + coded[1]
    _, first, at = np.unique(cell, return_index=True, return_inverse=True)
    place = at * len(names) + which
    order = np.argsort(place, kind="stable")
    repeated = np.flatnonzero(np.diff(place[order]) == 0)
    if len(repeated):
        row = int(order[repeated[0] + 1])
        raise InvalidValue(
            f"{line(row, path).capitalize()} of {path} is a second forecast of the same model for "
            "the same round and client. Keep one."
        )
    for column in list(roles.values())[2:]:
        values = finite_column(table, column, path)
        other = ~((values == values[first][at]) | (np.isnan(values) & np.isnan(values[first][at])))
        if other.any():
            where = line(int(other.argmax()), path).capitalize()
            raise InvalidValue(
                f"{where} of {path} has another {column!r} than earlier rows of the same round and "
                "client. Every round and client has one."
            )
    wide = np.full(len(first) * len(names), np.nan)
    wide[place] = finite_column(table, forecast, path)
    kept = {column: table[column][first] for column in roles.values()}
    taken = [name for name in names if name in kept]
    if taken:
        raise InvalidValue(
            f"A model in column {model!r} of {path} has the name of another column. Rename it."
        )
    by_model = wide.reshape(len(first), len(names)).T
    return kept | {str(name): values for name, values in zip(names, by_model, strict=True)}

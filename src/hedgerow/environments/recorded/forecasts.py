"""Losses from forecasts: columns of forecasts and a column of outcomes become losses in [0, 1].

    absolute   |target - forecast| / largest_error
    squared    (target - forecast)^2 / largest_error^2
    pinball    the quantile loss of target - forecast, / (largest_error * max(q, 1 - q))
    zero_one   1 if the forecast is not the target (numbers or texts), else 0

An error beyond `largest_error`, in either direction, counts as `largest_error`; such errors are
counted. `largest_error` is public, so choose it before you look at the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array, round_to_lattice
from hedgerow.core.validate import numbers, unmasked
from hedgerow.environments.recorded.losses import Recording, check_missing
from hedgerow.environments.recorded.table import (
    Frame,
    Gaps,
    Grid,
    Missing,
    Source,
    coded,
    dates_in,
    finite_column,
    forecasters,
    is_frame,
    is_missing,
    no_round,
    read_table,
    refuse_gap,
    require_columns,
    source_of,
    split,
)

Loss = Literal["absolute", "squared", "pinball", "zero_one"]
LOSSES: tuple[Loss, ...] = get_args(Loss)


def forecast_losses(
    forecasts: Any,
    target: Any,
    *,
    loss: Loss = "absolute",
    largest_error: float | None = None,
    quantile: float = 0.5,
) -> tuple[Array, int]:
    """Return losses in [0, 1] of forecasts, and how many errors were clipped.

    Parameters
    ----------
    forecasts
        Numbers of shape (..., experts); for `loss="zero_one"` also texts. NaN, None
        or masked: there is no forecast.
    target
        The outcomes, of shape (...). NaN, None or masked: an outcome is not known.
    loss
        "absolute", "squared", "pinball" or "zero_one".
    largest_error
        The largest error |target - forecast| that counts, > 0; larger errors count as this. It is
        public: do not compute it from the data. Not with "zero_one".
    quantile
        The quantile that the forecasts are for, in (0, 1). Only with "pinball".

    Returns
    -------
    tuple
        The losses, of the shape of the forecasts, with NaN where a forecast or the target is
        missing, and the number of errors that were larger than `largest_error`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> forecasts = [[10.0, 14.0], [9.0, 70.0]]
    >>> losses, clipped = hr.forecast_losses(forecasts, [12, 12], largest_error=20)
    >>> losses.tolist(), clipped
    ([[0.1, 0.1], [0.15, 1.0]], 1)
    """
    check_loss(loss, largest_error, quantile)
    if loss == "zero_one":
        given, came = unmasked(forecasts, object), unmasked(target, object)[..., None]
        _check_shapes(given, came)
        wrong = np.asarray(given != came, np.float64)
        return np.where(is_missing(given) | is_missing(came), np.nan, wrong), 0
    assert largest_error is not None
    given = numbers("forecasts", forecasts, gaps=True)
    came = numbers("targets", target, gaps=True)[..., None]
    _check_shapes(given, came)
    error = came - given
    clipped = int((np.abs(error) > largest_error).sum())
    share = np.clip(error, -largest_error, largest_error) / largest_error
    if loss == "absolute":
        return np.abs(share), clipped
    if loss == "squared":
        return share**2, clipped
    over = np.maximum(quantile * share, (quantile - 1) * share)
    return over / max(quantile, 1 - quantile), clipped


def check_loss(loss: Loss, largest_error: float | None, quantile: float) -> None:
    """Refuse choices that do not fit together."""
    if loss not in LOSSES:
        raise InvalidValue(f"Expected loss={loss!r} in {LOSSES}.")
    if loss == "zero_one":
        if largest_error is not None:
            raise InvalidValue(f"Expected largest_error={largest_error!r} only with numbers.")
    elif largest_error is None:
        raise InvalidValue(
            "largest_error is missing: the largest error that counts, in the units of the target. "
            "It is public, so choose it without looking at the data."
        )
    else:
        good = 0 < largest_error < np.inf
        if not good:
            raise InvalidValue(
                f"Expected largest_error={largest_error!r} to be a finite number > 0."
            )
    if not 0 < quantile < 1:
        raise InvalidValue(f"Expected quantile={quantile!r} in (0, 1).")


def _check_shapes(forecasts: np.ndarray, target: np.ndarray) -> None:
    if forecasts.shape[:-1] != target.shape[:-1] or not forecasts.ndim:
        raise InvalidValue(
            f"Expected forecasts of shape (..., experts) and a target of shape (...), got "
            f"{forecasts.shape} and {target.shape[:-1]}."
        )


@dataclass(frozen=True)
class Forecasts(Recording):
    """Losses from a CSV or Parquet file of forecasts.

    The file has a column of rounds (dates, or whole numbers in order), a column of clients (names
    or numbers), one with the target and one with the forecasts of each expert. Each round and
    client has one row, in any order of rows. `hr.forecast_losses` says what the losses are.

    Parameters
    ----------
    path
        The file, found like that of `hr.Recorded`, or a DataFrame.
    target
        The name of the column with the outcomes.
    largest_error
        The largest error that counts, in the units of the target; larger errors count as this and
        are counted. It is public: choose it without looking at the data. Not with
        `loss="zero_one"`.
    loss
        "absolute" (default), "squared", "pinball" or "zero_one".
    quantile
        The quantile that the forecasts are for, in (0, 1). Only with "pinball".
    experts
        The names of the columns with forecasts. None (default): all columns that have no other
        role.
    round, client
        The names of the columns with rounds and clients.
    missing
        "absent": gaps are allowed. A client without a row, a target or any forecast in a round is
        absent in it, and an expert without a forecast sleeps. Where the gaps are is public. None
        (default): gaps are refused.

    Examples
    --------
    >>> from importlib.resources import files
    >>> import hedgerow as hr
    >>> path = str(files("hedgerow") / "examples" / "stations.csv")
    >>> columns = {"target": "measured", "round": "date", "client": "station"}
    >>> game = hr.Forecasts(path, largest_error=50.0, missing="absent", **columns)
    >>> game.expert_names
    ('persistence', 'weekly', 'smooth', 'north', 'south')
    >>> game.setting
    Setting(clients=12, experts=5, horizon=120, deciders=None)
    >>> game.notes()
    ('32 of 6,500 forecast errors are larger than 50 and count as 50',)
    """

    path: str
    target: str = "target"
    largest_error: float | None = None
    loss: Loss = "absolute"
    quantile: float = 0.5
    experts: tuple[str, ...] | None = None
    round: str = "round"
    client: str = "client"
    missing: Missing = None

    def __post_init__(self) -> None:
        check_loss(self.loss, self.largest_error, self.quantile)
        check_missing(self.missing)
        if is_frame(self.path):
            object.__setattr__(self, "path", Frame(self.path))

    @cached_property
    def _read(self) -> _Read:
        return _read(self, source_of(self.path))

    @property
    def losses(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The losses that were read, of shape (rounds, clients, experts)."""
        return self._read.losses

    @property
    def gaps(self) -> Gaps:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._read.gaps

    @property
    def expert_names(self) -> tuple[str, ...]:
        return self._read.names

    @property
    def client_names(self) -> tuple[str, ...]:
        return self._read.clients

    @property
    def unit(self) -> float:
        """The largest error; 1 where losses are not errors in the units of the target."""
        return self.largest_error or 1.0 if self.loss == "absolute" else 1.0

    def rivals(self) -> dict[str, Array]:
        """The losses of the plain average and of the median of the forecasts that there are."""
        return dict(self._read.rivals)

    @property
    def clipped(self) -> int:
        """How many errors were larger than `largest_error`. It is computed from secret data."""
        return self._read.clipped

    def notes(self) -> tuple[str, ...]:
        """Say how many errors were clipped, and how many targets look like a code for a gap."""
        if not self.clipped or self.largest_error is None:
            return self._read.coded
        gaps = self.gaps
        there = np.ones(self.losses.shape, bool) if gaps.awake is None else gaps.awake.copy()
        if gaps.present is not None:
            there &= gaps.present[..., None]
        most, count = f"{self.largest_error:g}", f"{self.clipped:,} of {int(there.sum()):,}"
        larger = "is" if self.clipped == 1 else "are"
        counts = "counts" if self.clipped == 1 else "count"
        clipped = f"{count} forecast errors {larger} larger than {most} and {counts} as {most}"
        return (clipped, *self._read.coded)

    def __getstate__(self) -> dict[str, Any]:
        """Keep only the choices: worker processes read the file themselves."""
        return {name: value for name, value in self.__dict__.items() if name != "_read"}


@dataclass(frozen=True, eq=False)
class _Read:
    losses: Array
    gaps: Gaps
    names: tuple[str, ...]
    clients: tuple[str, ...]
    clipped: int
    rivals: dict[str, Array]
    coded: tuple[str, ...]


def _read(choices: Forecasts, path: Source) -> _Read:
    table = read_table(path)
    roles = {"round": choices.round, "client": choices.client, "target": choices.target}
    require_columns(table, roles, path, choices.experts or ())
    names = choices.experts or tuple(name for name in table if name not in roles.values())
    if not names:
        raise InvalidValue(f"Expected at least one column of forecasts in {path}.")
    for name in names:
        if name in roles.values():
            raise InvalidValue(f"Expected experts={name!r} to have no other role.")
    if not len(table[choices.round]):
        raise InvalidValue(f"Expected at least one row in {path}.")
    rounds, when = round_column(table[choices.round], choices.round, path)
    grid = Grid.of(rounds, when, table[choices.client], path, choices.missing)
    advice = {} if choices.experts else forecasters(table, roles)
    columns = {
        name: _column(table, name, choices.loss, path, advice if name in names else {})
        for name in (*names, choices.target)
    }
    losses, clipped = forecast_losses(
        np.stack([columns[name] for name in names], axis=-1),
        columns[choices.target],
        loss=choices.loss,
        largest_error=choices.largest_error,
        quantile=choices.quantile,
    )
    if choices.missing is None:
        _refuse_gaps(losses, columns, names, choices.target, path)
    empty = f"No row of {path} has both a target in column {choices.target!r} and a forecast."
    values, gaps = split(grid.spread(losses), f"{empty} Check that this is the right file.")
    rivals = {}
    if choices.loss != "zero_one":
        forecasts = np.stack([columns[name] for name in names], axis=-1)
        with np.errstate(invalid="ignore"):
            there = ~np.isnan(forecasts).all(axis=1, keepdims=True)
            known = np.where(there, forecasts, 0.0)
            combined = {"plain average": np.nanmean(known, 1), "median": np.nanmedian(known, 1)}
        for name, forecast in combined.items():
            lost, _ = forecast_losses(
                forecast[:, None],
                columns[choices.target],
                loss=choices.loss,
                largest_error=choices.largest_error,
                quantile=choices.quantile,
            )
            spread = grid.spread(np.where(there, lost, np.nan))[..., 0]
            rivals[name] = np.nan_to_num(spread)
    seen = () if choices.loss == "zero_one" else coded(columns[choices.target])
    return _Read(round_to_lattice(values), gaps, names, grid.client_names, clipped, rivals, seen)


def round_column(column: np.ndarray, name: str, path: Source) -> tuple[np.ndarray, np.ndarray]:
    """Return the rounds in order, and the round of each row: dates, times or whole numbers."""
    dates = dates_in(column, name, path)
    if dates is None and column.dtype.kind not in "iu":
        raise InvalidValue(
            f"Expected dates such as 2026-01-31, or whole numbers, in column {name!r} of {path}, "
            f"got {no_round(column, path)}."
        )
    return np.unique(column if dates is None else dates, return_inverse=True)


def _column(
    table: dict[str, Any], name: str, loss: Loss, path: Source, advice: dict[str, str]
) -> np.ndarray:
    if loss == "zero_one":
        return table[name].astype(object)
    return finite_column(table, name, path, **advice)


def _refuse_gaps(
    losses: Array, columns: dict[str, np.ndarray], names: Sequence[str], target: str, path: Source
) -> None:
    gaps = np.argwhere(np.isnan(losses))
    if not len(gaps):
        return
    row, expert = map(int, gaps[0])
    known = ~is_missing(columns[target][row : row + 1].astype(object))[0]
    name = names[expert] if known else target
    refuse_gap(row, name, path)

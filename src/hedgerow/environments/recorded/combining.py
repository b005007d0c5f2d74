"""The game of combining forecasts: forecasts are public, and what came true is secret."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from math import ceil, log2
from typing import Any, Literal, get_args

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.combination import Combination
from hedgerow.core.convex import AbsoluteError, Huber, Pinball, Scored
from hedgerow.core.environment import Environment, Feature, Traits, fingerprint_of
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.setting import Setting
from hedgerow.core.validate import one_of
from hedgerow.environments.recorded.forecast_table import ForecastTable

CombinedLoss = Literal["absolute", "pinball", "squared"]
LARGEST_TARGET = 2.0**30  # in units of the scale, from the mean forecast


class _Combining(Environment):
    """The game over a table, which is given or read from a file."""

    table: ForecastTable
    loss: CombinedLoss
    quantile: float
    largest_error: float

    @property
    def expert_names(self) -> tuple[str, ...]:
        return self.table.models

    @property
    def client_names(self) -> tuple[str, ...]:
        return self.table.clients

    def __post_init__(self) -> None:
        one_of(self, loss=get_args(CombinedLoss))
        if not 0 < self.quantile < 1:
            raise InvalidValue(f"Expected quantile={self.quantile!r} in (0, 1).")
        pinball = self.loss == "pinball" or self.quantile == 0.5
        if not pinball:
            raise InvalidValue(f"Expected quantile={self.quantile!r} only with loss='pinball'.")
        good = 0 < self.largest_error < np.inf
        if not good:
            raise InvalidValue(
                f"Expected largest_error={self.largest_error!r} to be a finite number > 0."
            )

    @cached_property
    def records(self) -> Array:
        """Forecasts and targets minus the mean forecast, in units of the scale; 0 if absent."""
        table = self.table
        filled, scale = table.filled, np.asarray(table.scale)[..., None]
        centre = filled.mean(axis=2, keepdims=True)
        errors = (table.targets[..., None] - centre) / scale
        target = np.clip(errors, -LARGEST_TARGET, LARGEST_TARGET)
        records = np.concatenate([(filled - centre) / scale, target], axis=-1)
        # in this order in memory, so that sums over models are those of one client to the last bit
        return np.ascontiguousarray(np.where(table.present[..., None], records, 0.0))

    @property
    def setting(self) -> Setting:
        return self._setting

    @cached_property
    def _setting(self) -> Setting:
        rounds, clients, models = self.table.forecasts.shape
        longest = float(np.sqrt((self.records[..., :-1] ** 2).sum(axis=-1)).max())
        norm = 2.0 ** ceil(log2(max(longest, 1.0)))  # forecasts are public
        of: Scored = AbsoluteError(norm, target=LARGEST_TARGET)
        if self.loss == "pinball":
            of = Pinball(norm, target=LARGEST_TARGET, quantile=self.quantile)
        elif self.loss == "squared":
            of = Huber(norm, target=LARGEST_TARGET, threshold=self.largest_error)
        return Setting(clients, models, rounds, family=Combination(of))

    @property
    def traits(self) -> Traits:
        all_there = bool(self.table.present.all())
        return Traits(features=frozenset() if all_there else frozenset({Feature.ABSENT_CLIENTS}))

    def fingerprint(self) -> str:
        return fingerprint_of(self.records, self.table.present, repr(self.setting.family))

    def start(self, seed: int) -> int:
        return 0

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        part = slice(state, state + rounds)
        records, present = self.records[part], self.table.present
        mask = None if present.all() else np.ascontiguousarray(present[part])
        return Block(records, records, present=mask), part.stop


@dataclass(frozen=True, eq=False)
class Combining(_Combining):
    """Clients combine the public forecasts of a table; their targets are secret.

    In every round a client uses the weighted average of its forecasts. A model without a forecast
    counts as the median of the others, which is public. A client without a target or without any
    forecast is absent. Where the gaps are is public.

    Parameters
    ----------
    table
        The forecasts, targets and scale.
    loss
        "absolute" (default), "pinball", or "squared": squared errors whose slope is cut off at
        `largest_error`, which is the Huber loss.
    quantile
        The quantile that forecasts are for, in (0, 1). Only with "pinball".
    largest_error
        The largest error whose slope counts in full, in units of the scale, > 0. Only with
        "squared". It is public: do not compute it from targets. Default 1.

    Examples
    --------
    >>> import hedgerow as hr
    >>> table = hr.ForecastTable([[[1.0, 3.0]], [[2.0, 5.0]]], [[2.0], [4.0]])
    >>> game = hr.Combining(table)
    >>> game.setting.experts, game.records[1, 0].tolist()
    (2, [-1.5, 1.5, 0.5])
    """

    table: ForecastTable
    loss: CombinedLoss = "absolute"
    quantile: float = 0.5
    largest_error: float = 1.0


@dataclass(frozen=True)
class CombinedForecasts(_Combining):
    """`Combining` with a table from a CSV or Parquet file, for study files in TOML.

    Parameters
    ----------
    path
        The file, found like that of `hr.Recorded`.
    target, round, client, models, scale, model, forecast
        As in `hr.ForecastTable.read`.
    loss, quantile, largest_error
        As in `hr.Combining`.

    Examples
    --------
    >>> from importlib.resources import files
    >>> import hedgerow as hr
    >>> path = str(files("hedgerow") / "examples" / "stations.csv")
    >>> columns = {"target": "measured", "round": "date", "client": "station"}
    >>> game = hr.CombinedForecasts(path, models=("north", "south"), **columns)
    >>> game.setting.clients, game.expert_names
    (12, ('north', 'south'))
    """

    path: str
    target: str = "target"
    round: str = "round"
    client: str = "client"
    models: tuple[str, ...] | None = None
    scale: str | float = 1.0
    model: str | None = None
    forecast: str = "forecast"
    loss: CombinedLoss = "absolute"
    quantile: float = 0.5
    largest_error: float = 1.0

    @cached_property
    def table(self) -> ForecastTable:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The table that was read."""
        names = ("target", "round", "client", "models", "scale", "model", "forecast")
        return ForecastTable.read(self.path, **{name: getattr(self, name) for name in names})

    def __getstate__(self) -> dict[str, Any]:
        """Keep only the choices: worker processes read the file themselves."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

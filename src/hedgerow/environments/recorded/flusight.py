"""CDC FluSight as a game: states choose every week which flu forecast to follow.

The package has a table of the forecasts for one week ahead of the seasons 2021-22 and 2022-23, and
of the admissions reported afterwards (`examples/flusight.npz`, made by `tools/flusight_table.py`).
Source: CDC FluSight, https://github.com/cdcepi/Flusight-forecast-data, and the forecasting teams.
Licence: CC BY 4.0, some models MIT; the table names the licence of each.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Environment, Feature, Traits, fingerprint_of
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.lattice import Array, Units, round_to_lattice, to_units
from hedgerow.core.setting import Setting
from hedgerow.core.validate import nearest
from hedgerow.environments.recorded.data import find
from hedgerow.environments.recorded.forecast_table import ForecastTable

TABLE = "flusight.npz"
TENTHS, NO_FORECAST = 10.0, 65535  # forecasts are kept in tenths of an admission
SMALLEST_SCALE = 10.0  # admissions
EACH = "each"
Missing = Literal["fill", "sleep"]
Scale = Literal["peak", "week"]


@dataclass(frozen=True, eq=False)
class Forecasts:
    """A table: forecasts (weeks, locations, models) with NaN for none, and reported admissions."""

    weeks: tuple[str, ...]
    locations: tuple[str, ...]
    models: tuple[str, ...]
    forecasts: Array
    truth: Array

    @cached_property
    def consensus(self) -> Array:
        """The median of all forecasts for each week and location."""
        return np.nanmedian(self.forecasts, axis=2)

    def kept(self, coverage: float) -> np.ndarray:
        """The numbers of the models with a forecast in at least this share of all cells.

        A model without any forecast is never kept.
        """
        shares = (~np.isnan(self.forecasts)).mean(axis=(0, 1))
        return np.flatnonzero((shares >= coverage) & (shares > 0))

    def scale(self, kind: Scale) -> Array:
        """What an error is divided by (weeks, locations): public before the week, never below 10.

        It is made of forecasts only, so a reported number enters one loss vector and no other.
        """
        found = self.consensus if kind == "week" else np.maximum.accumulate(self.consensus)
        return np.maximum(found, SMALLEST_SCALE)


@dataclass(frozen=True, kw_only=True)
class FluSight(Environment):
    """Real flu forecasts: every week, 53 US states and territories choose which model to follow.

    The experts are the models of CDC FluSight, the clients the 50 states, Washington DC, Puerto
    Rico and the Virgin Islands, and the rounds 56 weeks of the seasons 2021-22 and 2022-23. The
    loss of a model is the distance of its median forecast from the admissions that were reported
    for the week (in their final revision), divided by a scale that is public before the week, and
    cut off at 1 (`clipped` counts how often).

    In reality all of these numbers are public. The game treats the losses of each state as secret,
    as they would be if hospitals or states did not publish their admissions. Forecasts are public.

    Parameters
    ----------
    location
        None (default): all locations play together. A name such as `"Ohio"`: only this one, as a
        game of one client. `"each"`: one location alone in each run; they take turns with the seed,
        so 53 seeds play each location once.
    missing
        What happens where a model has no forecast. `"fill"` (default): the median of all models'
        forecasts takes its place, which is known before the week. `"sleep"`: the model sleeps and
        cannot be followed; not every algorithm supports this.
    coverage
        Keeps the models with forecasts for at least this share of all weeks and locations, in [0,
        1]. Default 0.8, which keeps 12 models of 42. With `missing="sleep"`, 0 is useful: it keeps
        all of them.
    scale
        What an error is divided by. `"peak"` (default): the largest median forecast for the
        location so far, so errors count most in the flu season. `"week"`: the median forecast for
        this week, so every week counts the same. Both are at least 10 admissions.
    path
        Another table of the same form, such as other seasons; looked for like recorded losses.
        None (default): the table of the package.

    Examples
    --------
    >>> import hedgerow as hr
    >>> states = hr.FluSight()
    >>> states.setting
    Setting(clients=53, experts=12, horizon=56, deciders=None)
    >>> states.models[0], states.locations[0], states.weeks[0]
    ('CMU-TimeSeries', 'Alabama', '2022-01-15')
    >>> hr.FluSight(missing="sleep", coverage=0.0).setting.experts
    42
    >>> hr.FluSight(location="Ohio").setting.clients
    1

    References
    ----------
    CDC FluSight, https://github.com/cdcepi/Flusight-forecast-data (CC BY 4.0, some models MIT).
    """

    location: str | None = None
    missing: Missing = "fill"
    coverage: float = 0.8
    scale: Scale = "peak"
    path: str | None = None

    def __post_init__(self) -> None:
        if self.missing not in ("fill", "sleep"):
            raise InvalidValue(f"Expected missing={self.missing!r} in ('fill', 'sleep').")
        if self.scale not in ("peak", "week"):
            raise InvalidValue(f"Expected scale={self.scale!r} in ('peak', 'week').")
        if not 0 <= self.coverage <= 1:
            raise InvalidValue(f"Expected coverage={self.coverage!r} in [0, 1].")

    def __getstate__(self) -> dict[str, Any]:
        """Keep only the choices: worker processes read the table themselves."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def table(self) -> Forecasts:
        """The whole table, before models and locations are chosen."""
        return load(self.path)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the experts."""
        return tuple(self.table.models[i] for i in self._kept)

    @cached_property
    def locations(self) -> tuple[str, ...]:
        """The names of the clients."""
        return tuple(self.table.locations[i] for i in self._places)

    @property
    def expert_names(self) -> tuple[str, ...]:
        return self.models

    @property
    def client_names(self) -> tuple[str, ...]:
        return super().client_names if self.location == EACH else self.locations

    @property
    def weeks(self) -> tuple[str, ...]:
        """The last day of the week of each round."""
        return self.table.weeks

    @cached_property
    def losses(self) -> Array:
        """The losses (weeks, locations, models), on the lattice."""
        return round_to_lattice(np.minimum(self._errors, 1.0))

    @property
    def setting(self) -> Setting:
        rounds, locations, models = self.losses.shape
        return Setting(1 if self.location == EACH else locations, models, rounds)

    @property
    def clipped(self) -> int:
        """How many losses were larger than 1 and were cut off."""
        return int((self._errors > 1).sum())

    def rivals(self) -> dict[str, Array]:
        """The losses (weeks, locations) of the plain average and the median of the forecasts.

        They are of the models of this game that are awake, and use no reported number.
        """
        if self.location == EACH:
            return {}
        forecasts, truth, scale = self._chosen
        if self.missing == "sleep":
            forecasts = np.where(self._given, forecasts, np.nan)
        combined = {
            "plain average": np.nanmean(forecasts, axis=2),
            "median": np.nanmedian(forecasts, axis=2),
        }
        return {
            name: np.minimum(np.abs(forecast - truth) / scale, 1.0)
            for name, forecast in combined.items()
        }

    @property
    def combination(self) -> ForecastTable:
        """The table of this game for `hr.combine`: public forecasts and secret admissions.

        With `missing="sleep"` a model without a forecast has a gap.
        """
        forecasts, truth, scale = self._chosen
        if self.missing == "sleep":
            forecasts = np.where(self._given, forecasts, np.nan)
        names = {"models": self.models, "clients": self.locations, "rounds": self.weeks}
        return ForecastTable(forecasts, truth, scale, **names)

    @property
    def traits(self) -> Traits:
        """Fixed in advance. What a sleeping model is charged depends on the plays."""
        if self.missing == "fill":
            return Traits()
        asleep = frozenset({Feature.SLEEPING_EXPERTS})
        return Traits(adversary="adaptive", features=asleep, why_no_sums="experts sleep")

    def fingerprint(self) -> str:
        asleep = None if self.missing == "fill" else self._given
        return fingerprint_of(self.losses, asleep, self.location)

    def start(self, seed: int) -> tuple[int, int]:
        """The number of the first location that plays, and of the next week."""
        return (seed % len(self.locations) if self.location == EACH else 0), 0

    def block(
        self, state: tuple[int, int], rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, tuple[int, int]]:
        part, after = self._part(state, rounds)
        made = Block.of(self.losses[part])
        if self.missing == "sleep":
            made = replace(made, awake=self._given[part])
        return made, after

    def sums(self, state: tuple[int, int], rounds: int) -> tuple[Units, tuple[int, int]]:
        """Add up the recorded losses; nothing is drawn."""
        part, after = self._part(state, rounds)
        return to_units(self.losses[part].sum(axis=(0, 1))), after

    def _part(
        self, state: tuple[int, int], rounds: int
    ) -> tuple[tuple[slice, slice], tuple[int, int]]:
        """The next weeks of the locations that play, and the state after them."""
        place, at = state
        clients = self.setting.clients
        return (slice(at, at + rounds), slice(place, place + clients)), (place, at + rounds)

    @cached_property
    def _kept(self) -> np.ndarray:
        kept = self.table.kept(self.coverage)
        if not len(kept):
            raise InvalidValue(
                f"No model has forecasts for a share coverage={self.coverage} of all weeks and "
                "locations. Choose a smaller coverage."
            )
        return kept

    @cached_property
    def _places(self) -> list[int]:
        names = self.table.locations
        if self.location in (None, EACH):
            return list(range(len(names)))
        if self.location not in names:
            raise InvalidValue(
                f"Unknown location {self.location!r}; {nearest(str(self.location), names)}"
            )
        return [names.index(self.location)]

    @cached_property
    def _given(self) -> np.ndarray:
        """Where the models have a forecast (weeks, locations, models)."""
        given = ~np.isnan(self.table.forecasts[:, self._places][:, :, self._kept])
        if self.missing == "sleep" and not given.any(axis=2).all():
            week, place = np.argwhere(~given.any(axis=2))[0]
            raise InvalidValue(
                f"No model of coverage={self.coverage} has a forecast for "
                f"{self.locations[place]} in the week of {self.weeks[week]}. "
                "Choose a smaller coverage, or missing='fill'."
            )
        return np.ascontiguousarray(given)

    @property
    def _chosen(self) -> tuple[Array, Array, Array]:
        """Forecasts without gaps (weeks, locations, models), truth and scale (weeks, locations)."""
        table, at = self.table, self._places
        given = table.forecasts[:, at][:, :, self._kept]
        filled = np.where(np.isnan(given), table.consensus[:, at, None], given)
        return filled, table.truth[:, at], table.scale(self.scale)[:, at]

    @property
    def _errors(self) -> Array:
        """The losses before they are cut off."""
        _ = self._given
        forecasts, truth, scale = self._chosen
        return np.abs(forecasts - truth[..., None]) / scale[..., None]


def load(path: str | None) -> Forecasts:
    """Return a table, or that of the package; read once, and again when the file has changed."""
    if path is not None:
        file = find(path, here=True)
        return _load(file, file.stat().st_mtime_ns)
    with as_file(files("hedgerow") / "examples" / TABLE) as file:
        return _load(file, 0)


@lru_cache(maxsize=4)
def _load(path: Path, changed: int) -> Forecasts:
    return read_table(path)


def read_table(path: Path) -> Forecasts:
    """Read a table made by `tools/flusight_table.py`; errors name what is wrong with it."""
    names = ("weeks", "locations", "models", "forecasts", "truth")
    try:
        with np.load(path, allow_pickle=False) as archive:
            weeks, locations, models, forecasts, truth = (archive[name] for name in names)
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise HedgerowError(f"Cannot read {path}: {str(error).splitlines()[0]}") from error
    shape = (len(weeks), len(locations), len(models))
    for name, array, expected in (("forecasts", forecasts, shape), ("truth", truth, shape[:2])):
        if array.dtype.kind not in "iu" or array.shape != expected or 0 in expected:
            raise InvalidValue(
                f"Expected {name} in {path} to be whole numbers of shape {expected}, none of them "
                f"0, got {array.dtype} of shape {array.shape}."
            )
        if (array < 0).any():
            raise InvalidValue(f"Expected {name} in {path} to be at least 0, got {array.min()}.")
    empty = np.argwhere((forecasts == NO_FORECAST).all(axis=2))
    if len(empty):
        week, place = empty[0]
        raise InvalidValue(
            f"No model has a forecast for {locations[place]} in the week of {weeks[week]} "
            f"in {path}. Leave out the week or the location."
        )
    return Forecasts(
        weeks=tuple(map(str, weeks)),
        locations=tuple(map(str, locations)),
        models=tuple(map(str, models)),
        forecasts=np.where(forecasts == NO_FORECAST, np.nan, forecasts / TENTHS),
        truth=truth.astype(np.float64),
    )

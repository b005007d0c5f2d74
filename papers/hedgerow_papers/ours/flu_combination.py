"""The game of `combination`: flu forecasts to combine, with a choice of models, weeks and answers.

Errors are in percent of the highest consensus forecast so far and cut off at 100, as `FluSight` has
them. All honest states are judged, also those that do not answer, so that games are comparable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Environment, Feature, Traits, fingerprint_of
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.measure import Measure
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Plays
from hedgerow.core.validate import at_least, one_of
from hedgerow.environments.drawn.generated import generator
from hedgerow.environments.recorded.combining import LARGEST_TARGET, Combining
from hedgerow.environments.recorded.data import find
from hedgerow.environments.recorded.flusight import FluSight, Forecasts
from hedgerow.environments.recorded.forecast_table import ForecastTable
from hedgerow.environments.recorded.table import read_table

Models = Literal["complete", "first weeks", "all"]
FIRST_WEEKS, COVERAGE = 4, 0.8
FILES = ("flusight/median_forecasts.parquet", "flusight/truth_weekly.csv.gz")
SOURCE = "https://github.com/cdcepi/Flusight-forecast-data"
NOT_FREE = ("MOBS-GLEAM_FLUH",)  # left out as in the table of the package
CHOSEN = 7  # of the generator that draws who answers


class Error(Measure):
    """The mean error of the honest states, in percent, cut off at 100; added up over rounds."""

    name: ClassVar[str] = "error"
    meaning: ClassVar[str] = "error of the combined forecasts, in percent and cut off at 100"

    def __init__(self, honest: np.ndarray) -> None:
        super().__init__()
        self.honest = honest

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        if not isinstance(plays, Plays):
            raise Unsupported("The error of a combination needs weights, not experts.")
        records = block.losses[:, self.honest]
        points = plays.dense()[:, self.honest]
        errors = np.einsum("tid,tid->ti", records[..., :-1], points) - records[..., -1]
        return percent(errors).mean(axis=1)


def percent(errors: Array) -> Array:
    """Errors in percent of the scale, cut off at 100."""
    return 100 * np.minimum(np.abs(errors), 1.0)


@dataclass(frozen=True, kw_only=True)
class FluCombination(Environment):
    """53 US states and territories combine flu forecasts; some may not answer, or lie.

    Parameters
    ----------
    models
        "complete" (default): the 12 models with forecasts for most weeks, known in hindsight only.
        "first weeks": those with most forecasts in the first four weeks. "all": all 42.
    ahead
        For how many weeks ahead forecasts are: 1 (default, in the package), or 2 to 4, which need
        the raw data.
    answering
        How many states answer, others for each seed. None (default): all.
    liars
        How many of the states lie, others for each seed, to push the worst model. Default 0.
    """

    models: Models = "complete"
    ahead: int = 1
    answering: int | None = None
    liars: int = 0

    def __post_init__(self) -> None:
        one_of(self, models=get_args(Models))
        if self.ahead not in (1, 2, 3, 4):
            raise InvalidValue(f"Expected ahead={self.ahead!r} in (1, 2, 3, 4).")
        at_least("liars", self.liars, 0)
        if self.answering is not None:
            at_least("answering", self.answering, 1)

    def __getstate__(self) -> dict[str, Any]:
        """Keep only the choices: worker processes read the table themselves."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def table(self) -> ForecastTable:
        """The forecasts, the admissions and the scale."""
        return table_of(self.models, self.ahead)

    @cached_property
    def game(self) -> Combining:
        """The game in which all states answer, and none lies."""
        return Combining(self.table)

    @cached_property
    def worst(self) -> int:
        """The model with the largest error in hindsight, which liars push."""
        records = self.game.records
        return int(np.abs(records[..., :-1] - records[..., -1:]).sum(axis=(0, 1)).argmax())

    @property
    def setting(self) -> Setting:
        return self.game.setting

    @property
    def traits(self) -> Traits:
        """Reports that are not the charged records count as late ones, whatever the reason."""
        differ = self.answering is not None or self.liars > 0
        return Traits(features=frozenset({Feature.LATE_REPORTS}) if differ else frozenset())

    def measures(self) -> tuple[Measure, ...]:
        return (_SeededError(self),)

    def fingerprint(self) -> str:
        return fingerprint_of(self.game.fingerprint(), repr((self.answering, self.liars)))

    def chosen(self, seed: int) -> np.ndarray:
        """The states in the order of this seed: liars are the first, then those that answer."""
        return generator(seed, CHOSEN).permutation(self.setting.clients)

    def start(self, seed: int) -> tuple[int, int]:
        return seed, 0

    def block(
        self, state: tuple[int, int], rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, tuple[int, int]]:
        seed, at = state
        losses = self.game.records[at : at + rounds]
        return Block(losses, self._reports(losses, seed)), (seed, at + rounds)

    def _reports(self, losses: Array, seed: int) -> Array:
        """What states answer about: nothing if they are silent, another target if they lie."""
        if self.answering is None and not self.liars:
            return losses
        order, reports = self.chosen(seed), losses.copy()
        liars = order[: self.liars]
        # far on the side of the worst model, so that each answer makes its weight larger
        reports[:, liars, -1] = LARGEST_TARGET * np.sign(losses[:, liars, self.worst])
        if self.answering is not None:
            reports[:, order[self.answering :]] = 0.0
        return reports


class _SeededError(Error):
    """The error of the states that do not lie; who they are depends on the seed."""

    def __init__(self, game: FluCombination) -> None:
        super().__init__(np.arange(game.setting.clients))
        self.game = game

    def begin(self, seed: int) -> None:
        self.honest = np.sort(self.game.chosen(seed)[self.game.liars :])


@lru_cache(maxsize=8)
def table_of(models: Models, ahead: int) -> ForecastTable:
    """The table of a game; raises `MissingData` if the raw data are needed and not there."""
    if ahead == 1:
        if models == "complete":
            return FluSight().combination
        everything = FluSight(missing="sleep", coverage=0.0).combination
        return everything if models == "all" else everything.complete_at_first(FIRST_WEEKS)
    raw = _raw(ahead)
    names = {"clients": raw.locations, "rounds": raw.weeks}
    forecasts, scale = raw.forecasts, raw.scale("peak")
    if models == "complete":
        kept = raw.kept(COVERAGE)
        filled = np.where(np.isnan(forecasts), raw.consensus[..., None], forecasts)[..., kept]
        return ForecastTable(
            filled, raw.truth, scale, models=tuple(raw.models[k] for k in kept), **names
        )
    everything = ForecastTable(forecasts, raw.truth, scale, models=raw.models, **names)
    return everything if models == "all" else everything.complete_at_first(FIRST_WEEKS)


@lru_cache(maxsize=4)
def _raw(ahead: int) -> Forecasts:
    """The raw forecasts of states for some weeks ahead, and what was reported."""
    forecasts, truth = (read_table(find(name, SOURCE)) for name in FILES)
    kept = (forecasts["horizon"] == ahead) & (forecasts["location"] != "US")
    kept &= ~np.isin(forecasts["model"].astype(str), NOT_FREE)
    weeks, week = np.unique(forecasts["target_end_date"][kept].astype("M8[D]"), return_inverse=True)
    places, place = np.unique(forecasts["location"][kept].astype(str), return_inverse=True)
    models, model = np.unique(forecasts["model"][kept].astype(str), return_inverse=True)
    wide = np.full((len(weeks), len(places), len(models)), np.nan)
    wide[week, place, model] = forecasts["value"][kept]
    known = dict(_reported(truth))
    came = [[known.get((str(when), where), np.nan) for where in places] for when in weeks]
    found = Forecasts(
        tuple(map(str, weeks)), tuple(places), tuple(models), wide, np.array(came, float)
    )
    there = ~np.isnan(found.truth).any(axis=1)
    return replace(
        found,
        weeks=tuple(np.array(found.weeks)[there]),
        forecasts=wide[there],
        truth=found.truth[there],
    )


def _reported(truth: dict[str, Any]) -> Iterator[tuple[tuple[str, str], float]]:
    """What was reported, by date and place; places of digits were read as numbers."""
    dates = truth["date"].astype("M8[D]").astype(str)
    for when, where, value in zip(dates, truth["location"], truth["value"], strict=True):
        text = str(where)
        yield (str(when), text if text == "US" else text.zfill(2)), float(value)

"""The demo's story: US states follow flu forecasts, together with privacy, or alone.

Every week, 53 US states and territories choose one of 12 forecasting models (CDC FluSight, 56 weeks
of 2021-23, one week ahead). Together they learn with differential privacy at epsilon = 1; alone, a
state learns from its own errors only, with privacy or without. The loss of a week is the error of
the forecast as a share of the state's peak so far, as `FluSight` defines it. A figure is the
average error over states and weeks, in percent.

Intervals are over the noise of the algorithms; the data are one history and have no interval. A
state alone has its own noise: `FluSight(location="each")` plays the states in turn, and a pass over
all of them is one repetition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.environments.recorded.flusight import EACH, FluSight
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.study import Study

EPSILON, DELTA = 1.0, 1e-6
STATES = FluSight()
SLEEPING = FluSight(missing="sleep", coverage=0.0)

PHASED, OPEN = "phased_selection", "follow_the_leader"
SHARED, LOCAL = "phased_selection, distributed", "phased_selection, local"
TOGETHER: dict[str, AlgorithmSpec] = {
    PHASED: PhasedSelection(epsilon=EPSILON),
    SHARED: PhasedSelection(epsilon=EPSILON, delta=DELTA, trust="distributed"),
    LOCAL: PhasedSelection(epsilon=EPSILON, trust="local"),
    OPEN: FollowTheLeader(),
}

Specs = Mapping[str, AlgorithmSpec]


def study_of(title: str, game: FluSight, specs: Specs, seeds: int) -> StudyConfig:
    """A study in which all states play together."""
    entries = tuple(Entry(label, spec) for label, spec in specs.items())
    return StudyConfig(title, game, entries, seeds)


def study_alone(title: str, game: FluSight, specs: Specs, passes: int) -> StudyConfig:
    """A study in which the states play in turn, each by itself."""
    states = len(game.locations)
    return study_of(f"{title} alone", replace(game, location=EACH), specs, states * passes)


def story(seeds: int, passes: int, together: Specs, alone: Specs) -> dict[str, StudyConfig]:
    """The states together, alone with privacy, and alone without it."""
    states, budget = f"{len(STATES.locations)} states", f"epsilon = {EPSILON:g}"
    without = {OPEN: TOGETHER[OPEN]}
    return {
        "together": study_of(f"{states} together, {budget}", STATES, together, seeds),
        "alone": study_alone(f"{states}, {budget}, each", STATES, alone, passes),
        "alone-open": study_alone(f"{states}, not private, each", STATES, without, 1),
    }


def percent(study: Study, label: str) -> Estimate:
    """The average error of the forecasts that were followed, in percent, over states and weeks."""
    game = study.config.environment
    assert isinstance(game, FluSight)
    runs = study.of(label)
    errors = [100 * float(run.loss[-1]) / len(game.weeks) for run in runs]
    if game.location == EACH:
        return Estimate.within(errors, [game.start(run.seed)[0] for run in runs])
    return Estimate.of(errors)


MODELS = 100 * STATES.losses.mean(axis=(0, 1))  # the average error of every model, in percent
RANDOM, BEST = float(MODELS.mean()), float(MODELS.min())
AVERAGE = 100 * float(STATES.rivals()["plain average"].mean())


def gained(value: float) -> float:
    """The share of the gap between a random model (0) and the best in hindsight (1) that is closed.

    >>> gained(RANDOM), gained(BEST)
    (0.0, 1.0)
    """
    return (RANDOM - value) / (RANDOM - BEST)


ALONE, PRIVATE = "each state alone, not private", "together, private, trusted server"


@dataclass(frozen=True)
class Outcome:
    """One line of the table and picture: a name, its average error, and its algorithm if any."""

    name: str
    value: Estimate
    algorithm: Algorithm | None = None


def outcomes(done: Mapping[str, Study]) -> list[Outcome]:
    """The story in nine lines, from a random model to the best one."""
    best = STATES.models[int(MODELS.argmin())]

    def line(name: str, study: str, label: str) -> Outcome:
        return Outcome(name, percent(done[study], label), done[study].algorithms[label])

    return [
        Outcome("a model chosen at random", Estimate(RANDOM, nan, 1)),
        line("each state alone, private", "alone", PHASED),
        line("together, private, no trusted server", "together", LOCAL),
        line(ALONE, "alone-open", OPEN),
        line("together, private, secure aggregation", "together", SHARED),
        line(PRIVATE, "together", PHASED),
        line("together, not private", "together", OPEN),
        Outcome("plain average of all forecasts", Estimate(AVERAGE, nan, 1)),
        Outcome(f"best model in hindsight ({best})", Estimate(BEST, nan, 1)),
    ]


TITLE = (
    f"How far off was the flu forecast that a state followed? {len(STATES.locations)} US states and"
    f" territories, {len(STATES.weeks)} weeks, {len(STATES.models)} models"
)
READING = f"left is better; private: epsilon = {EPSILON:g}; bars: 95 % confidence over the noise"
SOURCE = "data: CDC FluSight, CC BY 4.0 (some models MIT)"


def picture(done: Mapping[str, Study], path: Path, note: str) -> None:
    """Draw the nine lines."""
    from hedgerow.evaluation.plots.canvas import COLOURS
    from hedgerow.evaluation.plots.dots import Row, plot_dots

    colours = {"each": COLOURS[1], "together, private": COLOURS[0]}
    rows = [
        Row(
            line.name,
            line.value,
            next((colours[key] for key in colours if line.name.startswith(key)), COLOURS[6]),
            line.name == PRIVATE,
        )
        for line in outcomes(done)
    ]
    value = "average error, in % of the highest weekly forecast for the state so far"
    plot_dots(rows, path, TITLE, value, note, mark=ALONE)

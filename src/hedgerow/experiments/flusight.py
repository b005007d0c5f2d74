"""Real flu forecasts: do states that share under privacy do better than states on their own?

Every week, 53 US states and territories choose one of 12 forecasting models (CDC FluSight, 56 weeks
of 2021-23, one week ahead). Together they learn with differential privacy at epsilon = 1; alone, a
state learns from its own errors only, with privacy or without. The loss of a week is the error of
the forecast as a share of the state's peak so far, as `FluSight` defines it. A figure is the
average error over states and weeks, in percent.

Intervals are over the noise of the algorithms; the data are one history and have no interval. A
state alone has its own noise: `FluSight(location="each")` plays the states in turn, and a pass over
all of them is one repetition.

Two further games show what the result depends on. With errors relative to the forecast of the same
week, quiet weeks count as much as the flu season. With all 42 models, models come and go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.correlated.running_leader import RunningLeader
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.walks.walk_leader import WalkLeader
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.environments.recorded.flusight import EACH, FluSight
from hedgerow.evaluation.statistics import Estimate
from hedgerow.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    Verdict,
    lower_end_of_difference,
)
from hedgerow.experiments.pictures import footer
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.study import Study

EPSILON, DELTA = 1.0, 1e-6
STATES = FluSight()
WEEKLY = FluSight(scale="week")
SLEEPING = FluSight(missing="sleep", coverage=0.0)

PHASED, PREFIX, OPEN = "phased_selection", "random_prefix", "follow_the_leader"
SHARED, LOCAL = "phased_selection, distributed", "phased_selection, local"
WALK, SHARED_WALK = "walk_leader, local", "walk_leader, distributed"
LEADER, DOUBLING = "running_leader", "doubling"
CENTRAL = (PHASED, PREFIX)
ALGORITHMS: dict[str, AlgorithmSpec] = {
    PHASED: PhasedSelection(epsilon=EPSILON),
    PREFIX: RandomPrefix(epsilon=EPSILON),
    LEADER: RunningLeader(epsilon=EPSILON, delta=DELTA),
    SHARED: PhasedSelection(epsilon=EPSILON, delta=DELTA, trust="distributed"),
    LOCAL: PhasedSelection(epsilon=EPSILON, trust="local"),
    WALK: WalkLeader(epsilon=EPSILON, delta=DELTA),
    SHARED_WALK: WalkLeader(epsilon=EPSILON, delta=DELTA, trust="distributed"),
    DOUBLING: Doubling(epsilon=EPSILON),
    OPEN: FollowTheLeader(),
}
TOGETHER = (PHASED, PREFIX, LEADER, SHARED, LOCAL, SHARED_WALK, WALK, OPEN)
SLEEPERS = (DOUBLING, SHARED_WALK, WALK, OPEN)
SEEDS, QUICK_SEEDS = 100, 5  # of games together
PASSES, QUICK_PASSES = 20, 2  # over all states, of games alone


def _study(title: str, game: FluSight, labels: Iterable[str], seeds: int) -> StudyConfig:
    entries = tuple(Entry(label, ALGORITHMS[label]) for label in labels)
    return StudyConfig(title, game, entries, seeds)


def _alone(title: str, game: FluSight, labels: Iterable[str], passes: int) -> StudyConfig:
    states = len(game.locations)
    return _study(f"{title} alone", replace(game, location=EACH), labels, states * passes)


def story(
    seeds: int,
    passes: int,
    together: Iterable[str] = TOGETHER,
    alone: Iterable[str] = CENTRAL,
) -> dict[str, StudyConfig]:
    """The states together, alone with privacy, and alone without it."""
    states, budget = f"{len(STATES.locations)} states", f"epsilon = {EPSILON:g}"
    return {
        "together": _study(f"{states} together, {budget}", STATES, together, seeds),
        "alone": _alone(f"{states}, {budget}, each", STATES, alone, passes),
        "alone-open": _alone(f"{states}, not private, each", STATES, (OPEN,), 1),
    }


def studies(quick: bool) -> dict[str, StudyConfig]:
    seeds, passes = (QUICK_SEEDS, QUICK_PASSES) if quick else (SEEDS, PASSES)
    weekly, sleeping = "Errors relative to the same week", "All 42 models, which come and go"
    return {
        **story(seeds, passes),
        "weekly": _study(weekly, WEEKLY, (*CENTRAL, LEADER, OPEN), seeds),
        "weekly-alone-open": _alone(f"{weekly}, each state", WEEKLY, (OPEN,), 1),
        "sleeping": _study(sleeping, SLEEPING, SLEEPERS, seeds),
        "sleeping-alone-open": _alone(f"{sleeping}, each state", SLEEPING, (OPEN,), 1),
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


def judge(done: Studies) -> Verdict:
    together = {label: percent(done["together"], label) for label in TOGETHER}
    alone = {label: percent(done["alone"], label) for label in CENTRAL}
    weekly = {label: percent(done["weekly"], label) for label in (*CENTRAL, OPEN)}
    sleeping = {label: percent(done["sleeping"], label) for label in SLEEPERS}
    own, weekly_own, sleeping_own = (
        percent(done[name], OPEN).mean
        for name in ("alone-open", "weekly-alone-open", "sleeping-alone-open")
    )
    cut_off = STATES.clipped / STATES.losses.size
    checks = [Check("losses-cut-off/share", cut_off, "<=", 0.025)]
    for label in CENTRAL:
        above_alone = lower_end_of_difference(alone[label], together[label])
        checks += [
            Check(f"{label}/below-alone-not-private", own - together[label].high, ">=", 0.0),
            Check(f"{label}/below-alone-private", above_alone, ">=", 0.0),
            Check(f"{label}/gain", gained(together[label].mean), ">=", 0.75),
            Check(f"{label}/above-plain-average", together[label].low - AVERAGE, ">=", 0.0),
            Check(f"weekly/{label}/above-alone", weekly[label].low - weekly_own, ">=", 0.0),
        ]
    local = together[LOCAL]
    walks_above = lower_end_of_difference(together[WALK], local)
    checks += [
        Check("alone-not-private/gain", gained(own), "<=", 0.7),
        Check("local/below-alone-private", alone[PHASED].low - local.high, ">=", 0.0),
        Check("local/above-alone-not-private", local.low - own, ">=", 0.0),
        Check("local/walk_leader/above-phased_selection", walks_above, ">=", 0.0),
        Check("distributed/walk_leader/gain", gained(together[SHARED_WALK].high), ">=", 0.3),
        Check("weekly/not-private/below-alone", weekly_own - weekly[OPEN].mean, ">=", 0.0),
        Check("sleeping/not-private/below-alone", sleeping_own - sleeping[OPEN].mean, ">=", 0.0),
        Check("sleeping/doubling/above-alone", sleeping[DOUBLING].low - sleeping_own, ">=", 0.0),
    ]
    return Verdict(None, tuple(checks), _message(done))


def _message(done: Studies) -> str:
    private, own = percent(done["together"], PHASED).mean, percent(done["alone-open"], OPEN).mean
    sharing, alone = (f"{100 * gained(error):.0f} %" for error in (private, own))
    return (
        f"average error {private:.1f} % together and private, {own:.1f} % alone without privacy:"
        f" sharing closes {sharing} of the gap between a random model and the best in hindsight,"
        f" learning alone {alone}; the plain average of all forecasts, which learns nothing, has"
        f" {AVERAGE:.1f} %"
    )


ALONE, PRIVATE = "each state alone, not private", "together, private, trusted server"


@dataclass(frozen=True)
class Outcome:
    """One line of the table and picture: a name, its average error, and its algorithm if any."""

    name: str
    value: Estimate
    algorithm: Algorithm | None = None


def outcomes(done: Studies) -> list[Outcome]:
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


def picture(done: Studies, path: Path, note: str) -> None:
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


def draw(done: Studies, path: Path) -> None:
    shown = {name: done[name] for name in ("together", "alone", "alone-open")}
    picture(done, path, footer(shown, studies, f"{READING}; {SOURCE}"))


EXPERIMENT = Experiment(
    id="flusight",
    title="Real flu forecasts: states together under privacy, and states alone",
    claim=(
        "none published; states that share under privacy at epsilon = 1 do better than states that"
        " learn alone without privacy"
    ),
    studies=studies,
    judge=judge,
    draw=draw,
)

"""Real flu forecasts: do states that share under privacy do better than states on their own?

The games and figures are those of the demo (`hedgerow.cli.flu_story`), with more algorithms and
seeds. Two further games show what the result depends on. With errors relative to the forecast of
the same week, quiet weeks count as much as the flu season. With all 42 models, models come and go.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hedgerow.algorithms.correlated.running_leader import RunningLeader
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.walks.walk_leader import WalkLeader
from hedgerow.cli.flu_story import (
    AVERAGE,
    DELTA,
    EPSILON,
    LOCAL,
    OPEN,
    PHASED,
    READING,
    SHARED,
    SLEEPING,
    SOURCE,
    STATES,
    gained,
    percent,
    picture,
    story,
    study_alone,
    study_of,
)
from hedgerow.cli.flu_story import TOGETHER as SHOWN
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.environments.recorded.flusight import FluSight
from hedgerow.studies.config import StudyConfig
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    Verdict,
    lower_end_of_difference,
)
from hedgerow_papers.experiments.pictures import footer

WEEKLY = FluSight(scale="week")

PREFIX, LEADER, DOUBLING = "random_prefix", "running_leader", "doubling"
WALK, SHARED_WALK = "walk_leader, local", "walk_leader, distributed"
CENTRAL = (PHASED, PREFIX)
ALGORITHMS: dict[str, AlgorithmSpec] = {
    **SHOWN,
    PREFIX: RandomPrefix(epsilon=EPSILON),
    LEADER: RunningLeader(epsilon=EPSILON, delta=DELTA),
    WALK: WalkLeader(epsilon=EPSILON, delta=DELTA),
    SHARED_WALK: WalkLeader(epsilon=EPSILON, delta=DELTA, trust="distributed"),
    DOUBLING: Doubling(epsilon=EPSILON),
}
TOGETHER = (PHASED, PREFIX, LEADER, SHARED, LOCAL, SHARED_WALK, WALK, OPEN)
SLEEPERS = (DOUBLING, SHARED_WALK, WALK, OPEN)
SEEDS, QUICK_SEEDS = 100, 5  # of games together
PASSES, QUICK_PASSES = 20, 2  # over all states, of games alone


def _specs(labels: Iterable[str]) -> dict[str, AlgorithmSpec]:
    return {label: ALGORITHMS[label] for label in labels}


def studies(quick: bool) -> dict[str, StudyConfig]:
    seeds, passes = (QUICK_SEEDS, QUICK_PASSES) if quick else (SEEDS, PASSES)
    weekly, sleeping = "Errors relative to the same week", "All 42 models, which come and go"
    compared, without = _specs((*CENTRAL, LEADER, OPEN)), _specs((OPEN,))
    return {
        **story(seeds, passes, _specs(TOGETHER), _specs(CENTRAL)),
        "weekly": study_of(weekly, WEEKLY, compared, seeds),
        "weekly-alone-open": study_alone(f"{weekly}, each state", WEEKLY, without, 1),
        "sleeping": study_of(sleeping, SLEEPING, _specs(SLEEPERS), seeds),
        "sleeping-alone-open": study_alone(f"{sleeping}, each state", SLEEPING, without, 1),
    }


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

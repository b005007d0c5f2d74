"""When does learning together hurt? Clients whose best experts differ more and more.

A client's best expert never loses; the others lose 1 in every second round. Most clients share
their best expert. The heterogeneity is the fraction of clients with a different one. We count each
client's loss beyond its OWN best expert, averaged over clients, for private learning together and
for a single client at the same epsilon. A single client sees the same distribution for every
heterogeneity, so that side is one number. Together, the clients follow one expert, and a client
with a different best expert pays in every round. Alone, a client pays once for its privacy. So
there is a point at which the two are equal.

An average hides which clients pay. At that point, clients that share their best expert still gain
from learning together, and the others lose already before it. Both effects are large in this
setting: with a horizon four times as long, the point is about four times nearer to 0. The algorithm
runs with best_loss = 0 throughout. That is right for each client but, together, only at
heterogeneity 0.

Together, a client with a different best expert pays half a unit in every round. So the point is
about (alone - together) / (T / 2), with the regrets of one client alone and of all together at
heterogeneity 0. It moves with the regret of one client, so the limits are shares of this forecast.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.study import Study
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    Verdict,
    lower_end_of_difference,
)
from hedgerow_papers.experiments.pictures import footer
from hedgerow_papers.ours.heterogeneous import Heterogeneous
from hedgerow_papers.statistics import Contest, Crossing, first_root

EPSILON, CLIENTS, EXPERTS, HORIZON = 1.0, 20, 20, 500
PRICE = 0.5  # what a client with a different best expert pays in a round, on average
PRIVATE, OPEN = "private", "not private"
ALGORITHMS = {PRIVATE: SparseVector(epsilon=EPSILON), OPEN: FollowTheLeader()}
SWEEP = {
    PRIVATE: (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0),
    OPEN: (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0),
}
SEEDS = {PRIVATE: (200, 2000), OPEN: (100, 500)}
QUICK_SEEDS = {PRIVATE: (5, 50), OPEN: (3, 10)}


def label(heterogeneity: float) -> str:
    return f"heterogeneity={heterogeneity:g}"


def _names(kind: str) -> tuple[str, str]:
    """The names of the two studies: all clients together, and one alone."""
    return f"{kind.replace(' ', '-')}-together", f"{kind.replace(' ', '-')}-alone"


def _stream(clients: int, heterogeneity: float) -> Heterogeneous:
    return Heterogeneous(
        clients=clients, experts=EXPERTS, horizon=HORIZON, heterogeneity=heterogeneity
    )


def studies(quick: bool) -> dict[str, StudyConfig]:
    made = {}
    for kind, algorithm in ALGORITHMS.items():
        together, alone = _names(kind)
        seeds, seeds_alone = (QUICK_SEEDS if quick else SEEDS)[kind]
        frame = f"{kind}, d = {EXPERTS}, T = {HORIZON}" + (
            f", epsilon = {EPSILON:g}" if kind == PRIVATE else ""
        )
        sweep = tuple(Entry(label(h), algorithm, _stream(CLIENTS, h)) for h in SWEEP[kind])
        made[together] = StudyConfig(
            f"{CLIENTS} clients together, {frame}", _stream(CLIENTS, 0.0), sweep, seeds
        )
        made[alone] = StudyConfig(
            f"One client alone, {frame}", _stream(1, 0.0), (Entry("alone", algorithm),), seeds_alone
        )
    return made


def _own_best(study: Study, name: str) -> Estimate:
    return Estimate.of([result.own_best_regret for result in study.of(name)])


def crossing(curve: Mapping[float, Estimate], level: Estimate) -> Crossing:
    """Where the curve meets the level.

    The interval contains the points at which a 95 % test cannot distinguish the two.
    """
    return Crossing(
        first_root({x: value.mean - level.mean for x, value in curve.items()}),
        first_root({x: -lower_end_of_difference(level, value) for x, value in curve.items()}),
        first_root({x: lower_end_of_difference(value, level) for x, value in curve.items()}),
    )


def contest(done: Studies, kind: str) -> Contest:
    together, alone = (done[name] for name in _names(kind))
    curve, level = (
        {h: _own_best(together, label(h)) for h in SWEEP[kind]},
        _own_best(alone, "alone"),
    )
    return Contest(curve, f"{kind}, together", level, f"{kind}, alone", crossing(curve, level))


def judge(done: Studies) -> Verdict:
    private, free = contest(done, PRIVATE), contest(done, OPEN)
    together, apart, level = private.curve[0.0], private.curve[1.0], private.level
    even = (level.mean - together.mean) / (HORIZON * PRICE)
    checks = (
        Check("private/heterogeneity=0/times-below-alone", level.mean / together.mean, ">=", 5.0),
        Check("private/heterogeneity=1/times-above-alone", apart.mean / level.mean, ">=", 2.0),
        Check("private/even-at/low-end-over-forecast", private.crossing.low / even, ">=", 0.85),
        Check("private/even-at/high-end-over-forecast", private.crossing.high / even, "<=", 1.15),
        Check(
            "private/even-at/beyond-not-private",
            private.crossing.low - free.crossing.high,
            ">=",
            0.0,
        ),
    )
    message = (
        "on average over the clients, private learning together is better than alone until a"
        f" fraction {private.crossing} of them (95 % interval) has a different best expert; without"
        f" privacy, until a fraction {free.crossing}; the forecast with privacy is {even:.3f}"
    )
    return Verdict(None, checks, message)


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.panels import plot_contests

    title = (
        f"When learning together hurts: {CLIENTS} clients, {EXPERTS} experts, {HORIZON} rounds,"
        f" epsilon = {EPSILON:g}"
    )
    note = footer(done, studies, "bars and vertical bands: 95 % confidence")
    parameter = "heterogeneity: fraction of clients whose best expert is not the shared one"
    contests = [contest(done, kind) for kind in ALGORITHMS]
    plot_contests(contests, path, title, parameter, "regret to own best expert (log scale)", note)


EXPERIMENT = Experiment(
    id="heterogeneous-clients",
    title="When does learning together hurt? Clients whose best experts differ",
    claim=(
        "none published; together is better while few clients differ, and worse beyond a point that"
        " we measure"
    ),
    studies=studies,
    judge=judge,
    draw=draw,
)

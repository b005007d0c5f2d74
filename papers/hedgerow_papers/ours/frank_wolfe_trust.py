"""What it costs not to trust the server: Frank-Wolfe on trees under three trust models.

On curved losses (forecasts of a distribution) the same epsilon is spent with a trusted server, with
secure aggregation and with noise at every client, and with noise at leaves (as published) and at
vertices. At leaves a trusted server chooses an expert; at vertices it releases vectors, as clients
do. On linear losses it can choose an expert directly: phased selection.
"""

from __future__ import annotations

from pathlib import Path

from hedgerow.algorithms.baselines.gradient_descent import GradientDescent
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.experiments.experiment import Check, Experiment, Studies, Verdict, spent
from hedgerow_papers.experiments.pictures import footer
from hedgerow_papers.gao2024.certified_frank_wolfe import FrankWolfe, Trust
from hedgerow_papers.gao2024.class_forecasts import ClassForecasts
from hedgerow_papers.gao2024.gaussian_softmax import GaussianSoftmax
from hedgerow_papers.gao2024.tree_roles import Placement

EPSILON, DELTA, SMALL = 1.0, 1e-6, 0.3
TREES = (3, 5)
OPEN = "not private"
PHASED, ONE_TREE, CHOSEN = "phased selection", "one tree", "no tree (default)"
CURVED, LINEAR = "curved", "linear"
TRUST: dict[Trust, float] = {"central": 0.0, "distributed": DELTA, "local": 0.0}  # with its delta
PLACES: tuple[Placement, ...] = ("leaf", "vertex")
FACTOR = 2.0


def label(trust: str, noise: str, trees: int) -> str:
    return f"{trust}/{noise}/T_1={trees}"


def choosing(name: str) -> str:
    """The label of an algorithm on losses of experts."""
    return f"{name}/epsilon={SMALL:g}"


def studies(quick: bool) -> dict[str, StudyConfig]:
    seeds = 3 if quick else 20
    horizon = 2**9 if quick else 2**12
    forecasts = ClassForecasts(clients=20, classes=20, horizon=horizon, floor=0.5)
    softmax = GaussianSoftmax(clients=10, experts=100, horizon=horizon)
    curved = tuple(
        Entry(
            label(trust, noise, trees),
            FrankWolfe(epsilon=EPSILON, delta=delta, trust=trust, noise=noise, trees=trees),
        )
        for trust, delta in TRUST.items()
        for noise in PLACES
        for trees in TREES
    )
    linear = (
        Entry(choosing(PHASED), PhasedSelection(epsilon=SMALL)),
        Entry(choosing(ONE_TREE), FrankWolfe(epsilon=SMALL, trees=1)),
        Entry(choosing(CHOSEN), FrankWolfe(epsilon=SMALL)),
    )
    return {
        CURVED: StudyConfig(
            f"Forecasts of a distribution, epsilon = {EPSILON:g}",
            forecasts,
            (*curved, Entry(OPEN, GradientDescent())),
            seeds=seeds,
        ),
        LINEAR: StudyConfig(
            f"Losses of experts, trusted server, epsilon = {SMALL:g}", softmax, linear, seeds=seeds
        ),
    }


def judge(done: Studies) -> Verdict:
    curved, linear, checks, notes = done[CURVED], done[LINEAR], [], []
    for trust in TRUST:
        for trees in TREES:
            leaf, vertex = (curved.regret(label(trust, noise, trees)) for noise in PLACES)
            name = f"{trust}/T_1={trees}/vertex-over-leaf"
            checks.append(Check(name, vertex.mean / leaf.mean, "<=", 1.0))
            cost = spent(curved.algorithms[label(trust, "vertex", trees)])
            checks.append(Check(f"{trust}/T_1={trees}/epsilon", cost, "<=", EPSILON))
        least = min(
            (curved.regret(label(trust, noise, trees)) for noise in PLACES for trees in TREES),
            key=lambda found: found.mean,
        )
        notes.append(f"{trust} {least}")
    phased, tree, none = (linear.regret(choosing(name)) for name in (PHASED, ONE_TREE, CHOSEN))
    ratio = tree.mean / phased.mean
    checks.append(Check("linear/one-tree-over-phased-selection", ratio, ">=", FACTOR))
    text = (
        f"least regret on curved losses: {', '.join(notes)}, not private {curved.regret(OPEN)}; on"
        f" linear losses one tree {tree}, phased selection {phased}, Frank-Wolfe without a tree"
        f" {none}"
    )
    return Verdict(None, tuple(checks), text)


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.panels import plot_bars

    curved = done[CURVED]
    groups: dict[str, dict[str, Estimate]] = {
        f"{trust}, T_1={trees}": {
            f"noise at {noise}": curved.regret(label(trust, noise, trees)) for noise in PLACES
        }
        for trust in TRUST
        for trees in TREES
    }
    setting = curved.config.environment.setting
    title = (
        f"Forecasts of a distribution (epsilon = {EPSILON:g}, m = {setting.clients},"
        f" d = {setting.experts}, T = {setting.rounds:,})"
    )
    plot_bars(groups, path, title, "regret per client (log scale)", footer(done, studies))


EXPERIMENT = Experiment(
    id="frank-wolfe-trust",
    title="Frank-Wolfe on trees: trust and where the noise is",
    claim=(
        "none published; with three trees or more, noise at vertices is at least as good as at"
        " leaves"
    ),
    studies=studies,
    judge=judge,
    draw=draw,
)

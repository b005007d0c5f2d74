"""Gao, Huang, Yang 2024, the speed-up from clients: regret against m for phased selection (stochastic) and Fed-SVT (realizable).

Theorems 2.2 and 2.6 say that regret per client falls like m^(-1/2) (or faster where privacy is what costs) on stochastic losses, and
like 1/m with a perfect expert. Slopes are fitted on log axes. One setting is held to a figure: ten clients regret at most a sixth of one
on the Gaussian-softmax stream of the paper's section 6. Seeds are shared: the same seed has the same means and variances for every m.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hedgerow.algorithms.experts.phased_selection import PhasedSelection
from hedgerow.algorithms.experts.random_prefix import RandomPrefix
from hedgerow.algorithms.experts.sparse_vector import SparseVector
from hedgerow.core.protocol import AlgorithmSpec, Environment
from hedgerow.environments.realizable import Realizable
from hedgerow.environments.stochastic import GaussianSoftmax
from hedgerow.experiments.config import Entry, StudyConfig
from hedgerow.experiments.experiment import Check, Experiment, Studies, Verdict, lower_end_of_difference

EPSILON, EXPERTS = 1.0, 100
CLIENTS = (1, 2, 4, 8, 16, 32, 64)
FIGURE, FACTOR = 2**14, 6.0
PHASED, PREFIX, SVT = "phased selection", "random prefix", "Fed-SVT"
THEOREMS = {PHASED: -0.5, PREFIX: None, SVT: -1.0}  # slopes of the leading terms; random prefix is not in the paper
LIMITS = {PHASED: -0.5, PREFIX: -0.5, SVT: -0.85}  # Fed-SVT's theorem also has a term N ln(d) that does not fall with m


def label(name: str, clients: int) -> str:
    return f"{name}/m={clients}"


def _stochastic(clients: int, horizon: int) -> Environment:
    return GaussianSoftmax(clients=clients, experts=EXPERTS, horizon=horizon)


def studies(quick: bool) -> dict[str, StudyConfig]:
    seeds = 4 if quick else 20
    horizons = (2**10, 2**9) if quick else (2**12, 2**12)
    specs: dict[str, AlgorithmSpec] = {PHASED: PhasedSelection(epsilon=EPSILON), PREFIX: RandomPrefix(epsilon=EPSILON)}
    blocks = tuple(Entry(label(name, m), spec, _stochastic(m, horizons[0])) for name, spec in specs.items() for m in CLIENTS)
    realizable = tuple(
        Entry(label(SVT, m), SparseVector(epsilon=EPSILON), Realizable(clients=m, experts=EXPERTS, horizon=horizons[1])) for m in CLIENTS
    )
    figure = tuple(Entry(label(PHASED, m), specs[PHASED], _stochastic(m, FIGURE)) for m in (1, 10))
    tail = f"epsilon = {EPSILON:g}, d = {EXPERTS}"
    return {
        "stochastic": StudyConfig(f"Choices from blocks, {tail}", _stochastic(1, horizons[0]), blocks, seeds=seeds),
        "realizable": StudyConfig(f"Fed-SVT, {tail}", Realizable(experts=EXPERTS, horizon=horizons[1]), realizable, seeds=seeds),
        "figure": StudyConfig(f"One client and ten, {tail}, T = {FIGURE}", _stochastic(1, FIGURE), figure, seeds=5 if quick else 40),
    }


def _study_of(name: str) -> str:
    return "realizable" if name == SVT else "stochastic"


def slope(done: Studies, name: str) -> float:
    """Least squares of ln regret on ln m."""
    means = [done[_study_of(name)].regret(label(name, m)).mean for m in CLIENTS]
    return float(np.polyfit(np.log(CLIENTS), np.log(np.maximum(means, 1e-3)), 1)[0])


def judge(done: Studies) -> Verdict:
    checks, falls = [], []
    for name, limit in LIMITS.items():
        study = done[_study_of(name)]
        low = lower_end_of_difference(study.regret(label(name, 1)), study.regret(label(name, CLIENTS[-1])))
        falls.append(low > 0)
        checks.append(Check(f"{name}/m=64-below-m=1", low, ">=", 0.0))
        checks.append(Check(f"{name}/slope", slope(done, name), "<=", limit, published=THEOREMS[name]))
    one, ten = (done["figure"].regret(label(PHASED, m)) for m in (1, 10))
    checks.append(Check(f"{PHASED}/T={FIGURE}/m=1-over-m=10", one.mean / ten.mean, ">=", FACTOR))
    text = "theorems: slope -1/2 (stochastic) and -1 (realizable, less a term that does not fall with m); steeper is better"
    return Verdict(all(falls), tuple(checks), text)


def draw(done: Studies, path: Path) -> None:
    from hedgerow.evaluation.plots import plot_regret_against

    def named(name: str) -> str:
        theorem = THEOREMS[name]
        return f"{name} (slope {slope(done, name):.2f}" + ("" if theorem is None else f", theorem {theorem:g}") + ")"

    points = {named(name): {float(m): done[_study_of(name)].regret(label(name, m)) for m in CLIENTS} for name in THEOREMS}
    title = f"Regret falls with the number of clients (epsilon = {EPSILON:g}, d = {EXPERTS})"
    plot_regret_against(points, path, title, "clients", slope=-0.5, slope_name="slope -1/2")


EXPERIMENT = Experiment(
    id="gao2024-speedup",
    title="Regret against the number of clients (Gao et al. 2024, Theorems 2.2 and 2.6)",
    claim="regret per client falls like m^(-1/2) on stochastic losses, like 1/m with a perfect expert",
    studies=studies,
    judge=judge,
    draw=draw,
)

"""The speed-up from clients: regret against the number of clients m.

Phased selection plays stochastic losses: it is Corollary 8 of Asi et al. 2023 with m clients, whose
bound falls like m^(-1/2), and like 1/m where privacy dominates the cost. Fed-SVT plays realizable
ones; Theorem 2.6 of Gao et al. 2024 falls like 1/m. (Their Theorem 2.2 is about Frank-Wolfe, and
its privacy term falls like m^(-1/4): see `frank-wolfe-speedup`.)

Slopes are fitted on log axes. Their intervals pair seeds: for every m, the same seed has the same
means and variances, or the same perfect expert. A bound says nothing about the slope of a regret
far below it. So the limits are our expectation that regret over bound does not grow with m. They
come from all terms of the bounds at these parameters, not from runs.

* Phased selection and random prefix: the slopes of their proven bounds (`Claims.regret_bound`).
* Fed-SVT: the slope of Theorem 2.6 as printed, with every hidden constant 1. Its second term, N
  ln(d/rho), does not fall with m, so the slope is not -1. (With the constants of the printed proof
  the slope is -0.99, but that bound is above T for m <= 16.)

One setting has a numeric target: on the Gaussian-softmax stream of the paper's section 6, ten
clients regret at most a sixth of what one regrets, at 95 % confidence. It has more seeds for that.
"""

from __future__ import annotations

from pathlib import Path

from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.environment import Environment
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.environments.drawn.realizable import Realizable
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import Check, Experiment, Studies, Verdict, judged
from hedgerow_papers.experiments.pictures import footer
from hedgerow_papers.gao2024.gaussian_softmax import GaussianSoftmax
from hedgerow_papers.printed_bounds import fed_svt_regret
from hedgerow_papers.statistics import exponent

EPSILON, EXPERTS = 1.0, 100
CLIENTS = (1, 2, 4, 8, 16, 32, 64)
FIGURE, FACTOR = 2**14, 6.0
PHASED, PREFIX, SVT = "phased selection", "random prefix", "Fed-SVT"
# The slopes of the leading terms. Random prefix is not in the paper.
THEOREMS = {PHASED: -0.5, PREFIX: None, SVT: -1.0}
RHO = 0.05  # the failure probability of Theorem 2.6


def label(name: str, clients: int) -> str:
    return f"{name}/m={clients}"


def _stochastic(clients: int, horizon: int) -> Environment:
    return GaussianSoftmax(clients=clients, experts=EXPERTS, horizon=horizon)


def studies(quick: bool) -> dict[str, StudyConfig]:
    seeds = 2 if quick else 40
    horizons = (2**10, 2**9) if quick else (2**12, 2**12)
    specs: dict[str, AlgorithmSpec] = {
        PHASED: PhasedSelection(epsilon=EPSILON),
        PREFIX: RandomPrefix(epsilon=EPSILON),
    }
    blocks = tuple(
        Entry(label(name, m), spec, _stochastic(m, horizons[0]))
        for name, spec in specs.items()
        for m in CLIENTS
    )
    selector = SparseVector(EPSILON)
    realizable = tuple(
        Entry(label(SVT, m), selector, Realizable(clients=m, experts=EXPERTS, horizon=horizons[1]))
        for m in CLIENTS
    )
    figure = tuple(Entry(label(PHASED, m), specs[PHASED], _stochastic(m, FIGURE)) for m in (1, 10))
    tail = f"epsilon = {EPSILON:g}, d = {EXPERTS}"
    return {
        "stochastic": StudyConfig(
            f"Choices from blocks, {tail}", _stochastic(1, horizons[0]), blocks, seeds=seeds
        ),
        "realizable": StudyConfig(
            f"Fed-SVT, {tail}",
            Realizable(experts=EXPERTS, horizon=horizons[1]),
            realizable,
            seeds=seeds,
        ),
        "figure": StudyConfig(
            f"One client and ten, {tail}, T = {FIGURE}",
            _stochastic(1, FIGURE),
            figure,
            seeds=3 if quick else 4 * seeds,
        ),
    }


def _study_of(name: str) -> str:
    return "realizable" if name == SVT else "stochastic"


def slope(done: Studies, name: str) -> Estimate:
    return exponent({float(m): done[_study_of(name)].regrets(label(name, m)) for m in CLIENTS})


def theorem_26(setting: Setting) -> float:
    """Theorem 2.6 without hidden constants, for N = 1 and L* = 0."""
    return fed_svt_regret(setting, EPSILON, every=1, rho=RHO)


def limit(done: Studies, name: str) -> float:
    """The slope of the bound at the settings that were played."""
    bounds = {}
    for entry in done[_study_of(name)].config.algorithms:
        setting = done[_study_of(name)].config.environment_of(entry).setting
        if entry.label == label(name, setting.clients):
            bound = (
                theorem_26(setting)
                if name == SVT
                else entry.algorithm.build(setting).regret_at_most
            )
            bounds[float(setting.clients)] = [bound]
    return exponent(bounds).mean


def judge(done: Studies) -> Verdict:
    checks, steep, notes = [], [], []
    for name, theorem in THEOREMS.items():
        one, most = (
            done[_study_of(name)].regrets(label(name, m)) for m in (CLIENTS[0], CLIENTS[-1])
        )
        fall = Estimate.of(one - most)
        checks.append(
            Check(f"{name}/m=1-above-m={CLIENTS[-1]}/lower end, paired", fall.low, ">=", 0.0)
        )
        found, least = slope(done, name), limit(done, name)
        if theorem is not None:
            steep.append(found.high <= least)
        notes.append(f"{name} {found} (its bound {least:.2f})")
        checks.append(
            Check(
                f"{name}/upper end of slope, limit that of its bound",
                found.high,
                "<=",
                least,
                theorem,
            )
        )
    between = exponent({float(m): done["figure"].regrets(label(PHASED, m)) for m in (1, 10)})
    factor, low, high = (10**-end for end in (between.mean, between.high, between.low))
    checks.append(Check(f"{PHASED}/T={FIGURE}/m=1-over-m=10/lower end", low, ">=", FACTOR))
    text = (
        f"slopes with 95 % intervals, steeper is better: {', '.join(notes)}; one client regrets"
        f" {factor:.1f} times (95 %: {low:.1f} to {high:.1f}) as much as each of ten"
    )
    return Verdict(judged(False, all(steep)), tuple(checks), text)  # certified constants play


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.lines import plot_regret_against

    def named(name: str) -> str:
        theorem = THEOREMS[name]
        shown = f"{name}, perfect expert" if name == SVT else name
        return (
            f"{shown} (slope {slope(done, name).mean:.2f}"
            + ("" if theorem is None else f", leading term {theorem:g}")
            + ")"
        )

    points = {
        named(name): {float(m): done[_study_of(name)].regret(label(name, m)) for m in CLIENTS}
        for name in THEOREMS
    }
    drawn, perfect = (
        done[part].config.environment.setting.rounds for part in ("stochastic", "realizable")
    )
    rounds = f"{drawn:,}" if drawn == perfect else f"{drawn:,}, {SVT} {perfect:,}"
    title = (
        f"Regret falls with the number of clients (epsilon = {EPSILON:g}, d = {EXPERTS},"
        f" T = {rounds})"
    )
    plot_regret_against(
        points,
        path,
        title,
        "clients",
        slope=-0.5,
        slope_name="slope -1/2",
        note=footer(done, studies),
    )


EXPERIMENT = Experiment(
    id="gao2024-speedup",
    title=(
        "Regret against the number of clients (Asi et al. 2023, Corollary 8, federated; Gao et al."
        " 2024, Theorem 2.6)"
    ),
    claim=printed_claim("gao2024", "svt"),
    studies=studies,
    judge=judge,
    draw=draw,
)

"""Gao, Huang, Yang 2024, lower bounds: common coins, where clients do not help, and a hidden expert, where they do.

On common coins every algorithm has the same expected regret for every m (Theorem 2.4, first part), known exactly. On the hidden expert
every epsilon-DP algorithm regrets about ln(d)/(m epsilon) (Theorem 2.7). The second part of Theorem 2.4, ln(d)/epsilon for some stream
and every m, is not tested: it does not hold for this unit of privacy (`proofs/lower_bounds.md#hidden-expert`).
"""

from __future__ import annotations

from math import log
from pathlib import Path

from hedgerow.algorithms.experts.hedge import Hedge
from hedgerow.algorithms.experts.phased_selection import PhasedSelection
from hedgerow.algorithms.experts.sparse_vector import SparseVector
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.environments.lower_bounds import coin_regret, hidden_expert_regret
from hedgerow.environments.oblivious import CommonCoins, HiddenExpert
from hedgerow.evaluation.summary import Estimate
from hedgerow.experiments.config import Entry, StudyConfig
from hedgerow.experiments.experiment import Check, Experiment, Studies, Verdict

EPSILON, EXPERTS, HORIZON = 0.1, 100, 512
CLIENTS = (1, 4, 16, 64)
COINS, HIDDEN = "common coins", "hidden expert"
PHASED, SVT, OPEN = "phased selection", "Fed-SVT", "Hedge (not private)"
SPECS: dict[str, AlgorithmSpec] = {PHASED: PhasedSelection(epsilon=EPSILON), SVT: SparseVector(epsilon=EPSILON), OPEN: Hedge()}
STREAMS: dict[str, type[CommonCoins | HiddenExpert]] = {COINS: CommonCoins, HIDDEN: HiddenExpert}


def label(name: str, clients: int) -> str:
    return f"{name}/m={clients}"


def studies(quick: bool) -> dict[str, StudyConfig]:
    def study(stream: str) -> StudyConfig:
        kind = STREAMS[stream]
        frames = {m: kind(clients=m, experts=EXPERTS, horizon=HORIZON) for m in CLIENTS}
        entries = tuple(Entry(label(name, m), spec, frames[m]) for name, spec in SPECS.items() for m in CLIENTS)
        title = f"{stream}, epsilon = {EPSILON:g}, d = {EXPERTS}, T = {HORIZON}"
        return StudyConfig(title, frames[1], entries, seeds=5 if quick else 40)

    return {stream: study(stream) for stream in STREAMS}


def floor(clients: int) -> float:
    return hidden_expert_regret(Setting(clients, EXPERTS, HORIZON), EPSILON)


def judge(done: Studies) -> Verdict:
    exact, checks, no_gain = coin_regret(EXPERTS, HORIZON), [], []
    for name in SPECS:
        for m in CLIENTS:
            found = done[COINS].regret(label(name, m))
            off = abs(found.mean - exact) / found.half_width
            no_gain.append(off <= 2)
            checks.append(Check(f"{COINS}/{label(name, m)}/off-by-intervals", off, "<=", 2.0))
    above = []
    for name in (PHASED, SVT):
        for m in CLIENTS:
            found = done[HIDDEN].regret(label(name, m))
            above.append(found.mean + found.half_width >= floor(m))
            checks.append(Check(f"{HIDDEN}/{label(name, m)}/regret", found.mean + found.half_width, ">=", floor(m)))
    most = done[HIDDEN].regret(label(PHASED, CLIENTS[-1]))
    checks.append(Check(f"{HIDDEN}/{label(PHASED, CLIENTS[-1])}/a-quarter-of-ln(d)/epsilon", most.mean, "<=", log(EXPERTS) / EPSILON / 4))
    text = "the second part of Theorem 2.4 (ln(d)/epsilon for every m) does not hold: proofs/lower_bounds.md has a counterexample"
    return Verdict(all(no_gain) and all(above), tuple(checks), text)


def draw(done: Studies, path: Path) -> None:
    from hedgerow.evaluation.plots import plot_regret_against

    points = {f"{name}, {HIDDEN}": {float(m): done[HIDDEN].regret(label(name, m)) for m in CLIENTS} for name in (PHASED, SVT)}
    points[f"no {EPSILON:g}-DP algorithm is below, {HIDDEN}"] = {float(m): Estimate(floor(m), 0.0, 1) for m in CLIENTS}
    points[f"{PHASED}, {COINS}"] = {float(m): done[COINS].regret(label(PHASED, m)) for m in CLIENTS}
    points[f"every algorithm, {COINS}"] = {float(m): Estimate(coin_regret(EXPERTS, HORIZON), 0.0, 1) for m in CLIENTS}
    title = f"Clients help where there is something to find (epsilon = {EPSILON:g}, d = {EXPERTS}, T = {HORIZON})"
    plot_regret_against(points, path, title, "clients")


EXPERIMENT = Experiment(
    id="gao2024-lowerbounds",
    title="Lower bounds for oblivious adversaries (Gao et al. 2024, Theorems 2.4 and 2.7)",
    claim="more clients gain nothing on general oblivious losses; with a perfect expert regret is at least of order ln(d)/(m epsilon)",
    studies=studies,
    judge=judge,
    draw=draw,
)

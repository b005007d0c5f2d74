"""Gao, Huang, Yang 2024, lower bounds: common coins and a hidden expert.

Clients do not help on common coins and do help on the hidden expert. On common coins, every
algorithm has the same expected regret for every m (Theorem 2.4, first part), which is known
exactly. On the hidden expert, every epsilon-DP algorithm regrets at least about ln(d)/(m epsilon)
(Theorem 2.7, with constants). Runs cannot show this for all algorithms, but they can contradict it.
Following the leader, which is not private, is below the bound. With 64 clients, the bound is the
cost of the first guess, which every algorithm pays, so it is not judged.

The second part of Theorem 2.4, ln(d)/epsilon for some stream and every m, cannot be tested on one
stream. It does not hold: `proofs/lower_bounds.md#hidden-expert` has a counterexample, whose numbers
are computed here. So the claim that clients do not help is refuted where privacy is the cost.
"""

from __future__ import annotations

from math import log
from pathlib import Path

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.environments.hard.lower_bounds import coin_regret, hidden_expert_regret
from hedgerow.environments.hard.oblivious import CommonCoins, HiddenExpert
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.counterexamples import private_hedge_of_many
from hedgerow_papers.experiments.experiment import Check, Experiment, Studies, Verdict, judged
from hedgerow_papers.experiments.pictures import footer

EPSILON, EXPERTS, HORIZON = 0.1, 100, 512
CLIENTS = (1, 4, 16, 64)
BOUND = CLIENTS[:-1]  # where privacy costs more than the first guess
COINS, HIDDEN = "common coins", "hidden expert"
PHASED, SVT, OPEN = "phased selection", "Fed-SVT", "the leader (not private)"
SPECS: dict[str, AlgorithmSpec] = {
    PHASED: PhasedSelection(epsilon=EPSILON),
    SVT: SparseVector(epsilon=EPSILON),
    OPEN: FollowTheLeader(),
}
STREAMS: dict[str, type[CommonCoins | HiddenExpert]] = {COINS: CommonCoins, HIDDEN: HiddenExpert}


def label(name: str, clients: int) -> str:
    return f"{name}/m={clients}"


def studies(quick: bool) -> dict[str, StudyConfig]:
    def study(stream: str) -> StudyConfig:
        kind = STREAMS[stream]
        frames = {m: kind(clients=m, experts=EXPERTS, horizon=HORIZON) for m in CLIENTS}
        entries = tuple(
            Entry(label(name, m), spec, frames[m]) for name, spec in SPECS.items() for m in CLIENTS
        )
        title = f"{stream}, epsilon = {EPSILON:g}, d = {EXPERTS}, T = {HORIZON}"
        return StudyConfig(title, frames[1], entries, seeds=5 if quick else 100)

    return {stream: study(stream) for stream in STREAMS}


def floor(clients: int) -> float:
    return hidden_expert_regret(Setting(clients, EXPERTS, HORIZON), EPSILON)


def judge(done: Studies) -> Verdict:
    exact, checks, offs = coin_regret(EXPERTS, HORIZON), [], []
    for name in SPECS:
        for m in CLIENTS:
            found = done[COINS].regret(label(name, m))
            offs.append(abs(found.mean - exact) / found.half_width)
            checks.append(
                Check(
                    f"{COINS}/{label(name, m)}/off the exact value, in half-widths",
                    offs[-1],
                    "<=",
                    2.0,
                )
            )
    above = []
    for m in BOUND:
        for name in (PHASED, SVT):
            found = done[HIDDEN].regret(label(name, m))
            above.append(found.high >= floor(m))
            text = f"{HIDDEN}/{label(name, m)}/upper end, limit what every private one must pay"
            checks.append(Check(text, found.high, ">=", floor(m)))
        free = done[HIDDEN].regret(label(OPEN, m))
        checks.append(
            Check(
                f"{HIDDEN}/{label(OPEN, m)}/upper end, limit what private ones must pay",
                free.high,
                "<=",
                floor(m),
            )
        )
    helped = done[HIDDEN].regret(label(PHASED, CLIENTS[-1]))
    text = f"{HIDDEN}/{label(PHASED, CLIENTS[-1])}/upper end, limit a quarter of ln(d)/epsilon"
    checks.append(Check(text, helped.high, "<=", log(EXPERTS) / EPSILON / 4))
    ratios = {
        label(name, m): done[HIDDEN].regret(label(name, m)).mean / floor(m)
        for name in (PHASED, SVT)
        for m in BOUND
    }
    nearest = min(ratios, key=lambda name: ratios[name])
    message = (
        f"{COINS}: at most {max(offs):.2g} half-widths from the exact value {exact:.2f};"
        f" {HIDDEN}: nearest to the bound for every {EPSILON:g}-DP algorithm is {nearest},"
        f" {ratios[nearest]:.2g} times it. {COINS.capitalize()} test the stream and the engine,"
        f" since every algorithm pays the same there. The {HIDDEN} would reveal a budget overspent"
        " many times, but not one overspent a little"
    )
    clients, regret, claimed = private_hedge_of_many()
    checks.append(Check("Theorem 2.4, counterexample/over the order", regret / claimed, "<=", 0.1))
    message += (
        f". The second part of Theorem 2.4 does not hold: {clients:,} clients have regret at most"
        f" {regret:.0f} at the same epsilon where its order is {claimed:,.0f} for every m"
    )
    kept = max(offs) <= 2 and all(above)
    return Verdict(judged(kept and not checks[-1].passed), tuple(checks), message)


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.lines import plot_regret_against

    points = {
        f"{name}, {HIDDEN}": {float(m): done[HIDDEN].regret(label(name, m)) for m in CLIENTS}
        for name in SPECS
    }
    points[f"{PHASED}, {COINS}"] = {float(m): done[COINS].regret(label(PHASED, m)) for m in CLIENTS}
    bounds = {
        f"no {EPSILON:g}-DP algorithm is below, {HIDDEN}": {float(m): floor(m) for m in CLIENTS},
        f"what every algorithm pays, {COINS}": {
            float(m): coin_regret(EXPERTS, HORIZON) for m in CLIENTS
        },
    }
    title = (
        f"Clients help where there is something to find (epsilon = {EPSILON:g}, d = {EXPERTS},"
        f" T = {HORIZON})"
    )
    plot_regret_against(points, path, title, "clients", bounds=bounds, note=footer(done, studies))


EXPERIMENT = Experiment(
    id="gao2024-lowerbounds",
    title="Lower bounds for oblivious adversaries (Gao et al. 2024, Theorems 2.4 and 2.7)",
    claim=printed_claim("gao2024", "general"),
    studies=studies,
    judge=judge,
    draw=draw,
)

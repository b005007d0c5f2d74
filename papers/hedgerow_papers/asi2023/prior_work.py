"""Prior work: tree sums compared with newer algorithms.

Agarwal and Singh (2017) follow the leader, and Jain and Thakurta (2014) use exponential weights, on
sums from a binary tree. Asi et al. (2023) quote their regret as sqrt(T ln d) + d ln d ln^2 T /
epsilon for pure privacy, with sqrt(d ln(1/delta)) in place of d for approximate privacy. Trees
suit few experts. The dartboard suits many: its cost grows only with ln d. Jacobsen and Fawaz (2025)
play the leader with the least noise and with the least regret bound, and find the first much
better. All algorithms here have the same budget and play the same streams: Bernoulli losses of mean
0.5, with one better expert. There are no early exchanges: the prior work has none, and the 1,023
exchanges of its schedule fill a tree of ten levels exactly.
"""

from __future__ import annotations

from math import log, sqrt
from pathlib import Path

from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.correlated.running_leader import RunningLeader
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.agarwal2017.printed_leader import AgarwalTreeLeader
from hedgerow_papers.agarwal2017.tree_hedge import TreeHedge
from hedgerow_papers.agarwal2017.tree_leader import TreeLeader
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    Verdict,
    judged,
    lower_end_of_difference,
    spent,
)
from hedgerow_papers.experiments.pictures import footer, sibling

EPSILON, DELTA, HORIZON, EVERY, GAP = 1.0, 1e-6, 8192, 8, 0.3
EXPERTS = (2, 8, 32, 128, 512)
NOISE, REGRET, PRINTED = (
    "tree leader, min noise",
    "tree leader, min regret",
    "tree leader, printed constants",
)
WEIGHTS, BLT, BOARD = "tree hedge", "running leader (BLT)", "shrinking dartboard"
PURE_WEIGHTS, PURE_BOARD, OPEN = (
    "tree hedge, pure",
    "shrinking dartboard, pure",
    "hedge, not private",
)
SERIES = {
    NOISE: TreeLeader(epsilon=EPSILON, delta=DELTA, every=EVERY, early=False),
    REGRET: TreeLeader(epsilon=EPSILON, delta=DELTA, every=EVERY, early=False, aim="min_regret"),
    PRINTED: AgarwalTreeLeader(epsilon=EPSILON, delta=DELTA, every=EVERY),
    WEIGHTS: TreeHedge(epsilon=EPSILON, delta=DELTA, every=EVERY, early=False),
    BLT: RunningLeader(epsilon=EPSILON, delta=DELTA, every=EVERY, early=False),
    BOARD: ShrinkingDartboard(epsilon=EPSILON, delta=DELTA),
    PURE_WEIGHTS: TreeHedge(epsilon=EPSILON, every=EVERY, early=False),
    PURE_BOARD: ShrinkingDartboard(epsilon=EPSILON),
    OPEN: Hedge(every=EVERY, early=False),
}
PURE = (PURE_WEIGHTS, PURE_BOARD, OPEN)


def name(experts: int) -> str:
    return f"d={experts}"


def quoted(label: str, experts: int) -> float:
    """The regret of tree sums as Asi et al. quote it, with constant 1."""
    price = experts if label == PURE_WEIGHTS else sqrt(experts * log(1 / DELTA))
    entropy = log(experts)
    return sqrt(HORIZON * entropy) + price * entropy * log(HORIZON) ** 2 / EPSILON


def guessing(experts: int) -> float:
    """The expected regret of an expert drawn at random."""
    return HORIZON * GAP * (1 - 1 / experts)


def studies(quick: bool) -> dict[str, StudyConfig]:
    entries = tuple(Entry(label, spec) for label, spec in SERIES.items())
    about = f"epsilon = {EPSILON:g}, 1 client, T = {HORIZON}"
    return {
        name(experts): StudyConfig(
            f"Prior work, d = {experts}, {about}",
            Bernoulli(clients=1, experts=experts, horizon=HORIZON, gap=GAP),
            entries,
            seeds=2 if quick else 20,
        )
        for experts in EXPERTS
    }


def judge(done: Studies) -> Verdict:
    few, some, many = EXPERTS[0], EXPERTS[len(EXPERTS) // 2], EXPERTS[-1]

    def mean(experts: int, label: str) -> float:
        return done[name(experts)].regret(label).mean

    def below(experts: int, smaller: str, larger: str) -> Check:
        study = done[name(experts)]
        low = lower_end_of_difference(study.regret(larger), study.regret(smaller))
        return Check(f"{name(experts)}/{smaller} below {larger}", low, ">=", 0.0)

    regimes = [
        below(few, PURE_WEIGHTS, PURE_BOARD),
        below(many, PURE_BOARD, PURE_WEIGHTS),
        below(few, NOISE, BOARD),
        below(many, BOARD, NOISE),
        below(many, BOARD, WEIGHTS),
    ]
    checks = [
        *regimes,
        below(few, NOISE, REGRET),
        *(below(experts, BLT, NOISE) for experts in (few, some, many)),
    ]
    for experts in EXPERTS:
        algorithms = done[name(experts)].algorithms
        for label in (WEIGHTS, PURE_WEIGHTS):
            bound = algorithms[label].regret_at_most
            checks.append(
                Check(
                    f"{name(experts)}/{label}/proven bound over the quoted rate",
                    bound / quoted(label, experts),
                    "<=",
                    1.0,
                )
            )
            obtained = done[name(experts)].regret(label)
            if bound < 0.8 * guessing(experts):
                rule = f"{name(experts)}/{label}/lower end of the mean, limit the proven bound"
                checks.append(Check(rule, obtained.low, "<=", bound))
    for label in SERIES:
        if label != OPEN:
            really = spent(done[name(few)].algorithms[label])
            claimed = EPSILON if label == PRINTED else None
            checks.append(Check(f"{label}/epsilon really spent", really, "<=", EPSILON, claimed))
    passed = [check.passed for check in regimes]
    really = spent(done[name(few)].algorithms[PRINTED])
    message = (
        f"{sum(passed)} of {len(passed)} comparisons with the dartboard come out as the regimes of"
        f" Asi et al. say. Regret of the tree leader and the dartboard at d = {few}:"
        f" {mean(few, NOISE):.3g} and {mean(few, BOARD):.3g}, at d = {many}:"
        f" {mean(many, NOISE):.4g} and {mean(many, BOARD):.4g} (random guessing"
        f" {guessing(many):.4g}). At d = {few} the least regret bound instead of the least noise"
        f" costs {mean(few, REGRET):.3g}. The printed constants really give epsilon = {really:.2g}"
        f" where {EPSILON:g} is claimed. Correlated noise (BLT) has less regret than the tree at"
        f" the same budget: {mean(some, BLT):.3g} instead of {mean(some, NOISE):.3g} at d = {some}"
    )
    return Verdict(judged(all(passed)), tuple(checks), message)


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.lines import plot_regret_against

    for pure, target in ((False, path), (True, sibling(path, "pure"))):
        labels = [label for label in SERIES if (label in PURE) == pure or label == OPEN]
        points: dict[str, dict[float, Estimate]] = {
            label: {float(d): done[name(d)].regret(label) for d in EXPERTS} for label in labels
        }
        trees = [label for label in labels if label in (WEIGHTS, PURE_WEIGHTS)]
        bounds = {
            label: {float(d): done[name(d)].algorithms[label].regret_at_most for d in EXPERTS}
            for label in trees
        }
        budget = f"epsilon = {EPSILON:g}, delta = {'0' if pure else f'{DELTA:g}'}"
        title = f"Tree sums and newer algorithms: {budget}, 1 client, T = {HORIZON}"
        plot_regret_against(
            points, target, title, "number of experts", bounds=bounds, note=footer(done, studies)
        )


EXPERIMENT = Experiment(
    id="prior-work",
    title="Tree sums, the prior work, against newer algorithms (Agarwal and Singh 2017)",
    claim=printed_claim("asi2023", "prior"),
    studies=studies,
    judge=judge,
    draw=draw,
)

"""Regret against numbers sent, for every federated algorithm (Gao, Huang and Yang 2024).

Theorem 2.6 says that Fed-SVT sends O(m d T / N) numbers and that exchanging every N rounds costs
at most O(N ln(d/rho)) more regret; Table 1 that Fed-DP-OPE-Stoch sends O(m d ln T). Here all
algorithms that exchange every N rounds play the same streams for several N, and so do those whose
exchanges are fixed. Numbers and bytes are counted in the messages, uploads and broadcasts together.

There are two games: experts, of which one is never wrong (the streams and the epsilon of Figure 2),
and points of the simplex that forecast classes (those of Figure 1, curved). The printed constants
of Fed-SVT are compared with the certified ones. Algorithms that play neither game (points of a
ball, models) are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.baselines.gradient_descent import GradientDescent
from hedgerow.algorithms.correlated.running_leader import RunningLeader
from hedgerow.algorithms.dartboard.private_hedge import PrivateHedge
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.gradient.limited_updates import LimitedUpdates
from hedgerow.algorithms.gradient.noisy_ftrl import NoisyFTRL
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.printed import printed_numbers
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.algorithms.walks.walk_leader import WalkLeader
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.environments.drawn.realizable import Realizable
from hedgerow.evaluation.statistics import Estimate, welch
from hedgerow.evaluation.summary import digits
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.agarwal2017.tree_hedge import TreeHedge
from hedgerow_papers.agarwal2017.tree_leader import TreeLeader
from hedgerow_papers.asi2023.certified_potential import Potential
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    TextTable,
    Verdict,
    judged,
    spent,
)
from hedgerow_papers.experiments.pictures import footer, sibling
from hedgerow_papers.gao2024.certified_frank_wolfe import FrankWolfe
from hedgerow_papers.gao2024.class_forecasts import ClassForecasts
from hedgerow_papers.gao2024.fed_svt import FedSVT
from hedgerow_papers.jacobsen2025.walk_batches import WalkBatches

EPSILON, DELTA, RHO = 10.0, 1e-6, 0.05
CLIENTS, EXPERTS, HORIZON, CLASSES = 10, 100, 512, 10
EVERY = (1, 4, 16, 64)
PUBLISHED, CERTIFIED, PHASED = "Fed-SVT, printed", "Fed-SVT, certified", "phased selection"
Made = Callable[[int], AlgorithmSpec]
BUDGET: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA}
PAPER: dict[str, Made] = {
    PUBLISHED: lambda n: FedSVT(EPSILON, every=n, rho=RHO),
    CERTIFIED: lambda n: SparseVector(EPSILON, every=n),
    "doubling": lambda n: Doubling(EPSILON, every=n),
    "potential": lambda n: Potential(EPSILON, every=n),
    "leader, not private": lambda n: FollowTheLeader(every=n),
}
OTHERS: dict[str, Made] = {
    "dartboard, pure": lambda n: ShrinkingDartboard(EPSILON, every=n),
    "tree hedge, pure": lambda n: TreeHedge(epsilon=EPSILON, every=n),
    "tree leader": lambda n: TreeLeader(**BUDGET, every=n),
    "running leader": lambda n: RunningLeader(**BUDGET, every=n),
    "private hedge": lambda n: PrivateHedge(**BUDGET, every=n),
}
POINTS: dict[str, Made] = {
    "noisy FTRL": lambda n: NoisyFTRL(**BUDGET, every=n),
    "gradient descent, not private": lambda n: GradientDescent(every=n),
}
FIXED: dict[str, dict[str, AlgorithmSpec]] = {
    "experts": {
        PHASED: PhasedSelection(EPSILON),
        "random prefix": RandomPrefix(EPSILON),
        "walk leader, local": WalkLeader(**BUDGET),
        "walk batches, local": WalkBatches(**BUDGET),
    },
    "points": {
        "limited updates": LimitedUpdates(**BUDGET),
        "Frank-Wolfe, one tree": FrankWolfe(EPSILON, trust="local", trees=1),
        "Frank-Wolfe, two trees": FrankWolfe(EPSILON, trust="local", trees=2),
    },
}
TICKS = (1e3, 1e4, 1e5, 1e6)


def label(name: str, every: int | None = None) -> str:
    return name if every is None else f"{name}/N={every}"


def studies(quick: bool) -> dict[str, StudyConfig]:
    def study(game: str, environment: Realizable | ClassForecasts, seeds: int) -> StudyConfig:
        series = {**PAPER, **OTHERS} if game == "experts" else POINTS
        entries = [Entry(label(name, n), make(n)) for name, make in series.items() for n in EVERY]
        entries += [Entry(name, spec) for name, spec in FIXED[game].items()]
        title = f"Numbers sent, {game}, epsilon = {EPSILON:g}, m = {CLIENTS}, T = {HORIZON}"
        return StudyConfig(title, environment, tuple(entries), seeds=seeds)

    experts = Realizable(clients=CLIENTS, experts=EXPERTS, horizon=HORIZON, mean=0.5, law="uniform")
    points = ClassForecasts(clients=CLIENTS, classes=CLASSES, horizon=HORIZON)
    return {
        "experts": study("experts", experts, 3 if quick else 20),
        "points": study("points", points, 2 if quick else 5),
    }


def numbers(done: Studies, game: str) -> dict[str, float]:
    """The numbers sent by every label of a game, mean over seeds, at least 1."""
    return {row.label: max(1.0, row.numbers_sent.mean) for row in done[game].summary()}


def judge(done: Studies) -> Verdict:
    experts, sent = done["experts"], numbers(done, "experts")
    alone, first = experts.regrets(label(PUBLISHED, 1)), experts.regret(label(PUBLISHED, 1))
    claimed = []
    for n in EVERY:
        ratio = sent[label(PUBLISHED, n)] / (CLIENTS * EXPERTS * HORIZON / n)
        name = f"{label(PUBLISHED, n)}/numbers sent over m d T / N"
        claimed += [Check(name, ratio, "<=", 1.1), Check(name, ratio, ">=", 0.85)]
    for n in EVERY[1:]:
        name = f"{label(PUBLISHED, n)}/regret above that at N=1, upper end, limit N ln(d/rho)"
        more = Estimate.of(experts.regrets(label(PUBLISHED, n)) - alone)
        claimed.append(Check(name, more.high, "<=", n * log(EXPERTS / RHO)))
    few = CLIENTS * EXPERTS * log(HORIZON)
    claimed.append(Check(f"{PHASED}/numbers sent over m d ln T", sent[PHASED] / few, "<=", 1.6))
    rare = experts.regret(label(CERTIFIED, EVERY[-1]))
    expected = [
        Check(
            f"{label(CERTIFIED, EVERY[-1])} below {label(PUBLISHED, 1)}/lower end",
            welch(first, rare).low,
            ">=",
            0.0,
        ),
        *(
            Check(
                f"{label(CERTIFIED, n)} below {label(PUBLISHED, n)}/lower end",
                welch(experts.regret(label(PUBLISHED, n)), experts.regret(label(CERTIFIED, n))).low,
                ">=",
                0.0,
            )
            for n in EVERY
        ),
        Check(
            f"{label(PUBLISHED, EVERY[-1])}/regret above that at N=1, upper end, limit N/2",
            Estimate.of(experts.regrets(label(PUBLISHED, EVERY[-1])) - alone).high,
            "<=",
            EVERY[-1] / 2,  # what the first N rounds cost before anything is known
        ),
        Check(
            f"{label(CERTIFIED, 1)}/epsilon",
            spent(experts.algorithms[label(CERTIFIED, 1)]),
            "<=",
            EPSILON,
        ),
    ]
    last = EVERY[-1]
    less = sent[label(PUBLISHED, 1)] / sent[label(CERTIFIED, last)]
    more = experts.regret(label(PUBLISHED, last)).mean - first.mean
    note = (
        f"Fed-SVT with certified constants and N = {last} sends {less:.0f} times fewer numbers than"
        f" with printed ones and N = 1, and has regret {rare.mean:.1f} instead of {first.mean:.1f};"
        f" printed constants lose {more:.1f} more at N = {last} than at N = 1, where the theorem"
        f" allows {last * log(EXPERTS / RHO):.0f}"
    )
    verdict = all(check.passed for check in claimed)
    return Verdict(judged(verdict), (*claimed, *expected), note, (_table(done),))


def _table(done: Studies) -> TextTable:
    """Numbers, bytes, the theorem's count and regret of every label."""
    rows = []
    for game, study in done.items():
        setting = study.config.environment.setting
        specs = {entry.label: entry.algorithm for entry in study.config.algorithms}
        for row in study.summary():
            count = printed_numbers(specs[row.label], setting)
            shown = "-" if count is None else f"{count.formula} = {digits(count.value)}"
            counts = f"{row.numbers_sent.mean:,.0f}", f"{row.bytes_sent.mean:,.0f}"
            rows.append((game, row.label, *counts, shown, str(row.regret)))
    columns = ("game", "algorithm", "numbers", "bytes", "theorem, constant 1", "regret")
    return TextTable("communication and regret", columns, tuple(rows))


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.lines import plot_regret_against

    some = {PHASED: FIXED["experts"][PHASED], "random prefix": FIXED["experts"]["random prefix"]}
    rest = {name: spec for name, spec in FIXED["experts"].items() if name not in some}
    pictures = (
        (path, "experts", PAPER, some, "one expert is never wrong"),
        (sibling(path, "others"), "experts", OTHERS, rest, "one expert is never wrong"),
        (sibling(path, "points"), "points", POINTS, FIXED["points"], "points of the simplex"),
    )
    for target, game, series, fixed, words in pictures:
        study, sent = done[game], numbers(done, game)
        points: dict[str, dict[float, Estimate]] = {
            f"{name}, N = {EVERY[-1]} to {EVERY[0]}": {
                sent[label(name, n)]: study.regret(label(name, n)) for n in EVERY
            }
            for name in series
        }
        points |= {name: {sent[name]: study.regret(name)} for name in fixed}
        setting = study.config.environment.setting
        size = f"epsilon = {EPSILON:g}, m = {CLIENTS}, d = {setting.experts}, T = {HORIZON}"
        title = f"Regret and numbers sent: {words} ({size})"
        axis = "numbers sent in the whole game, all clients"
        within = [t for t in TICKS if min(sent.values()) / 2 <= t <= max(sent.values()) * 2]
        note = footer(done, studies)
        plot_regret_against(points, target, title, axis, note=note, ticks=within)


EXPERIMENT = Experiment(
    id="gao2024-communication",
    title="Regret against numbers sent (Gao et al. 2024, Theorem 2.6 and Table 1)",
    claim=printed_claim("gao2024", "communication"),
    studies=studies,
    judge=judge,
    draw=draw,
)

"""Asi, Feldman, Koren, Talwar 2023, Table 1: prior work and new algorithms, by adversary.

The printed table has orders of regret for stochastic, oblivious and adaptive adversaries, (a) with
a delta and (b) without. Here each cell has its rate with constant 1, the bound that is proven here,
and the regret that was measured. Prior work is played by tree hedge and, with a delta and many
experts, by private Hedge; the new algorithms are phased selection (Corollary 8) and the dartboard.
Stochastic and oblivious losses are Bernoulli with one better expert, by 0.3 and 0.2: the first are
taken as drawn in every round, the second as fixed in advance, so that other bounds cover them.
Losses that react charge the expert that was just played.

Bounds are compared only with losses that they cover. A bound above the horizon says nothing.
"""

from __future__ import annotations

from math import log, sqrt
from pathlib import Path
from typing import Any

from hedgerow.algorithms.dartboard.private_hedge import PrivateHedge
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.core.environment import Environment
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.agarwal2017.tree_hedge import TreeHedge
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
from hedgerow_papers.experiments.pictures import sibling
from hedgerow_papers.played_tables import bound_checks, draw_table, proven, rounds
from hedgerow_papers.statistics import Ratio

EPSILON, DELTA, EXPERTS, HORIZON, QUICK = 1.0, 1e-6, 100, 2048, 512
STOCHASTIC, OBLIVIOUS, ADAPTIVE = "stochastic", "oblivious", "adaptive"
APPROXIMATE, PURE = "approximate", "pure"
TREE, HEDGE = "tree hedge (prior work)", "private Hedge (prior work)"
PHASED, BOARD = "phased selection", "dartboard"
SPECS: dict[str, dict[str, AlgorithmSpec]] = {
    APPROXIMATE: {
        TREE: TreeHedge(epsilon=EPSILON, delta=DELTA, every=8, early=False),
        HEDGE: PrivateHedge(epsilon=EPSILON, delta=DELTA),
        PHASED: PhasedSelection(epsilon=EPSILON),  # makes no use of a delta
        BOARD: ShrinkingDartboard(epsilon=EPSILON, delta=DELTA),
    },
    PURE: {
        TREE: TreeHedge(epsilon=EPSILON, every=8, early=False),
        PHASED: PhasedSelection(epsilon=EPSILON),
        BOARD: ShrinkingDartboard(epsilon=EPSILON),
    },
}
NEW = {STOCHASTIC: PHASED, OBLIVIOUS: BOARD}


def label(privacy: str, name: str) -> str:
    return f"{name}/{privacy}"


def _stream(adversary: str, horizon: int) -> Environment:
    game: dict[str, Any] = {"clients": 1, "experts": EXPERTS, "horizon": horizon}
    if adversary == ADAPTIVE:
        return PlayChasing(**game)
    return Bernoulli(**game, mean=0.5, gap=0.3 if adversary == STOCHASTIC else 0.2)


def rate(privacy: str, adversary: str, name: str, horizon: int) -> float | None:
    """The printed rate with constant 1; None where the table has none."""
    entropy, base = log(EXPERTS), sqrt(horizon * log(EXPERTS))
    if name == TREE:
        return base + (EXPERTS if privacy == PURE else sqrt(EXPERTS)) * entropy / EPSILON
    if name == HEDGE:
        return base + base / EPSILON
    if NEW.get(adversary) != name:
        return None
    if name == PHASED:
        return base + entropy / EPSILON
    if privacy == PURE:
        return sqrt(horizon) * entropy / EPSILON
    return base + horizon ** (1 / 3) * entropy / EPSILON


def studies(quick: bool) -> dict[str, StudyConfig]:
    horizon = QUICK if quick else HORIZON
    entries = tuple(
        Entry(label(privacy, name), spec)
        for privacy, specs in SPECS.items()
        for name, spec in specs.items()
    )
    about = f"epsilon = {EPSILON:g}, 1 client, d = {EXPERTS}, T = {horizon}"
    return {
        adversary: StudyConfig(
            f"Table 1, {adversary} losses, {about}",
            _stream(adversary, horizon),
            entries,
            seeds=3 if quick else 8,
        )
        for adversary in (STOCHASTIC, OBLIVIOUS, ADAPTIVE)
    }


def judge(done: Studies) -> Verdict:
    claimed = []
    for adversary, name in NEW.items():
        study = done[adversary]
        for privacy in SPECS:
            over = Ratio.of(*(study.regrets(label(privacy, each)) for each in (name, TREE)))
            text = f"{privacy}/{adversary}/{name} over {TREE}, upper end"
            claimed.append(Check(text, over.high, "<=", 1.0))
    built = done[STOCHASTIC].algorithms
    costs = [spent(built[label(privacy, name)]) for privacy, s in SPECS.items() for name in s]
    certified = Check("largest certified epsilon", max(costs), "<=", EPSILON)
    react = done[ADAPTIVE].regret(label(APPROXIMATE, BOARD)).mean
    fixed = done[OBLIVIOUS].regret(label(APPROXIMATE, BOARD)).mean
    note = (
        f"at T = {rounds(done)}, d = {EXPERTS}, epsilon = {EPSILON:g}. The dartboard has no bound"
        f" against losses that react, and regret {react:,.0f} there ({fixed:,.0f} on losses fixed"
        " in advance)"
    )
    passed = all(check.passed for check in claimed)
    checks = (*claimed, *bound_checks(done), certified)
    return Verdict(judged(passed), checks, note, tuple(_table(done, privacy) for privacy in SPECS))


def _table(done: Studies, privacy: str) -> TextTable:
    horizon, rows = rounds(done), []
    for adversary, study in done.items():
        bounds = study.regret_bounds()
        for name in SPECS[privacy]:
            each, printed = label(privacy, name), rate(privacy, adversary, name, horizon)
            theirs = "none" if printed is None else f"{printed:,.0f}"
            ours = proven(bounds[each], horizon)
            rows.append((adversary, name, theirs, ours, str(study.regret(each))))
    columns = ("losses", "algorithm", "printed rate", "proven here", "regret")
    which = "(a) approximate" if privacy == APPROXIMATE else "(b) pure"
    return TextTable(f"Table 1 {which}", columns, tuple(rows))


def draw(done: Studies, path: Path) -> None:
    for privacy, target in ((APPROXIMATE, path), (PURE, sibling(path, PURE))):
        groups = {
            adversary: {name: study.regret(label(privacy, name)) for name in SPECS[privacy]}
            for adversary, study in done.items()
        }
        size = f"epsilon = {EPSILON:g}, d = {EXPERTS}"
        draw_table(groups, target, f"Table 1, {privacy}, measured", size, done, studies)


EXPERIMENT = Experiment(
    id="asi2023-table1",
    title="Prior work and new algorithms, by adversary (Asi et al. 2023, Table 1)",
    claim=printed_claim("asi2023", "table1"),
    studies=studies,
    judge=judge,
    draw=draw,
)

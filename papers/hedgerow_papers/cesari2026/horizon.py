"""Cesari and Colomboni 2026, federated: with a gap, regret does not grow with the horizon.

The gap is between the best expert and the others. The paper has one player and the bound
1000 (ln(d)/gap + ln(d)/epsilon); we know this bound but not the paper's text. Our bound, for m
clients and with all constants, is `gap_regret` (`proofs/random_prefix.md#regret`). Plain phased
selection has no such proof: where experts trail the best one by gaps of every scale, each of its
log2 T choices may cost something. So there are two streams: one gap for all experts, and a ladder
of gaps from the smallest to 0.4. A stream without a gap shows that growth would be noticed. Neither
algorithm knows the horizon, so one run of 2^20 rounds is read at all horizons. Only sums are drawn.

The bounds are far above the measured regret, mostly because of the part that has nothing to do with
privacy. So the cost of privacy is judged separately. It is the regret minus that of the same
algorithm with an epsilon that hides nothing, on the same seeds. Its limit is the term of the bound
that contains epsilon, 16 ln(d)/(m epsilon).
"""

from __future__ import annotations

from itertools import product
from math import log
from pathlib import Path

import numpy as np
from scipy.special import betaincinv

from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix, gap_regret
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.environments.drawn.stochastic import Bernoulli, GapLadder
from hedgerow.evaluation.recorder import BEST_EXPERT, MEAN_EXPERT
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.study import Study
from hedgerow_papers.experiments.experiment import Check, Experiment, Studies, Verdict, judged
from hedgerow_papers.experiments.pictures import footer, sibling
from hedgerow_papers.statistics import Ratio

EPSILON, EXPERTS, MEAN = 1.0, 100, 0.5
EPSILONS = (0.01, 0.1, EPSILON)
CLIENTS, GAPS = (1, 10), (0.02, 0.05, 0.2)
LOGS = (12, 13, 14, 15, 16, 17, 18, 19, 20)  # base-2 logarithms of the horizons that are read
# From 2^FLAT rounds on, m n gap^2 is above 16 ln(d) on every stream with a gap, and the proof
# allows hardly any further regret.
FLAT = 18
RARE = 0.05  # the share of runs that may still lose after 2^FLAT rounds, at 95 % confidence
GROWN = 0.1  # the least growth without a gap, as a share of the regret at 2^FLAT
PHASED, OPEN = f"phased selection, epsilon = {EPSILON:g}", "random prefix without privacy"


def prefix(epsilon: float = EPSILON) -> str:
    return f"random prefix, epsilon = {epsilon:g}"


SPECS: dict[str, AlgorithmSpec] = {
    prefix(epsilon): RandomPrefix(epsilon=epsilon) for epsilon in EPSILONS
}
SPECS |= {OPEN: RandomPrefix(epsilon=1e6), PHASED: PhasedSelection(epsilon=EPSILON)}
STREAMS = {"one-gap": Bernoulli, "ladder-of-gaps": GapLadder}
CONTROL = "no-gap"


def label(name: str, clients: int, gap: float) -> str:
    return f"{name}/m={clients}/gap={gap:g}"


def studies(quick: bool) -> dict[str, StudyConfig]:
    def stream(kind: type[Bernoulli], clients: int, gap: float) -> Bernoulli:
        return kind(clients=clients, experts=EXPERTS, horizon=2 ** LOGS[-1], mean=MEAN, gap=gap)

    def config(study: str, kind: type[Bernoulli], gaps: tuple[float, ...]) -> StudyConfig:
        return StudyConfig(
            f"Choices from blocks, {study}, d = {EXPERTS}",
            stream(kind, 1, gaps[0]),
            tuple(
                Entry(label(n, m, g), SPECS[n], stream(kind, m, g))
                for n, m, g in product(SPECS, CLIENTS, gaps)
            ),
            seeds=3 if quick else 100,
            engine="summed",
        )

    return {study: config(study, kind, GAPS) for study, kind in STREAMS.items()} | {
        CONTROL: config(CONTROL, Bernoulli, (0.0,))
    }


def regret_at(study: Study, name: str, logarithm: int) -> np.ndarray:
    """The regret of every seed after 2^logarithm rounds."""
    runs, rounds = study.of(name), 2**logarithm
    assert all(rounds in run.rounds for run in runs), (
        f"the regret of {name} after {rounds} rounds was not recorded"
    )
    return np.array([run.regret[np.searchsorted(run.rounds, rounds)] for run in runs])


def growth(study: Study, name: str) -> Estimate:
    """The regret added after 2^FLAT rounds as a share of the mean until then, paired by seed."""
    early, late = (regret_at(study, name, k) for k in (FLAT, LOGS[-1]))
    return Estimate.of((late - early) / early.mean())


def share_growing(study: Study, name: str) -> float:
    """The share of runs whose regret grows after 2^FLAT rounds.

    It is the upper end of an exact one-sided 95 % interval.
    """
    early, late = (regret_at(study, name, k) for k in (FLAT, LOGS[-1]))
    grown = int((late > early + 1e-6).sum())
    return float(betaincinv(grown + 1, len(early) - grown, 0.95)) if grown < len(early) else 1.0


def late_guessing(study: Study, name: str) -> float:
    """The expected regret of random guessing, from the comparators of the same runs."""
    return float(
        np.mean(
            [run.comparators[MEAN_EXPERT] - run.comparators[BEST_EXPERT] for run in study.of(name)]
        )
    )


def privacy_term(clients: int, epsilon: float) -> float:
    """The term of the gap bound with epsilon: `proofs/random_prefix.md#regret` with f = 2."""
    return 16 * log(EXPERTS) / (clients * epsilon)


def judge(done: Studies) -> Verdict:
    checks, flat, printed = [], [], []
    for study, m, gap, epsilon in product(STREAMS, CLIENTS, GAPS, EPSILONS):
        name, point = (
            label(prefix(epsilon), m, gap),
            f"{study}/m={m}/gap={gap:g}/epsilon={epsilon:g}",
        )
        still, late = share_growing(done[study], name), done[study].regret(name)
        added = Estimate.of(done[study].regrets(name) - done[study].regrets(label(OPEN, m, gap)))
        flat.append(still <= RARE)
        checks.append(
            Check(f"{point}/share of runs that lose after 2^{FLAT}, upper end", still, "<=", RARE)
        )
        bound, claim = (
            gap_regret(Setting(m, EXPERTS, 2 ** LOGS[-1]), epsilon, gap),
            1000 * log(EXPERTS) * (1 / gap + 1 / epsilon),
        )
        published = claim if m == 1 else None
        checks.append(
            Check(
                f"{point}/lower end of mean regret, limit the proven bound",
                late.low,
                "<=",
                bound,
                published,
            )
        )
        checks.append(
            Check(
                f"{point}/what privacy adds, upper end, limit its term",
                added.high,
                "<=",
                privacy_term(m, epsilon),
            )
        )
        # Above the cost of guessing, the published bound is vacuous.
        if m == 1 and claim < late_guessing(done[study], name):
            printed.append(late.low <= claim)
    for m in CLIENTS:
        grown = growth(done[CONTROL], label(prefix(), m, 0.0))
        checks.append(
            Check(
                f"{CONTROL}/m={m}/growth from 2^{FLAT} to 2^{LOGS[-1]}, lower end",
                grown.low,
                ">=",
                GROWN,
            )
        )
    alone = len(flat) // len(CLIENTS)
    judged_at = (
        "the published bound, for one player, is below the cost of random guessing at"
        f" {len(printed)} of {alone} points"
    )
    return Verdict(
        judged(all(flat) and all(printed)),
        tuple(checks),
        f"{_added(done)}; {_beside(done)}; {judged_at}",
    )


def _added(done: Studies) -> str:
    """The regret that privacy adds, divided by its term of the bound: the range over all points."""
    shares = [
        (
            done[study].regret(label(prefix(epsilon), m, gap)).mean
            - done[study].regret(label(OPEN, m, gap)).mean
        )
        / privacy_term(m, epsilon)
        for study, m, gap, epsilon in product(STREAMS, CLIENTS, GAPS, EPSILONS)
    ]
    return f"privacy adds {min(shares):.2f} to {max(shares):.2f} of its term in the proven bound"


def _beside(done: Studies) -> str:
    """The regret of plain phased selection over that of the random prefix at the last horizon."""

    def ratios(study: Study) -> str:
        found = [
            Ratio.of(study.regrets(label(PHASED, *pair)), study.regrets(label(prefix(), *pair)))
            for pair in product(CLIENTS, GAPS)
        ]
        least, most = (pick(found, key=lambda one: one.value) for pick in (min, max))
        return f"between {least} and {most}"

    return "; ".join(
        f"{name}: {PHASED} has {ratios(done[name])} times the regret of {prefix()}"
        for name in STREAMS
    )


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.lines import plot_regret_against

    def curve(study: str, name: str, clients: int, gap: float) -> dict[float, Estimate]:
        return {
            float(2**k): Estimate.of(regret_at(done[study], label(name, clients, gap), k))
            for k in LOGS[::2]
        }

    for m in CLIENTS:
        points = {f"{prefix()}, no gap": curve(CONTROL, prefix(), m, 0.0)}
        points |= {f"{prefix()}, gap {gap:g}": curve("one-gap", prefix(), m, gap) for gap in GAPS}
        points |= {
            f"{name}, gap {GAPS[1]:g}": curve("one-gap", name, m, GAPS[1])
            for name in (PHASED, *map(prefix, EPSILONS[:-1]))
        }
        clients = "1 client" if m == 1 else f"{m} clients"
        title = f"With a gap, regret stops growing ({clients}, d = {EXPERTS})"
        plot_regret_against(
            points,
            path if m == 1 else sibling(path, f"m={m}"),
            title,
            "rounds",
            note=footer(done, studies),
        )


EXPERIMENT = Experiment(
    id="cesari2026-horizon",
    title="Regret that does not grow with the horizon (Cesari and Colomboni 2026, federated)",
    claim=(
        "with a gap, the regret of the random prefix is O(ln(d)/gap + ln(d)/epsilon)"
        " for every horizon"
    ),
    studies=studies,
    judge=judge,
    draw=draw,
)

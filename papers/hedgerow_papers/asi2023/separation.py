"""Asi, Feldman, Koren, Talwar 2023, section 4: private algorithms and losses that react to plays.

There are two parts. The first plays the dartboard at epsilon = 1 on a stream fixed in advance and
against an adversary that charges the expert just played. The dartboard is lazy by design: it stays
with its expert and pays. Hedge is not private, draws in every round and has no such weakness. That
is the paper's point: without privacy, the two kinds of adversary are equally hard.

The second part is the adversary of Theorem 10 (pure privacy, epsilon <= 1/10, d >= 2T). Experts
guess the signs of columns, all rows agree, and a column that was played is gone. Without privacy,
one row reveals everything: Hedge with a high rate regrets about 1/2 + ln 10 for every T (the first
guess and, now and then, the expert that it just played). Every 0.1-DP algorithm regrets at least
`consensus_regret`, about 0.28 T (`proofs/lower_bounds.md#consensus-columns`; the paper prints
Omega(T), and its proof cites a theorem about sign vectors).

Runs of a few algorithms cannot show that all others pay as much. They could contradict the bound: a
mean below it would mean that a certificate or the proof is wrong. This check is coarse. Algorithms
that rarely switch pay far more than the bound even at a hundred times the budget. Nor is the whole
regret the price of the theorem: `uniform`, which sees no data, pays less than they do.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from pathlib import Path

from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.environment import Environment
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.environments.hard.columns import MOST_USED, ConsensusColumns
from hedgerow.environments.hard.lower_bounds import consensus_regret
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.study import Study
from hedgerow_papers.asi2023.certified_potential import Potential
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    Verdict,
    judged,
    spent,
)
from hedgerow_papers.experiments.pictures import footer, sibling
from hedgerow_papers.statistics import exponent

EPSILON, DELTA, EXPERTS, SMALL = 1.0, 1e-6, 100, 0.1
HORIZONS, COLUMN_HORIZONS = (500, 2000, 8000), (125, 500, 2000)
PRIVATE: dict[str, AlgorithmSpec] = {
    "approximate": ShrinkingDartboard(epsilon=EPSILON, delta=DELTA, every=1),
    "pure": ShrinkingDartboard(epsilon=EPSILON, every=1),
}
HEDGE, FAST, BLIND = "not private", "not private, high rate", "guessing blindly"
FIXED, CHASING, COLUMNS = "fixed in advance", "chasing the plays", "columns"
LEARNERS: dict[str, AlgorithmSpec] = {
    "dartboard": ShrinkingDartboard(epsilon=SMALL),
    "dartboard, every=1": ShrinkingDartboard(epsilon=SMALL, every=1),
    "phased selection": PhasedSelection(epsilon=SMALL),
    "random prefix": RandomPrefix(epsilon=SMALL),
    "Fed-SVT": SparseVector(epsilon=SMALL),
    "doubling": Doubling(epsilon=SMALL),
    "potential": Potential(epsilon=SMALL),
}
GAMES: dict[str, tuple[Callable[[int], Environment], dict[str, AlgorithmSpec]]] = {
    FIXED: (
        lambda horizon: Bernoulli(clients=1, experts=EXPERTS, horizon=horizon, mean=0.5, gap=0.3),
        {**PRIVATE, HEDGE: Hedge()},
    ),
    CHASING: (
        lambda horizon: PlayChasing(clients=1, experts=EXPERTS, horizon=horizon),
        {**PRIVATE, HEDGE: Hedge()},
    ),
    COLUMNS: (
        lambda horizon: ConsensusColumns(
            clients=1, experts=2 * ceil(horizon / MOST_USED), horizon=horizon
        ),
        {**LEARNERS, BLIND: Uniform(), HEDGE: Hedge(), FAST: Hedge(rate=50.0)},
    ),
}
LINEAR, SUBLINEAR = 0.95, 0.9  # limits for the exponent of the horizon
LITTLE = 0.05  # limit for the regret per round without privacy


def label(algorithm: str, horizon: int) -> str:
    return f"{algorithm}/T={horizon}"


def studies(quick: bool) -> dict[str, StudyConfig]:
    made = {}
    for game, (make, specs) in GAMES.items():
        horizons = [
            horizon // 8 if quick else horizon
            for horizon in (COLUMN_HORIZONS if game == COLUMNS else HORIZONS)
        ]
        about = f"losses {game}, epsilon = {EPSILON:g}, d = {EXPERTS}"
        made[game] = StudyConfig(
            f"The columns of Theorem 10, epsilon = {SMALL:g}"
            if game == COLUMNS
            else f"Shrinking dartboard: {about}",
            make(horizons[0]),
            tuple(
                Entry(label(name, horizon), spec, make(horizon))
                for name, spec in specs.items()
                for horizon in horizons
            ),
            seeds=2 if quick else 20,
        )
    return made


def _horizons(study: Study) -> list[int]:
    return sorted(
        {study.config.environment_of(entry).setting.rounds for entry in study.config.algorithms}
    )


def _series(study: Study, algorithm: str) -> dict[float, Estimate]:
    return {float(horizon): study.regret(label(algorithm, horizon)) for horizon in _horizons(study)}


def growth(study: Study, algorithm: str) -> Estimate:
    """The growth exponent of regret between the last two horizons."""
    return exponent({float(t): study.regrets(label(algorithm, t)) for t in _horizons(study)[-2:]})


def _per_round(study: Study, algorithm: str, horizon: int) -> Estimate:
    found = study.regret(label(algorithm, horizon))
    return Estimate(found.mean / horizon, found.half_width / horizon, found.count)


def _little_without_privacy(study: Study, game: str, algorithm: str) -> Check:
    last = _horizons(study)[-1]
    return Check(
        f"{game}/{algorithm}/T={last}/upper end of regret per round",
        _per_round(study, algorithm, last).high,
        "<=",
        LITTLE,
    )


def _judge_laziness(fixed: Study, chasing: Study) -> tuple[list[Check], list[Check]]:
    """The checks of the claim about the dartboard, and our other expectations."""
    claimed, expected, last = [], [], _horizons(fixed)[-1]
    for name in PRIVATE:
        claimed += [
            Check(
                f"{CHASING}/{name}/lower end of exponent", growth(chasing, name).low, ">=", LINEAR
            ),
            Check(
                f"{FIXED}/{name}/upper end of exponent", growth(fixed, name).high, "<=", SUBLINEAR
            ),
        ]
        bound, found = (
            fixed.algorithms[label(name, last)].regret_at_most,
            fixed.regret(label(name, last)),
        )
        expected += [
            Check(
                f"{CHASING}/{name}/T={last}/lower end of regret per round",
                _per_round(chasing, name, last).low,
                ">=",
                0.8,
            ),
            Check(
                f"{FIXED}/{name}/T={last}/lower end of mean regret, limit the proven bound",
                found.low,
                "<=",
                bound,
            ),
        ]
    expected += [
        _little_without_privacy(study, game, HEDGE)
        for game, study in ((FIXED, fixed), (CHASING, chasing))
    ]
    return claimed, expected


def _judge_columns(columns: Study) -> tuple[list[Check], list[Check]]:
    """No private mean is below the bound, all grow like T, and Hedge is far below the bound."""
    claimed, costs = [], []
    for name in (*LEARNERS, BLIND):
        claimed.append(
            Check(
                f"{COLUMNS}/{name}/lower end of exponent", growth(columns, name).low, ">=", LINEAR
            )
        )
        found = {t: columns.regret(label(name, t)) for t in _horizons(columns)}
        over = min(regret.high / consensus_regret(t, SMALL) for t, regret in found.items())
        claimed.append(
            Check(
                f"{COLUMNS}/{name}/upper end of regret over the proven least, at any T",
                over,
                ">=",
                1.0,
            )
        )
        costs += [spent(columns.algorithms[label(name, t)]) for t in found]
    most = Check(
        f"{COLUMNS}/largest certified epsilon of those held to the bound", max(costs), "<=", SMALL
    )
    return claimed, [
        most,
        *(_little_without_privacy(columns, COLUMNS, name) for name in (HEDGE, FAST)),
    ]


def _note(columns: Study) -> str:
    """The verdict's note about the columns."""
    last = _horizons(columns)[-1]
    means = {name: _per_round(columns, name, last).mean for name in (*LEARNERS, BLIND, HEDGE, FAST)}
    learners = [means[name] for name in LEARNERS]
    return (
        f"columns of Theorem 10 at T = {last}, regret per round: {min(learners):.2f} to"
        f" {max(learners):.2f} for {len(learners)} private learners, {means[BLIND]:.2f} for blind"
        f" guesses ({sum(mean > means[BLIND] for mean in learners)} of the learners pay more),"
        f" {means[HEDGE]:.4f} for Hedge and {means[FAST]:.4f} for Hedge with a high rate, both not"
        f" private. Proven for every {SMALL:g}-DP algorithm:"
        f" {consensus_regret(last, SMALL) / last:.2f} or more. Runs cannot show this bound. They"
        " would contradict it if a private learner were nearly as fast as Hedge, but not if it"
        " spent a few times its budget"
    )


def judge(done: Studies) -> Verdict:
    parts = (_judge_laziness(done[FIXED], done[CHASING]), _judge_columns(done[COLUMNS]))
    claimed = [check for claims, _ in parts for check in claims]
    checks = tuple(check for claims, expected in parts for check in (*claims, *expected))
    return Verdict(judged(all(check.passed for check in claimed)), checks, _note(done[COLUMNS]))


def draw(done: Studies, path: Path) -> None:
    """One picture for each kind of privacy, and one for the columns."""
    from hedgerow_papers.lines import plot_regret_against

    for private in PRIVATE:
        points = {
            f"{short}, {kind}": _series(done[game], name)
            for short, name in (("dartboard", private), ("Hedge", HEDGE))
            for kind, game in (("chasing", CHASING), ("fixed", FIXED))
        }
        title = (
            f"Losses that chase the plays, and fixed losses ({private}, epsilon = {EPSILON:g},"
            f" d = {EXPERTS})"
        )
        target = path if private == "approximate" else sibling(path, private)
        plot_regret_against(points, target, title, "rounds", note=footer(done, studies))
    columns = done[COLUMNS]
    horizons = _horizons(columns)
    least = {
        float(t): min(
            (columns.regret(label(name, t)) for name in LEARNERS), key=lambda found: found.mean
        )
        for t in horizons
    }
    points = {
        f"{len(LEARNERS)} private learners: the smallest mean": least,
        f"{BLIND} (sees no data)": _series(columns, BLIND),
        f"Hedge, {HEDGE}": _series(columns, HEDGE),
        f"Hedge, {FAST}": _series(columns, FAST),
    }
    bound = {
        f"no {SMALL:g}-DP algorithm is below (proven)": {
            float(t): consensus_regret(t, SMALL) for t in horizons
        }
    }
    title = f"Theorem 10: guess the signs of columns, none twice (pure, epsilon = {SMALL:g})"
    plot_regret_against(
        points, sibling(path, COLUMNS), title, "rounds", bounds=bound, note=footer(done, studies)
    )


EXPERIMENT = Experiment(
    id="asi2023-separation",
    title="Fixed losses against losses that react to the plays (Asi et al. 2023, section 4)",
    claim=printed_claim("asi2023", "separation"),
    studies=studies,
    judge=judge,
    draw=draw,
)

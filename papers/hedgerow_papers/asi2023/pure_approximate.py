"""Asi et al. 2023, Theorems 9 and 10: what a delta buys against losses that react to the plays.

Experts guess the signs of columns, and a column that was played is gone. There are two parts.

*Pure against approximate.* All rows agree (Theorem 10). Every epsilon-DP algorithm pays a share of
T: `consensus_regret` is proven for all of them. Private Hedge with a delta pays about
sqrt(T)/epsilon: it draws in every round, and the cost of its draws grows like their square
root. From some T on it pays less than *any* algorithm with delta = 0 can: from about 10^4 rounds at
the epsilon that is best for this. The same algorithm with delta = 0 pays about T/2.

So the games must be long, with many experts. Short ones are played. In long ones experts are
counted (`counted`): those of one kind have the same loss, so a draw of an expert is a draw of a
kind. The law is the same, and it is compared with the games that were played.

*T0 rounds, then zeros* (Theorem 9). With a delta, too, T0 rounds can be made worthless, for T0
about 1/(epsilon ln T0)^2. The adversary plays a fingerprinting code for T0 rounds, and then all
losses are 0: a lower bound for a long game comes from a short one. We take the T0 of the theorem
without its constant (200, which leaves less than one round at these epsilons). Private Hedge pays
about half of T0, Hedge without privacy far less. Runs of one algorithm cannot show the theorem;
they could contradict it.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, log, sqrt
from pathlib import Path

import numpy as np

from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.dartboard.private_hedge import PrivateHedge
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.environments.drawn.generated import generator
from hedgerow.environments.hard.columns import ConsensusColumns
from hedgerow.environments.hard.lower_bounds import consensus_regret
from hedgerow.evaluation.statistics import Estimate, welch
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.study import Study
from hedgerow_papers.asi2023.sign_estimation import SignEstimation
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    Verdict,
    judged,
    spent,
)
from hedgerow_papers.experiments.pictures import BARS, footer, sibling
from hedgerow_papers.statistics import exponent

EPSILON, DELTA = 0.25, 1e-6
HORIZONS, QUICK = (500, 1000, 2000), (125, 250)
LONG, GAMES = (4000, 16_000, 64_000), 20  # horizons at which experts are counted, and games
COLUMNS = 4  # columns for each round, so that few plays are wasted on columns that are gone
PURE, APPROXIMATE, OPEN = "delta = 0", "delta = 1e-6", "not private"
FORMS: dict[str, AlgorithmSpec] = {
    PURE: PrivateHedge(epsilon=EPSILON, delta=0.0),
    APPROXIMATE: PrivateHedge(epsilon=EPSILON, delta=DELTA),
    OPEN: Hedge(rate=50.0),
}
BUDGETS = (0.01, 0.02, 0.04)
ROWS, GAME, QUICK_GAME = 8, 1000, 400
GROWING, SLOWER = 0.95, 0.8  # limits for the exponent of the horizon
WORTHLESS, CHEAP = 0.35, 0.2  # limits for the regret per active round
AGREE = 2.0  # limit for played minus counted regret, in half-widths of the difference


def label(name: str, parameter: float) -> str:
    return f"{name}/{parameter:g}"


def active_rounds(epsilon: float) -> int:
    """The largest T0 with epsilon <= 1/(sqrt(T0) ln T0).

    >>> [active_rounds(epsilon) for epsilon in (0.01, 0.1, 1.0)]
    [305, 14, 2]
    """
    rounds = 2
    while epsilon * sqrt(rounds + 1) * log(rounds + 1) <= 1:
        rounds += 1
    return rounds


def _columns(horizon: int) -> ConsensusColumns:
    return ConsensusColumns(experts=2 * COLUMNS * horizon, horizon=horizon)


def _then_zeros(epsilon: float, horizon: int = GAME) -> SignEstimation:
    active = active_rounds(epsilon)
    coded = active // 2
    return SignEstimation(
        experts=2 * COLUMNS * active, horizon=horizon, rows=ROWS, coded=coded, active=active
    )


def studies(quick: bool) -> dict[str, StudyConfig]:
    horizons, game = (QUICK, QUICK_GAME) if quick else (HORIZONS, GAME)
    return {
        "columns": StudyConfig(
            f"Columns of Theorem 10, epsilon = {EPSILON:g}",
            _columns(horizons[0]),
            tuple(
                Entry(label(name, horizon), spec, _columns(horizon))
                for name, spec in FORMS.items()
                for horizon in horizons
            ),
            seeds=2 if quick else 5,
        ),
        "zeros": StudyConfig(
            f"T0 rounds of a fingerprinting code, then zeros, T = {game}",
            _then_zeros(BUDGETS[0], game),
            tuple(
                Entry(label(name, epsilon), spec, _then_zeros(epsilon, game))
                for epsilon in BUDGETS
                for name, spec in (
                    (APPROXIMATE, PrivateHedge(epsilon=epsilon, delta=DELTA)),
                    (OPEN, Hedge(rate=50.0)),
                )
            ),
            seeds=2 if quick else 10,
        ),
    }


@lru_cache(maxsize=16)
def counted(spec: AlgorithmSpec, horizon: int, games: int = GAMES) -> np.ndarray:
    """The regrets of private Hedge in several games with the columns, without a list of experts.

    Before round t an expert with the wrong sign has lost t times. One with the right sign has
    lost nothing, or, if its column was first played in round s, t - 1 - s times.
    """
    rate = spec.build(_columns(horizon).setting).parameters["rate"]
    columns, uniform = COLUMNS * horizon, generator(horizon).random((horizon, games))
    unused, used, regret = np.full(games, float(columns)), np.zeros(games), np.zeros(games)
    for played, place in enumerate(uniform):  # weights: `used` is that of right signs
        wrong = exp(-rate * played)
        place *= unused + used + columns * wrong
        regret += place >= unused
        fresh = place < unused * (1 + wrong)
        used = exp(-rate) * used + fresh
        unused -= fresh
    return regret


def _regrets(done: Studies, name: str) -> dict[float, np.ndarray]:
    """The regrets of all seeds by horizon: games that were played, then counted ones."""
    study, spec = done["columns"], FORMS[name]
    found = {
        float(study.config.environment_of(entry).setting.rounds): study.regrets(entry.label)
        for entry in study.config.algorithms
        if entry.label.startswith(f"{name}/")
    }
    return found if name == OPEN else found | {float(t): counted(spec, t) for t in LONG}


def _series(done: Studies, name: str) -> dict[float, Estimate]:
    return {t: Estimate.of(values) for t, values in _regrets(done, name).items()}


def _apart(done: Studies, name: str) -> float:
    """How far played and counted regret are apart in the longest game that was played."""
    last = max(t for t in _regrets(done, name) if t not in LONG)
    two = (_regrets(done, name)[last], counted(FORMS[name], int(last)))
    difference = welch(*(Estimate.of(values) for values in two))
    return abs(difference.mean) / difference.half_width


def _growth(done: Studies, name: str) -> Estimate:
    """The growth exponent of regret between the first and the last horizon."""
    found = _regrets(done, name)
    first, last = found[min(found)], found[max(found)]
    seeds = min(len(first), len(last))
    return exponent({min(found): first[:seeds], max(found): last[:seeds]})


def _share(study: Study, name: str, epsilon: float) -> Estimate:
    found, active = study.regret(label(name, epsilon)), active_rounds(epsilon)
    return Estimate(found.mean / active, found.half_width / active, found.count)


def judge(done: Studies) -> Verdict:
    columns, zeros = done["columns"], done["zeros"]
    pure, approximate = _series(done, PURE), _series(done, APPROXIMATE)
    last = max(approximate)
    least, found = consensus_regret(int(last), EPSILON), approximate[last]
    claimed = [
        Check(f"{PURE}/lower end of exponent", _growth(done, PURE).low, ">=", GROWING),
        Check(
            f"{PURE}/upper end of regret over the proven least, at any T",
            min(regret.high / consensus_regret(int(t), EPSILON) for t, regret in pure.items()),
            ">=",
            1.0,
        ),
        Check(
            f"{APPROXIMATE}/upper end of exponent", _growth(done, APPROXIMATE).high, "<=", SLOWER
        ),
        *(
            Check(
                f"{APPROXIMATE}/T0={active_rounds(epsilon)}/lower end of regret per active round",
                _share(zeros, APPROXIMATE, epsilon).low,
                ">=",
                WORTHLESS,
            )
            for epsilon in BUDGETS
        ),
    ]
    expected = [
        Check(
            f"{APPROXIMATE}/T={last:g}/upper end of regret over the least of every pure algorithm",
            found.high / least,
            "<=",
            1.0,
        ),
        *(
            Check(
                f"{OPEN}/T0={active_rounds(epsilon)}/upper end of regret per active round",
                _share(zeros, OPEN, epsilon).high,
                "<=",
                CHEAP,
            )
            for epsilon in BUDGETS
        ),
        *(
            Check(
                f"{name}/played and counted regret apart, in half-widths",
                _apart(done, name),
                "<=",
                AGREE,
            )
            for name in (PURE, APPROXIMATE)
        ),
        Check(
            "largest certified epsilon",
            max(
                spent(columns.algorithms[entry])
                for entry in columns.algorithms
                if OPEN not in entry
            ),
            "<=",
            EPSILON,
        ),
    ]
    note = (
        f"epsilon = {EPSILON:g}, T = {last:,.0f}: {pure[last].mean:,.0f} with delta = 0,"
        f" {found.mean:,.0f} with delta = {DELTA:g}; no algorithm with delta = 0 has less than"
        f" {least:,.0f} (proven). T0 rounds, then zeros: regret per active round "
        + ", ".join(f"{_share(zeros, APPROXIMATE, epsilon).mean:.2f}" for epsilon in BUDGETS)
        + f" at epsilon = {', '.join(f'{epsilon:g}' for epsilon in BUDGETS)}"
    )
    return Verdict(judged(all(check.passed for check in claimed)), (*claimed, *expected), note)


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.lines import plot_regret_against

    zeros = done["zeros"]
    points = {
        f"private Hedge, {PURE}": _series(done, PURE),
        f"private Hedge, {APPROXIMATE}": _series(done, APPROXIMATE),
        f"Hedge, {OPEN}": _series(done, OPEN),
    }
    least = {
        f"no algorithm with {PURE} is below (proven)": {
            t: consensus_regret(int(t), EPSILON) for t in _series(done, APPROXIMATE)
        }
    }
    title = f"What a delta buys where losses react (columns of Theorem 10, epsilon = {EPSILON:g})"
    note = footer(done, studies, f"from T = {min(LONG):,} on {GAMES} counted games; {BARS}")
    plot_regret_against(points, path, title, "rounds", bounds=least, note=note)
    by_budget = {
        name: {epsilon: zeros.regret(label(name, epsilon)) for epsilon in BUDGETS}
        for name in (APPROXIMATE, OPEN)
    }
    active = {"T0, the rounds that count": {e: float(active_rounds(e)) for e in BUDGETS}}
    rounds = zeros.config.environment.setting.rounds
    title = f"T0 rounds of a fingerprinting code, then zeros (T = {rounds:,})"
    plot_regret_against(
        by_budget,
        sibling(path, "zeros"),
        title,
        "epsilon",
        bounds=active,
        note=footer(done, studies),
    )


EXPERIMENT = Experiment(
    id="asi2023-pure-approximate",
    title="Pure and approximate privacy where losses react (Asi et al. 2023, Theorems 9 and 10)",
    claim=printed_claim("asi2023", "delta"),
    studies=studies,
    judge=judge,
    draw=draw,
)

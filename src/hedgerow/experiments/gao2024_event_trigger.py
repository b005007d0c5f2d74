"""Gao, Huang, Yang 2024, section B.1: why clients do not signal when to change the expert.

"Event-trigger methods only track the maximum loss among clients, not the total aggregated loss":
each client has to hide its own loss by noise, and the threshold must exceed the noise of every
client. So a bad expert is dropped only when one client *alone* has lost enough, however many there
are. The exchange at fixed times adds losses first and hides the sum.

Two designs with the same budget, the same draws and the same noise differ only in who tests:
every client its own loss (`event-triggered`), or the server the loss of all (`fixed schedule`).
Thresholds are 1/2 and 1 times the level at which false alarms become rare; every design has its
best one for every m, in hindsight. Fed-SVT as it is offered plays the same streams. The rejected
design is not registered, so its runs are made when the experiment is judged, from the same seeds.

What the event-triggered design saves is communication: only signals and the sums before a draw
are sent.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.environments.drawn.realizable import Realizable
from hedgerow.evaluation.statistics import Estimate, Ratio, exponent
from hedgerow.experiments.event_triggered import EventTriggered
from hedgerow.experiments.experiment import Check, Experiment, Studies, TextTable, Verdict, spent
from hedgerow.experiments.pictures import footer
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.run import run_study
from hedgerow.studies.study import Study

EPSILON, EXPERTS, HORIZON = 1.0, 100, 512
CLIENTS = (1, 2, 4, 8, 16)
FACTORS = (0.5, 1.0)
EVENT, FIXED, OFFERED = "event-triggered", "fixed schedule, same constants", "Fed-SVT, certified"
FLAT, FALLING = -0.4, -0.6  # limits for the exponent of m
TIMES = 3.0  # the least factor between the designs with the most clients


def label(name: str, clients: int) -> str:
    return f"{name}/m={clients}"


def _stream(clients: int) -> Realizable:
    return Realizable(clients=clients, experts=EXPERTS, horizon=HORIZON, mean=0.5, law="uniform")


def studies(quick: bool) -> dict[str, StudyConfig]:
    entries = tuple(
        Entry(label(OFFERED, m), SparseVector(epsilon=EPSILON), _stream(m)) for m in CLIENTS
    )
    title = f"Fed-SVT, epsilon = {EPSILON:g}, d = {EXPERTS}, T = {HORIZON}"
    return {"offered": StudyConfig(title, _stream(1), entries, seeds=3 if quick else 12)}


@lru_cache(maxsize=2)
def designs(seeds: int) -> Study:
    """Both designs with all thresholds, on the streams of the offered algorithm."""
    entries = tuple(
        Entry(
            f"{label(name, m)}/factor={factor:g}",
            EventTriggered(epsilon=EPSILON, signals=name == EVENT, factor=factor),
            _stream(m),
        )
        for name in (EVENT, FIXED)
        for m in CLIENTS
        for factor in FACTORS
    )
    return run_study(StudyConfig("who tests", _stream(1), entries, seeds=seeds), workers=1)


def best(study: Study, name: str, clients: int) -> str:
    """The label of a design with the threshold that is best for this m."""
    labels = [f"{label(name, clients)}/factor={factor:g}" for factor in FACTORS]
    return min(labels, key=lambda each: study.regret(each).mean)


def regrets(done: Studies, name: str) -> dict[float, np.ndarray]:
    """The regrets of all seeds by number of clients."""
    if name == OFFERED:
        return {float(m): done["offered"].regrets(label(name, m)) for m in CLIENTS}
    played = designs(done["offered"].config.seeds)
    return {float(m): played.regrets(best(played, name, m)) for m in CLIENTS}


def _sent(done: Studies, name: str, clients: int) -> float:
    """Numbers sent: sums of all experts before each draw, and one number from each client after.

    At fixed times the sums are sent in every round.
    """
    played = designs(done["offered"].config.seeds)
    draws = np.mean([run.switches for run in played.of(best(played, name, clients))])
    exchanges = float(draws) if name == EVENT else HORIZON - 1
    return clients * (EXPERTS + 1) * exchanges


def judge(done: Studies) -> Verdict:
    played = designs(done["offered"].config.seeds)
    slopes = {name: exponent(regrets(done, name)) for name in (EVENT, FIXED, OFFERED)}
    most = float(CLIENTS[-1])
    event, fixed = (regrets(done, name)[most] for name in (EVENT, FIXED))
    times = Ratio.of(event, fixed)
    claimed = [
        Check(f"{EVENT}/lower end of the exponent of m", slopes[EVENT].low, ">=", FLAT),
        Check(f"{FIXED}/upper end of the exponent of m", slopes[FIXED].high, "<=", FALLING),
        Check(f"m={most:g}/{EVENT} over {FIXED}/lower end", times.low, ">=", TIMES),
    ]
    costs = [
        spent(played.algorithms[best(played, name, m)]) for name in (EVENT, FIXED) for m in (1, 16)
    ]
    expected = [
        Check(f"{OFFERED}/upper end of the exponent of m", slopes[OFFERED].high, "<=", FALLING),
        Check("both designs/largest certified epsilon", max(costs), "<=", EPSILON),
        Check("both designs/smallest certified epsilon", min(costs), ">=", 0.999 * EPSILON),
    ]
    rows = tuple(
        (
            name,
            str(m),
            f"{Estimate.of(regrets(done, name)[m]).mean:.1f}",
            f"{played.algorithms[best(played, name, m)].parameters['threshold'] / share:.2f}",
            f"{_sent(done, name, m):,.0f}",
        )
        for name in (EVENT, FIXED)
        for m, share in ((m, 1 if name == EVENT else m) for m in CLIENTS)
    )
    columns = ("design", "m", "regret", "loss per client before a test is above", "numbers sent")
    note = (
        f"regret falls like m^{slopes[EVENT].mean:.2f} with signals of single clients and like"
        f" m^{slopes[FIXED].mean:.2f} where losses are added first; with {most:g} clients signals"
        f" cost {times.value:.1f} times the regret and send"
        f" {_sent(done, FIXED, CLIENTS[-1]) / _sent(done, EVENT, CLIENTS[-1]):.0f} times less"
    )
    table = TextTable("who tests", columns, rows)
    return Verdict(all(c.passed for c in claimed), (*claimed, *expected), note, (table,))


def draw(done: Studies, path: Path) -> None:
    from hedgerow.evaluation.plots.lines import plot_regret_against

    points = {
        f"{name} (slope {exponent(found).mean:.2f})": {
            m: Estimate.of(values) for m, values in found.items()
        }
        for name in (EVENT, FIXED, OFFERED)
        for found in (regrets(done, name),)
    }
    title = (
        f"Who tests: every client, or the sum (epsilon = {EPSILON:g}, d = {EXPERTS}, T = {HORIZON})"
    )
    plot_regret_against(points, path, title, "clients", note=footer(done, studies))


EXPERIMENT = Experiment(
    id="gao2024-event-trigger",
    title="Signals of single clients instead of fixed exchanges (Gao et al. 2024, section B.1)",
    claim=(
        "if clients signal when to change the expert, more clients do not reduce the regret, as"
        " they do if losses are added at fixed times"
    ),
    studies=studies,
    judge=judge,
    draw=draw,
)

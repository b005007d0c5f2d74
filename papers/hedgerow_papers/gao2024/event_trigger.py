"""Gao, Huang, Yang 2024, section B.1: why clients do not signal when to change the expert.

"Event-trigger methods only track the maximum loss among clients, not the total aggregated loss":
each client has to hide its own loss by noise, and the threshold must exceed the noise of every
client. So a bad expert is dropped only when one client *alone* has lost enough, however many
clients there are. Exchanges at fixed times add the losses first and hide the sum.

Two designs with the same budget, the same draws and the same noise differ only in who tests:
every client its own loss (`event-triggered`), or the server the loss of all (`fixed schedule`).
Thresholds are 1/2 and 1 times the level at which false alarms become rare; each design gets the
better one for every m, in hindsight. The registered Fed-SVT plays the same streams. The rejected
design is not registered, so its runs are made when the experiment is judged, from the same seeds.

Two streams have a perfect expert. On *halving*, half of the good experts turn bad again and again,
so bad experts must be dropped many times. On *uniform* losses a few draws find the perfect expert.
More clients help the event-triggered design, too: its draws use the losses of all clients, and
with many clients false alarms are frequent and act as further draws. But they help less. In the
other design a bad expert costs at least one round, and no more clients can change that.

What the event-triggered design saves is communication: only signals and the sums before a draw
are sent.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.environments.drawn.realizable import Halving, Realizable
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.run import run_study
from hedgerow.studies.study import Study
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    TextTable,
    Verdict,
    judged,
    lower_end_of_difference,
    spent,
)
from hedgerow_papers.experiments.pictures import footer, sibling
from hedgerow_papers.gao2024.event_triggered import EventTriggered
from hedgerow_papers.statistics import Ratio, exponent

EPSILON, EXPERTS = 1.0, 100
HORIZON, QUICK = 512, 128
CLIENTS, FEW = (1, 4, 16, 64), (1, 4)
HALVING, UNIFORM = "halving", "uniform"
STREAMS = (HALVING, UNIFORM)
FACTORS = (0.5, 1.0)
EVENT, FIXED, OFFERED = "event-triggered", "fixed schedule, same constants", "Fed-SVT, certified"
FALLING = -0.6  # limit for the exponent of m
TIMES = 1.5  # the least factor between the designs with the most clients


def label(name: str, clients: int) -> str:
    return f"{name}/m={clients}"


def _stream(stream: str, clients: int, horizon: int) -> Halving | Realizable:
    game: dict[str, Any] = {"clients": clients, "experts": EXPERTS, "horizon": horizon}
    return Halving(**game) if stream == HALVING else Realizable(**game, mean=0.5, law="uniform")


def studies(quick: bool) -> dict[str, StudyConfig]:
    clients, horizon = (FEW, QUICK) if quick else (CLIENTS, HORIZON)

    def study(stream: str) -> StudyConfig:
        entries = tuple(
            Entry(label(OFFERED, m), SparseVector(epsilon=EPSILON), _stream(stream, m, horizon))
            for m in clients
        )
        title = f"Fed-SVT, {stream} losses, epsilon = {EPSILON:g}, d = {EXPERTS}, T = {horizon}"
        return StudyConfig(title, _stream(stream, 1, horizon), entries, seeds=3 if quick else 10)

    return {stream: study(stream) for stream in STREAMS}


def _size(done: Studies) -> tuple[tuple[int, ...], int, int]:
    """The numbers of clients, the horizon and the number of seeds that were played."""
    config = done[HALVING].config
    settings = [config.environment_of(entry).setting for entry in config.algorithms]
    return tuple(s.clients for s in settings), settings[0].rounds, config.seeds


def design_study(stream: str, clients: tuple[int, ...], horizon: int, seeds: int) -> StudyConfig:
    """Both designs with all thresholds, on the streams of the offered algorithm."""
    entries = tuple(
        Entry(
            f"{label(name, m)}/factor={factor:g}",
            EventTriggered(epsilon=EPSILON, signals=name == EVENT, factor=factor),
            _stream(stream, m, horizon),
        )
        for name in (EVENT, FIXED)
        for m in clients
        for factor in FACTORS
    )
    return StudyConfig("who tests", _stream(stream, 1, horizon), entries, seeds=seeds)


@lru_cache(maxsize=4)
def designs(stream: str, clients: tuple[int, ...], horizon: int, seeds: int) -> Study:
    """The runs of both designs."""
    return run_study(design_study(stream, clients, horizon, seeds), workers=1)


def best(study: Study, name: str, clients: int) -> str:
    """The label of a design with the threshold that is best for this m."""
    labels = [f"{label(name, clients)}/factor={factor:g}" for factor in FACTORS]
    return min(labels, key=lambda each: study.regret(each).mean)


def regrets(done: Studies, stream: str, name: str) -> dict[float, np.ndarray]:
    """The regrets of all seeds by number of clients."""
    clients, horizon, seeds = _size(done)
    if name == OFFERED:
        return {float(m): done[stream].regrets(label(name, m)) for m in clients}
    played = designs(stream, clients, horizon, seeds)
    return {float(m): played.regrets(best(played, name, m)) for m in clients}


def _sent(study: Study, name: str, clients: int) -> float:
    """Numbers sent: the sums of all experts before each draw, and one number to each client after.

    At fixed times this happens in every round.
    """
    draws = np.mean([run.switches for run in study.of(best(study, name, clients))])
    rounds = study.config.environment.setting.rounds
    return clients * (EXPERTS + 1) * (float(draws) if name == EVENT else rounds - 1)


def judge(done: Studies) -> Verdict:
    names, (clients, horizon, seeds) = (EVENT, FIXED, OFFERED), _size(done)
    most = clients[-1]
    slopes = {
        stream: {name: exponent(regrets(done, stream, name)) for name in names}
        for stream in STREAMS
    }
    played = {stream: designs(stream, clients, horizon, seeds) for stream in STREAMS}
    times = {
        stream: Ratio.of(*(regrets(done, stream, name)[most] for name in (EVENT, FIXED)))
        for stream in STREAMS
    }
    claimed = [
        check
        for stream in STREAMS
        for check in (
            Check(
                f"{stream}/exponent of m, {EVENT} above {FIXED}/lower end",
                lower_end_of_difference(slopes[stream][EVENT], slopes[stream][FIXED]),
                ">=",
                0.0,
            ),
            Check(
                f"{stream}/m={most}/{EVENT} over {FIXED}/lower end",
                times[stream].low,
                ">=",
                TIMES,
            ),
        )
    ]
    costs = [
        spent(study.algorithms[best(study, name, m)])
        for study in played.values()
        for name in (EVENT, FIXED)
        for m in (1, most)
    ]
    expected = [
        Check(
            f"{UNIFORM}/{OFFERED}/upper end of the exponent of m",
            slopes[UNIFORM][OFFERED].high,
            "<=",
            FALLING,
        ),
        Check("both designs/largest certified epsilon", max(costs), "<=", EPSILON),
        Check("both designs/smallest certified epsilon", min(costs), ">=", 0.999 * EPSILON),
    ]
    found = {
        stream: [each[name].mean for name in (EVENT, FIXED)] for stream, each in slopes.items()
    }
    fixed, event = (_sent(played[HALVING], name, most) for name in (FIXED, EVENT))
    less = fixed / max(event, 1.0)
    note = (
        f"{HALVING}: regret falls like m^{found[HALVING][0]:.2f} with signals of single clients and"
        f" like m^{found[HALVING][1]:.2f} where losses are added first; {UNIFORM}:"
        f" m^{found[UNIFORM][0]:.2f} and m^{found[UNIFORM][1]:.2f}. With {most} clients signals"
        f" have {times[HALVING].value:.1f} and {times[UNIFORM].value:.1f} times the regret, and"
        f" send {less:.0f} times fewer numbers"
    )
    tables = tuple(_table(done, stream, played[stream]) for stream in STREAMS)
    return Verdict(judged(all(c.passed for c in claimed)), (*claimed, *expected), note, tables)


def _table(done: Studies, stream: str, study: Study) -> TextTable:
    columns = ("design", "m", "regret", "threshold per client", "numbers sent")
    rows = tuple(
        (
            name,
            str(m),
            str(Estimate.of(regrets(done, stream, name)[m])),
            f"{study.algorithms[best(study, name, m)].parameters['threshold'] / share:.2f}",
            f"{_sent(study, name, m):,.0f}",
        )
        for name in (EVENT, FIXED)
        for m, share in ((m, 1 if name == EVENT else m) for m in _size(done)[0])
    )
    return TextTable(f"who tests, {stream} losses", columns, rows)


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.lines import plot_regret_against

    for stream, target in zip(STREAMS, (path, sibling(path, UNIFORM)), strict=True):
        points = {
            f"{name} (slope {exponent(found).mean:.2f})": {
                m: Estimate.of(values) for m, values in found.items()
            }
            for name in (EVENT, FIXED, OFFERED)
            for found in (regrets(done, stream, name),)
        }
        size = f"epsilon = {EPSILON:g}, d = {EXPERTS}, T = {_size(done)[1]}"
        title = f"Who tests: every client, or the sum ({stream} losses, {size})"
        plot_regret_against(points, target, title, "clients", note=footer(done, studies))


EXPERIMENT = Experiment(
    id="gao2024-event-trigger",
    title="Signals of single clients instead of fixed exchanges (Gao et al. 2024, section B.1)",
    claim=printed_claim("gao2024", "trigger"),
    studies=studies,
    judge=judge,
    draw=draw,
)

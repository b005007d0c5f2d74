"""Audit cases for watched runs: constructed worst transcripts and planted bugs.

The datum lies in the first tested run, which has expert 0. The first answer is "no", although
expert 2 was far better; the datum moves this comparison by 2. Then the run ends, by an alarm that
names expert 3 with a "yes" that the datum does not move at all, or by a planned choice of expert 3,
which only one world favours. So the threshold, and the answer or the choice, reveal as much as they
can. In the next run expert 3 loses and stays, which the datum may not touch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.algorithms.watch.server import RunServer, message
from hedgerow.audits.case import WHOLE, AuditCase, changes
from hedgerow.audits.cases.parts import (
    DRAWN,
    all_transcripts,
    less_selection,
    peer_curve,
    quiet_selection,
    with_bug,
    with_server,
)
from hedgerow.audits.cases.releases import quiet
from hedgerow.audits.drawn import CUT
from hedgerow.core.lattice import Units
from hedgerow.core.setting import Setting

if TYPE_CHECKING:
    from hedgerow.algorithms.watch.block_selection import BlockSelection
    from hedgerow.algorithms.watch.watched_selection import WatchedSelection

EXPERTS, ROUNDS, RUNS = 100, 5, 5000
LEAST, MOST = 0.05, 10.0  # others would need more clients or experts than fit


class _Beyond:
    """The bug: the windows of a run reach into the run before."""

    def kept(self, losses: Units) -> Units:
        return losses[:1]


def worst(
    server: RunServer, planned: bool
) -> tuple[np.ndarray, np.ndarray, tuple[tuple[Any, ...], ...]]:
    """The streams of both worlds and the transcript."""
    clients = server.setting.clients
    first = np.zeros((ROUNDS, clients, EXPERTS))
    ahead = clients - 2  # how far expert 0 falls behind expert 2
    first[1, 1 : ahead + 1, 0] = 1.0
    first[1, 1:, [1, *range(3, EXPERTS)]] = 1.0
    first[2, 1:, 2] = 1.0  # and now it falls behind
    first[2:, 1:, 3] = first[2, 1:5, 0] = 1.0  # both are bad choices, if it is planned
    second = first.copy()
    favoured = np.isin(np.arange(EXPERTS), (0, 3))
    first[1, 0], second[1, 0] = ~favoured, favoured
    runs = [server.first(0)]
    ends = ((0, 0), (None, 0), (0, 3)) if planned else ((0, 0), (1, 3))
    for alarm, expert in (*ends, (None, 3)):
        run = replace(runs[-1], round=runs[-1].round + runs[-1].wait)
        runs.append(run if alarm is None else server.after(run, expert, alarm))
    return first, second, (tuple(message(run) for run in runs),)


def watched_cases(spec: WatchedSelection) -> tuple[AuditCase, ...]:
    """The null case, the worst transcripts, then the bugs that must be caught."""
    epsilon = min(max(LEAST, spec.epsilon), MOST)
    played = replace(spec, epsilon=epsilon, every=1)
    algorithm = played.build(Setting(50 + ceil(50 / epsilon), EXPERTS, ROUNDS))
    server = algorithm.server
    assert isinstance(server, RunServer)
    assert server.test is not None
    assert server.after_test is not None
    test, choice = server.test, server.after_test
    half = replace(test, threshold_scale=test.threshold_scale / 2, query_scale=test.query_scale / 2)
    curve, given = peer_curve(algorithm), changes(spec, played)
    alarm, planned = (
        replace(AuditCase(name, WHOLE, algorithm, curve, *worst(server, choose)), parameters=given)
        for name, choose in (("worst alarm", False), ("worst planned choice", True))
    )
    bugs = {
        "half the noise of the test": (alarm, replace(server, test=half)),
        "four fifths of the noise of an answer": (
            alarm,
            replace(server, test=replace(test, query_scale=CUT * test.query_scale)),
        ),
        "four fifths of the threshold noise": (
            alarm,
            replace(server, test=replace(test, threshold_scale=CUT * test.threshold_scale)),
        ),
        "windows that reach into the run before": (planned, with_bug(server, _Beyond)),
        "the whole budget for the choice beside a test": (
            planned,
            replace(server, after_test=None),
        ),
        "four fifths of the noise of the choice": (
            planned,
            replace(server, after_test=choice.scaled(CUT)),
        ),
    }
    return (
        alarm.null(),
        alarm,
        planned,
        *(case.caught(name, with_server(algorithm, bug)) for name, (case, bug) in bugs.items()),
        *_untested(spec, played),
        *_real_runs(spec, replace(played, epsilon=64.0)),
        *_real_tests(spec, replace(played, epsilon=64.0)),
    )


def _untested(spec: WatchedSelection, played: WatchedSelection) -> tuple[AuditCase, ...]:
    """A datum of the first run, which has no test, and expert 0 chosen from it."""
    algorithm = played.build(Setting(40 + ceil(40 / played.epsilon), 50, 2))
    server = algorithm.server
    assert isinstance(server, RunServer)
    first = np.zeros((2, algorithm.setting.clients, 50))
    first[0, 1:, 0] = 1.0
    second = first.copy()
    first[0, 0, 1:] = second[0, 0, 0] = 1.0
    run = server.first(1)
    sent = (message(run), message(server.after(replace(run, round=1), 0, 0)))
    case = AuditCase(
        "a run without a test", WHOLE, algorithm, peer_curve(algorithm), first, second, (sent,)
    )
    case = replace(case, parameters=changes(spec, played))
    bug = with_server(algorithm, less_selection(server))
    return case, case.caught("four fifths of the noise of a choice without a test", bug)


def _real_tests(spec: WatchedSelection, played: WatchedSelection) -> Iterator[AuditCase]:
    """Real runs whose alarms, and choices after a test, depend on their noise.

    Expert 0 is chosen first. How far it then falls behind expert 1 makes an alarm depend most on
    one noise, or the choice after the run on its own.
    """
    name = "all transcripts of a tested run"
    for rounds, lost, noise in (
        (3, 0.28125, "threshold"),
        (3, 0.1953125, "query"),
        (4, 0.009765625, "choice"),
    ):
        algorithm = played.build(Setting(2, 2, rounds))
        server: Any = algorithm.server
        first = np.zeros((rounds, 2, 2))
        first[0, :, 1], first[1:, :, 0] = 0.5, lost
        second = first.copy()
        first[1, 0], second[1, 0] = (lost, 0.0), (0.0, lost)
        if noise == "choice":
            drawn = replace(server, after_test=quiet(server.after_test))
        else:
            scale = f"{noise}_scale"
            thin = {scale: CUT * getattr(server.test, scale)}
            drawn = replace(server, test=replace(server.test, **thin))
        sent, curve = all_transcripts(algorithm, first), peer_curve(algorithm)
        case = AuditCase(f"{name}: {noise}", WHOLE, algorithm, curve, first, second, sent)
        runs = 4 * RUNS if noise == "query" else RUNS  # it moves few of the answers
        case = replace(case, runs=runs, parameters=changes(spec, played))
        bug = replace(with_server(algorithm, drawn), claims=algorithm.claims)
        less = f"a fifth less noise of the {noise} drawn than in the likelihood"
        yield case
        yield case.caught(less, bug)


def block_cases(spec: BlockSelection) -> tuple[AuditCase, ...]:
    """A datum of the first block, expert 0 chosen from it, and the bugs that must be caught."""
    played = replace(spec, length=2)
    algorithm = played.build(Setting(200, 50, 6))
    first = np.zeros((6, 200, 50))
    first[:, 1:, 0] = 1.0
    second = first.copy()
    first[0, 0, 1:] = second[0, 0, 0] = 1.0
    server = algorithm.server
    assert isinstance(server, RunServer)
    run = server.first(1)
    sent = (message(run), message(replace(run, expert=0)), message(replace(run, expert=0)))
    curve, given = peer_curve(algorithm), changes(spec, played)
    case = AuditCase("worst transcript", WHOLE, algorithm, curve, first, second, (sent,))
    case = replace(case, parameters=given)
    bugs = {
        "four fifths of the noise": less_selection(server),
        "blocks that are never closed": with_bug(server, _Beyond),
    }
    return (
        case.null(),
        case,
        *(case.caught(name, with_server(algorithm, bug)) for name, bug in bugs.items()),
        *_real_runs(spec, replace(played, epsilon=4.0)),
    )


def _real_runs(spec: Any, played: Any) -> tuple[AuditCase, ...]:
    """A tiny game, whose real runs must follow the likelihood; the datum is in a tested run."""
    algorithm = played.build(Setting(2, 2, 5))
    first = np.zeros((5, 2, 2))
    unit = min(0.25, 4 / played.epsilon)
    first[:, 1, 0] = unit
    second = first.copy()
    first[1, 0], second[1, 0] = (unit, 0.0), (0.0, unit)
    sent = all_transcripts(algorithm, first)
    curve, name = peer_curve(algorithm), "all transcripts of a tiny game"
    case = AuditCase(name, WHOLE, algorithm, curve, first, second, sent)
    case = replace(case, runs=RUNS, parameters=changes(spec, played))
    return case, case.caught(DRAWN, with_server(algorithm, quiet_selection(algorithm.server)))

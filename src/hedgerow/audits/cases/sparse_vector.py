"""Audit cases for Fed-SVT: streams and transcripts that nearly attain the certificate, and bugs.

In the worst transcript of the printed algorithm, the first run lasts as long as noise allows, and
then every exchange draws expert 0, which only one world favours. With weights
by recency every run has its own worst transcript (`recency.py`). The threshold noise protects
many answers "below" in a row. Without it, as in line 9 of the printed algorithm, each such answer
reveals a little more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import ceil, log
from typing import Any

import numpy as np

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.sparse_vector.plan import planned
from hedgerow.algorithms.sparse_vector.recency import RecencySelector
from hedgerow.algorithms.sparse_vector.selector import Selector
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.audits.case import AuditCase, changes
from hedgerow.audits.cases.parts import (
    BELOWS,
    DRAWN,
    Streams,
    all_transcripts,
    in_every_round,
    less_selection,
    of_run,
    of_whole_and_run,
    peer_curve,
    quiet_selection,
    with_server,
)
from hedgerow.audits.cases.recency import bugs, dearest, many_belows_of, worst_streams
from hedgerow.audits.drawn import CUT
from hedgerow.core.setting import Setting
from hedgerow.privacy.curves import PureDP
from hedgerow.privacy.mechanisms import AboveThreshold

SETTING = Setting(clients=1, experts=100, horizon=512)
DRAWS = 8  # of the game with many draws, of which all transcripts are looked at
LOUD, RUNS = 4.0, 5000  # epsilon and runs of the game of one switch
READ_AT = 1e-3  # the delta at which approximate certificates are compared with their audits
ANSWERS, SELECTION = "answers alone", "one selection alone"
FIRST_RUN = "a loss vector of the first run"


@dataclass(frozen=True)
class PrintedComparison(AboveThreshold):
    """The bug: line 9 as printed. The query is compared with L, not with the noisy threshold."""

    def begin(self, threshold: float, noise: object) -> float:
        return threshold

    def log_probability(self, queries: object, threshold: float, ended: bool) -> float:
        above = np.array(
            [self.comparison.probability(q - threshold) for q in np.asarray(queries, float)]
        )
        with np.errstate(divide="ignore"):
            below = np.log1p(-above)
            return float(below[:-1].sum() + np.log(above[-1])) if ended else float(below.sum())


def _worst(server: Selector, *, tested: bool = False) -> Streams:
    if isinstance(server, RecencySelector):
        return worst_streams(server, dearest(server, tested=tested))
    return _all_in_one_epoch(server)


def _all_in_one_epoch(server: Selector) -> Streams:
    """One datum in the first run of expert 0, which lasts as long as noise allows.

    Only one world favours expert 0: there all its queries are lower, so that the run lasts, and all
    later draws of expert 0 are likelier.
    """
    level, switches = int(server.threshold), server.switches
    lasts = 1 + level + BELOWS
    first = np.zeros((lasts + switches, 1, SETTING.experts))
    first[1 : 1 + level, :, 0] = first[lasts:, :, 0] = 1.0
    second = first.copy()
    first[0, 0, 1:] = second[0, 0, 0] = 1.0
    drawn = (
        CurrentExpert(None if used == switches else 1, 0, used) for used in range(1, switches + 1)
    )
    return first, second, ((*(CurrentExpert(1, 0, 0),) * (lasts + 1), *drawn),)


def _forced(switches: int, clients: int) -> tuple[np.ndarray, np.ndarray]:
    """One datum favours one expert in each world; then every expert loses everywhere.

    Every exchange ends a run. The first query equals the threshold 1 in one world and is one below
    it in the other, where the answer reveals most. Each later selection moves the log-ratio up or
    down by eta / 2.
    """
    first = np.ones((switches + 6, clients, 2))
    first[0] = 0.0
    second = first.copy()
    first[0, 0, 0] = second[0, 0, 1] = 1.0
    return first, second


def _one_switch(server: Selector, clients: int) -> tuple[np.ndarray, np.ndarray]:
    """One forced switch between two experts; the worse one is drawn with probability about 0.15."""
    first = np.zeros((2, clients, 2))
    first[0, 1:] = 1.0
    lead = max(2, round(2 * log(0.85 / 0.15) / server.selection.epsilon))
    first[0, 1 : lead + 1, 1] = 0.0
    second = first.copy()
    first[0, 0], second[0, 0] = (0.0, 1.0), (1.0, 0.0)
    return first, second


def cases(spec: Any) -> tuple[AuditCase, ...]:
    """The null case, then the certificate's worst cases, then the bugs that must be caught.

    The spec is a `SparseVector`, or another with its parameters and a `Selector`. The loss of the
    best expert is set to 0, because a larger one hides data below it. The threshold and the number
    of clients do not affect the privacy cost.
    """
    return (
        *_exact(spec),
        *(_many_draws(spec) if spec.delta > 0 and isinstance(spec, SparseVector) else ()),
        *_real_runs(spec),
    )


def _exact(spec: Any) -> tuple[AuditCase, ...]:
    plain = replace(spec, best_loss=0.0, every=1)
    level = max(1, int(in_every_round(plain.build(SETTING)).threshold))
    played = planned(plain, {"threshold": level + 0.5})  # queries are whole numbers: none equals it
    algorithm = played.build(SETTING)
    server = in_every_round(algorithm)
    sparse = server.sparse
    thin = replace(server, sparse=replace(sparse, threshold_scale=CUT * sparse.threshold_scale))
    less_query = replace(server, sparse=replace(sparse, query_scale=CUT * sparse.query_scale))
    printed = replace(
        server, sparse=PrintedComparison(sparse.law, sparse.threshold_scale, sparse.query_scale)
    )
    streams = _worst(server), many_belows_of(server, SETTING)
    curve, given = peer_curve(algorithm), changes(spec, played)
    whole, answers = of_whole_and_run(algorithm, server, curve, streams, ANSWERS, given)
    less = less_selection(server)
    found = (
        whole.null(),
        answers,
        answers.caught("four fifths of the threshold noise", with_server(algorithm, thin)),
        answers.caught("printed comparison with L", with_server(algorithm, printed)),
        whole,
    )
    if not isinstance(server, RecencySelector):
        bug = with_server(algorithm, less)
        return *found, whole.caught("four fifths of the selection noise", bug)
    dear, tested = (server.weights.of(dearest(server, tested=only)) for only in (False, True))
    return (
        *found,
        of_run(whole, "four fifths of the selection noise", less, streams[0], dear),
        of_run(
            whole,
            "four fifths of the query noise",
            less_query,
            _worst(server, tested=True),
            tested,
        ),
        *(of_run(whole, name, *planted) for name, planted in bugs(server).items()),
    )


def _many_draws(spec: SparseVector) -> tuple[AuditCase, ...]:
    """All transcripts in which every exchange ends a run, at delta > 0.

    Their log-ratios add up and cancel as those of the composed curve do.
    """
    clients = min(500, ceil(64 / spec.epsilon))
    # many equal selections: a single large one would need another stream
    plan = {"switches": DRAWS, "threshold": 1.0, "front": 0.0}
    played = planned(spec, plan, every=1, best_loss=0.0)
    algorithm = played.build(Setting(clients, 2, 256))
    server = in_every_round(algorithm)
    assert isinstance(server, RecencySelector)
    # the datum is in the first run, others cost more here
    certified = server.weights.of(0).curve(server.weights.rate)
    first, second = _forced(server.switches, clients)
    sent = tuple(
        (CurrentExpert(1, 0, 0), *(CurrentExpert(1, x, n) for n, x in enumerate(drawn, 1)))
        for drawn in product((0, 1), repeat=DRAWS)
    )

    half = replace(server, selection=server.selection.scaled(0.5))
    honest = with_server(algorithm, server)
    case = AuditCase("forced switches", FIRST_RUN, honest, certified, first, second, sent)
    delta = READ_AT * min(1.0, spec.epsilon)  # a small epsilon has its deltas below READ_AT
    case = replace(case, delta=delta, parameters=changes(spec, played))
    bug = with_server(algorithm, half)
    return case, case.caught("forced switches, half the selection noise", bug)


def _real_runs(spec: Any) -> tuple[AuditCase, ...]:
    """One switch, whose real runs must follow the likelihood; it is nearly certain."""
    clients = 64
    plan = {"switches": 1, "threshold": 0.0}
    played = planned(spec, plan, epsilon=LOUD, delta=0.0, every=1, best_loss=0.0)
    algorithm = played.build(Setting(clients, 2, 256))
    server = in_every_round(algorithm)
    audited = with_server(algorithm, server)
    first, second = _one_switch(server, clients)
    curve, sent = PureDP(server.selection.epsilon), all_transcripts(audited, first)
    case = AuditCase("one switch", SELECTION, audited, curve, first, second, sent)
    case = replace(case, runs=RUNS, parameters=changes(spec, played))
    return case, case.caught(DRAWN, with_server(algorithm, quiet_selection(server)))

"""Audit cases for Fed-SVT: streams and transcripts that nearly attain the certificate, and bugs.

In the worst transcript of the printed algorithm, every exchange ends a run of the sparse vector and
draws expert 0, which only one world favours. Each step is then near its worst ratio. With weights
by recency every run has its own worst transcript (`recency.py`). The threshold noise protects
many answers "below" in a row. Without it, as in line 9 of the printed algorithm, each such answer
reveals a little more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log

import numpy as np

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.sparse_vector.recency import RecencySelector
from hedgerow.algorithms.sparse_vector.selector import Selector
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.audits.case import WHOLE, AuditCase, Verdict, changes
from hedgerow.audits.cases.parts import (
    ExactCases,
    Streams,
    favour_expert_0,
    half_selection,
    in_every_round,
    peer_curve,
    with_server,
)
from hedgerow.audits.cases.recency import bugs, dearest, many_belows_of, worst_streams
from hedgerow.core.setting import Setting
from hedgerow.privacy.curves import PureDP
from hedgerow.privacy.mechanisms import AboveThreshold

SETTING = Setting(clients=1, experts=100, horizon=512)
HALVES = 16  # the number of experts in the sampled games
OUTSIDE = 4.0  # epsilon of the black-box game: frequencies show little about a small one
READ_AT = 1e-3  # the delta at which approximate certificates are compared with their audits
ANSWERS, SELECTION = "answers alone", "one selection alone"
FIRST_RUN = "a loss vector of the first run"


@dataclass(frozen=True)
class PrintedComparison(AboveThreshold):
    """The bug: line 9 as printed. The query is compared with L, not with the noisy threshold."""

    def begin(self, threshold: float, noise: object) -> float:
        del noise
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
    runs = range(1, server.switches + 1)
    sent = (
        CurrentExpert(1, 1, 0),
        *(CurrentExpert(None if k == server.switches else 1, 0, k) for k in runs),
    )
    return *favour_expert_0(SETTING, server.switches), (sent,)


def _forced(switches: int, clients: int) -> tuple[np.ndarray, np.ndarray]:
    """One datum favours one half of the experts in each world; then every expert loses everywhere.

    Every exchange ends a run. The first query equals the threshold 1 in one world and is one below
    it in the other, where the answer reveals most. Each later selection moves the log-ratio up or
    down by eta / 2.
    """
    first = np.ones((switches + 6, clients, HALVES))
    first[0] = 0.0
    second = first.copy()
    first[0, 0, : HALVES // 2] = second[0, 0, HALVES // 2 :] = 1.0
    return first, second


def _one_switch(server: Selector, clients: int) -> tuple[np.ndarray, np.ndarray]:
    """One forced switch between two experts; the worse one is drawn with probability about 0.15."""
    first = np.zeros((2, clients, 2))
    first[0, 1:] = 1.0
    lead = round(2 * log(0.85 / 0.15) / server.selection.epsilon)
    first[0, 1 : lead + 1, 1] = 0.0
    second = first.copy()
    first[0, 0], second[0, 0] = (0.0, 1.0), (1.0, 0.0)
    return first, second


def cases(spec: SparseVector) -> tuple[AuditCase, ...]:
    """The null case, then the certificate's worst cases, then the bugs that must be caught.

    The loss of the best expert is set to 0, because a larger one hides data below it. The threshold
    and the number of clients do not affect the privacy cost.
    """
    return (*_exact(spec), *(_glass_box(spec) if spec.delta > 0 else ()), *_black_box(spec))


def _exact(spec: SparseVector) -> tuple[AuditCase, ...]:
    plain = replace(spec, best_loss=0.0, every=1)
    level = max(1, int(in_every_round(plain.build(SETTING)).threshold))
    played = replace(plain, threshold=level + 0.5)  # queries are whole numbers: none equals it
    algorithm = played.build(SETTING)
    server = in_every_round(algorithm)
    sparse = server.sparse
    half_threshold = replace(
        server, sparse=replace(sparse, threshold_scale=sparse.threshold_scale / 2)
    )
    half_query = replace(server, sparse=replace(sparse, query_scale=sparse.query_scale / 2))
    printed = replace(
        server, sparse=PrintedComparison(sparse.law, sparse.threshold_scale, sparse.query_scale)
    )
    made = ExactCases(
        algorithm,
        peer_curve(algorithm),
        _worst(server),
        sparse.curve,
        many_belows_of(server, SETTING),
        ANSWERS,
        changes(spec, played),
    )
    found = (
        made.null(server),
        made.whole("worst transcript", server, "holds"),
        made.answers("many belows", server, "holds"),
        made.answers("half the threshold noise", half_threshold, "violated"),
        made.answers("printed comparison with L", printed, "violated"),
        made.whole("half the selection noise", half_selection(server), "violated"),
    )
    # The printed query noise is twice what is needed, so half of it is not a violation.
    if half_query.sparse.curve.bound > sparse.curve.bound:
        tested = _worst(server, tested=True)
        found = (*found, made.whole("half the query noise", half_query, "violated", tested))
    if isinstance(server, RecencySelector):
        planted = bugs(server).items()
        found += tuple(made.whole(name, bug, "violated", at) for name, (bug, at) in planted)
    return found


def _glass_box(spec: SparseVector) -> tuple[AuditCase, ...]:
    clients = min(500, ceil(64 / spec.epsilon))
    # many equal selections: a single large one would need another stream
    even = {} if spec.stops else {"front": 0.0}
    played = replace(spec, every=1, threshold=1.0, switches=12, best_loss=0.0, **even)
    algorithm = played.build(Setting(clients, HALVES, 256))
    server, certified = in_every_round(algorithm), peer_curve(algorithm)
    claim = WHOLE
    if isinstance(server, RecencySelector):  # the datum is in the first run, others cost more here
        claim, certified = FIRST_RUN, server.weights.of(0).curve(server.weights.rate)
    first, second = _forced(server.switches, clients)
    delta = READ_AT * min(1.0, spec.epsilon)  # a small epsilon has all its deltas below READ_AT
    parameters = changes(spec, played)

    def case(
        name: str, audited: Selector, other: np.ndarray, runs: int, expected: Verdict
    ) -> AuditCase:
        return AuditCase(
            name,
            claim,
            with_server(algorithm, audited),
            certified,
            first,
            other,
            method="glass box",
            runs=runs,
            delta=delta,
            expected=expected,
            parameters=parameters,
        )

    return (
        case("null, sampled", server, first, 500, "holds"),
        case("forced switches", server, second, 4000, "holds"),
        case("half the selection noise, sampled", half_selection(server), second, 2000, "violated"),
    )


def _black_box(spec: SparseVector) -> tuple[AuditCase, ...]:
    clients = 64
    played = replace(
        spec, epsilon=OUTSIDE, delta=0.0, every=1, threshold=0.0, switches=1, best_loss=0.0
    )
    algorithm = played.build(Setting(clients, 2, 256))
    server = in_every_round(algorithm)
    half = half_selection(server)
    curve = PureDP(server.selection.epsilon)  # the switch is nearly certain and reveals little
    parameters = changes(spec, played)

    def case(name: str, audited: Selector, same: bool, expected: Verdict) -> AuditCase:
        first, second = _one_switch(audited, clients)
        return AuditCase(
            name,
            SELECTION,
            with_server(algorithm, audited),
            curve,
            first,
            first if same else second,
            method="black box",
            runs=10_000,
            expected=expected,
            parameters=parameters,
        )

    return (
        case("null, from outside", server, True, "holds"),
        case("one switch, from outside", server, False, "holds"),
        case("half the selection noise, from outside", half, False, "violated"),
    )

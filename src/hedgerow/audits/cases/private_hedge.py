"""Audit cases for private Hedge: the worst transcript, a sampled game, and planted bugs.

One record favours expert 0 in one world and all others in the other world. Then expert 0 loses, so
that drawing it is unlikely and reveals much about the record. In the worst transcript it is drawn
at every exchange.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hedgerow.algorithms.dartboard.private_hedge import DrawingServer, PrivateHedge
from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.audits.case import WHOLE, AuditCase, Method, Verdict, changes
from hedgerow.audits.cases.parts import favour_expert_0, half_selection, peer_curve, with_server
from hedgerow.core.lattice import Array
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting

DRAWS = 15
WORST = Setting(clients=50, experts=50, horizon=DRAWS + 1)
SAMPLED, RUNS, READ_AT = Setting(clients=1, experts=2, horizon=17), 500, 0.1


class CountedTwice(DrawingServer):
    """The bug: every loss is counted twice."""

    def log_likelihood(self, broadcasts: list[CurrentExpert], reports: Array) -> float:
        return super().log_likelihood(broadcasts, 2 * reports)


def cases(spec: PrivateHedge) -> tuple[AuditCase, ...]:
    """The null case, the worst transcript, bugs, and a sampled game where delta > 0."""
    played = replace(spec, every=1, rate=None)
    algorithm = played.build(WORST)
    first, second = favour_expert_0(WORST, DRAWS)
    sent = (CurrentExpert(1, 1, 0), *(CurrentExpert(1, 0, n + 1) for n in range(DRAWS)))
    server = algorithm.server
    assert isinstance(server, DrawingServer)
    half = with_server(algorithm, half_selection(server))
    wrong = CountedTwice(server.experts, server.schedule, server.selection)
    twice = with_server(algorithm, wrong)

    def case(
        name: str,
        audited: Algorithm,
        data: tuple[Array, Array],
        expected: Verdict,
        method: Method = "exact ratio",
    ) -> AuditCase:
        exact = method == "exact ratio"
        return AuditCase(
            name,
            WHOLE,
            audited,
            peer_curve(audited),
            *data,
            transcripts=(sent,) if exact else (),
            method=method,
            runs=0 if exact else RUNS,
            delta=0.0 if exact else READ_AT,
            expected=expected,
            parameters=changes(spec, played),
        )

    found = (
        case("null: the same stream twice", algorithm, (first, first), "holds"),
        case("worst transcript", algorithm, (first, second), "holds"),
        case("half the noise", half, (first, second), "violated"),
        case("every loss counted twice", twice, (first, second), "violated"),
    )
    if spec.delta == 0:
        return found
    many = replace(played, epsilon=max(2.0, spec.epsilon)).build(SAMPLED)
    quiet = np.zeros((SAMPLED.rounds, 1, 2))
    one, other = quiet.copy(), quiet.copy()
    one[0, 0, 0] = other[0, 0, 1] = 1.0
    louder = with_server(many, half_selection(many.server))
    return (
        *found,
        case("many draws, sampled", many, (one, other), "holds", "glass box"),
        case("many draws, half the noise", louder, (one, other), "violated", "glass box"),
    )

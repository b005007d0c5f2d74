"""Audit cases for private Hedge: the worst transcript, all transcripts of a short game, and bugs.

One record favours expert 0 in one world and all others in the other world. Then expert 0 loses, so
that drawing it is unlikely and reveals much about the record. In the worst transcript it is drawn
at every exchange.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hedgerow.algorithms.dartboard.private_hedge import DrawingServer, PrivateHedge
from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.audits.case import WHOLE, AuditCase, changes
from hedgerow.audits.cases.parts import (
    DRAWN,
    all_transcripts,
    favour_expert_0,
    less_selection,
    peer_curve,
    quiet_selection,
    with_server,
)
from hedgerow.audits.cases.releases import stated_delta
from hedgerow.core.lattice import Array
from hedgerow.core.setting import Setting

DRAWS = 15
WORST = Setting(clients=50, experts=50, horizon=DRAWS + 1)
SHORT, LOUD, RUNS = Setting(clients=2, experts=2, horizon=10), 8.0, 2000


class CountedTwice(DrawingServer):
    """The bug: every loss is counted twice."""

    def log_likelihood(self, broadcasts: list[CurrentExpert], reports: Array) -> float:
        return super().log_likelihood(broadcasts, 2 * reports)


def cases(spec: PrivateHedge) -> tuple[AuditCase, ...]:
    """The null case, the worst transcript, bugs, and all transcripts of a short game."""
    played = replace(spec, every=1, rate=None)
    algorithm = played.build(WORST)
    first, second = favour_expert_0(WORST, DRAWS)
    sent = (CurrentExpert(1, 1, 0), *(CurrentExpert(1, 0, n + 1) for n in range(DRAWS)))
    server = algorithm.server
    assert isinstance(server, DrawingServer)
    less = with_server(algorithm, less_selection(server))
    wrong = CountedTwice(server.experts, server.schedule, server.selection)
    twice = with_server(algorithm, wrong)

    curve, given = peer_curve(algorithm), changes(spec, played)
    case = AuditCase("worst transcript", WHOLE, algorithm, curve, first, second, (sent,))
    case = replace(case, parameters=given)

    loud = replace(played, epsilon=LOUD)
    short = loud.build(SHORT)
    still = np.zeros((SHORT.rounds, 2, 2))
    still[0, 1, 0] = 1.0  # so that choices are not even
    one, other = still.copy(), still.copy()
    one[0, 0, 0] = other[0, 0, 1] = 1.0
    curve, every = peer_curve(short), all_transcripts(short, one)
    every = AuditCase("all transcripts of a short game", WHOLE, short, curve, one, other, every)
    delta = stated_delta(curve) if spec.delta == 0 else spec.delta
    every = replace(every, delta=delta, runs=RUNS, parameters=changes(spec, loud))
    return (
        case.null(),
        case,
        case.caught("four fifths of the noise", less),
        case.caught("every loss counted twice", twice),
        every,
        every.caught(DRAWN, with_server(short, quiet_selection(short.server))),
    )

"""Where the shrinking dartboard leaks most.

One datum favours expert 0 in one world and all others in the other. In the worst transcript the current expert, one of the
others, is left at the first coin and expert 0 is drawn again and again: every step is near its own worst ratio.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hedgerow.algorithms.dartboard.server import ServerState
from hedgerow.algorithms.dartboard.shrinking_dartboard import Dartboard, ShrinkingDartboard
from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.audits.case import AuditCase
from hedgerow.audits.cases.dartboard import Attack, exchanges, lazy_cases, with_datum
from hedgerow.audits.cases.parts import Streams


def _transcript(server: Dartboard, *, stays: int = 0) -> tuple[CurrentExpert, ...]:
    """Expert 0 is drawn at every exchange, while the cap allows it; but first expert 1 stays for a few."""
    state = ServerState(np.zeros(0, np.int64), 1, 0)
    sent = [server.message(state)]
    for exchange in range(exchanges(server)):
        if server.over(state.switches):
            break
        if exchange >= stays:
            state = replace(state, expert=0, switches=state.switches + 1)
        sent.append(server.message(state))
    return tuple(sent)


def _worst(server: Dartboard) -> Streams:
    return with_datum(server, (_transcript(server), _transcript(server, stays=1)))


def cases(spec: ShrinkingDartboard) -> tuple[AuditCase, ...]:
    return lazy_cases(spec, Attack(_worst, draws=1, rate=1.0))

"""Where the shrinking dartboard leaks most, and bugs that must be caught.

One datum favours expert 0 in one world and all others in the other. In the worst transcript the current expert, one of the
others, is left at the first coin and expert 0 is drawn again and again: every step is near its own worst ratio.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hedgerow.algorithms.experts.audit_parts import Streams, half_selection, with_bug
from hedgerow.algorithms.experts.following import CurrentExpert
from hedgerow.algorithms.experts.lazy_audit import (
    OUTSIDE,
    READ_AT,
    SAMPLED,
    CountedTwice,
    OverlappingGroups,
    capped,
    exchanges,
    in_more_groups,
    one_too_many,
    sampled,
    server_of,
    whole,
    with_datum,
)
from hedgerow.algorithms.experts.lazy_server import ServerState
from hedgerow.algorithms.experts.shrinking_dartboard import Dartboard, ShrinkingDartboard
from hedgerow.core.audit_case import AuditCase
from hedgerow.core.lattice import UNITS_PER_LOSS


def _never_without_a_reason(server: Dartboard) -> Dartboard:
    """p -> 0: as near to it as the lattice allows."""
    return replace(server, coin=replace(server.coin, base=1 / UNITS_PER_LOSS))


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
    """The null first, then the certificate's worst cases, then what must be caught."""
    return (*_exact(spec), *(_glass_box(spec) if spec.delta > 0 else ()), *_black_box(spec))


def _exact(spec: ShrinkingDartboard) -> Iterator[AuditCase]:
    played = capped(spec)
    server: Dartboard = server_of(played)
    worst = _worst(server)
    yield whole(spec, played, "null: the same stream twice", server, "holds", (worst[0], worst[0], worst[2]))
    yield whole(spec, played, "worst transcript", server, "holds", worst)
    yield whole(spec, played, "half the selection noise", half_selection(server), "violated", worst)
    yield whole(spec, played, "never leaves without a reason (p -> 0)", _never_without_a_reason(server), "violated", worst)
    yield one_too_many(spec, played, exchanges(server), _worst)
    played = in_more_groups(spec)
    server = server_of(played)
    yield whole(spec, played, "groups that overlap by one round", with_bug(server, OverlappingGroups), "violated", _worst(server))
    yield whole(spec, played, "a datum in two groups", with_bug(server, CountedTwice), "violated", _worst(server))


def _fixed(spec: ShrinkingDartboard, **choices: float | None) -> ShrinkingDartboard:
    """The same algorithm with parameters of its own: sampling tells little about a quiet game."""
    return replace(spec, epsilon=20.0 if spec.calibration == "certified" else spec.epsilon, every=1, **choices)


def _glass_box(spec: ShrinkingDartboard) -> Iterator[AuditCase]:
    played = _fixed(spec, rate=0.25, leave=0.1, draws=None)
    yield from sampled(spec, played, SAMPLED, "glass box", 2000, READ_AT, _never_without_a_reason)


def _black_box(spec: ShrinkingDartboard) -> Iterator[AuditCase]:
    played = _fixed(spec, delta=0.0, rate=1.0, leave=0.25, draws=1)
    yield from sampled(spec, played, OUTSIDE, "black box", 8000, 0.0, _never_without_a_reason)

"""Where the shrinking dartboard leaks most, and bugs that must be caught.

One datum favours expert 0 in one world and all others in the other. In the worst transcript the current expert, one of the
others, is left at the first coin and expert 0 is drawn again and again: every step is near its own worst ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from hedgerow.algorithms.experts.audit_parts import Streams, as_kind, half_selection, peer_curve, with_server
from hedgerow.algorithms.experts.lazy_choices import LazyChoices
from hedgerow.algorithms.experts.lazy_server import LazyServer, ServerState
from hedgerow.algorithms.experts.shrinking_dartboard import Dartboard, ShrinkingDartboard
from hedgerow.algorithms.experts.sparse_vector import CurrentExpert
from hedgerow.core.audit_case import WHOLE, AuditCase, Method, Verdict, changes
from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.setting import Setting

SETTING = Setting(clients=1, experts=1000, horizon=512)
BATCH, ENOUGH = 4, 3  # rounds of a group where the calibration has groups of one, or fewer exchanges than this
CAPPED = 12  # draws of the approximate version, which otherwise has no cap to be off by one
SAMPLED = Setting(clients=1, experts=16, horizon=20)
OUTSIDE = Setting(clients=1, experts=2, horizon=2)
READ_AT = 1e-3  # where approximate certificates are compared with their audits

AnySpec = TypeVar("AnySpec", bound=LazyChoices)


def overlapping(server: LazyServer, lost: Array) -> Array:
    """The printed group sums, from Bt to B(t+1) inclusive: the loss at a boundary is in two groups."""
    return np.stack([lost[max(0, first - 1) : first + server.every].sum(axis=0) for first in range(0, len(lost), server.every)])


class OverlappingGroups(Dartboard):
    def grouped(self, lost: Array) -> Array:
        return overlapping(self, lost)


def _never_without_a_reason(server: Dartboard) -> Dartboard:
    """p -> 0: as near to it as the lattice allows."""
    return replace(server, coin=replace(server.coin, base=1 / UNITS_PER_LOSS))


def exchanges(server: LazyServer) -> int:
    return -(-SETTING.horizon // server.every) - 1


def capped(spec: AnySpec) -> AnySpec:
    """With a cap on draws, which the approximate version need not have."""
    return spec if spec.delta == 0 or server_of(spec).draws is not None else replace(spec, draws=CAPPED)


def in_more_groups(spec: AnySpec) -> AnySpec:
    """With groups of several rounds and several exchanges, for bugs that need both."""
    server = server_of(spec)
    return capped(spec if server.every > 1 and exchanges(server) >= ENOUGH else replace(spec, every=BATCH))


def server_of(spec: LazyChoices) -> Any:
    return spec.build(SETTING).server


def whole(spec: LazyChoices, played: LazyChoices, name: str, audited: LazyServer, expected: Verdict, streams: Streams) -> AuditCase:
    """A case for the whole certificate of the algorithm that is played, with the server that is audited."""
    algorithm, parameters = played.build(SETTING), changes(spec, played)
    built = with_server(algorithm, audited)
    return AuditCase(name, WHOLE, built, peer_curve(algorithm), *streams, expected=expected, parameters=parameters)


def one_too_many(spec: AnySpec, played: AnySpec, occasions: int, worst: Callable[[Any], Streams]) -> AuditCase:
    draws = server_of(played).draws
    if draws is None or draws >= occasions:
        played = replace(played, draws=occasions - 1) if occasions > 1 else capped(replace(spec, every=BATCH))
    server = server_of(played)
    more = replace(server, draws=server.draws + 1)
    return whole(spec, played, "one draw too many (K off by one)", more, "violated", worst(more))


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
    """The datum stands in the last round of the first group, all other losses are 0."""
    sent = (_transcript(server), _transcript(server, stays=1))
    first = np.zeros((server.every * max(map(len, sent)), SETTING.clients, SETTING.experts))
    second = first.copy()
    first[server.every - 1, 0, 1:] = 1.0
    second[server.every - 1, 0, 0] = 1.0
    return first, second, sent


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
    if server.every > 1:
        played = in_more_groups(spec)
        server = server_of(played)
        yield whole(spec, played, "groups that overlap by one round", as_kind(server, OverlappingGroups), "violated", _worst(server))


def _fixed(spec: ShrinkingDartboard, **choices: float | None) -> ShrinkingDartboard:
    """The same algorithm with parameters of its own: sampling tells little about a quiet game."""
    return replace(spec, epsilon=20.0 if spec.calibration == "certified" else spec.epsilon, every=1, **choices)


def sampled(
    spec: LazyChoices, played: Any, setting: Setting, method: Method, runs: int, delta: float, buggy: Callable[[Any], Any]
) -> Iterator[AuditCase]:
    """Half of the experts are favoured in each world; later everybody loses everywhere, so that draws are many."""
    algorithm = played.build(setting)
    server, certified = algorithm.server, peer_curve(algorithm)
    first = np.ones((setting.horizon, setting.clients, setting.experts))
    first[0, 0, : setting.experts // 2] = 0.0
    second = first.copy()
    second[0] = 1.0 - first[0]
    where = {"glass box": "sampled", "black box": "from outside"}[method]
    plans: tuple[tuple[str, Any, np.ndarray, Verdict], ...] = (
        (f"null, {where}", server, first, "holds"),
        (f"one datum, {where}", server, second, "holds"),
        (f"never leaves without a reason, {where}", buggy(server), second, "violated"),
    )
    for name, audited, other, expected in plans:
        yield AuditCase(
            name,
            WHOLE,
            with_server(algorithm, audited),
            certified,
            first,
            other,
            method=method,
            runs=runs,
            delta=delta,
            expected=expected,
            parameters=changes(spec, played),
        )


def _glass_box(spec: ShrinkingDartboard) -> Iterator[AuditCase]:
    played = _fixed(spec, rate=0.25, leave=0.1, draws=None)
    yield from sampled(spec, played, SAMPLED, "glass box", 2000, READ_AT, _never_without_a_reason)


def _black_box(spec: ShrinkingDartboard) -> Iterator[AuditCase]:
    played = _fixed(spec, delta=0.0, rate=1.0, leave=0.25, draws=1)
    yield from sampled(spec, played, OUTSIDE, "black box", 8000, 0.0, _never_without_a_reason)

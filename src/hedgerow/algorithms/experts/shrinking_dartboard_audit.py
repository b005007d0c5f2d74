"""Where the shrinking dartboard leaks most, and bugs that must be caught.

One datum favours expert 0 in one world and all others in the other. In the worst transcript the current expert, one of the
others, is left at the first coin and expert 0 is drawn again and again: every step is near its own worst ratio.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hedgerow.algorithms.experts.audit_parts import Streams, half_selection, peer_curve, with_server
from hedgerow.algorithms.experts.shrinking_dartboard import Dartboard, ShrinkingDartboard
from hedgerow.algorithms.experts.sparse_vector import CurrentExpert
from hedgerow.core.audit_case import WHOLE, AuditCase, Method, Verdict, changes
from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting

SETTING = Setting(clients=1, experts=1000, horizon=512)
CAPPED = 12  # draws of the approximate version, which otherwise has no cap to be off by one
SAMPLED = Setting(clients=1, experts=16, horizon=20)
OUTSIDE = Setting(clients=1, experts=2, horizon=2)
READ_AT = 1e-3  # where approximate certificates are compared with their audits


@dataclass(frozen=True)
class OverlappingGroups(Dartboard):
    """The printed group sums, from Bt to B(t+1) inclusive: the loss at a boundary is in two groups."""

    def grouped(self, lost: Array) -> Array:
        return np.stack([lost[max(0, first - 1) : first + self.every].sum(axis=0) for first in range(0, len(lost), self.every)])


def _server(algorithm: Algorithm) -> Dartboard:
    assert isinstance(algorithm.server, Dartboard)
    return algorithm.server


def _never_without_a_reason(server: Dartboard) -> Dartboard:
    """p -> 0: as near to it as the lattice allows."""
    return replace(server, coin=replace(server.coin, base=1 / UNITS_PER_LOSS))


def _worst(server: Dartboard, draws: int) -> Streams:
    """The datum stands in the last round of the first group, all other losses are 0; every exchange draws expert 0."""
    first = np.zeros((server.every * (draws + 1), SETTING.clients, SETTING.experts))
    second = first.copy()
    first[server.every - 1, 0, 1:] = 1.0
    second[server.every - 1, 0, 0] = 1.0
    drawn = (CurrentExpert(None if k == server.draws else server.every, 0, k) for k in range(1, draws + 1))
    return first, second, ((CurrentExpert(server.every, 1, 0), *drawn),)


def cases(spec: ShrinkingDartboard) -> tuple[AuditCase, ...]:
    """The null first, then the certificate's worst cases, then what must be caught."""
    return (*_exact(spec), *(_glass_box(spec) if spec.delta > 0 else ()), *_black_box(spec))


def _exact(spec: ShrinkingDartboard) -> Iterator[AuditCase]:
    played = replace(spec, draws=CAPPED) if spec.delta > 0 else spec
    algorithm = played.build(SETTING)
    server, certified = _server(algorithm), peer_curve(algorithm)
    exchanges = -(-SETTING.horizon // server.every) - 1
    draws = min(exchanges, exchanges if server.draws is None else server.draws)

    def whole(name: str, audited: Dartboard, expected: Verdict, streams: Streams) -> AuditCase:
        return AuditCase(
            name, WHOLE, with_server(algorithm, audited), certified, *streams, expected=expected, parameters=changes(spec, played)
        )

    worst = _worst(server, draws)
    yield whole("null: the same stream twice", server, "holds", (worst[0], worst[0], worst[2]))
    yield whole("worst transcript", server, "holds", worst)
    yield whole("half the selection noise", half_selection(server), "violated", worst)
    yield whole("never leaves without a reason (p -> 0)", _never_without_a_reason(server), "violated", worst)
    yield _one_too_many(spec, played if draws < exchanges else replace(played, draws=exchanges - 1))
    if server.every > 1:
        overlapping = OverlappingGroups(server.experts, server.every, server.draws, server.coin, server.selection)
        yield whole("groups that overlap by one round", overlapping, "violated", worst)


def _one_too_many(spec: ShrinkingDartboard, played: ShrinkingDartboard) -> AuditCase:
    algorithm = played.build(SETTING)
    draws = _server(algorithm).draws
    assert draws is not None
    more = replace(_server(algorithm), draws=draws + 1)
    name, parameters = "one draw too many (K off by one)", changes(spec, played)
    streams = _worst(more, draws + 1)
    return AuditCase(name, WHOLE, with_server(algorithm, more), peer_curve(algorithm), *streams, expected="violated", parameters=parameters)


def _fixed(spec: ShrinkingDartboard, **choices: float | None) -> ShrinkingDartboard:
    """The same algorithm with parameters of its own: sampling tells little about a quiet game."""
    return replace(spec, epsilon=20.0 if spec.calibration == "certified" else spec.epsilon, every=1, **choices)


def _sampled(
    spec: ShrinkingDartboard, played: ShrinkingDartboard, setting: Setting, method: Method, runs: int, delta: float
) -> Iterator[AuditCase]:
    """Half of the experts are favoured in each world; later everybody loses everywhere, so that draws are many."""
    algorithm = played.build(setting)
    server, certified = _server(algorithm), peer_curve(algorithm)
    first = np.ones((setting.horizon, setting.clients, setting.experts))
    first[0, 0, : setting.experts // 2] = 0.0
    second = first.copy()
    second[0] = 1.0 - first[0]
    where = {"glass box": "sampled", "black box": "from outside"}[method]
    plans: tuple[tuple[str, Dartboard, np.ndarray, Verdict], ...] = (
        (f"null, {where}", server, first, "holds"),
        (f"one datum, {where}", server, second, "holds"),
        (f"never leaves without a reason, {where}", _never_without_a_reason(server), second, "violated"),
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
    yield from _sampled(spec, _fixed(spec, rate=0.25, leave=0.1, draws=None), SAMPLED, "glass box", 2000, READ_AT)


def _black_box(spec: ShrinkingDartboard) -> Iterator[AuditCase]:
    yield from _sampled(spec, _fixed(spec, delta=0.0, rate=1.0, leave=0.25, draws=1), OUTSIDE, "black box", 8000, 0.0)

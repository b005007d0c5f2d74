"""Where lazy experts leak most, and bugs that must be caught.

One datum favours expert 0 in one world and all others in the other. What is most telling: x leaves (or stays) at the first coin
after it, when the datum moves L(x) - L(y) by 2, and then expert 0 is drawn again and again, for x and for y.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hedgerow.algorithms.experts.audit_parts import Streams, half_selection, with_bug
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
from hedgerow.algorithms.experts.lazy_experts import LazyExperts, Pair, ServerState, TwoExperts
from hedgerow.algorithms.experts.lazy_server import steps
from hedgerow.core.audit_case import AuditCase, Verdict
from hedgerow.core.lattice import UNITS_PER_LOSS, Array

LEAST = 1 / UNITS_PER_LOSS


class CuriousCompanion(Pair):
    """The coin of y looks at what y lost, as the dartboard's coin looks at x."""

    def log_likelihood(self, broadcasts: list[TwoExperts], reports: Array) -> float:
        result = super().log_likelihood(broadcasts, reports)
        exchanges = zip(broadcasts, broadcasts[1:], steps(self, reports.shape, reports.tobytes()), strict=False)
        for now, sent, (lost, _) in exchanges:
            kept = sent.refreshes == now.refreshes
            result += self.refresh.log_probability(lost[now.companion], kept) - self.refresh.log_probability(0.0, kept)
        return result


def _never_without_a_reason(server: Pair) -> Pair:
    """p -> 0, and without the constant that stands in for it: x stays for certain when it lost least and y most."""
    return replace(server, coin=replace(server.coin, base=LEAST - server.coin.least))


def _companion_for_ever(server: Pair) -> Pair:
    """p -> 0 in the coin of y, which sees no data."""
    return replace(server, refresh=replace(server.refresh, base=LEAST))


def _transcript(server: Pair, expert: int, companion: int, *, stays: int = 0, kept: int = 0) -> tuple[TwoExperts, ...]:
    """Expert 0 is drawn for x and for y at every exchange, while the cap allows it; but first x stays, or y is kept, for a few."""
    state = ServerState(np.zeros(0, np.int64), expert, 0, companion, 0)
    sent = [server.message(state)]
    for exchange in range(exchanges(server)):
        if server.over(server.used(state)):
            break
        if exchange >= stays:
            state = replace(state, expert=0, switches=state.switches + 1)
        if exchange >= kept and not server.over(server.used(state)):
            state = replace(state, companion=0, refreshes=state.refreshes + 1)
        sent.append(server.message(state))
    return tuple(sent)


def _worst(server: Pair) -> Streams:
    leaving = (_transcript(server, 1, 0), _transcript(server, 1, 0, kept=1))
    staying = (_transcript(server, 0, 1, stays=1), _transcript(server, 0, 1, stays=2, kept=1))
    return with_datum(server, leaving + staying, before=1.0)


def cases(spec: LazyExperts) -> tuple[AuditCase, ...]:
    """The null first, then the certificate's worst cases, then what must be caught."""
    return (*_exact(spec), *(_glass_box(spec) if spec.delta > 0 else ()), *_black_box(spec))


def _exact(spec: LazyExperts) -> Iterator[AuditCase]:
    played = capped(spec)
    server: Pair = server_of(played)
    worst = _worst(server)

    def case(name: str, audited: Pair, expected: Verdict) -> AuditCase:
        return whole(spec, played, name, audited, expected, worst)

    yield whole(spec, played, "null: the same stream twice", server, "holds", (worst[0], worst[0], worst[2]))
    yield case("worst transcripts", server, "holds")
    yield case("companion hardly ever drawn (p -> 0), which tells nothing", _companion_for_ever(server), "holds")
    yield case("half the selection noise", half_selection(server), "violated")
    yield case("never leaves without a reason (p -> 0)", _never_without_a_reason(server), "violated")
    yield one_too_many(spec, played, 2 * exchanges(server), _worst)
    grouped = in_more_groups(spec)
    if grouped != played:
        played, server = grouped, server_of(grouped)
        worst = _worst(server)
        yield case("worst transcripts in other groups", server, "holds")
    yield case("a companion that looks at the data", with_bug(server, CuriousCompanion), "violated")
    yield case("a datum in two groups", with_bug(server, CountedTwice), "violated")
    yield case("groups that overlap by one round", with_bug(server, OverlappingGroups), "violated")


def _glass_box(spec: LazyExperts) -> Iterator[AuditCase]:
    played = replace(spec, epsilon=20.0, every=1, rate=0.25, leave=0.1, draws=None)
    yield from sampled(spec, played, SAMPLED, "glass box", 2000, READ_AT, _never_without_a_reason)


def _black_box(spec: LazyExperts) -> Iterator[AuditCase]:
    played = replace(spec, epsilon=20.0, delta=0.0, every=1, rate=0.75, leave=0.25, draws=1)
    yield from sampled(spec, played, OUTSIDE, "black box", 8000, 0.0, _never_without_a_reason)

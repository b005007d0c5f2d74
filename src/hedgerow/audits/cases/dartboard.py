"""Audit cases for the shrinking dartboard: its worst transcripts and planted bugs.

One datum favours expert 0 in one world and all other experts in the other world. In the worst
transcript, the first coin leaves the current expert, which is not expert 0, and then expert 0 is
drawn in every exchange. Every step is then near its worst ratio.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from hedgerow.algorithms.dartboard.server import DartboardServer, DartboardState
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.dartboard.tuning import Plan
from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.audits.case import WHOLE, AuditCase, Verdict, changes
from hedgerow.audits.cases.parts import (
    Streams,
    all_transcripts,
    less_selection,
    peer_curve,
    quiet_selection,
    with_bug,
    with_curve,
    with_server,
)
from hedgerow.audits.cases.releases import quiet
from hedgerow.audits.drawn import CUT
from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.random_draws import CoinThenDraws

SETTING = Setting(clients=1, experts=1000, horizon=512)
# Groups of BATCH rounds, for a calibration with groups of one or with fewer than ENOUGH exchanges.
BATCH, ENOUGH = 4, 3
CAPPED = 12  # draws of the approximate version, which needs a cap that can be off by one
LOUD = 20.0
ONE_DRAW, RUNS = Setting(clients=2, experts=2, horizon=2), 5000
MANY_DRAWS = Setting(clients=1, experts=2, horizon=8)  # of which all transcripts are looked at
READ_AT = 1e-2  # the delta at which the certificate of that game is compared with its audit


class OverlappingGroups(DartboardServer):
    """The bug: the printed group sums, from Bt to B(t+1) inclusive.

    The loss at a boundary is in two groups.
    """

    def grouped(self, lost: Array) -> Array:
        cuts = [0, *self.schedule.between(1, len(lost)), len(lost)]
        return np.stack(
            [lost[max(0, first - 1) : end].sum(axis=0) for first, end in pairwise(cuts)]
        )


class CountedTwice(DartboardServer):
    """The bug: every upload is counted again with the next one, so a datum is in two groups."""

    def grouped(self, lost: Array) -> Array:
        groups = super().grouped(lost)
        return groups + np.vstack([np.zeros_like(groups[:1]), groups[:-1]])


def cases(spec: ShrinkingDartboard, loud: float = LOUD) -> tuple[AuditCase, ...]:
    """The null case, then the certificate's worst cases, then the bugs that must be caught.

    `loud` is the epsilon of short games, large enough for losses to matter there.
    """
    leaky = replace(spec, epsilon=loud, every=1)
    approximate = _many_draws(spec, leaky) if spec.delta > 0 else ()
    return (*_exact(spec), *approximate, *_real_runs(spec, leaky))


def half_the_chance(cost: CoinThenDraws) -> CoinThenDraws:
    """The bug: later draws are counted with half of their probability."""
    return replace(cost, chance=cost.chance / 2)


def _never_without_a_reason(server: DartboardServer) -> DartboardServer:
    """The bug: p -> 0, as near to 0 as the lattice allows.

    Where the current expert lost nothing, the coin never leaves it.
    """
    return replace(server, coin=replace(server.coin, base=1 / UNITS_PER_LOSS))


def _leaves_less(server: DartboardServer) -> DartboardServer:
    """The bug: a fifth less of what makes a coin leave without a reason, which hides the loss."""
    base = int(CUT * server.coin.base * UNITS_PER_LOSS) / UNITS_PER_LOSS
    return replace(server, coin=replace(server.coin, base=base))


def _server(spec: ShrinkingDartboard) -> DartboardServer:
    server = spec.build(SETTING).server
    assert isinstance(server, DartboardServer)
    return server


def _exchanges(server: DartboardServer) -> int:
    return server.schedule.count(SETTING.rounds)


def _drawing(spec: ShrinkingDartboard, draws: int) -> ShrinkingDartboard:
    """The spec with another cap on draws."""
    return replace(spec, plan=replace(spec.given, draws=draws))


def _capped(spec: ShrinkingDartboard) -> ShrinkingDartboard:
    """The spec with a cap on draws, which is optional for the approximate version."""
    return spec if spec.delta == 0 or _server(spec).draws is not None else _drawing(spec, CAPPED)


def _in_more_groups(spec: ShrinkingDartboard) -> ShrinkingDartboard:
    """The spec with groups of several rounds and several exchanges, for bugs that need both."""
    server = _server(spec)
    enough = server.schedule.every > 1 and _exchanges(server) >= ENOUGH
    return _capped(spec if enough else replace(spec, every=BATCH))


def _transcript(server: DartboardServer, *, stays: int = 0) -> tuple[CurrentExpert, ...]:
    """Expert 1 stays for `stays` exchanges; then expert 0 is drawn as often as the cap allows."""
    state = DartboardState(np.zeros(0, np.int64), 1, 0, 0)
    sent = [server.message(state)]
    for exchange in range(_exchanges(server)):
        if server.over(state.switches):
            break
        if exchange >= stays:
            state = replace(state, expert=0, switches=state.switches + 1)
        state = replace(state, exchanges=exchange + 1)
        sent.append(server.message(state))
    return tuple(sent)


def _worst(server: DartboardServer) -> Streams:
    """One datum for or against expert 0, in the last round of the first group.

    All other losses are 0.
    """
    sent = (_transcript(server), _transcript(server, stays=1))
    rounds, last = server.schedule.time(max(map(len, sent))), server.schedule.time(1) - 1
    first = np.zeros((rounds, SETTING.clients, SETTING.experts))
    second = first.copy()
    first[last, 0, 1:] = 1.0
    second[last, 0, 0] = 1.0
    return first, second, sent


def _whole(
    spec: ShrinkingDartboard,
    played: ShrinkingDartboard,
    name: str,
    audited: DartboardServer,
    expected: Verdict,
    streams: Streams,
) -> AuditCase:
    """A case about the whole certificate of `played`, with the server `audited`."""
    algorithm, parameters = played.build(SETTING), changes(spec, played)
    built = with_server(algorithm, audited)
    return AuditCase(
        name,
        WHOLE,
        built,
        peer_curve(algorithm),
        *streams,
        expected=expected,
        parameters=parameters,
    )


def _exact(spec: ShrinkingDartboard) -> Iterator[AuditCase]:
    played = _capped(spec)
    server = _server(played)
    worst = _worst(server)

    def case(name: str, audited: DartboardServer, expected: Verdict) -> AuditCase:
        return _whole(spec, played, name, audited, expected, worst)

    yield _whole(
        spec, played, "null: the same stream twice", server, "holds", (worst[0], worst[0], worst[2])
    )
    yield case("worst transcripts", server, "holds")
    yield case("four fifths of the selection noise", less_selection(server), "violated")
    yield case("four fifths of the base of the coin", _leaves_less(server), "violated")
    yield case(
        "never leaves without a reason (p -> 0)", _never_without_a_reason(server), "violated"
    )
    yield _one_too_many(spec, played, _exchanges(server))
    grouped = _in_more_groups(spec)
    if grouped != played:
        played, server = grouped, _server(grouped)
        worst = _worst(server)
        yield case("worst transcripts in other groups", server, "holds")
    yield case("groups that overlap by one round", with_bug(server, OverlappingGroups), "violated")
    yield case("a datum in two groups", with_bug(server, CountedTwice), "violated")


def _one_too_many(
    spec: ShrinkingDartboard, played: ShrinkingDartboard, exchanges: int
) -> AuditCase:
    draws = _server(played).draws
    if draws is None or draws >= exchanges:
        played = (
            _drawing(played, exchanges - 1)
            if exchanges > 1
            else _capped(replace(spec, every=BATCH))
        )
    server = _server(played)
    assert server.draws is not None
    more = replace(server, draws=server.draws + 1)
    return _whole(spec, played, "one draw too many (K off by one)", more, "violated", _worst(more))


def _many_draws(spec: ShrinkingDartboard, leaky: ShrinkingDartboard) -> tuple[AuditCase, ...]:
    """Cases in which the draws reveal more than the first coin.

    The certificate must count as many draws as the real server makes.
    """
    played = replace(leaky, plan=Plan(0.25, 0.6))
    algorithm, (first, second) = played.build(MANY_DRAWS), _halves(MANY_DRAWS)
    server: Any = algorithm.server
    honest = AuditCase(
        "all transcripts of many draws",
        WHOLE,
        algorithm,
        peer_curve(algorithm),
        first,
        second,
        all_transcripts(algorithm, first),
        delta=READ_AT,
        parameters=changes(spec, played),
    )
    wrong = with_curve(algorithm, played.curve(half_the_chance(server.cost(MANY_DRAWS))))
    name = "a certificate with half the chance of a draw"
    return honest, honest.caught(name, wrong, certified=peer_curve(wrong))


def _real_runs(spec: ShrinkingDartboard, leaky: ShrinkingDartboard) -> tuple[AuditCase, ...]:
    """One coin and one draw, whose real runs must follow the likelihood."""
    played = replace(leaky, delta=0.0, plan=Plan(1.0, 0.5, draws=1))
    algorithm, (first, second) = played.build(ONE_DRAW), _halves(ONE_DRAW)
    server: Any = algorithm.server
    sent, name = all_transcripts(algorithm, first), "all transcripts of one draw"
    case = AuditCase(name, WHOLE, algorithm, peer_curve(algorithm), first, second, sent)
    case = replace(case, runs=RUNS, parameters=changes(spec, played))
    bugs = {
        "one draw, never leaves without a reason": _never_without_a_reason(server),
        "a fifth less selection noise drawn than in the likelihood": quiet_selection(server),
        "a fifth less noise of the coin drawn than in the likelihood": replace(
            server, coin=quiet(server.coin)
        ),
    }
    caught = (case.caught(text, with_server(algorithm, bug)) for text, bug in bugs.items())
    return (case, *caught)


def _halves(setting: Setting) -> tuple[Array, Array]:
    """The datum favours one half of the experts in each world; later every expert loses.

    Other clients favour the first half in the round of the datum.
    """
    first = np.ones((setting.rounds, setting.clients, setting.experts))
    first[0, :, : setting.experts // 2] = 0.0
    second = first.copy()
    second[0, 0] = 1.0 - first[0, 0]
    return first, second

"""The audits of lazy servers (shrinking dartboard, lazy experts): where they leak most, and bugs that must be caught.

A kind of server says in an `Attack` what is its own; the games, the cases and the bugs in how groups are added up are common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from hedgerow.algorithms.dartboard.choices import LazyChoices
from hedgerow.algorithms.dartboard.server import LazyServer
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.audits.case import WHOLE, AuditCase, Method, Verdict, changes
from hedgerow.audits.cases.parts import Streams, half_selection, peer_curve, with_bug, with_curve, with_server
from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.random_draws import CoinThenDraws

SETTING = Setting(clients=1, experts=1000, horizon=512)
BATCH, ENOUGH = 4, 3  # rounds of a group where the calibration has groups of one, or fewer exchanges than this
CAPPED = 12  # draws of the approximate version, which otherwise has no cap to be off by one
SAMPLED = Setting(clients=1, experts=16, horizon=20)
OUTSIDE = Setting(clients=1, experts=2, horizon=2)
READ_AT = 1e-3  # where approximate certificates are compared with their audits
MANY_DRAWS = Setting(clients=1, experts=2, horizon=32)
READ_MANY_AT = 0.1  # the same for a game of many draws, of which 800 runs tell much at a large delta

LEAST = 1 / UNITS_PER_LOSS
AnySpec = TypeVar("AnySpec", bound=LazyChoices)
AnyServer = TypeVar("AnyServer", bound=LazyServer)
Bug = tuple[str, Callable[[Any], Any], Verdict]
Mistake = tuple[str, Callable[[CoinThenDraws], CoinThenDraws]]


@dataclass(frozen=True)
class Attack:
    """`worst` makes a server's worst streams, `draws` is how many an exchange may need, `rate` that of the games seen from outside,
    `bugs` are those that only this kind of server can have, `mistakes` those in its certificate.
    """

    worst: Callable[[Any], Streams]
    draws: int
    rate: float
    bugs: tuple[Bug, ...] = ()
    mistakes: tuple[Mistake, ...] = ()


class OverlappingGroups(LazyServer):
    """The bug: the printed group sums, from Bt to B(t+1) inclusive. The loss at a boundary is in two groups."""

    def grouped(self, lost: Array) -> Array:
        return np.stack([lost[max(0, first - 1) : first + self.every].sum(axis=0) for first in range(0, len(lost), self.every)])


class CountedTwice(LazyServer):
    """The bug: every upload arrives once more with the next one. A datum is in two groups."""

    def grouped(self, lost: Array) -> Array:
        groups = super().grouped(lost)
        return groups + np.vstack([np.zeros_like(groups[:1]), groups[:-1]])


def never_without_a_reason(server: AnyServer) -> AnyServer:
    """p -> 0, as near to it as the lattice allows: where it would see the least, the coin stays for certain."""
    return replace(server, coin=replace(server.coin, base=LEAST - server.coin.least))


def exchanges(server: LazyServer) -> int:
    return -(-SETTING.horizon // server.every) - 1


def capped(spec: AnySpec) -> AnySpec:
    """With a cap on draws, which the approximate version need not have."""
    return spec if spec.delta == 0 or server_of(spec).draws is not None else replace(spec, draws=CAPPED)


def in_more_groups(spec: AnySpec) -> AnySpec:
    """With groups of several rounds and several exchanges, for bugs that need both."""
    server = server_of(spec)
    return capped(spec if server.every > 1 and exchanges(server) >= ENOUGH else replace(spec, every=BATCH))


def with_datum(server: LazyServer, sent: tuple[Any, ...], before: float = 0.0) -> Streams:
    """The datum, for expert 0 or against it, stands in the last round of the first group, in whose other rounds expert 0 alone loses
    `before`; all other losses are 0.
    """
    first = np.zeros((server.every * max(map(len, sent)), SETTING.clients, SETTING.experts))
    first[: server.every - 1, 0, 0] = before
    second = first.copy()
    first[server.every - 1, 0, 1:] = 1.0
    second[server.every - 1, 0, 0] = 1.0
    return first, second, sent


def server_of(spec: LazyChoices) -> Any:
    return spec.build(SETTING).server


def whole(spec: LazyChoices, played: LazyChoices, name: str, audited: LazyServer, expected: Verdict, streams: Streams) -> AuditCase:
    """A case for the whole certificate of the algorithm that is played, with the server that is audited."""
    algorithm, parameters = played.build(SETTING), changes(spec, played)
    built = with_server(algorithm, audited)
    return AuditCase(name, WHOLE, built, peer_curve(algorithm), *streams, expected=expected, parameters=parameters)


def lazy_cases(spec: LazyChoices, attack: Attack) -> tuple[AuditCase, ...]:
    """The null first, then the certificate's worst cases, then what must be caught."""
    approximate = (*_glass_box(spec), *_many_draws(spec, attack)) if spec.delta > 0 else ()
    return (*_exact(spec, attack), *approximate, *_black_box(spec, attack))


def _exact(spec: LazyChoices, attack: Attack) -> Iterator[AuditCase]:
    played = capped(spec)
    server = server_of(played)
    worst = attack.worst(server)

    def case(name: str, audited: LazyServer, expected: Verdict) -> AuditCase:
        return whole(spec, played, name, audited, expected, worst)

    yield whole(spec, played, "null: the same stream twice", server, "holds", (worst[0], worst[0], worst[2]))
    yield case("worst transcripts", server, "holds")
    yield case("half the selection noise", half_selection(server), "violated")
    yield case("never leaves without a reason (p -> 0)", never_without_a_reason(server), "violated")
    yield one_too_many(spec, played, attack.draws * exchanges(server), attack.worst)
    grouped = in_more_groups(spec)
    if grouped != played:
        played, server = grouped, server_of(grouped)
        worst = attack.worst(server)
        yield case("worst transcripts in other groups", server, "holds")
    yield case("groups that overlap by one round", with_bug(server, OverlappingGroups), "violated")
    yield case("a datum in two groups", with_bug(server, CountedTwice), "violated")
    for name, bug, expected in attack.bugs:
        yield case(name, bug(server), expected)


def _loud(spec: AnySpec, **choices: Any) -> AnySpec:
    """The same algorithm with parameters of its own: sampling tells little about a quiet game."""
    claim = isinstance(spec, ShrinkingDartboard) and spec.calibration == "published"  # its epsilon is what the paper claims, not a budget
    return replace(spec, epsilon=spec.epsilon if claim else 20.0, every=1, **choices)


def _glass_box(spec: LazyChoices) -> Iterator[AuditCase]:
    yield from sampled(spec, _loud(spec, rate=0.25, leave=0.1, draws=None), SAMPLED, "glass box", 2000, READ_AT)


def half_the_chance(cost: CoinThenDraws) -> CoinThenDraws:
    """The mistake: the first kind of later occasion brings a draw with half the chance it has."""
    (count, chance), *others = cost.occasions
    return replace(cost, occasions=((count, chance / 2), *others))


def _many_draws(spec: LazyChoices, attack: Attack) -> Iterator[AuditCase]:
    """The real server, whose certificate has to count with as many draws as it makes: here they tell more than the first coin."""
    played = _loud(spec, rate=0.25, leave=0.6, draws=None)
    _, honest, _ = sampled(spec, played, MANY_DRAWS, "glass box", 800, READ_MANY_AT)
    yield replace(honest, name="many draws, sampled")
    server: Any = honest.algorithm.server
    for name, mistake in (("a certificate with half the chance of a draw", half_the_chance), *attack.mistakes):
        algorithm = with_curve(honest.algorithm, played.curve(mistake(server.cost(MANY_DRAWS))))
        yield replace(honest, name=name, algorithm=algorithm, certified=peer_curve(algorithm), expected="violated")


def _black_box(spec: LazyChoices, attack: Attack) -> Iterator[AuditCase]:
    yield from sampled(spec, _loud(spec, delta=0.0, rate=attack.rate, leave=0.25, draws=1), OUTSIDE, "black box", 8000, 0.0)


def one_too_many(spec: AnySpec, played: AnySpec, occasions: int, worst: Callable[[Any], Streams]) -> AuditCase:
    draws = server_of(played).draws
    if draws is None or draws >= occasions:
        played = replace(played, draws=occasions - 1) if occasions > 1 else capped(replace(spec, every=BATCH))
    server = server_of(played)
    more = replace(server, draws=server.draws + 1)
    return whole(spec, played, "one draw too many (K off by one)", more, "violated", worst(more))


def sampled(spec: LazyChoices, played: LazyChoices, setting: Setting, method: Method, runs: int, delta: float) -> Iterator[AuditCase]:
    """Half of the experts are favoured in each world; later everybody loses everywhere, so that draws are many."""
    algorithm = played.build(setting)
    server: Any = algorithm.server
    certified = peer_curve(algorithm)
    first = np.ones((setting.horizon, setting.clients, setting.experts))
    first[0, 0, : setting.experts // 2] = 0.0
    second = first.copy()
    second[0] = 1.0 - first[0]
    where = {"glass box": "sampled", "black box": "from outside"}[method]
    plans: tuple[tuple[str, Any, np.ndarray, Verdict], ...] = (
        (f"null, {where}", server, first, "holds"),
        (f"one datum, {where}", server, second, "holds"),
        (f"never leaves without a reason, {where}", never_without_a_reason(server), second, "violated"),
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

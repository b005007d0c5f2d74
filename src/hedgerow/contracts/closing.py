"""Two contracts on deployments: uploads, and exchanges that close before all have answered.

Honest uploads stay, false ones do no harm. For closing, three games are played with every rule that
the algorithm declares: the uploads of one client are always late; a client misses broadcasts, comes
back and catches up; a client never comes back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from hedgerow.contracts.deployed import (
    EXTREMES,
    NEVER,
    Deployed,
    Entering,
    Exchange,
    Late,
    as_the_rule_says,
    false_uploads,
    require_deployable,
)
from hedgerow.contracts.games import built, games_of, pairs, records_between, whole
from hedgerow.contracts.guarantees import moves_are_small
from hedgerow.contracts.ledger import stays_within
from hedgerow.contracts.neighbours import SEEDED, Pair, Randomness, promises, units
from hedgerow.contracts.outcome import BrokenContract, NotApplicable, demand, same
from hedgerow.contracts.recording import RecordingNoise, short_noise
from hedgerow.core.certificate import PUBLIC_ANSWERS
from hedgerow.core.environment import Environment
from hedgerow.core.errors import HedgerowError, Unsupported
from hedgerow.core.limits import WAIT_ONLY
from hedgerow.core.messages import InvalidMessage, encode
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.transcript import Everything
from hedgerow.core.units import Unit
from hedgerow.deployment.closing import ClosingRule, rule_of
from hedgerow.engines.simulate import simulate

LATE: dict[str, Late] = {
    "a late upload": lambda client, _: 1 if client == 1 else 0,
    "a client that catches up": lambda client, _: 3 if client == 1 else 0,
    "a client that never returns": lambda client, number: NEVER * (client == 1 and number == 2),
}
PAIRS = 3  # of neighbours, for each rule and game
SEARCHED = 60


def closing_rules_hold(
    spec: AlgorithmSpec, noise: Randomness = SEEDED, entering: Entering = as_the_rule_says
) -> str:
    """With every declared closing rule, a record enters at most one exchange and costs no more.

    An upload is counted once or, if it is dropped or arrives after the game, not at all. One
    exchange counts at most one upload of a client. On neighbouring inputs with the same answers,
    releases move by at most their sensitivities, and together they cost at most what is promised.
    If every client answers in time, the game is the plain one, bit for bit.

    `entering` says which exchanges an upload enters.
    """
    games = games_of(spec)
    algorithm = built(spec, games.setting)
    require_deployable(algorithm)
    rules = sorted(algorithm.uploads.closing - WAIT_ONLY)
    if not rules or algorithm.setting.clients < 2:
        raise NotApplicable("its exchanges wait for all clients")
    unit = units(algorithm)[0]
    streams = _streams(spec, unit)
    plain = _plain(algorithm, streams[0][0])
    for rule in map(rule_of, rules):
        _answers_are_public(algorithm, rule)
        if noise is SEEDED:
            found = Deployed(algorithm, rule).play(whole(streams[0][0]), short_noise(0))
            demand(
                same([one.broadcast for one in found][1:], plain),
                f"{rule.name}: in time for every exchange, but not the plain game",
            )
        for words, late in LATE.items():
            play = Deployed(algorithm, rule, late, entering=entering)
            _check(f"{rule.name}, {words}", play, unit, streams, noise)
    return f"tried {', '.join(rules)} with {len(LATE)} games each"


def _check(
    words: str,
    play: Deployed,
    unit: Unit,
    streams: list[tuple[Environment, Environment]],
    noise: Randomness,
) -> None:
    """Check one rule in one game."""
    found = list[Pair]()
    for number, (game, neighbour) in enumerate(streams):
        one, other = RecordingNoise(noise.source(number)), None
        exchanges = play.play(whole(game), one)
        _each_counts_once(words, play, exchanges)
        other = RecordingNoise(noise.source(number), one.ledger)
        also = play.play(whole(neighbour), other)
        demand(
            same([e.broadcast for e in exchanges], [e.broadcast for e in also]),
            f"{words}: broadcasts depend on data beyond what was released",
        )
        found.append(Pair(one.ledger, other.ledger, Everything(), Everything()))
    moves_are_small(unit, found)
    if play.algorithm.certificate.composition != "joint" and promises(play.algorithm):
        stays_within(play.algorithm, unit, found)


def _each_counts_once(words: str, play: Deployed, exchanges: list[Exchange]) -> None:
    """Demand that every upload is counted as the rule says, and at most once."""
    entries = [(one.client, one.exchange) for e in exchanges for one in e.counted]
    twice = [entry for entry, times in Counter(entries).items() if times > 1]
    demand(not twice, f"{words}: an upload is counted twice (client and exchange: {twice[:1]})")
    for number, exchange in enumerate(exchanges):
        clients = [one.client for one in exchange.counted]
        demand(
            len(set(clients)) == len(clients),
            f"{words}: an exchange counts two uploads of a client",
        )
        for one in exchange.counted:
            arrived = one.exchange + play.late(one.client, one.exchange)
            demand(
                number == play.rule.enters(one.exchange, arrived),
                f"{words}: an upload enters exchange {number}, but {arrived} was open",
            )


def _answers_are_public(algorithm: Algorithm, rule: ClosingRule) -> None:
    """Demand that the certificate says what the rule reveals, and keeps every curve."""
    closed = algorithm.closed_by(rule.name)
    for before, after in zip(promises(algorithm), promises(closed), strict=True):
        demand(
            PUBLIC_ANSWERS in after.assumes and after.curve == before.curve,
            f"{rule.name}: the certificate does not say that answers are public",
        )
    demand(
        closed.claims.regret_bound is None, f"{rule.name}: the regret bound is for the plain game"
    )


def _plain(algorithm: Algorithm, game: Environment) -> list[Any]:
    """The broadcasts of the plain game; under masks, which cut seeded noise, of one that waits."""
    if (waiting := Deployed(algorithm)).masked is not None:
        return [one.broadcast for one in waiting.play(whole(game), short_noise(0))][1:]
    kept = Everything()
    simulate(
        algorithm, game, 0, engine="in_process", fused=False, sinks=[kept], noise=short_noise(0)
    )
    return [broadcast for _, _, broadcast in kept.messages]


def _streams(spec: AlgorithmSpec, unit: Unit) -> list[tuple[Environment, Environment]]:
    """Neighbouring games that differ at client 1, most of them in the first round."""
    games = games_of(spec)

    def found() -> Iterator[tuple[int, tuple[Environment, Environment]]]:
        for _, stream, neighbour in pairs(spec, unit, SEARCHED):
            both = games.recorded(stream), games.recorded(neighbour)
            cells = records_between(*both)
            if cells and all(client == 1 for _, client in cells):
                yield cells[0][0], both

    first = list[tuple[Environment, Environment]]()
    later = list[tuple[Environment, Environment]]()
    for when, both in found():
        (later if when else first).append(both)
        if len(first) >= PAIRS - 1 and later:
            break
    return [*later[:1], *first[: PAIRS - 1]] if first else later[:PAIRS]


def uploads_are_bounded(spec: AlgorithmSpec, noise: Randomness = SEEDED) -> str:
    """Honest uploads stay as they are; a false one cannot stop the server or change its messages.

    Client 0 sends the largest and the smallest numbers, and numbers off the lattice. With each of
    them, the game goes on to its end on neighbouring inputs of the honest clients. With distributed
    trust the server sees their sum only, modulo 2^64, and moves that into its range.
    """
    games = games_of(spec)
    algorithm = built(spec, games.setting)
    require_deployable(algorithm)
    try:
        algorithm.require_limits()
    except Unsupported as refusal:
        raise BrokenContract(str(refusal)) from refusal
    _, *streams = next(pairs(spec, units(algorithm)[0], 1))
    honest = _honest_stay(algorithm, games.recorded(streams[0]))
    if honest is not None:
        _wrong_sizes_are_refused(algorithm, honest)
    for game, tried in zip(map(games.recorded, streams), (range(EXTREMES), range(2)), strict=True):
        for number in tried:
            lies = Deployed(algorithm, false=lambda sent, n=number: false_uploads(sent)[n])
            try:
                found = lies.play(whole(game), noise.source(number))
                for one in found:
                    encode(one.broadcast)
            except HedgerowError as error:
                raise BrokenContract(f"a false upload ends the game: {error}") from error
            demand(
                all(type(one.broadcast) is algorithm.broadcasts.kind for one in found),
                "a false upload changes the type of a broadcast",
            )
    return f"tried {EXTREMES} false uploads on neighbouring inputs"


def _honest_stay(algorithm: Algorithm, game: Environment) -> Any:
    """Demand that every honest upload is left as it is, bit for bit; return one of them."""
    kept, one = Everything(), None
    simulate(algorithm, game, 0, engine="in_process", fused=False, sinks=[kept])
    ends = [when for when, _, _ in kept.messages]
    for rounds, (_, uploads, _) in zip(np.diff([0, *ends]), kept.messages, strict=True):
        for client in range(algorithm.setting.clients):
            sent = {f.name: getattr(uploads, f.name)[client] for f in fields(uploads)}
            plain = {name: value if value.ndim else value.item() for name, value in sent.items()}
            one = algorithm.uploads.kind(**plain)
            demand(
                same(algorithm.uploads.bounded(one, int(rounds)), one),
                f"the declared range of {algorithm.uploads.kind.__name__} changes an honest upload",
            )
    return one


def _wrong_sizes_are_refused(algorithm: Algorithm, honest: Any) -> None:
    """Demand that a vector that is too long, or empty, is refused as a message."""
    for f in fields(honest):
        value = np.asarray(getattr(honest, f.name))
        if not value.ndim:
            continue
        for wrong in (value[:0], np.concatenate([value, value[:1]])):
            try:
                algorithm.uploads.bounded(replace(honest, **{f.name: wrong}), 1)
            except InvalidMessage:
                continue
            raise BrokenContract(f"{f.name} of shape {wrong.shape} is accepted")

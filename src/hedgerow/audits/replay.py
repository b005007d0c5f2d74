"""Replayed releases: the exact log-likelihood ratio of all that a run released about its data.

A run on one stream is recorded and replayed on the other, with the same outputs and coins. The
differences of the log-densities add up to ln dP/dQ of the releases (`proofs/replay.md`). No
likelihood of the algorithm is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from hedgerow.contracts.neighbours import record
from hedgerow.contracts.outcome import same
from hedgerow.contracts.recording import (
    MAY_BE_FREE,
    SERVER,
    Ledger,
    Release,
    Who,
)
from hedgerow.contracts.views import view_of
from hedgerow.core.certificate import Channel, Guarantee, Observer
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.messages import field_names
from hedgerow.core.noise import NoiseSource
from hedgerow.core.protocol import Algorithm
from hedgerow.core.transcript import Everything

_ROUNDING = 2.0**-48  # more than the rounding errors of one term of a log-density
Pair = tuple[Release, Release]  # the same output, with the values of the two worlds


@dataclass(frozen=True)
class Ratio:
    """ln dP/dQ of the releases of one run.

    `seen` says whether the observer sees what the ratio is about. If not, the ratio is that of an
    observer who sees more.
    """

    value: float
    seen: bool


@dataclass(frozen=True)
class _Run:
    """One run: what was released and drawn, and what was sent and played."""

    ledger: Ledger
    kept: Everything

    @classmethod
    def of(
        cls,
        algorithm: Algorithm,
        environment: Environment,
        source: NoiseSource,
        replay: Ledger | None = None,
    ) -> _Run:
        kept = Everything()
        return cls(record(algorithm, environment, source, replay, (kept,)), kept)


def log_ratio(
    algorithm: Algorithm,
    observer: Observer,
    played: Environment,
    other: Environment,
    source: NoiseSource,
) -> Ratio:
    """Play one run on `played`, replay it on `other`, and return ln dP/dQ, with P that of `played`.

    It is rounded down by more than its rounding errors, so that it never shows too much.
    """
    guarantee = algorithm.certificate.guarantee(observer)
    first = _Run.of(algorithm, played, source)
    for coin in first.ledger.coins:  # a choice or a flip takes scores, so it is not free
        if coin.method not in MAY_BE_FREE:
            raise _not_replayable(
                algorithm, f"{coin.purpose!r} is drawn from data outside any mechanism"
            )
    try:
        second = _Run.of(algorithm, other, source, first.ledger)
    except AssertionError as error:
        raise _not_replayable(algorithm, str(error)) from error
    _check(algorithm, guarantee, first, second)
    own = observer is Observer.SERVER and bool(guarantee.view & {Channel.UPLOADS, Channel.SUM})
    pairs = [
        (a, b)
        for a, b in zip(first.ledger.releases, second.ledger.releases, strict=True)
        if not (own and a.who == SERVER)  # the server's own noise hides nothing from it
    ]
    # what comes after the last value that differs tells nothing more
    last = max((i for i, (a, b) in enumerate(pairs) if _moved(a, b)), default=-1)
    value, seen = 0.0, last < 0 or not _hidden_coins(first.ledger, own)
    for purpose in dict.fromkeys(a.mechanism.purpose for a, _ in pairs[: last + 1]):
        alike = [(a, b) for a, b in pairs[: last + 1] if a.mechanism.purpose == purpose]
        sums = _sums(algorithm, played, source, purpose, pairs, first)
        if sums is None:
            one_by_one = guarantee.view - {Channel.SUM}
            seen = seen and _is_sent(algorithm, one_by_one, alike, first.kept)
        else:
            seen, alike = seen and Channel.SUM in guarantee.view, sums
        value += sum(_difference(a, b) for a, b in alike if _moved(a, b))
    return Ratio(value, seen)


def _moved(played: Release, other: Release) -> bool:
    return not same(played.value, other.value, by_value=True)


def _not_replayable(algorithm: Algorithm, why: str) -> InvalidValue:
    return InvalidValue(f"The releases of {algorithm.name} cannot be replayed: {why}.")


def _check(algorithm: Algorithm, guarantee: Guarantee, first: _Run, second: _Run) -> None:
    """Require that the two runs differ only in the values that are released."""
    if len(first.ledger.releases) != len(second.ledger.releases):
        raise _not_replayable(algorithm, "neighbouring streams give different numbers of releases")
    coins = [[coin.whole_law for coin in run.ledger.coins] for run in (first, second)]
    if coins[0] != coins[1]:
        raise _not_replayable(algorithm, "the sequence of coins depends on the data")
    for (name, _, a), (_, _, b) in zip(
        view_of(algorithm, guarantee, first.kept),
        view_of(algorithm, guarantee, second.kept),
        strict=True,
    ):
        if not same(a, b):
            raise _not_replayable(
                algorithm,
                f"the {guarantee.observer.value} sees {name}, which depends on the data beyond"
                " what was released",
            )


def _hidden_coins(ledger: Ledger, own: bool) -> bool:
    """Whether a party that holds data drew coins that the observer may not know.

    A value may depend on them, and then their secrecy protects. Separate deciders hold no data.
    """
    known = {"decider", "server"} if own else {"decider"}
    return any(role not in known for coin in ledger.coins for role, _ in coin.players)


def _difference(played: Release, other: Release) -> float:
    """ln p(output) - ln q(output) of one release, rounded down."""
    p, q = (
        float(played.mechanism.log_density(value, played.output))
        for value in (played.value, other.value)
    )
    if not np.isfinite(p - q):
        return p - q
    return p - q - _ROUNDING * np.size(played.value) * max(1.0, abs(p), abs(q))


def _by_player(pairs: list[Pair]) -> dict[Who, list[Pair]]:
    own: dict[Who, list[Pair]] = {}
    for a, b in pairs:
        own.setdefault(a.who, []).append((a, b))
    return own


def _is_sent(
    algorithm: Algorithm, view: frozenset[Channel], pairs: list[Pair], kept: Everything
) -> bool:
    """Whether every party sends its outputs unchanged and in order, in one field of the view."""
    return all(
        any(
            len(sent) >= len(own)
            and all(
                same(np.asarray(value), np.asarray(a.output), by_value=True)
                for value, (a, _) in zip(sent, own, strict=False)
            )
            for sent in _sent_by(algorithm, view, who, kept)
        )
        for who, own in _by_player(pairs).items()
    )


def _sent_by(
    algorithm: Algorithm, view: frozenset[Channel], who: Who, kept: Everything
) -> Iterator[list[Any]]:
    """The values of each field in the view: of the uploads of one client, or of the broadcasts."""
    role, index = who
    message, position = (algorithm.upload, 1) if role == "client" else (algorithm.broadcast, 2)
    for name, part in zip(field_names(message), fields(message), strict=True):
        if algorithm.certificate.channels[name] in view:
            values = [getattr(entry[position], part.name) for entry in kept.messages]
            yield values if role != "client" else [value[index] for value in values]


def _sums(
    algorithm: Algorithm,
    played: Environment,
    source: NoiseSource,
    purpose: str,
    pairs: list[Pair],
    run: _Run,
) -> list[Pair] | None:
    """The releases added up over all clients, where nobody sees more of them; None elsewhere.

    This needs a law of the sum. Later values may depend on outputs only through the sums: they must
    stay the same if the clients exchange their outputs.
    """
    alike = [(a, b) for a, b in pairs if a.mechanism.purpose == purpose]
    own = _by_player(alike)
    clients: list[Who] = [("client", index) for index in range(algorithm.setting.clients)]
    same_number = len({len(of_one) for of_one in own.values()}) == 1
    hidden = frozenset({Channel.SUM})
    if set(own) != set(clients) or not same_number:
        return None
    steps = list(zip(*(own[who] for who in clients), strict=True))
    if (
        any(a.mechanism != step[0][0].mechanism for step in steps for a, _ in step)
        or not _is_sent(algorithm, hidden, alike, run.kept)
        or not _same_if_exchanged(algorithm, played, source, purpose, run)
    ):
        return None
    try:
        return [(_total([a for a, _ in step]), _total([b for _, b in step])) for step in steps]
    except Unsupported:
        return None


def _total(releases: list[Release]) -> Release:
    values, outputs = (
        np.sum([getattr(release, part) for release in releases], axis=0)
        for part in ("value", "output")
    )
    return Release(releases[0].mechanism.summed(len(releases)), values, outputs, ("client", None))


def _same_if_exchanged(
    algorithm: Algorithm,
    played: Environment,
    source: NoiseSource,
    purpose: str,
    run: _Run,
) -> bool:
    """Whether the clients' values stay the same if each one gets the outputs of the next one."""
    before = run.ledger.calls
    exchanged = [
        replace(call, output=np.roll(call.output, -1, axis=0))
        if call.batch and call.mechanism.purpose == purpose
        else call
        for call in before
    ]
    try:
        again = _Run.of(algorithm, played, source, Ledger(exchanged, run.ledger.coins))
    except AssertionError:
        return False
    after = again.ledger.calls
    return len(after) == len(before) and all(
        np.allclose(a.value, b.value, rtol=1e-9, atol=1e-9)
        for a, b in zip(before, after, strict=True)
        if a.players != (SERVER,)
    )

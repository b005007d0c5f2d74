"""Exact releases: how much all that a run releases shows about the data, without sampling.

A run on one stream is recorded and replayed on the other, with the same outputs and coins. What
differs is the values that were given to mechanisms. From their moves and the laws of the mechanisms
that really drew follows the exact loss (`proofs/replay.md`). No likelihood of the algorithm is
needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import inf, sqrt
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
from hedgerow.privacy.curves import GaussianDP, PureDP
from hedgerow.privacy.mechanisms import GaussianNoise

_ROUNDING = 2.0**-48  # more than the rounding errors of one term
Pair = tuple[Release, Release]  # the same output, with the values of the two worlds


@dataclass(frozen=True)
class Loss:
    """What one pair of runs shows: Gaussian releases add to `mu`, others to `bounds`.

    `bounds` are the largest log-ratios of all other releases together, in each direction, if values
    do not depend on outputs. `reached` are the largest of this path, whatever its last release.
    `seen` says whether the observer sees what the loss is about. If not, it is that of an observer
    who sees more.
    """

    mu: float
    bounds: tuple[float, float]
    reached: tuple[float, float]
    seen: bool

    def reversed(self) -> Loss:
        """Return the same loss with the two worlds exchanged."""
        return replace(self, bounds=self.bounds[::-1], reached=self.reached[::-1])

    def epsilon(self, delta: float) -> float:
        """Return the epsilon that these releases show at a delta."""
        bound = max(self.bounds)
        if self.mu == 0:
            return bound
        if bound > 0:
            raise Unsupported("Gaussian releases and others about one record are not added up.")
        return GaussianDP(self.mu).epsilon(delta)


def loss_of_all(losses: list[Loss]) -> Loss:
    """The loss that runs with different noise show together (`proofs/replay.md#adaptive-releases`).

    If all show the same, up to rounding, it does not depend on the noise, and that is the loss.
    Otherwise it is the largest that one path reaches, which is exact for that path.
    """
    numbers = np.array([(loss.mu, *loss.bounds) for loss in losses])
    least, most, seen = numbers.min(axis=0), numbers.max(axis=0), all(one.seen for one in losses)
    with np.errstate(invalid="ignore"):  # inf - inf: the same
        apart = most - least > 1e-3 * least
    if not apart.any():
        mu, *bounds = map(float, least)
        return Loss(mu, (bounds[0], bounds[1]), (bounds[0], bounds[1]), seen)
    if most[0] > 0:
        raise InvalidValue(
            "How far the data move Gaussian releases depends on the noise here, so the loss is not"
            " exact. Choose streams on which it does not."
        )
    first, second = (max(loss.reached[side] for loss in losses) for side in (0, 1))
    return Loss(0.0, (first, second), (first, second), seen)


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


def loss_of(
    algorithm: Algorithm,
    observer: Observer,
    played: Environment,
    other: Environment,
    source: NoiseSource,
) -> tuple[Loss, Ledger]:
    """Play one run on `played`, replay it on `other`, and return the loss and what was recorded.

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
    square, bounds, path, reached = 0.0, np.zeros(2), np.zeros(2), np.zeros(2)
    seen = last < 0 or not _hidden_coins(first.ledger, own)
    for purpose in dict.fromkeys(a.mechanism.purpose for a, _ in pairs[: last + 1]):
        alike = [(a, b) for a, b in pairs[: last + 1] if a.mechanism.purpose == purpose]
        sums = _sums(algorithm, guarantee, played, source, purpose, pairs, first)
        if sums is None:
            one_by_one = guarantee.view - {Channel.SUM}
            seen = seen and _is_sent(algorithm, one_by_one, alike, first.kept)
        else:
            seen, alike = seen and Channel.SUM in guarantee.view, sums
        for a, b in (both for both in alike if _moved(*both)):
            if isinstance(a.mechanism, GaussianNoise):
                square += float(np.square(_distances(a, b)).sum()) / a.mechanism.scale**2
            else:
                largest, ratio = _bounds(a, b), _ratio(a, b)
                bounds += largest
                reached = np.maximum(reached, path + largest)
                path += (ratio, -ratio)
    mu = sqrt(square) * (1 - _ROUNDING)
    sides = (float(bounds[0]), float(bounds[1])), (float(reached[0]), float(reached[1]))
    return Loss(mu, sides[0], sides[1], seen), first.ledger


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


def _distances(played: Release, other: Release) -> Any:
    """How far every number of the value moves, rounded down."""
    values = np.asarray(played.value, float), np.asarray(other.value, float)
    errors = 2.0**-52 * (np.abs(values[0]) + np.abs(values[1]))
    return np.maximum(np.abs(values[0] - values[1]) - errors, 0.0)


def _ratio(played: Release, other: Release) -> float:
    """The log-ratio of the output that was drawn."""
    mechanism, output = played.mechanism, played.output
    return float(
        mechanism.log_density(played.value, output) - mechanism.log_density(other.value, output)
    )


def _bounds(played: Release, other: Release) -> Any:
    """The largest log-ratio of one release in each direction, rounded down."""
    mechanism = played.mechanism
    outcomes = mechanism.outcomes(played.value)
    if outcomes is None:  # additive noise that falls exponentially with a norm of the noise
        moved = mechanism.distance(_distances(played, other), 0.0)
        cost = mechanism.cost_of_move(moved) if moved > 0 else PureDP(0.0)
        bound = inf if cost is None else cost.epsilon(0.0)
        return np.full(2, bound * (1 - _ROUNDING))
    logs = np.array(
        [[mechanism.log_density(one.value, o) for o in outcomes] for one in (played, other)]
    )
    with np.errstate(invalid="ignore"):
        ratios = logs[0] - logs[1]
        errors = _ROUNDING * np.maximum(1.0, np.abs(logs).max(axis=0))
        sides = np.stack([ratios - errors, -ratios - errors])
    sides[:, np.isneginf(logs).all(axis=0)] = 0.0  # impossible in both worlds
    return np.maximum(sides.max(axis=1), 0.0)


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
    message, position = (
        (algorithm.uploads.kind, 1) if role == "client" else (algorithm.broadcasts.kind, 2)
    )
    for name, part in zip(field_names(message), fields(message), strict=True):
        if algorithm.certificate.channels[name] in view:
            values = [getattr(entry[position], part.name) for entry in kept.messages]
            yield values if role != "client" else [value[index] for value in values]


def _sums(
    algorithm: Algorithm,
    guarantee: Guarantee,
    played: Environment,
    source: NoiseSource,
    purpose: str,
    pairs: list[Pair],
    run: _Run,
) -> list[Pair] | None:
    """The releases added up over all honest clients, where nobody sees more; None elsewhere.

    This needs a law of the sum. Later values may depend on outputs only through the sums: they must
    stay the same if the clients exchange their outputs. The last clients collude and know what they
    added.
    """
    alike = [(a, b) for a, b in pairs if a.mechanism.purpose == purpose]
    own = _by_player(alike)
    clients: list[Who] = [("client", index) for index in range(algorithm.setting.clients)]
    same_number = len({len(of_one) for of_one in own.values()}) == 1
    hidden = frozenset({Channel.SUM})
    if set(own) != set(clients) or not same_number:
        return None
    honest = clients[: max(1, len(clients) - guarantee.colluding)]
    steps = list(zip(*(own[who] for who in honest), strict=True))
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

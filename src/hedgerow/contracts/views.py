"""Contracts on what observers see: nothing raw, and nothing secret among what is public."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hedgerow.contracts.games import (
    built,
    far_pairs,
    games_of,
    long_setting,
    pairs,
    whole,
)
from hedgerow.contracts.neighbours import SEEDED, Randomness, promises, record, replays, units
from hedgerow.contracts.outcome import NotApplicable, demand, same
from hedgerow.core.block import Block
from hedgerow.core.certificate import Channel, Guarantee
from hedgerow.core.environment import Feature
from hedgerow.core.messages import field_names
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Everything
from hedgerow.core.units import Event, Person

PUBLIC = ("awake", "present", "side", "reporting")  # the parts of a block that are public


def nothing_raw_in_a_view(
    spec: AlgorithmSpec, noise: Randomness = SEEDED, long: Setting | None = None
) -> str | None:
    """What an observer sees under a guarantee depends on the data only through the releases.

    With the same releases and coins, its view is the same on neighbouring streams. Then it is the
    same on any two streams with the same public data, because a chain of neighbours connects them.
    So long games with many clients are replayed on streams that are far apart, too (`Games.far`).
    A leak that needs a large total, or a large difference, is seen between them: one pair covers
    every threshold in between. `long` is the setting of these games.
    """
    games = games_of(spec)
    algorithm = built(spec, games.setting)
    promised = promises(algorithm)
    if not promised:
        raise NotApplicable(f"{algorithm.name} promises no protection")
    for unit in units(algorithm):
        about = [guarantee for guarantee in promised if guarantee.unit == unit]
        for pair in replays(spec, unit, noise)[:30]:
            _same_views(algorithm, about, pair.seen, pair.also)
    if noise is not SEEDED:
        return None  # which source draws the noise makes no difference here
    return _far_apart(spec, long or long_setting(games))


@dataclass
class _Tried:
    """The range of the data of long games: the largest totals."""

    expert: float = 0.0
    client: float = 0.0
    pairs: int = 0

    def add(self, block: Block) -> None:
        of_clients = block.reports.sum(axis=0)
        self.client = max(self.client, float(np.abs(of_clients).max()))
        self.expert = max(self.expert, float(np.abs(of_clients.sum(axis=0)).max()))

    def words(self, setting: Setting) -> str:
        size = f"{setting.rounds:,} rounds of {setting.clients:,} clients"
        if not self.pairs:
            return f"tried on neighbours only: streams of {size} differ in what is public"
        all_clients, one_client = (
            f"{total:,.0f}" if total >= 100 else f"{total:.3g}"
            for total in (self.expert, self.client)
        )
        return f"tried with {size}, totals up to {all_clients}, of one client up to {one_client}"


def _far_apart(spec: AlgorithmSpec, setting: Setting) -> str:
    """Demand equal views on streams that are far apart; return the range that was tried."""
    games, algorithm, tried = games_of(spec), built(spec, setting), _Tried()
    promised, played = promises(algorithm), None
    ledger, seen, shown = None, Everything(), None
    for stream, other in far_pairs(games, setting):
        if stream is not played:
            played, game, seen = stream, games.recorded(stream), Everything()
            shown = whole(game)
            ledger = record(algorithm, game, SeededNoise(0), None, (seen,))
            tried.add(shown)
        game, also = games.recorded(other), Everything()
        block = whole(game)
        if shown is None or _difference(shown, block) is not None:
            continue
        record(algorithm, game, SeededNoise(0), ledger, (also,))
        tried.add(block)
        tried.pairs += 1
        _same_views(algorithm, promised, seen, also)
    return tried.words(setting)


def _same_views(
    algorithm: Algorithm, promised: list[Guarantee], first: Everything, second: Everything
) -> None:
    compared = set[str]()
    for guarantee in promised:
        for (name, a), (_, b) in zip(
            _seen(algorithm, guarantee, first, compared),
            _seen(algorithm, guarantee, second, compared),
            strict=True,
        ):
            compared.add(name)
            demand(
                same(a, b),
                f"the {guarantee.observer.value} sees {name}, which depends on data beyond what"
                " was released",
            )


def view_of(
    algorithm: Algorithm, guarantee: Guarantee, kept: Everything
) -> Iterator[tuple[str, Channel, Any]]:
    """Everything in an observer's view, by name, with its channel; uploads of all clients."""
    channels, view = algorithm.certificate.channels, guarantee.view
    if Channel.PLAYS in view:
        yield "plays", Channel.PLAYS, kept.all_plays()
    if Channel.TIMING in view:
        yield "the times of exchanges", Channel.TIMING, [when for when, _, _ in kept.messages]
    for message, position in ((algorithm.uploads.kind, 1), (algorithm.broadcasts.kind, 2)):
        for name, part in zip(field_names(message), fields(message), strict=True):
            if channels.get(name) in view:
                values = [getattr(entry[position], part.name) for entry in kept.messages]
                yield name, channels[name], values


def _seen(
    algorithm: Algorithm, guarantee: Guarantee, kept: Everything, but: set[str]
) -> list[tuple[str, Any]]:
    """What an observer sees, except what was compared before; of a sum only the sum."""
    return [
        (name, [np.sum(v, axis=0) for v in values] if channel is Channel.SUM else values)
        for name, channel, values in view_of(algorithm, guarantee, kept)
        if name not in but
    ]


def public_is_public(spec: AlgorithmSpec) -> None:
    """What the game calls public does not depend on the secret records.

    On neighbouring streams, the same experts sleep, the same clients are present and report, the
    side information is the same, and a record is reported in the same round.
    """
    games = games_of(spec)
    algorithm, features = built(spec, games.setting), frozenset[Feature]()
    for unit in units(algorithm):
        for _, stream, neighbour in pairs(spec, unit, 30):
            first, second = games.recorded(stream), games.recorded(neighbour)
            features |= first.traits.features | second.traits.features
            if not features:
                break
            blocks = whole(first), whole(second)
            differs = _difference(*blocks)
            demand(
                differs is None,
                f"the game calls {differs} public, but {unit.words()} changes it",
            )
            if Feature.LATE_REPORTS in features:
                changed = (blocks[0].reports != blocks[1].reports).any(axis=-1).sum()
                records = unit.records if isinstance(unit, Person) else 1
                demand(
                    changed <= records or not isinstance(unit, Event | Person),
                    f"the round in which {unit.words()} is reported depends on the record",
                )
    if not features:
        raise NotApplicable("nothing about the clients is public in its games")


def _difference(first: Block, second: Block) -> str | None:
    """Return the public part in which two blocks differ."""
    return next((p for p in PUBLIC if not same(getattr(first, p), getattr(second, p))), None)

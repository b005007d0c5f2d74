"""The loop that all engines share: exchange when it is due, play, observe.

An exchange takes place just before the round that needs it, so nothing is sent after the last round
of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from hedgerow.core.block import ABSENT, Block, Side
from hedgerow.core.errors import InvalidValue
from hedgerow.core.losses import common_plays
from hedgerow.core.messages import decode, encode
from hedgerow.core.noise import NoiseSource, SeededNoise
from hedgerow.core.protocol import Algorithm, Context, Resident, RunState, SpanClient, Trace
from hedgerow.core.transcript import Plays, Sink

EXCHANGES_AT_ONCE = 10_000


def stack(messages: Sequence[Any]) -> Any:
    """Combine many messages into one with a leading axis."""
    kind = type(messages[0])
    return kind(
        **{
            f.name: np.stack([np.asarray(getattr(m, f.name)) for m in messages])
            for f in fields(kind)
        }
    )


def combine(algorithm: Algorithm, uploads: Any) -> Any:
    """Return what the server gets: every upload, or only their sum."""
    if algorithm.uploads.combine == "each":
        return uploads
    kind = type(uploads)
    return kind(**{f.name: np.asarray(getattr(uploads, f.name)).sum(axis=0) for f in fields(kind)})


def observe(player: Any, state: Any, reports: np.ndarray, noise: Any, side: Side | None) -> Any:
    """Pass side information only where there is some: other clients do not take it."""
    if side is None:
        return player.observe(state, reports, noise)
    return player.observe(state, reports, noise, side)


@dataclass(frozen=True)
class Batched:
    """All clients in one array."""

    source: NoiseSource
    role: str
    count: int

    def start(self, player: Any) -> Any:
        return player.start(self.source.everyone(self.role, self.count))

    def receive(self, player: Any, state: Any, broadcast: Any) -> Any:
        return player.receive(state, broadcast)

    def play(self, player: Any, state: Any, context: Context) -> tuple[np.ndarray, Any]:
        return player.play(state, context, self.source.everyone(self.role, self.count))

    def observe(self, player: Any, state: Any, reports: np.ndarray, side: Side | None) -> Any:
        noise = self.source.everyone(self.role, self.count)
        return observe(player, state, reports, noise, side)

    def play_many(self, player: Any, state: Any, rounds: int) -> tuple[np.ndarray, Any]:
        return player.play_many(state, rounds, self.source.everyone(self.role, self.count))

    def observe_many(self, player: Any, state: Any, reports: np.ndarray) -> Any:
        return player.observe_many(state, reports, self.source.everyone(self.role, self.count))

    def upload(self, player: Any, state: Any) -> tuple[Any, Any]:
        return player.upload(state, self.source.everyone(self.role, self.count))


@dataclass(frozen=True)
class Separate:
    """One state for each client; every message is encoded and decoded as on a network."""

    source: NoiseSource
    role: str
    count: int

    def _noises(self) -> list[Any]:
        return [self.source.single(self.role, i, self.count) for i in range(self.count)]

    def start(self, player: Any) -> Any:
        return tuple(player.start(noise) for noise in self._noises())

    def receive(self, player: Any, state: Any, broadcast: Any) -> Any:
        sent = encode(broadcast)
        return tuple(player.receive(one, decode(type(broadcast), sent)) for one in state)

    def play(self, player: Any, state: Any, context: Context) -> tuple[np.ndarray, Any]:
        played = []
        for i, (one, noise) in enumerate(zip(state, self._noises(), strict=True)):
            awake = None if context.awake is None else context.awake[i]
            side = context.side
            if side is not None and self.role == "client":
                side = side.row(i)  # a decider sees what is public about all clients
            played.append(player.play(one, Context(context.round, awake, side), noise))
        return np.stack([play for play, _ in played]), tuple(one for _, one in played)

    def observe(self, player: Any, state: Any, reports: np.ndarray, side: Side | None) -> Any:
        return tuple(
            observe(player, one, r, noise, None if side is None else side.row(i))
            for i, (one, r, noise) in enumerate(zip(state, reports, self._noises(), strict=True))
        )

    def upload(self, player: Any, state: Any) -> tuple[Any, Any]:
        sent = [player.upload(one, noise) for one, noise in zip(state, self._noises(), strict=True)]
        arrived = [decode(type(message), encode(message)) for message, _ in sent]
        return stack(arrived), tuple(one for _, one in sent)


Population = Batched | Separate  # the client side of an exchange


@dataclass(frozen=True)
class Engine:
    """Drives one algorithm.

    `fused` allows fast paths: the algorithm's own path over exchanges, or whole spans between them.
    """

    algorithm: Algorithm
    source: NoiseSource
    clients: Population
    deciders: Population | None
    fused: bool

    @classmethod
    def vectorised(cls, algorithm: Algorithm, source: NoiseSource, fused: bool = True) -> Engine:
        """Return the default engine, with all clients in one array."""
        return cls(algorithm, source, *_populations(Batched, algorithm, source), fused)

    @classmethod
    def in_process(cls, algorithm: Algorithm, source: NoiseSource) -> Engine:
        """Return an engine with one state for each client and every message encoded.

        It is slow, and does what a deployment does.
        """
        return cls(algorithm, source, *_populations(Separate, algorithm, source), False)

    @cached_property
    def _in_spans(self) -> bool:
        """Whether whole spans between exchanges can be played, if no masks forbid it."""
        batched = self.fused and isinstance(self.clients, Batched) and self.deciders is None
        return batched and isinstance(self.algorithm.client, SpanClient)

    def start(self) -> RunState:
        """Return the run after the opening broadcast."""
        return self.open()[1]

    def open(self) -> tuple[Any, RunState]:
        """Return the opening broadcast, and the run once all have received it."""
        broadcast, server = self.algorithm.server.open(self.source.server())
        clients = self.clients.start(self.algorithm.client)
        deciders = None if self.deciders is None else self.deciders.start(self.algorithm.decider)
        return broadcast, self._receive(RunState(0, clients, deciders, server, 0), broadcast)

    def advance(self, run: RunState, block: Block, sinks: list[Sink]) -> RunState:
        """Play all rounds of a checked block."""
        fused = (
            self.algorithm.fast_path
            if self.fused and not any(sink.wants_messages for sink in sinks)
            else None
        )
        late = block.reports is not block.losses and block.reporting is None
        if fused is not None and block.awake is None and (not late or self.deciders is not None):
            after, trace = fused(run, block, self.source)
            after = replace(after, exchanges=run.exchanges + trace.exchanges)
            plays = trace.plays
        else:
            after, plays = self._advance(run, block, sinks)
        self._check_plays(plays, block)
        if block.present is not None:
            plays = (
                Plays.of(plays.dense() * block.present[..., None])
                if isinstance(plays, Plays)
                else np.where(block.present, plays, ABSENT)
            )
        for sink in sinks:
            sink.exchanges(after.exchanges - run.exchanges)
            sink.states(after.clients if isinstance(after.clients, tuple) else (after.clients,))
            sink.servers((after.server,))
            sink.rounds(run.round, block, plays)
        return after

    def _advance(
        self, run: RunState, block: Block, sinks: list[Sink]
    ) -> tuple[RunState, np.ndarray | Plays]:
        plays: list[np.ndarray] = []
        at = 0
        client, everyone = self.algorithm.client, self.clients
        spans = self._in_spans and block.awake is None and not block.informs
        while at < block.rounds:
            run = self.exchange(run, sinks)
            if spans and isinstance(everyone, Batched):
                rest = block.rounds - at
                length = rest if run.remaining is None else min(run.remaining, rest)
                played, clients = everyone.play_many(client, run.clients, length)
                clients = everyone.observe_many(client, clients, block.reports[at : at + length])
                left = None if run.remaining is None else run.remaining - length
                run = replace(run, round=run.round + length, clients=clients, remaining=left)
                plays.append(played)
                at += length
                continue
            side = block.side_of(at)
            play, run = self.play(run, Context(run.round, _choice(block, at), side))
            reports = block.reports[at] if block.awake is None else _answers(block, at, play)
            run = self.observe(run, reports, side)
            plays.append(play[None])
            at += 1
        if self.algorithm.plays == "point":
            return run, Plays.join([Plays.of(part) for part in _merged(plays)])
        return run, np.concatenate(plays)

    def exchange(self, run: RunState, sinks: list[Sink]) -> RunState:
        """Make all exchanges that are due before the next round."""
        before = run.exchanges
        while run.remaining == 0:
            run = self._exchange(run, sinks)
            if run.exchanges - before > EXCHANGES_AT_ONCE:
                raise InvalidValue(
                    f"{self.algorithm.name} requested {run.exchanges - before} exchanges without "
                    "playing a round. Its server must broadcast rounds > 0 or None."
                )
        return run

    def play(self, run: RunState, context: Context) -> tuple[np.ndarray, RunState]:
        """Play one round, once no exchange is due."""
        if self.deciders is None:
            play, clients = self.clients.play(self.algorithm.client, run.clients, context)
            return play, replace(run, clients=clients)
        play, deciders = self.deciders.play(self.algorithm.decider, run.deciders, context)
        return play, replace(run, deciders=deciders)

    def observe(self, run: RunState, reports: np.ndarray, side: Side | None = None) -> RunState:
        """Give every client its report, and what is public about it, and end the round."""
        clients = self.clients.observe(self.algorithm.client, run.clients, reports, side)
        remaining = None if run.remaining is None else run.remaining - 1
        return replace(run, round=run.round + 1, clients=clients, remaining=remaining)

    def _exchange(self, run: RunState, sinks: list[Sink]) -> RunState:
        uploads, clients = self.clients.upload(self.algorithm.client, run.clients)
        if type(uploads) is not self.algorithm.uploads.kind:
            raise InvalidValue(
                f"Expected {self.algorithm.name} to upload {self.algorithm.uploads.kind.__name__}, "
                f"got {type(uploads).__name__}."
            )
        seen = combine(self.algorithm, uploads)
        broadcast, server = self.algorithm.server.aggregate(run.server, seen, self.source.server())
        for sink in sinks:
            if sink.wants_messages:
                sink.message(run.round, uploads, broadcast)
        after = replace(run, clients=clients, server=server, exchanges=run.exchanges + 1)
        return self._receive(after, broadcast)

    def _receive(self, run: RunState, broadcast: Any) -> RunState:
        self.algorithm.broadcasts.admit(broadcast, run.exchanges)
        clients = self.clients.receive(self.algorithm.client, run.clients, broadcast)
        deciders = None
        if self.deciders is not None:
            deciders = self.deciders.receive(self.algorithm.decider, run.deciders, broadcast)
        return replace(run, clients=clients, deciders=deciders, remaining=broadcast.rounds)

    def _check_plays(self, plays: np.ndarray | Plays, block: Block) -> None:
        name, width = self.algorithm.name, block.losses.shape[-1]
        if self.algorithm.plays == "point" or isinstance(plays, Plays):
            check_points(self.algorithm, plays, block)
            return
        if plays.shape != block.losses.shape[:2] or plays.dtype.kind != "i":
            raise InvalidValue(
                f"Expected {name} to play one expert each for {block.losses.shape[:2]}, "
                f"got {plays.dtype} {plays.shape}."
            )
        common = common_plays(plays)
        low, high = (plays.min(), plays.max()) if common is None else (common.min(), common.max())
        if low < 0 or high >= width:
            raise InvalidValue(
                f"Expected {name} to play experts in [0, {width}), got {low}..{high}."
            )
        if block.awake is not None:
            followed = np.take_along_axis(block.awake, plays[..., None], axis=-1)[..., 0]
            if not (followed if block.present is None else followed | ~block.present).all():
                raise InvalidValue(f"Expected {name} to play experts that are awake.")


def check_points(algorithm: Algorithm, plays: np.ndarray | Plays, block: Block) -> None:
    """Refuse plays that are not one point of the domain for every player and round."""
    name, setting = algorithm.name, algorithm.setting
    if not isinstance(plays, Plays):
        raise InvalidValue(f"Expected the fast path of {name} to return `Plays` for points.")
    if plays.shape != (block.rounds, setting.players, setting.experts):
        raise InvalidValue(
            f"{name} returned points of shape {plays.shape}, but the game needs "
            f"{(block.rounds, setting.players, setting.experts)}."
        )
    if not plays.inside(setting.family.domain):
        raise InvalidValue(
            f"{name} played a point outside {setting.family.domain}. Project it with "
            "`family.domain.project`."
        )


@dataclass(frozen=True)
class WholeGame:
    """Drives an algorithm that plays whole games itself; it is used like an `Engine`."""

    algorithm: Algorithm
    game: Resident
    source: SeededNoise

    def start(self) -> Any:
        return self.game.start(self.source)

    def advance(self, run: Any, block: Block, sinks: list[Sink]) -> Any:
        """Play all rounds of a checked block."""
        return self.played(run, *self.game.advance(run, block), block, sinks)

    def played(self, run: Any, after: Any, trace: Trace, block: Block, sinks: list[Sink]) -> Any:
        """Check what was played, and show it to the sinks."""
        check_points(self.algorithm, trace.plays, block)
        for sink in sinks:
            sink.exchanges(trace.exchanges)
            sink.states((after.clients,))
            sink.rounds(run.round, block, trace.plays)
        return after


def _merged(plays: list[np.ndarray]) -> Iterator[np.ndarray]:
    """Join consecutive single rounds in which the same array of points was played, as a view."""

    def place(play: np.ndarray) -> Any:
        return play.__array_interface__["data"], play.shape, play.strides, play.dtype

    for (_, shape, _, _), group in groupby(plays, key=place):
        same = list(group)
        if shape[0] == 1 and len(same) > 1:
            yield np.broadcast_to(same[0], (len(same), *shape[1:]))
        else:
            yield from same


def _choice(block: Block, at: int) -> np.ndarray | None:
    """Return the experts that may be chosen in a round.

    An absent client may choose any expert; its play is ignored.
    """
    if block.awake is None or block.present is None:
        return None if block.awake is None else block.awake[at]
    return block.awake[at] | ~block.present[at, :, None]


def _answers(block: Block, at: int, play: np.ndarray) -> np.ndarray:
    """Return what clients see of one round in which experts sleep."""
    one = Block(
        block.losses[at : at + 1],
        block.losses[at : at + 1],
        None if block.awake is None else block.awake[at : at + 1],
    )
    return one.answered(play[None])[0]


def _populations(
    kind: Any, algorithm: Algorithm, source: NoiseSource
) -> tuple[Population, Population | None]:
    setting = algorithm.setting
    clients = kind(source, "client", setting.clients)
    if algorithm.decider is None:
        return clients, None
    return clients, kind(source, "decider", setting.players)

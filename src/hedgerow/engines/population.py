"""Clients or deciders as an engine sees them: one batched state, or one state each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from hedgerow.core.block import Side
from hedgerow.core.messages import decode, encode
from hedgerow.core.noise import NoiseSource
from hedgerow.core.protocol import Algorithm, Context


class Population(Protocol):
    """The client side of an exchange, for any storage of the states."""

    def start(self, player: Any) -> Any: ...

    def receive(self, player: Any, state: Any, broadcast: Any) -> Any: ...

    def play(self, player: Any, state: Any, context: Context) -> tuple[np.ndarray, Any]: ...

    def observe(self, player: Any, state: Any, reports: np.ndarray, side: Side | None) -> Any: ...

    def upload(self, player: Any, state: Any) -> tuple[Any, Any]:
        """Return the uploads as one message with a leading client axis."""
        ...


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

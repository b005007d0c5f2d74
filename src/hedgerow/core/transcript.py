"""The transcript is a sink: what happened streams through, and only what a sink wants is kept."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import Units
from hedgerow.core.messages import encode, scalars


@dataclass(frozen=True)
class Traffic:
    """Sizes of one message of each kind, counted once; an algorithm whose messages change in size is not counted exactly."""

    upload_scalars: int
    upload_bytes: int
    broadcast_scalars: int
    broadcast_bytes: int

    @classmethod
    def of(cls, upload: Any, broadcast: Any) -> Traffic:
        return cls(scalars(upload), len(encode(upload)), scalars(broadcast), len(encode(broadcast)))


class Sink:
    """Something that watches a run; subclasses override what they care about.

    `wants_messages` makes an engine take every exchange one by one; `marks` are numbers of finished rounds at which the sink
    wants a block's sums to be split.
    """

    wants_messages: bool = False
    marks: tuple[int, ...] = ()

    def rounds(self, first_round: int, block: Block, plays: np.ndarray) -> None:
        """Some rounds were played."""

    def span(self, first_round: int, rounds: int, play: int, totals: Units) -> None:
        """Some rounds in which everybody played one expert, known by their `totals` only; a span ends at every mark."""
        raise Unsupported(f"{type(self).__name__} needs every loss, and here only sums are drawn.")

    def exchanges(self, count: int) -> None:
        """So many exchanges were made."""

    def message(self, round_number: int, uploads: Any, broadcast: Any) -> None:
        """One exchange, for sinks that want messages; `uploads` has a leading client axis."""


@dataclass
class Counters(Sink):
    """How much was said: rounds played, exchanges made, numbers and bytes sent each way."""

    clients: int
    listeners: int
    traffic: Traffic
    played: int = 0
    exchanged: int = 0

    def rounds(self, first_round: int, block: Block, plays: np.ndarray) -> None:
        del first_round, plays
        self.played += block.rounds

    def span(self, first_round: int, rounds: int, play: int, totals: Units) -> None:
        del first_round, play, totals
        self.played += rounds

    def exchanges(self, count: int) -> None:
        self.exchanged += count

    @property
    def uploaded_scalars(self) -> int:
        return self.exchanged * self.clients * self.traffic.upload_scalars

    @property
    def uploaded_bytes(self) -> int:
        return self.exchanged * self.clients * self.traffic.upload_bytes

    @property
    def broadcast_scalars(self) -> int:
        return (self.exchanged + 1) * self.listeners * self.traffic.broadcast_scalars

    @property
    def broadcast_bytes(self) -> int:
        return (self.exchanged + 1) * self.listeners * self.traffic.broadcast_bytes


@dataclass
class Digest(Sink):
    """A fingerprint of all plays, whatever the blocks they came in."""

    _hash: Any = field(default_factory=hashlib.blake2b)

    def rounds(self, first_round: int, block: Block, plays: np.ndarray) -> None:
        del first_round, block
        self._hash.update(
            np.ascontiguousarray(plays).astype(plays.dtype.newbyteorder("<"), copy=False)
        )

    @property
    def hex(self) -> str:
        return self._hash.hexdigest()[:32]


@dataclass
class Everything(Sink):
    """Keeps all plays and all messages: for `--keep`, replay and tests."""

    wants_messages: bool = True
    plays: list[np.ndarray] = field(default_factory=list)
    messages: list[tuple[int, Any, Any]] = field(default_factory=list)

    def rounds(self, first_round: int, block: Block, plays: np.ndarray) -> None:
        del first_round, block
        self.plays.append(plays)

    def message(self, round_number: int, uploads: Any, broadcast: Any) -> None:
        self.messages.append((round_number, uploads, broadcast))

    def all_plays(self) -> np.ndarray:
        return np.concatenate(self.plays) if self.plays else np.zeros((0, 0), int)

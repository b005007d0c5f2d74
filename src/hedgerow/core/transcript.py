"""Sinks: a run streams through them, and each keeps only what it needs."""

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
    """The size of one message of each kind, measured once.

    The counts are not exact for an algorithm whose messages change in size.
    """

    upload_scalars: int
    upload_bytes: int
    broadcast_scalars: int
    broadcast_bytes: int

    @classmethod
    def of(cls, upload: Any, broadcast: Any) -> Traffic:
        """Measure one upload and one broadcast."""
        return cls(scalars(upload), len(encode(upload)), scalars(broadcast), len(encode(broadcast)))


class Sink:
    """An object that watches a run; subclasses override the methods they need.

    `wants_messages` makes an engine make every exchange separately. `marks` are the numbers of
    finished rounds at which the sums of a block are split for this sink.
    """

    wants_messages: bool = False
    marks: tuple[int, ...] = ()

    def rounds(self, first_round: int, block: Block, plays: np.ndarray) -> None:
        """Receive rounds that were played."""

    def span(self, first_round: int, rounds: int, play: int, totals: Units) -> None:
        """Receive rounds in which all deciders played one expert, of which only `totals` are known.

        A span ends at every mark.
        """
        raise Unsupported(f"{type(self).__name__} needs every loss, but only sums are drawn here.")

    def exchanges(self, count: int) -> None:
        """Receive the number of exchanges that were made."""

    def message(self, round_number: int, uploads: Any, broadcast: Any) -> None:
        """Receive one exchange, if the sink wants messages.

        `uploads` has a leading client axis.
        """


@dataclass
class Counters(Sink):
    """Count the rounds, the exchanges, and the numbers and bytes sent each way."""

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
    """Hash all plays; the hash does not depend on the block size."""

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
    """Keep all plays and messages, for `--keep`, replay and tests."""

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

"""Sinks: a run streams through them, and each keeps only what it needs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import Units
from hedgerow.core.messages import encode, scalars
from hedgerow.core.plays import Plays


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

    def rounds(self, first_round: int, block: Block, plays: np.ndarray | Plays) -> None:
        """Receive rounds that were played: experts (rounds, deciders), or points as `Plays`."""

    def states(self, clients: Sequence[Any]) -> None:
        """Receive the states of the clients after some rounds, before the rounds themselves.

        There is one state for each client, or one for all of them.
        """

    def servers(self, servers: Sequence[Any]) -> None:
        """Receive the state of the server then; of every client's own one if each is alone."""

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

    def rounds(self, first_round: int, block: Block, plays: np.ndarray | Plays) -> None:
        self.played += block.rounds

    def span(self, first_round: int, rounds: int, play: int, totals: Units) -> None:
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
    """Hash all plays; the hash does not depend on the block size.

    A run of equal points counts as one point and its length, however it is cut into pieces.
    """

    _hash: Any = field(default_factory=hashlib.blake2b)
    _run: bytes = b""
    _length: int = 0

    def rounds(self, first_round: int, block: Block, plays: np.ndarray | Plays) -> None:
        if isinstance(plays, Plays):
            for start, stop, value in plays.pieces():
                point = _bytes(value)
                if point != self._run:
                    _end_run(self._hash, self._run, self._length)
                    self._run, self._length = point, 0
                self._length += stop - start
            return
        self._hash.update(_bytes(plays))

    @property
    def hex(self) -> str:
        whole = self._hash.copy()
        _end_run(whole, self._run, self._length)
        return whole.hexdigest()[:32]


def _bytes(plays: np.ndarray) -> bytes:
    return plays.astype(plays.dtype.newbyteorder("<"), copy=False).tobytes()


def _end_run(total: Any, point: bytes, length: int) -> None:
    if length:
        total.update(point + length.to_bytes(8, "little"))


@dataclass
class Everything(Sink):
    """Keep all plays and messages, for `--keep`, replay and tests."""

    wants_messages: bool = True
    plays: list[np.ndarray | Plays] = field(default_factory=list)
    messages: list[tuple[int, Any, Any]] = field(default_factory=list)

    def rounds(self, first_round: int, block: Block, plays: np.ndarray | Plays) -> None:
        self.plays.append(plays)

    def message(self, round_number: int, uploads: Any, broadcast: Any) -> None:
        self.messages.append((round_number, uploads, broadcast))

    def all_plays(self) -> np.ndarray:
        """Return the play of every round."""
        dense = [play.dense() if isinstance(play, Plays) else play for play in self.plays]
        return np.concatenate(dense) if dense else np.zeros((0, 0), int)

"""What a run shows: plays and messages. Sinks watch it, and each keeps only what it needs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.domain import Domain
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array, Units
from hedgerow.core.losses import Family
from hedgerow.core.messages import encode, scalars


@dataclass(frozen=True, eq=False)
class Plays:
    """Consecutive plays that are points: `values[i]` is played for `lengths[i]` rounds.

    Parameters
    ----------
    values
        The points, of shape (pieces, deciders, width).
    lengths
        The number of rounds of each piece, at least 1.
    paid
        What all deciders together pay in each round, where a fast path knows it from training.
        None (default): it is computed from the points.

    Examples
    --------
    >>> import numpy as np
    >>> plays = Plays(np.array([[[0.5, 0.5]], [[1.0, 0.0]]]), np.array([3, 1]))
    >>> plays.rounds, plays.dense().shape
    (4, (4, 1, 2))
    """

    values: Array
    lengths: np.ndarray
    paid: Array | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or self.lengths.shape != self.values.shape[:1]:
            raise InvalidValue(
                f"Expected points (pieces, deciders, width) with one length each, "
                f"got {self.values.shape} and {self.lengths.shape}."
            )
        if self.paid is not None and self.paid.shape != (self.rounds,):
            raise InvalidValue(
                f"Expected what is paid in each of {self.rounds} rounds, got {self.paid.shape}."
            )

    @classmethod
    def of(cls, plays: np.ndarray) -> Plays:
        """Return plays (rounds, deciders, width); a view that repeats one round is one piece.

        >>> Plays.of(np.broadcast_to([0.5, 0.5], (1000, 4, 2))).lengths
        array([1000])
        """
        if len(plays) > 1 and plays.strides[0] == 0:
            return cls(plays[:1], np.array([len(plays)]))
        return cls(plays, np.ones(len(plays), np.int64))

    @classmethod
    def join(cls, parts: Sequence[Plays]) -> Plays:
        """Return several plays one after the other; a point that all players share is kept once."""
        if len(parts) == 1:
            return parts[0]
        lengths = np.concatenate([part.lengths for part in parts])
        if all(part.common for part in parts):
            values = np.concatenate([part.values[:, :1] for part in parts])
            return cls(np.broadcast_to(values, (len(values), *parts[0].values.shape[1:])), lengths)
        return cls(np.concatenate([part.values for part in parts]), lengths)

    @property
    def common(self) -> bool:
        """Whether all players surely share one point: it is then one view for all of them."""
        return self.values.strides[1] == 0

    @property
    def rounds(self) -> int:
        return int(self.lengths.sum())

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """The rounds, the players, and the width of a point."""
        return (self.rounds, *self.values.shape[1:])

    @property
    def last(self) -> Array:
        """The points of the last round, (deciders, width)."""
        return self.at(self.rounds - 1)

    def at(self, round_number: int) -> Array:
        """The points of one round, (deciders, width)."""
        return self.values[int(np.searchsorted(np.cumsum(self.lengths), round_number, "right"))]

    def inside(self, domain: Domain) -> bool:
        """Whether all points lie in the domain."""
        return bool(domain.contains(self.values[:, :1] if self.common else self.values).all())

    def dense(self) -> Array:
        """Return the point of every round, (rounds, deciders, width)."""
        return np.repeat(self.values, self.lengths, axis=0)

    def pieces(self) -> Iterator[tuple[int, int, Array]]:
        """Yield the first round, the round after the last, and the points of each piece."""
        stop = 0
        for value, length in zip(self.values, self.lengths.tolist(), strict=True):
            start, stop = stop, stop + length
            yield start, stop, value


def charges(family: Family, records: Array, plays: np.ndarray | Plays) -> Array:
    """Return what all deciders together pay in each round, (rounds,).

    >>> from hedgerow.core.losses import Linear
    >>> points = Plays(np.array([[[0.5, 0.5]]]), np.array([2]))
    >>> charges(Linear(), np.array([[[0.0, 1.0]], [[1.0, 1.0]]]), points)
    array([0.5, 1. ])
    """
    if not isinstance(plays, Plays):
        return np.einsum("ri->r", family.value(records, plays))
    if plays.paid is not None:
        return plays.paid
    if len(plays.values) == len(records):
        return np.einsum("ri->r", family.value(records, plays.values))
    paid = np.empty(len(records))
    for start, stop, points in plays.pieces():
        paid[start:stop] = family.paid(records[start:stop], points)
    return paid


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

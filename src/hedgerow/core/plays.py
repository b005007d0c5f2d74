"""Points in run lengths: a point that is played for many rounds is kept once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hedgerow.core.domain import Domain
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family


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

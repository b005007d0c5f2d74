"""Several records of one client in every round: the charge of a play is their mean."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.domain import Domain
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.losses import (
    EPS,
    Clipped,
    Family,
    Move,
    Norm,
    Rounding,
    require_family,
)
from hedgerow.core.record import Record
from hedgerow.core.validate import at_least


@dataclass(frozen=True)
class Batch(Family):
    """Charge the mean over `size` records of another family, which every client sees in a round.

    The record of a client and a round holds the `size` records one after the other.

    Parameters
    ----------
    of
        The family of the single records; any but linear losses and gains.
    size
        How many records each client has in every round, at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> family = hr.Batch(hr.SquaredError(), size=2)
    >>> family.record_width(1), family.examples(np.array([1.0, 0.5, 1.0, 0.0])).tolist()
    (4, [[1.0, 0.5], [1.0, 0.0]])
    >>> float(family.value(np.array([1.0, 0.5, 1.0, 0.0]), np.array([0.5])))
    0.0625
    """

    of: Family
    size: int

    def __post_init__(self) -> None:
        require_family(self.of)
        at_least("size", self.size, 1)
        plain = not self.of.linear and not isinstance(self.of, Batch)
        if not plain:
            raise InvalidValue(
                f"Expected of={self.of!r} to be a family of single records with a curved charge."
            )

    @property
    def domain(self) -> Domain:
        return self.of.domain

    @property
    def bounds(self) -> tuple[float, float]:
        return self.of.bounds

    @property
    def trained(self) -> bool:
        return self.of.trained

    @property
    def record(self) -> Record:
        return replace(self.of.record, each=self.size)

    def record_width(self, width: int) -> int:
        return self.size * self.of.record_width(width)

    def point_width(self, numbers: int) -> int:
        if numbers % self.size:
            raise InvalidValue(
                f"Expected {self.size} records of the same width, one after the other, "
                f"got {numbers} numbers."
            )
        return self.of.point_width(numbers // self.size)

    def examples(self, records: Array) -> Array:
        """Return the single records, of shape (..., size, numbers)."""
        given = np.asarray(records)
        self.point_width(given.shape[-1])
        return given.reshape(*given.shape[:-1], self.size, given.shape[-1] // self.size)

    def value(self, records: Array, plays: np.ndarray) -> Array:
        return self.of.value(self.examples(records), plays[..., None, :]).mean(axis=-1)

    def gradient(self, records: Array, points: Array) -> Array:
        return self.of.gradient(self.examples(records), points[..., None, :]).mean(axis=-2)

    def curvature(self, records: Array, point: Array) -> Array | None:
        rows = self.examples(records.reshape(-1, records.shape[-1]))
        found = self.of.curvature(rows.reshape(-1, rows.shape[-1]), point)
        return None if found is None else found / self.size

    def gradient_bound(self, norm: Norm, width: int) -> float:
        return self.of.gradient_bound(norm, width)

    def smoothness(self, norm: Move, width: int) -> float:
        return self.of.smoothness(norm, width)

    def rounding(self, width: int, reach: float) -> Rounding:
        # a mean of `size` numbers adds that many roundings of the largest
        one, most = self.of.rounding(width, reach), max(map(abs, self.of.bounds))
        steepest = self.of.gradient_bound("l2", width)
        return Rounding(
            one.value + self.size * EPS * most, one.gradient + self.size * EPS * steepest
        )

    def check(
        self, name: str, records: Array, first_round: int = 0, present: np.ndarray | None = None
    ) -> None:
        rows = self.examples(records)
        there = None if present is None else np.repeat(present, self.size, axis=-1)
        try:
            merged = rows.reshape(*rows.shape[:-3], -1, rows.shape[-1])
            self.of.check(name, merged, first_round, there)
        except InvalidValue:
            for at in range(self.size):  # one by one, so that the error names round and client
                which = f"{name} ({at + 1} of {self.size})"
                self.of.check(which, rows[..., at, :], first_round, present)
            raise

    def clip(self, records: Array) -> Clipped:
        rows = self.examples(np.asarray(records, float))
        found = self.of.clip(rows)
        return Clipped(found.records.reshape(np.shape(records)), found.moved)


def single(family: Family) -> tuple[Family, int]:
    """Return the family of one example, and how many each client has in every round.

    >>> from hedgerow.core.convex import SquaredError
    >>> single(Batch(SquaredError(), 5)) == (SquaredError(), 5)
    True
    >>> single(SquaredError()) == (SquaredError(), 1)
    True
    """
    return (family.of, family.size) if isinstance(family, Batch) else (family, 1)

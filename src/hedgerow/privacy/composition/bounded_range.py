"""Curves of adaptive compositions of bounded-range steps (exponential mechanism, Gumbel noise).

A curve reads a table. `recursion` computes it on first use and `table_cache` keeps it. The proof is
`proofs/bounded_range.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import groupby
from math import expm1, isfinite, log1p

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.rounding import round_up, rounded_up
from hedgerow.core.validate import at_least, between
from hedgerow.privacy.composition.recursion import Grid, Values, compute, grid_for
from hedgerow.privacy.composition.table_cache import load, store
from hedgerow.privacy.curves import BoundedRange
from hedgerow.privacy.curves.base import Composed, Symmetric

WIDEST = 50.0
"""The largest range of a step: beyond it the guarantee is vacuous and exp(range) loses accuracy."""
_ROUNDING = 2.0**-53


@lru_cache(maxsize=128)
def _table(grid: Grid) -> Values:
    values = load(grid.key())
    if values is None or not _sound(values, grid):
        values = compute(grid)
        store(grid.key(), values)
    values.setflags(write=False)
    return values


def _sound(values: Values, grid: Grid) -> bool:
    inside = len(values) == grid.reach + 1 and np.all((values >= 0) & (values <= 1))
    return bool(inside and np.all(values[1:] <= values[:-1]))


class _Recursion(Symmetric, Composed):
    """A curve that is read from a table, rounded outward."""

    def _runs(self) -> tuple[tuple[float, int], ...]:
        """(range, number of consecutive steps) without empty runs."""
        raise NotImplementedError

    def composed_of(self) -> tuple[tuple[BoundedRange, int], ...]:
        return tuple((BoundedRange(each), count) for each, count in self._runs() or ((0.0, 1),))

    @cached_property
    def pure(self) -> float:
        """The pure bound: the sum of the ranges, rounded up to a float.

        A step of range r is r-DP, so the ranges add.
        """
        return round_up(sum((Fraction(each) * count for each, count in self._runs()), Fraction(0)))

    @cached_property
    def _grid(self) -> Grid:
        return grid_for(self._runs())

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.pure:
            return 0.0
        grid = self._grid
        values = _table(grid)
        lowered = epsilon * (1 - 8 * _ROUNDING)
        cell = int(lowered / grid.width)
        if cell >= grid.reach:
            return float(values[-1])
        # linear in exp(epsilon): a chord of a convex function
        part = max(
            0.0,
            min(1.0, expm1(lowered - cell * grid.width) / expm1(grid.width) * (1 - 64 * _ROUNDING)),
        )
        return min(
            1.0, float((1 - part) * values[cell] + part * values[cell + 1]) * (1 + 4 * _ROUNDING)
        )

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        pure = self.pure
        if pure == 0.0 or self.delta(0.0) <= delta:
            return 0.0
        grid = self._grid
        values = _table(grid)
        if delta < values[-1]:  # below the reach of the table
            return pure
        # values[cell] > delta >= values[cell + 1]
        cell = int(np.searchsorted(-values, -delta, side="left")) - 1
        part = (values[cell] - delta) / (values[cell] - values[cell + 1])
        found, nudge = cell * grid.width + log1p(float(part) * expm1(grid.width)), 4 * _ROUNDING
        while found < pure and self.delta(found) > delta:
            found, nudge = found * (1 + nudge), 2 * nudge
        return min(found, pure)


@dataclass(frozen=True)
class AdaptiveBoundedRange(_Recursion):
    """At most `steps` steps of bounded range, each chosen after seeing the earlier ones.

    Steps that are the same in both worlds may lie between. The curve holds in both directions and
    is attained by two-point mechanisms (`proofs/bounded_range.md#recursion`). The table is within
    1 % of it. It is computed on first use and then kept on disk.

    Parameters
    ----------
    range
        The bounded range of each step, in [0, 50].
    steps
        The largest number of steps, >= 0.

    Examples
    --------
    >>> from hedgerow.privacy import AdaptiveBoundedRange
    >>> curve = AdaptiveBoundedRange(0.125, 8)
    >>> curve.epsilon(0.0), round(curve.epsilon(1e-6), 3)
    (1.0, 0.707)
    """

    range: float
    steps: int

    def __post_init__(self) -> None:
        _check_range(self.range)
        at_least("steps", self.steps, 0)

    def _runs(self) -> tuple[tuple[float, int], ...]:
        return ((self.range, self.steps),) if self.range > 0 and self.steps > 0 else ()

    def words(self) -> str:
        return f"{self._quote()} ({self.steps} adaptive steps of range {rounded_up(self.range)})"


@dataclass(frozen=True)
class BoundedRangeSequence(_Recursion):
    """Steps of different ranges, in an order fixed in advance.

    What each step asks may depend on the earlier answers. If the order itself is chosen during the
    run, use the largest range for all steps (`AdaptiveBoundedRange`), or `fixed_plan`.

    >>> BoundedRangeSequence((0.25, 0.5)).epsilon(0.0)
    0.75
    """

    ranges: tuple[float, ...]

    def __post_init__(self) -> None:
        for each in self.ranges:
            _check_range(each)

    def _runs(self) -> tuple[tuple[float, int], ...]:
        return tuple(
            (each, len(list(same)))
            for each, same in groupby(each for each in self.ranges if each > 0)
        )

    def words(self) -> str:
        return f"{self._quote()} ({len(self.ranges)} steps of bounded range in a fixed order)"


def _check_range(value: float) -> None:
    if not isfinite(value) or not 0 <= value <= WIDEST:
        raise InvalidValue(f"Expected range={value!r} in [0, {WIDEST}].")

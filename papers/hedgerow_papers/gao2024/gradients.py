"""Gradients of single records on the lattice, clipped so that one record counts little.

All numbers are in units of the spread R of a gradient's coordinate: [0, 1] for losses of experts,
[-1, 0] for cross-entropy, [-1/2, 1/2] otherwise. Rounded to the lattice, sums are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt

import numpy as np

from hedgerow.algorithms.gradient.clipped import finite
from hedgerow.core.convex import CrossEntropy
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, clip_to_lattice, round_to_lattice
from hedgerow.core.losses import Family, Linear, Norm
from hedgerow.core.rounding import root_up

PIECE = 2**11  # records evaluated at a time


def spread(family: Family, width: int) -> tuple[float, float]:
    """Return the least and the largest coordinate of a gradient.

    >>> spread(Linear(), 3), spread(CrossEntropy(floor=0.5), 3)
    ((0.0, 1.0), (-2.0, 0.0))
    """
    steepest = family.gradient_bound("linf", width)
    if isinstance(family, Linear):
        return 0.0, steepest
    return (-steepest, 0.0) if isinstance(family, CrossEntropy) else (-steepest, steepest)


@dataclass(frozen=True)
class BoundedGradients:
    """The gradients of a family at points of the simplex, with bounds in the norm of the noise."""

    family: Family
    width: int
    norm: Norm

    @cached_property
    def unit(self) -> float:
        """The spread R of a coordinate."""
        low, high = spread(self.family, self.width)
        return high - low

    @cached_property
    def bend(self) -> float:
        """The smoothness from l1 to linf, over R."""
        return self.family.smoothness("l1", self.width) / self.unit

    @cached_property
    def longest(self) -> float:
        """The largest norm of one gradient."""
        return self.family.gradient_bound(self.norm, self.width) / self.unit

    @cached_property
    def by_box(self) -> float:
        """The largest distance of two vectors with coordinates in an interval of length 1."""
        across = {"linf": 1.0, "l2": root_up(Fraction(self.width)), "l1": float(self.width)}
        return across[self.norm]

    @cached_property
    def reach(self) -> float:
        """The largest change of the gradient at one point when its record is replaced."""
        return min(self.by_box, 2.0 * self.longest)

    def _bound(self, l1: float, l2: float) -> float:
        near = min(1.0, self.bend * l1)
        if self.norm == "linf":
            return near
        smooth = self.family.smoothness("l2", self.width) / self.unit
        steep = self.family.gradient_bound("l2", self.width) / self.unit
        euclid = min(sqrt(self.width) * near, smooth * l2, 2.0 * steep)
        if self.norm == "l2":
            return euclid
        return min(self.width * near, sqrt(self.width) * euclid, 2.0 * self.longest)

    def limit(self, move: float) -> float:
        """Bounds the norm of a difference of gradients of one record, for an l1 move of the point.

        The coordinates of a move add up to 0, so its l2 norm is at most 1 / sqrt(2) of its l1 norm.
        """
        return self._bound(move, move / sqrt(2.0) * (1 + 2.0**-40))

    def bound(self, point: Array, parent: Array, move: float) -> float:
        """The same for two points that are given; never more than `limit(move)`."""
        apart = point - parent
        l1, l2 = float(np.abs(apart).sum()), float(np.sqrt(np.square(apart).sum()))
        return min(self.limit(move), self._bound(l1, l2))

    def at(self, rows: Array, point: Array) -> Array:
        """Sum the gradients of records (..., count, numbers) at a point, each clipped."""
        low, high = (end / self.unit for end in spread(self.family, self.width))

        def clipped(part: Array) -> Array:
            boxed = np.clip(self._gradient(part, point), low, high)
            if self.reach == self.by_box:
                return round_to_lattice(boxed)
            return clip_to_lattice(boxed, self.longest, self.norm)

        return self._summed(rows, clipped)

    def between(
        self, rows: Array, point: Array, parent: Array, bound: float, scale: float
    ) -> Array:
        """Sum differences of gradients, each clipped to norm `bound` and multiplied by `scale`."""

        def clipped(part: Array) -> Array:
            apart = self._gradient(part, point) - self._gradient(part, parent)
            if bound * scale * UNITS_PER_LOSS < 1:
                return np.zeros_like(apart)
            return clip_to_lattice(finite(apart * scale), bound * scale, self.norm)

        return self._summed(rows, clipped)

    def _gradient(self, rows: Array, point: Array) -> Array:
        return finite(self.family.gradient(rows, point) / self.unit)

    def _summed(self, rows: Array, clipped: Callable[[Array], Array]) -> Array:
        total = np.zeros((*rows.shape[:-2], self.width))
        for start in range(0, rows.shape[-2], PIECE):
            total += clipped(rows[..., start : start + PIECE, :]).sum(axis=-2)
        return total

"""Clipped gradients: how long they may be, and how many were shortened."""

from __future__ import annotations

from math import sqrt
from typing import ClassVar, Literal

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.convex import Scored
from hedgerow.core.domain import Ball, Domain, Simplex, length
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family
from hedgerow.core.measure import Measure
from hedgerow.core.plays import Plays

SEEN = 257  # scores at which a declared smoothness is compared with slopes


def clipped(gradients: Array, clip: float) -> Array:
    """Return the gradients (last axis), scaled down to length `clip` where they are longer.

    >>> clipped(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0).round(3).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    square = np.einsum("...d,...d->...", gradients, gradients)
    long = square > clip * clip
    if not long.any():
        return gradients
    return gradients * np.where(long, clip / np.sqrt(np.where(long, square, 1.0)), 1.0)[..., None]


def moved_inside(domain: Domain, points: Array) -> Array:
    """Return the projections onto the domain; points in a ball are shortened as gradients are."""
    if isinstance(domain, Ball):
        return clipped(points, domain.radius)
    return domain.project(points)


def farthest(domain: Domain, width: int) -> float:
    """Return the largest distance of a point of the domain from its centre.

    >>> farthest(Simplex(), 4)
    0.866...
    """
    return sqrt(1 - 1 / width) if isinstance(domain, Simplex) else domain.diameter / 2


def require_smooth(family: Family) -> None:
    """Refuse a charge of a score that bends more than its family declares, or is not convex.

    Slopes are compared on a grid of scores and targets, which no proof can replace: constants of a
    family of your own are taken on trust between the grid points.
    """
    if not isinstance(family, Scored):
        return
    most = family.largest_score
    scores = np.linspace(-most, most, SEEN)
    for target in (-family.largest_target, family.largest_target):
        rises = np.diff(family.slope(scores, np.full(SEEN, target))) / np.diff(scores)
        slack = 1e-9 * max(1.0, family.most_bent)
        if not ((rises >= -slack) & (rises <= family.most_bent + slack)).all():
            worst = float(rises[np.argmax(np.abs(rises - family.most_bent / 2))])
            raise InvalidValue(
                f"Expected {type(family).__name__} to bend by 0 to {family.most_bent!r}, as it "
                f"declares (most_bent), but its slope changes by {worst:.4g} per unit of score."
            )


class Shortened(Measure):
    """How many gradients at the played points are longer than the clip."""

    name: ClassVar[str] = "clipped"
    meaning: ClassVar[str] = "share of gradients at the played points that are longer than the clip"
    figure: ClassVar[Literal["total", "mean"]] = "mean"

    def __init__(self, family: Family, clip: float) -> None:
        super().__init__()
        self.family, self.clip = family, clip

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        if not isinstance(plays, Plays):
            raise Unsupported("The clipped gradients of points are counted, not those of experts.")
        found = np.empty(len(block.losses))
        for start, stop, points in plays.pieces():
            gradients = self.family.gradient(block.losses[start:stop], points)
            found[start:stop] = (length(gradients) > self.clip).mean(axis=1)
        return found

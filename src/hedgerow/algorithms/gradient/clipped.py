"""Clipped gradients: how long they may be, and how many were shortened."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import ClassVar, Literal

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.certificate import Assumption
from hedgerow.core.convex import CrossEntropy, Huber, Logistic, OnSimplex, Scored, SquaredError
from hedgerow.core.domain import Ball, Domain, Simplex, length
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family, Linear, Norm
from hedgerow.core.measure import Measure
from hedgerow.core.transcript import Plays

SEEN = 257  # scores at which a declared smoothness is compared with slopes
TARGETS = 33  # of each of two grids
SIZES: dict[Norm, Callable[[Array], Array]] = {
    "l1": lambda vectors: np.abs(vectors).sum(axis=-1),
    "l2": length,
    "linf": lambda vectors: np.abs(vectors).max(axis=-1),
}
KNOWN = (SquaredError, Logistic, Huber, CrossEntropy, Linear)


def finite(gradients: Array) -> Array:
    """Return the gradients (last axis), with zeros for those that are not finite.

    An error instead would show which of two neighbouring records there is.

    >>> finite(np.array([[0.5, np.nan], [0.5, 0.5]])).tolist()
    [[0.0, 0.0], [0.5, 0.5]]
    """
    whole = np.isfinite(gradients)
    if whole.all():
        return gradients
    return np.where(whole.all(axis=-1, keepdims=True), gradients, 0.0)


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

    Slopes are compared on a grid of scores and allowed targets, among them many within the range of
    scores. No grid is a proof: certificates for your families assume the rest (`assumed`).
    """
    if not isinstance(family, Scored):
        return
    most, far = family.largest_score, family.largest_target
    grid = [np.linspace(-end, end, TARGETS) for end in (far, min(far, most))]
    targets = np.array([target for target in np.unique(grid) if _allowed(family, target)])
    scores = np.linspace(-most, most, SEEN)
    slopes = family.slope(*np.broadcast_arrays(scores, targets[:, None]))
    rises = np.diff(slopes, axis=1) / np.diff(scores)
    slack = 1e-9 * max(1.0, family.most_bent)
    if not ((rises >= -slack) & (rises <= family.most_bent + slack)).all():
        worst = float(rises.flat[np.argmax(np.abs(rises - family.most_bent / 2))])
        raise InvalidValue(
            f"Expected {type(family).__name__} to bend by 0 to {family.most_bent!r}, as it "
            f"declares (most_bent), but its slope changes by {worst:.4g} per unit of score."
        )


def _allowed(family: Scored, target: float) -> bool:
    try:
        family.check("record", np.array([[0.0, target]]))
    except InvalidValue:
        return False
    return True


def known(family: Family) -> bool:
    """Whether the constants of the family are proven: it is one of the library, no subclass.

    >>> from hedgerow.core.convex import Huber, OnSimplex
    >>> known(OnSimplex(Huber())), known(type("Mine", (Huber,), {})())
    (True, False)
    """
    return type(family) in KNOWN or (type(family) is OnSimplex and known(family.of))


def assumed(family: Family) -> frozenset[Assumption]:
    """What a certificate assumes that rests on the smoothness of the family."""
    name = type(family).__name__
    text = f"charges of {name} are convex and as smooth as it declares; this is checked on a grid"
    return frozenset() if known(family) else frozenset({Assumption("DECLARED_SMOOTHNESS", text)})


class Shortened(Measure):
    """How many gradients at the played points are longer than the clip, or not finite."""

    name: ClassVar[str] = "clipped"
    meaning: ClassVar[str] = (
        "share of gradients at the played points that are longer than the clip, "
        "or not finite: those count as zero"
    )
    figure: ClassVar[Literal["total", "mean", "last"]] = "mean"

    def __init__(self, family: Family, clip: float, norm: Norm = "l2") -> None:
        super().__init__()
        self.family, self.clip, self.size = family, clip, SIZES[norm]

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        if not isinstance(plays, Plays):
            raise Unsupported("The clipped gradients of points are counted, not those of experts.")
        found = np.empty(len(block.losses))
        for start, stop, points in plays.pieces():
            gradients = self.family.gradient(block.losses[start:stop], points)
            sizes = self.size(gradients)
            found[start:stop] = (~(sizes <= self.clip)).mean(axis=1)  # NaN is neither
        return found

"""The best mixture for charges whose slopes jump, with a certified error.

Let F be the sum of the charges. Every pass over the stream gives a value and a subgradient g at one
point x, and F(y) >= F(x) + <g, y - x> for every y. The largest of these planes is a model below F.
The next point minimises the model, within a box around the best point so far; the box grows when F
falls as the model predicts and shrinks when it does not. A mixture of planes with weights that add
up to 1 also lies below F, and its least value over the simplex is a smallest coordinate. So every
set of weights certifies a lower bound, and those of the dual linear program certify the best one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from hedgerow.core.lattice import Array

SMALLEST_BOX = 1e-9


@dataclass(frozen=True)
class Plane:
    """F(y) >= height + <slope, y> - error, for every y."""

    height: float
    slope: Array
    error: float


def lower_bound(planes: list[Plane], weights: Array) -> float:
    """Return what a mixture of planes proves: no point of the simplex charges less.

    `weights` need not be exact: they are made a mixture first, and any mixture gives a bound.
    """
    given = np.maximum(weights, 0.0)
    total = given.sum()
    if not (np.isfinite(total) and total > 0):
        return -np.inf
    mixed = given / total
    heights = np.array([plane.height for plane in planes])
    slope = mixed @ np.array([plane.slope for plane in planes])
    worst = max(plane.error for plane in planes)
    size = float(mixed @ np.abs(heights) + np.abs(slope).max())
    return float(mixed @ heights + slope.min()) - worst - len(planes) * 2.0**-50 * size


def next_point(planes: list[Plane], centre: Array, reach: float) -> tuple[Array, Array]:
    """Return a point of the simplex near `centre` where the model is least, and plane weights."""
    width, unit = len(centre), max(1.0, *(abs(plane.height) for plane in planes))
    rows = np.array([np.append(plane.slope, -unit) for plane in planes]) / unit
    found = linprog(
        np.append(np.zeros(width), 1.0),
        A_ub=rows,
        b_ub=np.array([-plane.height for plane in planes]) / unit,
        A_eq=np.append(np.ones(width), 0.0)[None],
        b_eq=[1.0],
        bounds=[
            *((max(0.0, x - reach), min(1.0, x + reach)) for x in map(float, centre)),
            (None, None),
        ],
        method="highs",
    )
    if found.x is None:  # the solver gave up: stay
        return centre, np.zeros(len(planes))
    return found.x[:width], -np.asarray(found.ineqlin.marginals)


def least_by_planes(
    plane_at: Callable[[Array], tuple[float, Plane]], start: Array, enough: float, most_passes: int
) -> tuple[Array, float, float, int]:
    """Return the best point, an upper bound on its total, a lower bound on all totals, the passes.

    `plane_at(point)` is one pass: an upper bound on the total charge at a point of the simplex, and
    the plane there. It stops when the bounds are within `enough`.
    """
    best, (total, plane) = start, plane_at(start)
    planes, low, reach, passes = [plane], -np.inf, 1.0, 1
    while passes < most_passes:
        point, weights = next_point(planes, best, 1.0)
        low = max(low, lower_bound(planes, weights))
        if total - low <= enough or reach < SMALLEST_BOX:
            break
        if reach < 1:
            point, _ = next_point(planes, best, reach)
        point = np.maximum(point, 0.0) / np.maximum(point, 0.0).sum()
        predicted = total - max(plane.height + float(plane.slope @ point) for plane in planes)
        found, plane = plane_at(point)
        passes, planes = passes + 1, [*planes, plane]
        if found < total:
            reach = min(1.0, 2 * reach) if total - found >= predicted / 4 else reach
            best, total = point, found
        else:
            reach /= 4
    return best, total, low, passes

"""The best fixed point of a stream of convex charges, with a certified error.

Let F be the sum of the charges. Every pass over the stream evaluates F, its gradient g and its
Hessian H at one point x. The next point minimises the quadratic model

    F(x) + <g, y - x> + <y - x, (scale H + damping I) (y - x)> / 2

over the domain, with scale = 1 and damping = 0 at first. It is accepted if F falls by at least a
quarter of what the model predicts. Otherwise both numbers grow. Once the damping reaches the
smoothness of F, the model lies above F and the step is one of projected gradient descent or better,
so it is accepted. Large values of scale shorten steps where the curvature changes, large values of
damping where there is none.

F is convex, so F(s) >= F(x) + <g, s - x> for every s. Hence the optimum is at least
F(x) - max over s of <g, x - s>, and at most F(x). Both ends are moved outward by a bound on all
rounding errors (`_Place`), so the optimum lies in [total - gap, total].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf

import numpy as np

from hedgerow.core.domain import Ball, Domain, Simplex, length
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.losses import EPS, FEW, Family
from hedgerow.core.validate import at_least, positive
from hedgerow.evaluation.cutting_planes import Plane, least_by_planes

PIECE = 2**12  # records evaluated at a time
MOST_PASSES = 200
MOST_INNER = 3000
STEEPER, GROWTH, FIRST_DAMPING = 3.0, 16.0, 2.0**-24

Replay = Callable[[], Iterable[Array]]


@dataclass(frozen=True)
class BestPoint:
    """A point whose total charge is near the least: the optimum lies in [total - gap, total].

    Rounding is accounted for, so `total` is a little above the computed sum of the charges.
    """

    point: Array
    total: float
    gap: float
    passes: int


@dataclass(frozen=True)
class _Place:
    """What one pass finds at a point. Errors are bounds on what rounding changed.

    Each computed charge and gradient is off by `family.rounding` and a few roundings of itself. In
    a sum of pieces of at most p records each number passes through at most p + pieces additions, so
    the sum is off by at most that many roundings of the sum of absolute values. Dot products with
    the summed gradient are off by width roundings. The point may lie outside the domain by a few
    roundings of each coordinate; the nearest point inside then charges more by at most the distance
    times the gradient there.
    """

    point: Array
    records: int
    value: float
    gradient: Array
    curvature: Array | None
    value_error: float
    gradient_error: float
    outside: float
    gap: float  # max over s of <gradient, point - s>, rounded upward

    @property
    def total(self) -> float:
        return self.value + self.value_error + self.outside

    @property
    def low(self) -> float:
        """A lower bound on the optimum."""
        return self.value - self.value_error - self.gap


def _pieces(replay: Replay, width: int) -> Iterator[Array]:
    for part in replay():
        rows = part.reshape(-1, width)
        for start in range(0, len(rows), PIECE):
            yield rows[start : start + PIECE]


def _evaluate(family: Family, width: int, replay: Replay, point: Array) -> _Place:
    records, pieces, longest = 0, 0, 0
    value, value_size, gradient_size = 0.0, 0.0, 0.0
    gradient = np.zeros(width)
    curvature: Array | None = None
    for rows in _pieces(replay, family.record_width(width)):
        points = np.broadcast_to(point, (len(rows), width))
        charges, slopes = family.value(rows, points), family.gradient(rows, points)
        value += float(charges.sum())
        value_size += float(np.abs(charges).sum())
        gradient += slopes.sum(axis=0)
        gradient_size += float(length(slopes).sum())
        more = family.curvature(rows, point)
        if more is not None:
            curvature = more if curvature is None else curvature + more
        records, pieces, longest = records + len(rows), pieces + 1, max(longest, len(rows))
    domain, rounding = family.domain, family.rounding(width, float(length(point)))
    steps = (longest + pieces + FEW) * EPS
    gradient_error = records * rounding.gradient + steps * gradient_size
    slope = float(length(gradient))
    off = (width + FEW) * EPS * domain.diameter
    smooth = family.smoothness("l2", width)
    jump = 2 * family.gradient_bound("l2", width)  # no two gradients differ by more
    steeper = gradient_error + records * (jump if smooth == inf else smooth * off)
    gap = max(0.0, float(gradient @ point - domain.linear_minimum(gradient)[1]))
    return _Place(
        point,
        records,
        value,
        gradient,
        curvature,
        value_error=records * rounding.value + steps * value_size,
        gradient_error=gradient_error,
        outside=off * (slope + steeper),
        gap=gap + gradient_error * domain.diameter + 2 * off * slope,
    )


def _in_ball(radius: float, at: _Place, model: Array) -> Array:
    """Minimise the model over a ball, in the eigenbasis.

    The minimum is (c + mu)^-1 pull, with the smallest mu >= 0 that keeps it inside. In a direction
    without curvature and without slope nothing moves.
    """
    curvatures, axes = np.linalg.eigh(model)
    top, width = float(curvatures.max()), len(curvatures)
    curvatures = np.where(curvatures <= top * width * EPS, 0.0, curvatures)
    kept, slope = axes.T @ at.point, axes.T @ at.gradient
    noise = at.gradient_error + 4 * width * EPS * (top * radius + float(np.linalg.norm(slope)))
    still = (curvatures == 0.0) & (np.abs(slope) <= noise)
    curvatures = np.where(still, top, curvatures)
    pull = curvatures * kept - np.where(still, 0.0, slope)

    def point(mu: float) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(pull == 0.0, 0.0, pull / (curvatures + mu))

    low, high = 0.0, float(np.linalg.norm(pull)) / radius
    if np.linalg.norm(point(0.0)) <= radius:
        return axes @ point(0.0)
    while low < (middle := (low + high) / 2) < high:  # the norm falls in mu
        low, high = (middle, high) if np.linalg.norm(point(middle)) > radius else (low, middle)
    return axes @ point(high)


def _separable(pull: Array, curvatures: Array) -> Array:
    """Minimise sum_k (c_k w_k^2 / 2 - pull_k w_k) over the simplex.

    w_k = max(0, pull_k - level) / c_k, with the level at which they add up to 1. What is missing at
    the next float above that level goes to the coordinate that grows fastest below it.
    """

    def point(level: float) -> Array:
        above = np.maximum(pull - level, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(above > 0.0, above / curvatures, 0.0)

    low, high = float((pull - curvatures).min()) - 1.0, float(pull.max())
    while low < (middle := (low + high) / 2) < high:  # the sum falls in the level
        low, high = (middle, high) if point(middle).sum() > 1.0 else (low, middle)
    found = point(high)
    found[int(point(low).argmax())] += 1.0 - found.sum()
    return found


def _in_simplex(at: _Place, model: Array) -> Array:
    """Minimise the model over the simplex.

    Exact if it is diagonal; otherwise by accelerated projected gradient steps with restarts.
    """
    diagonal = np.diag(model)
    if not (model - np.diag(diagonal)).any():
        return _separable(diagonal * at.point - at.gradient, diagonal)
    domain, steepest = Simplex(), float(np.linalg.eigvalsh(model)[-1])
    point = ahead = at.point
    speed, goal = 1.0, 0.0
    for step in range(MOST_INNER):
        slope = at.gradient + model @ (ahead - at.point)
        following = domain.project(ahead - slope / steepest)
        gap = float(slope @ ahead - domain.linear_minimum(slope)[1])
        goal = 1e-10 * gap if step == 0 else goal
        if gap <= goal:
            break
        if (ahead - following) @ (following - point) > 0:
            speed = 1.0
        faster = (1 + np.sqrt(1 + 4 * speed**2)) / 2
        ahead = following + (speed - 1) / faster * (following - point)
        point, speed = following, faster
    return point


def _next(domain: Domain, at: _Place, model: Array) -> Array:
    """The minimum of the model over the domain."""
    if not model.any():
        return domain.linear_minimum(at.gradient)[0]
    if isinstance(domain, Ball):
        return domain.project(_in_ball(domain.radius, at, model))
    if isinstance(domain, Simplex):
        return domain.project(_in_simplex(at, model))
    raise Unsupported(
        f"The best point is found in a Ball or a Simplex, not in {type(domain).__name__}."
    )


def best_point(
    family: Family,
    width: int,
    replay: Replay,
    tolerance: float = 1e-6,
    most_passes: int = MOST_PASSES,
) -> BestPoint:
    """Find a point of the family's domain with the least total charge, up to a certified gap.

    Parameters
    ----------
    family
        The loss family; its records must pass `family.check`.
    width
        The number of coordinates of a point.
    replay
        Returns the records again each time it is called: arrays (..., numbers) in any pieces. Only
        one array is held at a time.
    tolerance
        The search stops when the gap is at most this much for each record.
    most_passes
        The search stops after this many passes; the gap is then larger, and still certified.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.core.convex import SquaredError
    >>> records = np.array([[1.0, 0.5], [1.0, 0.0]])
    >>> best = best_point(SquaredError(), 1, lambda: [records])
    >>> best.point.round(6).tolist(), round(best.total, 6), best.gap < 1e-9, best.passes
    ([0.25], 0.0625, True, 2)
    """
    positive("tolerance", tolerance)
    at_least("most_passes", most_passes, 1)
    domain = family.domain
    if family.smoothness("l2", width) == inf:
        return _with_jumps(family, width, replay, tolerance, most_passes)
    at = best = _evaluate(family, width, replay, domain.centre(width))
    low, passes, stalls = at.low, 1, 0
    if not at.records:
        return BestPoint(at.point, 0.0, 0.0, passes)
    smooth = at.records * family.smoothness("l2", width)
    scale, damping = 1.0, smooth if at.curvature is None else 0.0
    while best.total - low > tolerance * at.records and passes < most_passes and stalls < 3:
        model = damping * np.eye(width) + (0.0 if at.curvature is None else scale * at.curvature)
        point = _next(domain, at, model)
        move = point - at.point
        predicted = -float(at.gradient @ move + move @ model @ move / 2)
        found = _evaluate(family, width, replay, point)
        passes, low = passes + 1, max(low, found.low)
        best = found if found.total < best.total else best
        fallen = at.value - found.value
        small = predicted <= at.value_error + found.value_error  # too small to compare totals
        if small or fallen >= predicted / 4:
            stalls += small
            at = at if small and found.gap >= at.gap else found
            if small or fallen >= 3 * predicted / 4:
                scale, damping = max(1.0, scale / STEEPER), damping / GROWTH
        else:
            scale, damping = STEEPER * scale, max(GROWTH * damping, smooth * FIRST_DAMPING)
        damping = damping if damping >= smooth * FIRST_DAMPING else 0.0
    total = min(best.total, best.records * family.bounds[1])  # no charge is larger
    return BestPoint(best.point, total, total - low, passes)


def _with_jumps(
    family: Family, width: int, replay: Replay, tolerance: float, most_passes: int
) -> BestPoint:
    """The best mixture where slopes jump, by cutting planes."""
    if not isinstance(family.domain, Simplex):
        raise Unsupported("Where slopes jump, the best point is found in a Simplex only.")
    first = _evaluate(family, width, replay, family.domain.centre(width))
    if not first.records:
        return BestPoint(first.point, 0.0, 0.0, 1)

    def plane_at(point: Array) -> tuple[float, Plane]:
        at = first if point is first.point else _evaluate(family, width, replay, point)
        # the computed value and gradient, each off by its error, over points of length <= 1
        error = at.value_error + 2 * at.gradient_error + at.outside
        height = at.value - float(at.gradient @ at.point)
        return at.total, Plane(height, at.gradient, error)

    enough = tolerance * first.records
    point, total, low, passes = least_by_planes(plane_at, first.point, enough, most_passes)
    return BestPoint(point, total, total - low, passes)

"""Phases, trees and batches: which records enter which vertex, and how far the point moves.

Phase p = 0, 1, 2, ... has 2^p rounds. At its end, its records are cut into batches, one for each
vertex that needs data, in the order of the rounds. No record is in two batches. Tree j has depth j:
its root takes `batch` records and a right child at depth l takes batch / 2^l. Left children take
none. The trees are walked leaf by leaf; every leaf is one exchange and one step of Frank-Wolfe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array

MOST_TREES = 12  # one more tree would need 16,382 exchanges before a round; engines allow 10,000


@dataclass(frozen=True)
class Plan:
    """The trees of one phase, and the records at each root.

    Without trees there is one root that takes all records, and one step.
    """

    trees: int
    batch: int

    @property
    def leaves(self) -> int:
        """The number of exchanges and steps: 2 + 4 + ... + 2^trees.

        >>> [Plan(trees, 2**trees).leaves for trees in (0, 1, 2, 3)]
        [1, 2, 6, 14]
        """
        return 2 ** (self.trees + 1) - 2 if self.trees else 1

    @property
    def used(self) -> int:
        """The number of records in batches: tree j uses batch (1 + j / 2).

        >>> Plan(1, 2).used, Plan(2, 4).used, Plan(0, 5).used
        (3, 14, 5)
        """
        return self.batch * max(1, _quarters(self.trees)) // (4 if self.trees else 1)


def _quarters(trees: int) -> int:
    """Four times the records that all trees need for each record at a root."""
    return trees * (trees + 5)  # 4 (trees + trees (trees + 1) / 4)


def plan(records: int, trees: int) -> Plan | None:
    """Return the largest batches for a number of trees; None if there are too few records.

    A batch is a multiple of 2^trees, so that every vertex takes a whole number of records, and at
    least one.

    >>> plan(4, 1), plan(16, 2), plan(15, 2), plan(13, 2)
    (Plan(trees=1, batch=2), Plan(trees=2, batch=4), Plan(trees=2, batch=4), None)
    """
    if trees == 0:
        return Plan(0, records)
    batch = 2**trees * (4 * records // (2**trees * _quarters(trees)))
    return Plan(trees, batch) if batch else None


def plans(phases: int, most: int, cost: Callable[[Plan], float]) -> tuple[Plan, ...]:
    """Return the plan of every phase: of all that fit, the first with the least `cost`.

    >>> plans(4, 2, lambda plan: -plan.trees)
    (Plan(trees=0, batch=1), Plan(trees=0, batch=2), Plan(trees=1, batch=2), Plan(trees=1, batch=4))
    """
    found = []
    for phase in range(phases):
        fit = (plan(2**phase, trees) for trees in range(most + 1))
        found.append(min((one for one in fit if one is not None), key=cost))
    return tuple(found)


@dataclass(frozen=True)
class Step:
    """One leaf: the vertex that is new on its path, and the records of that vertex.

    `level` is the depth of the vertex, 0 for a root. `root` counts the roots of a phase.
    """

    tree: int
    leaf: int
    level: int
    start: int
    count: int

    @property
    def root(self) -> int:
        return max(0, self.tree - 1)


@lru_cache(maxsize=256)
def steps(of: Plan) -> tuple[Step, ...]:
    """Return all leaves of a phase in order, with disjoint batches of consecutive records.

    >>> [(step.tree, step.leaf, step.level, step.start, step.count) for step in steps(Plan(1, 2))]
    [(1, 0, 0, 0, 2), (1, 1, 1, 2, 1)]
    """
    if of.trees == 0:
        return (Step(0, 0, 0, 0, of.batch),)
    found, start = list[Step](), 0
    for tree in range(1, of.trees + 1):
        for leaf in range(2**tree):
            # the right child whose first leaf this is; for leaf 0 it is the root
            level = tree - (leaf & -leaf).bit_length() + 1 if leaf else 0
            count = of.batch >> level
            found.append(Step(tree, leaf, level, start, count))
            start += count
    if start != of.used:
        raise InvalidValue(f"The batches of {of} hold {start} records, not {of.used}.")
    return tuple(found)


@lru_cache(maxsize=256)
def roots(of: Plan) -> tuple[Step, ...]:
    """Return the first leaf of every tree, with the batch of its root."""
    return tuple(step for step in steps(of) if step.level == 0)


def largest_move(tree: int, level: int) -> float:
    r"""Bounds the l1 distance of the points at a right child and at its parent.

    Between them lie 2^(tree - level) steps $x \leftarrow (1 - \eta) x + \eta w$ with
    $\eta_k = 2 / (k + 1)$, at the earliest from k = 2^tree - 1 on. The product of all
    $1 - \eta_k = (k - 1) / (k + 1)$ telescopes.

    >>> [round(largest_move(3, level), 3) for level in (1, 2, 3)]
    [1.236, 0.833, 0.5]
    """
    first, count = 2**tree - 1, 2 ** (tree - level)
    kept = (first - 1) * first / ((first + count - 1) * (first + count))
    return min(2.0, 2.0 * (1.0 - kept) * (1 + 2.0**-40))


@dataclass(frozen=True)
class Place:
    """Where a walk is: the phase, the number of the next leaf, the point, and the path to the leaf.

    `corners[l]` is the point at which the vertex at depth l of the path was reached.
    """

    phase: int
    at: int
    point: Array
    corners: Array


def first_place(width: int) -> Place:
    """Return the place before the first broadcast: the middle of the simplex."""
    point = np.full(width, 1.0 / width)
    return Place(-1, 0, point, point[None])


def moved(trees: tuple[Plan, ...], place: Place, expert: int) -> Place:
    """Return the place after a step towards an expert; before the first phase nothing moves."""
    if place.phase < 0:
        return Place(0, 0, place.point, place.point[None])
    order = steps(trees[place.phase])
    rate = 2.0 / (place.at + 2)
    point = (1.0 - rate) * place.point
    point[expert] += rate
    after = place.at + 1
    if after == len(order):
        return Place(place.phase + 1, 0, point, point[None])
    new = order[after]
    if new.leaf == 0:
        return Place(place.phase, after, point, np.tile(point, (new.tree + 1, 1)))
    corners = (
        np.tile(place.corners, (new.tree + 1, 1)) if len(place.corners) == 1 else place.corners
    ).copy()
    corners[new.level :] = point
    return Place(place.phase, after, point, corners)


def along(path: Array, step: Step, increment: Array, depth: int) -> Array:
    """Return the sums of increments along the path to a leaf, (..., depth + 1, width)."""
    if step.level == 0:
        return np.repeat(increment[..., None, :], depth + 1, axis=-2)
    sums = path.copy()
    sums[..., step.level :, :] = (path[..., step.level - 1, :] + increment)[..., None, :]
    return sums

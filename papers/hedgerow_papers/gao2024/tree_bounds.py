"""What Frank-Wolfe on trees costs: noise, regret and communication, as functions of public numbers.

Proofs: `proofs/frank_wolfe.md`. Regret is for records that are independent and follow one law, with
clients independent in a round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt

import numpy as np

from hedgerow.core.lattice import UNITS_PER_LOSS
from hedgerow.core.setting import Setting
from hedgerow_papers.gao2024.gradients import BoundedGradients
from hedgerow_papers.gao2024.trees import Plan, largest_move

ROUNDING = 1 / UNITS_PER_LOSS  # twice what rounding a gradient to the lattice can change
LeafNoise = Callable[[Plan, int], float]


def worst_leaf(gradients: BoundedGradients, trees: int, shifts: bool) -> float:
    """The largest total move of the values at leaves when one record is replaced.

    A value of tree j is multiplied by 2^(trees - j), so that all trees have the same bound. A
    record at depth l moves 2^(j - l) leaves, each by 2^(trees - j + l) times its own change. Moves
    add up, or, with `shifts`, their squares do (Gaussian noise).

    >>> from hedgerow.core.losses import Linear
    >>> worst_leaf(BoundedGradients(Linear(), 4, "linf"), 3, shifts=False)
    8.0
    """
    worst = gradients.reach * 2.0**trees
    for tree in range(1, trees + 1):
        for level in range(1, tree + 1):
            leaves = 2.0 ** (tree - level)
            each = 2.0 ** (trees - tree + level) * 2.0 * gradients.limit(largest_move(tree, level))
            worst = max(worst, each * (sqrt(leaves) if shifts else leaves))
    return worst


@dataclass(frozen=True)
class Excess:
    """Bounds the expected loss of the point of a phase above the best point.

    `noise(plan, tree)` bounds the expected largest error that noise causes in the estimate at a
    leaf of a tree, in units of a sum over all clients and one root batch.
    """

    gradients: BoundedGradients
    clients: int
    noise: LeafNoise

    def __call__(self, plan: Plan) -> float:
        """With K steps: the errors o_k weighted by 2k / (K (K + 1)), and the curvature."""
        gradients, leaves = self.gradients, plan.leaves
        records, entropy = plan.batch * self.clients, log(gradients.width)
        total = 0.0
        for tree in range(min(1, plan.trees), plan.trees + 1):
            variance = 0.25  # in units of R^2 / records, by Hoeffding's lemma
            for level in range(1, tree + 1):
                # a difference in [-c, c], over a batch that is smaller by 2^level
                variance += 2.0**level * min(1.0, gradients.bend * largest_move(tree, level)) ** 2
            error = sqrt(2 * variance * entropy / records) + self.noise(plan, tree) / records
            if not gradients.family.linear:
                error += (tree + 1) * ROUNDING
            first, count = max(1, 2**tree - 1), 2**tree
            total += error * count * (2 * first + count - 1)  # 2k summed over its leaves
        k = np.arange(1, leaves + 1)
        bent = float((8.0 * k / (k + 1)).sum())
        return gradients.unit * (total + gradients.bend * bent) / (leaves * (leaves + 1))


@lru_cache(maxsize=256)
def weights(gradients: BoundedGradients, tree: int) -> tuple[float, ...]:
    """How much the noise of each vertex on a path to a leaf counts, the root first."""
    moves = (largest_move(tree, level) for level in range(1, tree + 1))
    later = (2.0**level * 2.0 * gradients.limit(move) for level, move in enumerate(moves, 1))
    return (1.0, *(weight / gradients.reach for weight in later))


def regret_bound(setting: Setting, plans: tuple[Plan, ...], excess: Excess) -> float:
    """Bounds the expected regret per client against the best point of the simplex in hindsight.

    The first round, then every phase at the excess of the phase before it, then what the best point
    in hindsight gains over the best point in expectation: R sqrt(T ln d / (2 m)).
    """
    horizon, (low, high) = setting.rounds, setting.family.bounds
    if setting.experts == 1:
        return 0.0
    total = worst = high - low
    for phase in range(1, horizon.bit_length()):
        rounds = min(2**phase, horizon - 2**phase + 1)
        total += rounds * min(worst, excess(plans[phase - 1]))
    hindsight = sqrt(horizon * log(setting.experts) / (2 * setting.clients))
    return min(worst * horizon, total + excess.gradients.unit * hindsight)


def exchanges(horizon: int, plans: tuple[Plan, ...]) -> int:
    """The number of exchanges in a game: all leaves of every phase that ends before the last round.

    >>> exchanges(8, (Plan(0, 1), Plan(0, 2), Plan(1, 2), Plan(1, 4)))
    4
    """
    return sum(plan.leaves for plan in plans[: horizon.bit_length() - 1])


def scalars(setting: Setting, plans: tuple[Plan, ...]) -> int:
    """All numbers that are sent: d up and 2 down for each client and exchange, and the opening.

    >>> scalars(Setting(10, 100, 8), (Plan(0, 1), Plan(0, 2), Plan(1, 2), Plan(1, 4)))
    4100
    """
    made = exchanges(setting.rounds, plans)
    return setting.clients * (made * (setting.experts + 2) + 2)

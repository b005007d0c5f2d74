"""The worst pattern of participations, found exactly by branch and bound."""

from __future__ import annotations

import numpy as np

from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array

MOST_BRANCHES = 20_000


def most_shared(products: Array, participations: int, separation: int) -> float:
    """Return the largest sum of `products` over all pairs of a pattern of participations.

    A pattern has at most `participations` indices, any two at least `separation` apart. Entries
    must not be negative: then all vectors of a person may point the same way in the worst case.

    >>> most_shared(np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 1.0]]), 2, 1)
    6.0
    """
    if not np.isfinite(products).all() or products.min() < 0:
        raise InvalidValue("Expected products of columns to be finite and >= 0.")
    if participations == 1:
        return float(np.diag(products).max())
    return _Search(products, participations, separation).best


class _Search:
    """Depth first. A branch is left when the bound on its best pattern is no better.

    The bound counts each later participation with its products with those chosen, and with the
    best pattern that could follow it, without asking that these patterns agree.
    """

    def __init__(self, products: Array, participations: int, separation: int) -> None:
        size = len(products)
        self.products, self.gap = products, separation
        self.own = np.diag(products).copy()
        later = np.where(np.arange(size) >= np.arange(size)[:, None] + separation, products, 0.0)
        follow = np.zeros((size, size + 1))
        self.following = [np.zeros(size)]  # by how many more may follow
        for _ in range(participations - 1):
            follow = self._best_from(2 * later, follow)
            self.following.append(follow[:, 0].copy())
        self.best, self.branches = self._evenly(participations), 0
        self._extend(0.0, self.own, 0, participations)

    def _best_from(self, gains: Array, rest: Array) -> Array:
        """Return the best gain of a participation at or after each index, and of the rest."""
        size = gains.shape[-1]
        after = np.zeros_like(gains)
        kept = max(0, size - self.gap)
        after[..., :kept] = rest[..., self.gap : size] if kept else 0.0
        ahead = np.maximum.accumulate((gains + after)[..., ::-1], axis=-1)[..., ::-1]
        return np.concatenate([ahead, np.zeros((*ahead.shape[:-1], 1))], axis=-1)

    def _evenly(self, participations: int) -> float:
        """Return the best of the patterns with equal gaps: where the search begins."""
        size, found = len(self.own), 0.0
        for first in range(size):
            chosen = np.arange(first, size, self.gap)[:participations]
            found = max(found, float(self.products[np.ix_(chosen, chosen)].sum()))
        return found

    def _extend(self, value: float, gains: Array, start: int, left: int) -> None:
        self.branches += 1
        if self.branches > MOST_BRANCHES:
            raise Unsupported(
                "This pattern of participations has too many cases. "
                "Use fewer participations, a larger separation or a Toeplitz factorisation."
            )
        self.best = max(self.best, value)
        size = len(gains)
        if not left or start >= size:
            return
        rest = np.zeros(size + 1)
        for more in range(left - 1):
            rest = self._best_from(gains + self.following[more], rest)
        after = np.zeros(size)
        kept = max(0, size - self.gap)
        after[:kept] = rest[self.gap : size]
        bounds = value + gains + self.following[left - 1] + after
        bounds[:start] = -np.inf
        for index in np.argsort(-bounds, kind="stable"):
            if bounds[index] <= self.best * (1 + 1e-15):
                return
            self._extend(
                value + float(gains[index]),
                gains + 2 * self.products[index],
                int(index) + self.gap,
                left - 1,
            )

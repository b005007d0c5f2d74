"""The binary tree: sums over dyadic intervals, decoded plainly or by least squares.

In round r the intervals that end there are complete: lengths 1, 2, 4, ..., 2^t, where 2^t is the
largest power of two that divides r. All decoders use one combination of their noisy sums, so only
this combination is released: the same error, and less is shown than the whole tree would show.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least
from hedgerow.running_sums.factorisation import Factorisation
from hedgerow.running_sums.filters import Filter, FilterState, writable

Decoding = Literal["naive", "least_squares"]


@dataclass(frozen=True)
class Combination:
    """What is released where an interval of length 2^level ends, and how it is decoded.

    `own` are the weights of the intervals of lengths 1, 2, ..., 2^level in the released value, with
    norm 1. The estimate of the longest is `scale` times the release, plus `left` times the
    estimates of the left halves at levels 0, ..., level - 1. Its variance is `variance`.
    """

    own: tuple[float, ...]
    scale: float
    left: tuple[float, ...]
    variance: float


def combinations(levels: int, decoding: Decoding) -> tuple[Combination, ...]:
    """Return the combination for each level.

    >>> combinations(2, "least_squares")[1].variance  # a sum, and two parts of variance 1
    0.666...
    """
    variance, shares, found = 1.0, [1.0], []
    for level in range(levels):
        if level:
            variance = 2 * variance / (1 + 2 * variance)
            shares.append(variance)
        if decoding == "naive":
            own = (0.0,) * level + (1.0,)
            found.append(Combination(own, 1.0, (0.0,) * level, 1.0))
            continue
        # the estimate is share * sum + (1 - share) * (estimates of both halves), level by level
        passed = np.cumprod([1.0] + [1 - share for share in shares[:0:-1]])[::-1]
        weights = np.array(shares) * passed
        scale = sqrt(float(weights @ weights))
        own = tuple((weights / scale).tolist())
        found.append(Combination(own, scale, tuple(passed[:-1].tolist()), variance))
    return tuple(found)


def _top(index: int) -> int:
    """Return the exponent of two in a number > 0."""
    return (index & -index).bit_length() - 1


@dataclass(frozen=True)
class _OnTree(Filter):
    """Keeps something about the complete left halves, one for each level."""

    rounds: int
    table: tuple[Combination, ...]

    def buffers(self, count: int) -> int:
        return len(self.table)


@dataclass(frozen=True)
class TreeEncoder(_OnTree):
    """Keeps the sums of the complete left halves, one for each level."""

    def _step(
        self, state: FilterState, vector: npt.NDArray[Any], in_place: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        top, memory = _top(state.round + 1), writable(state.memory, in_place)
        own, total = self.table[top].own, vector.copy()
        filtered = own[0] * total
        for level in range(top):
            total += memory[level]
            memory[level] = 0.0
            filtered += own[level + 1] * total
        memory[top] = total
        return filtered, memory


@dataclass(frozen=True)
class TreeDecoder(_OnTree):
    """Keeps the estimates of the complete left halves, one for each level."""

    def _step(
        self, state: FilterState, vector: npt.NDArray[Any], in_place: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        top, memory = _top(state.round + 1), writable(state.memory, in_place)
        rule = self.table[top]
        estimate = rule.scale * vector
        for level in range(top):
            estimate += rule.left[level] * memory[level]
            memory[level] = 0.0
        memory[top] = estimate
        total = estimate.copy()
        for level in range(top + 1, len(memory)):
            total += memory[level]
        return total, memory


@dataclass(frozen=True)
class Tree(Factorisation):
    """The binary tree.

    Parameters
    ----------
    rounds
        The horizon.
    method
        "naive": a sum is put together from the largest intervals. "least_squares" (default): each
        interval is estimated from its own noisy sum and from its halves.

    Examples
    --------
    >>> round(Tree(rounds=1000, method="naive").scaled_errors().max, 2)
    9.49
    >>> round(Tree(rounds=1000).errors().max * 10**0.5, 2)  # where all intervals are released
    7.28
    """

    rounds: int
    method: Decoding = "least_squares"

    def __post_init__(self) -> None:
        at_least("rounds", self.rounds, 1)
        known = self.method in ("naive", "least_squares")
        if not known:
            raise InvalidValue(f"Expected method={self.method!r} to be 'naive' or 'least_squares'.")

    @cached_property
    def table(self) -> tuple[Combination, ...]:
        """What is released, by level."""
        return combinations(self.rounds.bit_length(), self.method)

    @property
    def encoder(self) -> Filter:
        return TreeEncoder(self.rounds, self.table)

    @property
    def decoder(self) -> Filter:
        return TreeDecoder(self.rounds, self.table)

    @property
    def whole(self) -> bool:
        return self.method == "naive"

    def roundings(self, rounds: int | None = None) -> int:
        return 2 * len(self.table) + 2

    def row_sum(self, rounds: int | None = None) -> float:
        return max(float(self._row(level).sum()) for level in range(len(self.table)))

    def _row(self, level: int) -> Array:
        """Return the entries of C in a row of this level, the newest round last."""
        own = np.array(self.table[level].own)
        held = np.cumsum(own[::-1])[::-1]  # by the shortest interval that holds a round
        lengths = [1] + [2 ** (i - 1) for i in range(1, level + 1)]
        return np.repeat(held, lengths)[::-1]

    def matrix(self, rounds: int | None = None) -> Array:
        count = self.count(rounds)
        found = np.zeros((count, count))
        for end in range(1, count + 1):
            row = self._row(_top(end))
            found[end - 1, end - len(row) : end] = row
        return found

    def decoding(self, rounds: int | None = None) -> Array:
        count = self.count(rounds)
        estimates = np.zeros((count + 1, count))  # of the longest interval that ends in a round
        found = np.zeros((count, count))
        for end in range(1, count + 1):
            rule = self.table[_top(end)]
            estimates[end, end - 1] = rule.scale
            for level, weight in enumerate(rule.left):
                estimates[end] += weight * estimates[end - 2**level]
            found[end - 1] = estimates[end]
            rest = end - 2 ** _top(end)
            if rest:
                found[end - 1] += found[rest - 1]
        return found

    def error_by_round(self, rounds: int | None = None) -> Array:
        ends = np.arange(1, self.count(rounds) + 1)
        variances = np.zeros(len(ends))
        for level, rule in enumerate(self.table):
            variances += (ends >> level & 1) * rule.variance
        return np.sqrt(variances)

    def _shared(self, times: int, apart: int) -> float:
        if times > 1:
            return super()._shared(times, apart)
        inner, largest = np.zeros(1), 0.0  # squared columns of a block, without its last row
        for level in range(len(self.table)):
            whole = inner + self._row(level) ** 2
            if self.rounds >> level & 1:
                largest = max(largest, float(whole.max()))
            inner = np.concatenate([whole, inner])
        return largest

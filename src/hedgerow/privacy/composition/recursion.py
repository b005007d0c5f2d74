"""The certified recursion for adaptive bounded-range steps, on a grid.

With G_0(u) = (1 - u)_+ and u = exp(epsilon), the least curve that holds for every adaptive
composition of k steps of range r is

    G_k(u) = sup over 0 <= t <= r of q_t G_(k-1)(u e^-t) + (1 - q_t) G_(k-1)(u e^(r-t)),
    q_t = (1 - e^(t-r)) / (1 - e^-r).

The table is never below it (`proofs/bounded_range.md#grid`). Values between grid points are
replaced by chords, which lie above a convex function. The supremum is taken over all real t. Every
rounding is outward.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, expm1, fsum, sqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

_SIGMAS = 8.5  # the table reaches to about delta = 1e-17; beyond it only the pure bound is claimed
_TINY = 1e-290  # far above the subnormal numbers, so every rounding error in the table is relative


@cache
def digest() -> str:
    """A hash of this file, so that tables computed by other code are not reused."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


@dataclass(frozen=True)
class Grid:
    """Log-ratios i * width for i = 0..reach.

    `runs` are (cells per range, number of steps), in the order of the steps.
    """

    width: float
    runs: tuple[tuple[int, int], ...]
    reach: int

    def key(self) -> str:
        return f"width={self.width.hex()} runs={self.runs} reach={self.reach} code={digest()}"


def _resolution(steps: int, widest: float) -> int:
    """Cells per range.

    The excess of epsilon is about 1 / (4 cells^2), so few cells are enough for long compositions.
    """
    cells = next(
        (
            cells
            for most, cells in ((3, 128), (12, 64), (60, 32), (300, 16), (2500, 12))
            if steps <= most
        ),
        8,
    )
    return max(cells, 2 * ceil(4 * widest))


@lru_cache(maxsize=1024)
def grid_for(ranges: tuple[tuple[float, int], ...], cells: int | None = None) -> Grid:
    """The coarsest grid on which rounding every range up to whole cells costs at most 1 %.

    It costs nothing if all ranges are equal. If no grid up to 256 cells is fine enough, the finest
    one is used: still an upper bound, but a looser one.
    """
    steps, widest = sum(count for _, count in ranges), max(each for each, _ in ranges)
    cells = _resolution(steps, widest) if cells is None else cells
    energy = fsum(count * each * each for each, count in ranges)
    finest = max(cells, 256)
    while True:
        width = widest * (1 + 2e-12) / cells
        runs = tuple((ceil(each / width * (1 + 1e-12)), count) for each, count in ranges)
        rounded = fsum(count * (n * width) ** 2 for n, count in runs)
        if rounded <= 1.01**2 * energy or cells == finest:
            break
        cells += 1
    mu = sqrt(rounded) / 2
    window = ceil((_SIGMAS * mu + mu * mu / 2) / width) + max(n for n, _ in runs)
    return Grid(width, runs, min(window, sum(n * count for n, count in runs)))


class Step:
    """One application of the supremum, for a range of `cells` cells.

    The formulas are those of `proofs/bounded_range.md#grid`.
    """

    def __init__(self, width: float, cells: int) -> None:
        self.cells = cells
        t, span = np.arange(cells + 1) * width, cells * width
        self.up = np.expm1((np.arange(cells + 1) - cells) * width) / expm1(-span)  # q_t
        self.down = (
            np.exp((np.arange(cells + 1) - cells) * width) * np.expm1(-t) / expm1(-span)
        )  # 1 - q_t, without cancellation
        self.fall = self.up[:-1] - self.up[1:]
        self.bend = np.exp((np.arange(cells) - cells) * width) * expm1(width) ** 2 / -expm1(-span)
        self.inflation = 1 + 2e-14 * (1 + span)

    def apply(self, padded: Values, pad: int, low: int, scratch: Values) -> None:
        """Replace the values at grid points from `low` on by those after one more step.

        Points are counted upwards, with epsilon = 0 last.
        """
        size = len(padded) - 2 * pad
        count = size - low
        left, right, curvature, gap, best = (row[:count] for row in scratch[:5])

        def shifted(cells: int) -> Values:
            return padded[pad + low + cells : pad + size + cells]

        def node(cells: int, out: Values) -> None:
            np.multiply(shifted(cells), self.up[cells], out=out)
            np.multiply(shifted(cells - self.cells), self.down[cells], out=gap)
            np.add(out, gap, out=out)

        differences = np.diff(padded)
        node(0, left)
        best[:] = left
        for j in range(self.cells):
            node(j + 1, right)
            np.subtract(
                differences[pad + low + j : pad + size + j],
                differences[pad + low + j - self.cells : pad + size + j - self.cells],
                out=curvature,
            )
            np.multiply(curvature, self.fall[j], out=curvature)
            np.subtract(shifted(j + 1), shifted(j - self.cells), out=gap)
            np.multiply(gap, self.bend[j], out=gap)
            np.add(curvature, gap, out=curvature)
            np.maximum(curvature, _TINY, out=curvature)
            # the largest value of (1 - s) left + s right + s (1 - s) curvature is
            # the larger end + (curvature - gap)_+^2 / (4 curvature)
            np.subtract(right, left, out=gap)
            np.abs(gap, out=gap)
            np.subtract(curvature, gap, out=gap)
            np.maximum(gap, 0.0, out=gap)
            np.maximum(left, right, out=left)
            np.maximum(best, left, out=best)
            np.divide(gap, curvature, out=curvature)
            np.multiply(gap, curvature, out=gap)
            np.multiply(gap, 0.25, out=gap)
            np.add(left, gap, out=left)
            np.maximum(best, left, out=best)
            left, right = right, left
        np.multiply(best, self.inflation, out=best)
        np.add(best, _TINY, out=best)
        np.minimum(best, 1.0, out=best)
        np.maximum.accumulate(best, out=padded[pad + low : pad + size])


def compute(grid: Grid) -> Values:
    """delta at epsilon = i * width, i = 0..reach: an upper bound, nonincreasing in i."""
    pad, size = max(cells for cells, _ in grid.runs), grid.reach + 1
    beyond = np.arange(1, pad + 1) * grid.width
    certain, weight = -np.expm1(-beyond), np.exp(-beyond)
    padded, scratch = np.zeros(size + 2 * pad), np.empty((5, size))
    support = 0
    for cells, count in reversed(grid.runs):  # the last step is the innermost supremum
        step = Step(grid.width, cells)
        for _ in range(count):
            # both directions have the same curve, so G(1/u) = 1 - 1/u + G(u)/u gives the values at
            # negative epsilon
            padded[pad + size :] = certain + weight * padded[pad + size - 2 : size - 2 : -1]
            padded[:pad] = padded[pad]
            support += cells
            step.apply(padded, pad, max(0, size - 1 - support), scratch)
    return padded[pad : pad + size][::-1].copy()

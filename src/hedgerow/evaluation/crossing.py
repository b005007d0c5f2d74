"""Where a rising curve over a parameter meets a level, with an interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import nan

from hedgerow.evaluation.summary import Estimate


@dataclass(frozen=True)
class Crossing:
    """Where a rising curve meets a level, with the ends of a 95 % interval; NaN where it does not."""

    at: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.at:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Contest:
    """One curve over the parameter, the level it is compared with, and where they meet."""

    curve: Mapping[float, Estimate]
    curve_name: str
    level: Estimate
    level_name: str
    crossing: Crossing


def first_root(values: Mapping[float, float]) -> float:
    """Where a curve given at some points, straight between them, first comes up to 0; NaN where it does not.

    >>> first_root({0.0: -1.0, 0.5: 1.0, 1.0: 3.0}), first_root({0.0: 1.0}), first_root({0.0: -1.0})
    (0.25, 0.0, nan)
    """
    points = sorted(values.items())
    if points[0][1] >= 0:
        return points[0][0]
    for (x, y), (next_x, next_y) in pairwise(points):
        if y < 0 <= next_y:
            return x + (next_x - x) * -y / (next_y - y)
    return nan

"""Statistics over seeds that experiments compare: ratios, exponents, and where curves meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import exp, nan, sqrt

import numpy as np
from scipy.special import stdtrit

from hedgerow.evaluation.statistics import LEVEL, Estimate, Values


@dataclass(frozen=True)
class Ratio:
    """A ratio of two means over the same seeds, with a 95 % interval.

    The interval is NaN for one seed; everything is NaN if a mean is not above 0.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, over: Values, under: Values) -> Ratio:
        """The ratio by the delta method on the logarithm. What a seed does to both sides cancels.

        >>> Ratio.of([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
        Ratio(value=2.0, low=2.0, high=2.0)
        """
        above, below = np.asarray(over, float), np.asarray(under, float)
        if above.shape != below.shape:
            raise ValueError(
                f"Expected as many values over as under, got {len(above)} and {len(below)}."
            )
        if min(above.mean(), below.mean()) <= 0:
            return cls(nan, nan, nan)
        value = float(above.mean() / below.mean())
        if len(above) < 2:
            return cls(value, nan, nan)
        moves = above / above.mean() - below / below.mean()
        half = float(stdtrit(len(moves) - 1, LEVEL) * moves.std(ddof=1)) / sqrt(len(moves))
        return cls(value, value * exp(-half), value * exp(half))

    def __str__(self) -> str:
        return (
            f"{self.value:.3g}"
            if np.isnan(self.low)
            else f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"
        )


def exponent(points: Mapping[float, Values]) -> Estimate:
    """The exponent of a power law: least squares of ln(mean of the values at x) on ln x.

    The i-th values at all x belong to the same seed. The interval is that of the slope, linearised
    in the values seed by seed (delta method): what a seed does to all points alike does not count
    as error. The exponent is NaN if a mean is not positive.

    >>> print(exponent({1.0: [1.0, 3.0], 10.0: [10.0, 30.0], 100.0: [100.0, 300.0]}))
    1.00 ± 0.00
    """
    places = sorted(points)
    values = np.array([points[x] for x in places], float)
    means = values.mean(axis=1)
    if not (means > 0).all():
        return Estimate(nan, nan, values.shape[1])
    centred = np.log(places) - np.log(places).mean()
    weights = centred / (centred**2).sum()
    return Estimate(
        float(weights @ np.log(means)),
        Estimate.of((weights / means) @ values).half_width,
        values.shape[1],
    )


@dataclass(frozen=True)
class Crossing:
    """Where a rising curve meets a level, with the ends of a 95 % interval; NaN if it does not."""

    at: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.at:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Contest:
    """One curve over a parameter, the level it is compared with, and where they meet."""

    curve: Mapping[float, Estimate]
    curve_name: str
    level: Estimate
    level_name: str
    crossing: Crossing


def first_root(values: Mapping[float, float]) -> float:
    """Where a piecewise linear curve through these points first reaches 0; NaN if it does not.

    >>> first_root({0.0: -1.0, 0.5: 1.0, 1.0: 3.0})
    0.25
    >>> first_root({0.0: 1.0}), first_root({0.0: -1.0})
    (0.0, nan)
    """
    points = sorted(values.items())
    if points[0][1] >= 0:
        return points[0][0]
    for (x, y), (next_x, next_y) in pairwise(points):
        if y < 0 <= next_y:
            return x + (next_x - x) * -y / (next_y - y)
    return nan

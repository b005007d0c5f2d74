"""Statistics over seeds with 95 % intervals: means, differences, ratios, exponents, crossings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, isfinite, nan, sqrt

import numpy as np
from scipy.special import stdtrit

Values = Sequence[float] | np.ndarray
LEVEL = 0.975


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with the half-width of its 95 % t-interval (NaN for one seed)."""

    mean: float
    half_width: float
    count: int

    @classmethod
    def of(cls, values: Values) -> Estimate:
        """The estimate of these values.

        >>> Estimate.of([1.0, 2.0, 3.0])
        Estimate(mean=2.0, half_width=2.484..., count=3)
        """
        array = np.asarray(values, float)
        if len(array) < 2:
            return cls(float(array.mean()), nan, len(array))
        error = array.std(ddof=1) / np.sqrt(len(array))
        return cls(float(array.mean()), float(stdtrit(len(array) - 1, LEVEL) * error), len(array))

    @classmethod
    def within(cls, values: Values, groups: Sequence[int] | np.ndarray) -> Estimate:
        """The mean of the means of groups, with an interval over repetitions within the groups.

        The spread between groups does not count, because they are the same in every repetition;
        that within them is taken to be equal. The count is one more than the degrees of freedom.

        >>> Estimate.within([1.0, 3.0, 11.0, 13.0], groups=[0, 0, 1, 1])
        Estimate(mean=7.0, half_width=3.042..., count=3)
        """
        array = np.asarray(values, float)
        names, group = np.unique(groups, return_inverse=True)
        sizes = np.bincount(group)
        means = np.bincount(group, array) / sizes
        freedom, mean = len(array) - len(names), float(means.mean())
        if freedom == 0:
            return cls(mean, nan, 1)
        spread = np.square(array - means[group]).sum() / freedom
        error = sqrt(spread * (1 / sizes).sum()) / len(names)
        return cls(mean, float(stdtrit(freedom, LEVEL) * error), freedom + 1)

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + self.half_width

    def words(self, sign: bool = False, digits: int = 2) -> str:
        """The mean and the half-width to some decimals; `sign` also writes a plus.

        >>> Estimate(3.0, 0.5, 9).words(), Estimate(3.0, 0.5, 9).words(sign=True)
        ('3.00 ± 0.50', '+3.00 ± 0.50')
        >>> Estimate(3.0, nan, 1).words()
        '3.00'
        """
        if not isfinite(self.mean):
            return "-"
        half_width = f" ± {self.half_width:.{digits}f}" if isfinite(self.half_width) else ""
        return f"{self.mean:{'+' if sign else ''}.{digits}f}{half_width}"

    def __str__(self) -> str:
        return self.words()


def welch(larger: Estimate, smaller: Estimate) -> Estimate:
    """The difference of the means of independent samples with unequal variances (Welch).

    Its count is that of the smaller sample.

    >>> print(welch(Estimate.of([4.0, 6.0]), Estimate.of([1.0, 1.0])))
    4.00 ± 12.71
    """
    sides = (larger, smaller)
    variances = [(e.half_width / stdtrit(e.count - 1, LEVEL)) ** 2 for e in sides]
    total, mean, fewest = sum(variances), larger.mean - smaller.mean, min(e.count for e in sides)
    if total == 0:
        return Estimate(mean, 0.0, fewest)
    freedom = (
        total**2 / sum(v**2 / (e.count - 1) for v, e in zip(variances, sides, strict=True))
        if fewest > 1
        else nan
    )
    return Estimate(mean, float(stdtrit(freedom, LEVEL) * np.sqrt(total)), fewest)


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

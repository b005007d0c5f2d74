"""Statistics over seeds with 95 % intervals: means and their differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan, sqrt

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

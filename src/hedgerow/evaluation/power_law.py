"""How fast a mean grows or falls: the exponent of a power law, with an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan

import numpy as np

from hedgerow.evaluation.summary import Estimate


def exponent(points: Mapping[float, Sequence[float] | np.ndarray]) -> Estimate:
    """Least squares of ln(mean of the values at x) on ln x. The i-th values at all x belong to the same seed.

    The interval is that of the slope made linear in the values (delta method), seed by seed: what a seed does to all points alike
    does not count as error. NaN where a mean is not positive.

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
    return Estimate(float(weights @ np.log(means)), Estimate.of((weights / means) @ values).half_width, values.shape[1])

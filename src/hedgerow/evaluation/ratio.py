"""How many times one thing loses what another does on the same streams, with an interval that knows they are paired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, nan, sqrt

import numpy as np
from scipy.special import stdtrit


@dataclass(frozen=True)
class Ratio:
    """A ratio of two means over seeds, with a 95 % interval (NaN where there is one seed, or a mean is not above 0)."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, over: Sequence[float] | np.ndarray, under: Sequence[float] | np.ndarray) -> Ratio:
        """The delta method on the logarithm: what seeds do to both sides alike cancels.

        >>> Ratio.of([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
        Ratio(value=2.0, low=2.0, high=2.0)
        """
        above, below = np.asarray(over, float), np.asarray(under, float)
        if above.shape != below.shape:
            raise ValueError(f"Expected as many values over as under, got {len(above)} and {len(below)}.")
        if min(above.mean(), below.mean()) <= 0:
            return cls(nan, nan, nan)
        value = float(above.mean() / below.mean())
        if len(above) < 2:
            return cls(value, nan, nan)
        moves = above / above.mean() - below / below.mean()
        half = float(stdtrit(len(moves) - 1, 0.975) * moves.std(ddof=1)) / sqrt(len(moves))
        return cls(value, value * exp(-half), value * exp(half))

    def __str__(self) -> str:
        return f"{self.value:.3g}" if np.isnan(self.low) else f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"

"""RW-Meta with the printed noise of the choice (Jacobsen and Fawaz 2025, Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np

from hedgerow.core.lattice import Array
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow_papers.jacobsen2025.certified_meta import WalkMeta
from hedgerow_papers.jacobsen2025.decorrelation import SLACK, Decorrelation, leading


@dataclass(frozen=True)
class PrintedDecorrelation(Decorrelation):
    """The printed noise: the larger of the largest eigenvalue and 2 range^2 t.

    >>> shared = np.array([[3.0, 3.0, 0.0], [3.0, 3.0, 0.0], [0.0, 0.0, 3.0]])  # two agree
    >>> PrintedDecorrelation().variance(shared, 4.0).item()
    8.0
    """

    def of_projected(self, matrix: Array, rounds: Array) -> Array:
        total = np.array(np.broadcast_to(2 * self.gain_range**2 * rounds, matrix.shape[:-2]))
        # an eigenvalue is at most the trace, so most rounds need none
        large = np.trace(matrix, axis1=-2, axis2=-1) > total
        total[large] = np.maximum(leading(matrix[large]), total[large])
        return total

    def regret_bound(self, rounds: int, forecasters: int, deviation: float) -> float | None:
        """Nothing is proven unless the noise of reports is small.

        >>> round(PrintedDecorrelation().regret_bound(10_000, 13, 0.1))
        410
        >>> PrintedDecorrelation().regret_bound(10_000, 13, 1.0)
        """
        if forecasters == 1:
            return 0.0
        used = forecasters * deviation**2 / (4 * self.gain_range**2)
        if used >= 1:
            return None
        each = 5 / (2 * sqrt(2 * (1 - used)))
        root = sqrt(2 * log(forecasters))
        return (1 + SLACK) * self.gain_range * root * (sqrt(2) + each * sqrt(rounds))


@dataclass(frozen=True)
class JacobsenWalkMeta(WalkMeta):
    """RW-Meta with the printed noise of the choice. `WalkMeta` has a bound for all forecasters.

    With the printed noise regret can grow linearly (`proofs/walk_meta.md#counterexample`).
    Parameters and guarantee are those of `WalkMeta`.

    Examples
    --------
    >>> JacobsenWalkMeta(mu=0.5).build(Setting(1, 4, 1000)).claims.regret_bound is None
    True

    References
    ----------
    Jacobsen and Fawaz 2025, Algorithm 2.
    """

    def decorrelation(self, gain_range: float) -> Decorrelation | None:
        found = super().decorrelation(gain_range)
        return None if found is None else PrintedDecorrelation(gain_range)

    def resolve(self, setting: Setting) -> Algorithm:
        return replace(super().resolve(setting), name="jacobsen2025_walk_meta")

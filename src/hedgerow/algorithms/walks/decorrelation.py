"""The noise with which `WalkMeta` chooses a forecaster, and what is proven about the choice.

The scores of forecasters contain the noise of the reports, and it is correlated: forecasters that
name the same expert share it. Noise is added until the differences of all scores have independent
noise of the same size (`proofs/walk_meta.md#the-choice`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Literal, get_args

import numpy as np

from hedgerow.core.lattice import Array
from hedgerow.core.validate import expect, one_of, positive

MetaNoise = Literal["added", "published", "none"]
SLACK = 1e-9  # relative, so that a covariance with an eigenvalue 0 has a Cholesky factor


def projected(covariance: Array) -> Array:
    """Return P covariance P, where P subtracts the mean; the last two axes are the matrix."""
    rows = covariance.mean(axis=-1)
    centred = covariance - rows[..., :, None] - rows[..., None, :]
    return centred + rows.mean(axis=-1)[..., None, None]


def leading(matrix: Array) -> Array:
    """Return the largest eigenvalue of symmetric matrices, at least 0."""
    return np.maximum(np.linalg.eigvalsh(matrix)[..., -1], 0.0)


@dataclass(frozen=True)
class Decorrelation:
    """How much noise is added to the scores, and how.

    Parameters
    ----------
    kind
        "added": the largest eigenvalue plus range^2 t / 2. "published": the larger of that
        eigenvalue and 2 range^2 t. "none": no noise.
    gain_range
        The largest difference of the gains of two experts in one round, > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.algorithms.walks.decorrelation import Decorrelation
    >>> shared = np.array([[3.0, 3.0, 0.0], [3.0, 3.0, 0.0], [0.0, 0.0, 3.0]])  # two agree
    >>> [Decorrelation(kind).variance(shared, 4.0).item() for kind in ("added", "published")]
    [6.0, 8.0]
    """

    kind: MetaNoise = "added"
    gain_range: float = 1.0

    def __post_init__(self) -> None:
        one_of(self, kind=get_args(MetaNoise))
        positive("gain_range", self.gain_range)

    def variance(self, covariance: Array, rounds: Array | float) -> Array:
        """Return the variance of all noise of a score in round `rounds` (1, 2, ...).

        Without decorrelation scores have different variances, and there is no such number.
        """
        expect(self.kind != "none", "kind", self.kind, "to decorrelate the scores")
        return self._variance(projected(covariance), np.asarray(rounds))

    def _variance(self, matrix: Array, rounds: Array) -> Array:
        square = self.gain_range**2
        if self.kind == "added":
            return leading(matrix) + square * rounds / 2
        total = np.array(np.broadcast_to(2 * square * rounds, matrix.shape[:-2]))
        # an eigenvalue is at most the trace, so most rounds need none
        large = np.trace(matrix, axis1=-2, axis2=-1) > total
        total[large] = np.maximum(leading(matrix[large]), total[large])
        return total

    def noise(self, covariance: Array, rounds: Array | float, normal: Array) -> Array:
        """Return the noise to add to the scores of rounds, from standard normal numbers.

        `covariance` is that of the noise that the scores have already.
        """
        if self.kind == "none":
            return np.zeros_like(normal)
        matrix = projected(covariance)
        total = self._variance(matrix, np.asarray(rounds)) * (1 + SLACK)
        rest = total[..., None, None] * np.eye(normal.shape[-1]) - matrix
        return (np.linalg.cholesky(rest) @ normal[..., None])[..., 0]


def regret_bound(
    rounds: int, forecasters: int, deviation: float, *, kind: MetaNoise, gain_range: float
) -> float | None:
    """Bounds the expected regret against the best forecaster, for gains fixed in advance.

    `deviation` is the largest standard deviation of the noise of an expert's gain in one round.
    None: nothing is proven (`proofs/walk_meta.md#regret`).

    >>> round(regret_bound(10_000, 13, 0.1, kind="added", gain_range=1.0))
    343
    >>> round(regret_bound(10_000, 13, 0.1, kind="published", gain_range=1.0))
    410
    >>> regret_bound(10_000, 13, 1.0, kind="published", gain_range=1.0)
    """
    if forecasters == 1:
        return 0.0
    entropy, largest = log(forecasters), forecasters * deviation**2
    if kind == "added":
        each = 2 * gain_range + largest / gain_range
        return (1 + SLACK) * sqrt(entropy) * (gain_range + each * sqrt(rounds))
    used = largest / (4 * gain_range**2)
    if kind == "none" or used >= 1:
        return None
    each = 5 / (2 * sqrt(2 * (1 - used)))
    return (1 + SLACK) * gain_range * sqrt(2 * entropy) * (sqrt(2) + each * sqrt(rounds))

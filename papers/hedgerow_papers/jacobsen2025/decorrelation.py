"""The noise with which `WalkMeta` chooses a forecaster, and what is proven about the choice.

The scores of forecasters contain the noise of the reports, and it is correlated: forecasters that
name the same expert share it. Noise is added until the differences of all scores have independent
noise of the same size (`proofs/walk_meta.md#the-choice`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from hedgerow.core.lattice import Array
from hedgerow.core.validate import positive

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
    """How much noise is added to the scores: the largest eigenvalue plus range^2 t / 2.

    Parameters
    ----------
    gain_range
        The largest difference of the gains of two experts in one round, > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow_papers.jacobsen2025.decorrelation import Decorrelation
    >>> shared = np.array([[3.0, 3.0, 0.0], [3.0, 3.0, 0.0], [0.0, 0.0, 3.0]])  # two agree
    >>> Decorrelation().variance(shared, 4.0).item()
    6.0
    """

    gain_range: float = 1.0

    def __post_init__(self) -> None:
        positive("gain_range", self.gain_range)

    def variance(self, covariance: Array, rounds: Array | float) -> Array:
        """Return the variance of all noise of a score in round `rounds` (1, 2, ...)."""
        return self.of_projected(projected(covariance), np.asarray(rounds))

    def of_projected(self, matrix: Array, rounds: Array) -> Array:
        """Return the variance, given the projected covariance."""
        return leading(matrix) + self.gain_range**2 * rounds / 2

    def noise(self, covariance: Array, rounds: Array | float, normal: Array) -> Array:
        """Return the noise to add to the scores of rounds, from standard normal numbers.

        `covariance` is that of the noise that the scores have already.
        """
        matrix = projected(covariance)
        total = self.of_projected(matrix, np.asarray(rounds)) * (1 + SLACK)
        rest = total[..., None, None] * np.eye(normal.shape[-1]) - matrix
        return (np.linalg.cholesky(rest) @ normal[..., None])[..., 0]

    def regret_bound(self, rounds: int, forecasters: int, deviation: float) -> float | None:
        """Bounds the expected regret against the best forecaster, for gains fixed in advance.

        `deviation` is the largest standard deviation of the noise of an expert's gain in one round.
        None: nothing is proven (`proofs/walk_meta.md#regret`).

        >>> round(Decorrelation().regret_bound(10_000, 13, 0.1))
        343
        """
        if forecasters == 1:
            return 0.0
        entropy, largest = log(forecasters), forecasters * deviation**2
        each = 2 * self.gain_range + largest / self.gain_range
        return (1 + SLACK) * sqrt(entropy) * (self.gain_range + each * sqrt(rounds))

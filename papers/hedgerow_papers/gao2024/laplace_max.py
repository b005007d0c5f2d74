"""Report noisy max with Laplace noise, as papers print it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.noise import Noise
from hedgerow.privacy.curves import PureDP
from hedgerow.privacy.mechanisms.additive import Values, log_cdf, log_density
from hedgerow.privacy.mechanisms.selection import Selection

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
CELLS = 2**20  # of a table that is computed at once


@dataclass(frozen=True)
class LaplaceMax(Selection):
    """Report noisy max with Laplace noise, for scores of which small ones are good.

    It chooses the smallest of score[i] + Laplace noise of scale 2 sensitivity / epsilon. At the
    same epsilon permute-and-flip (`NoisyMax`) has the better choices; this is the noise that papers
    print. Secure noise has no exact sampler for it.

    Parameters
    ----------
    purpose
        The name of the noise stream.
    epsilon
        The cost of one choice, > 0.
    sensitivity
        The largest change of any score between neighbouring inputs. Default: 1.

    Guarantee
    ---------
    epsilon-DP, if no score moves by more than `sensitivity` (`proofs/mechanisms.md#noisy-max`).

    Examples
    --------
    >>> LaplaceMax("selection", epsilon=2.0).probabilities([0.0, 1.0]).round(4).tolist()
    [0.7241, 0.2759]
    """

    exact: ClassVar[bool] = False

    purpose: str
    epsilon: float
    sensitivity: float = 1.0

    def words(self) -> str:
        return "report noisy max (laplace noise)"

    @property
    def curve(self) -> PureDP:
        return PureDP(self.epsilon)

    def sample(self, value: Any, noise: Noise) -> Any:
        return noise.choose("laplace", self._gaps(noise.lattice(value)), self.rate, self.purpose)

    def _log_probabilities(self, scores: Any) -> Values:
        return _laplace_winner(self._logits(scores))


def _laplace_winner(logits: Values) -> Values:
    """Log-probabilities that logits[i] + unit Laplace noise is the largest.

    The integral over y of the density of i at y times the product over j != i of the distribution
    functions of the others. Between two logits all factors are smooth, so Gauss-Legendre on panels
    of width 4 at most is exact to rounding. Beyond 40 units nothing counts.
    """
    ends = np.unique(np.concatenate([logits, [logits.max() + 40.0, -40.0]]))
    ends = ends[ends >= -40.0]  # below, the winner with logit 0 has hardly any chance
    parts = [np.linspace(a, b, 1 + ceil((b - a) / 4)) for a, b in pairwise(ends)]
    edges = np.unique(np.concatenate(parts))
    half = np.diff(edges)[:, None] / 2
    at, step = (edges[:-1, None] + half + half * NODES).ravel(), (half * WEIGHTS).ravel()
    found = np.full_like(logits, -np.inf)
    rows = max(1, CELLS // len(logits))
    for first in range(0, len(at), rows):
        apart = at[first : first + rows, None] - logits
        below = log_cdf("laplace", apart)
        others = below.sum(axis=1, keepdims=True) - below
        terms = others + log_density("laplace", apart) + np.log(step[first : first + rows, None])
        found = np.logaddexp(found, np.logaddexp.reduce(terms, axis=0))
    return found

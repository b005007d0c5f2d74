"""Drawn distributions, for learners that forecast them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.core.convex import CrossEntropy
from hedgerow.core.lattice import Array
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least
from hedgerow.environments.drawn.examples import CHUNK, Chunked
from hedgerow.environments.drawn.generated import generator

PLAN, DRAWN = 1, 2


@dataclass(frozen=True, kw_only=True)
class ClassForecasts(Chunked):
    """Distributions over classes, charged by the cross-entropy of a forecast of them.

    Means and variances of Gaussian class scores are uniform on [0, 1] and drawn once. In every
    round and for every client the record is the softmax of a score vector. `GaussianSoftmax` is the
    same data in the linear reading: there a forecast names one class.

    Parameters
    ----------
    clients
        The number of clients, at least 1.
    classes
        The number of classes, at least 1.
    horizon
        The number of rounds, at least 1.
    floor
        What is added to a forecast before its logarithm is taken, at least 1e-4.

    Examples
    --------
    >>> ClassForecasts(clients=4, classes=3, horizon=50).family
    CrossEntropy(floor=0.05)

    References
    ----------
    Gao et al. 2024, section 6, read as a loss of points. The paper does not give the ranges or the
    floor, without which the loss is infinite.
    """

    clients: int = 10
    classes: int = 20
    horizon: int = 512
    floor: float = 0.05

    def __post_init__(self) -> None:
        at_least("classes", self.classes, 1)
        _ = self.setting

    @property
    def setting(self) -> Setting:
        family = CrossEntropy(self.floor)
        return Setting(self.clients, self.classes, self.horizon, family=family)

    def chunk(self, seed: int, index: int) -> Array:
        plan, rng = generator(seed, PLAN), generator(seed, DRAWN, index)
        means, deviations = plan.random(self.classes), np.sqrt(plan.random(self.classes))
        scores = means + deviations * rng.standard_normal((CHUNK, self.clients, self.classes))
        odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return odds / odds.sum(axis=-1, keepdims=True)

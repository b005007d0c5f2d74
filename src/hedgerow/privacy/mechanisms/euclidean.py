"""Noise for vectors with a bounded Euclidean change and a pure guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, log, pi, sqrt
from typing import Any, ClassVar

import numpy as np
import scipy  # its parts are imported when they are used: they are large

from hedgerow.core.domain import length
from hedgerow.core.noise import Noise
from hedgerow.privacy.curves import PureDP
from hedgerow.privacy.mechanisms.additive import _Additive


@dataclass(frozen=True)
class EuclideanNoise(_Additive):
    """The K-norm mechanism for the Euclidean norm, with a pure guarantee.

    It releases a vector plus r u with r ~ Gamma(d, scale) and u uniform on the unit sphere: a
    density proportional to exp(-|noise| / scale). Laplace noise for the same guarantee is about
    sqrt(2) times as long.

    Parameters
    ----------
    purpose
        The name of the noise stream.
    scale
        The scale of the gamma variable, > 0, in the units of the value.
    sensitivity
        The largest change of the value in the l2 norm between neighbouring inputs. Default: 1.

    Guarantee
    ---------
    epsilon-DP with epsilon = sensitivity / scale (`proofs/mechanisms.md#k-norm`). Secure noise has
    no exact sampler for it.

    Examples
    --------
    >>> from hedgerow.privacy.mechanisms import EuclideanNoise
    >>> EuclideanNoise("report", scale=2.0, sensitivity=1.0).curve
    PureDP(bound=0.5)
    """

    exact: ClassVar[bool] = False

    purpose: str
    scale: float
    sensitivity: float = 1.0

    def words(self) -> str:
        return "gamma length, uniform direction"

    @property
    def curve(self) -> PureDP:
        return PureDP(self.cost)

    def sample(self, value: Any, noise: Noise) -> Any:
        shape = np.shape(value)[len(noise.batch) :]
        width = shape[-1] if shape else 1
        radius = noise.draw("exponential", self.purpose, (width,)).sum(axis=-1)
        drawn = noise.draw("gaussian", self.purpose, shape or (1,))
        size = length(drawn)
        unit = drawn / np.where(size > 0, size, 1.0)[..., None]
        return value + np.reshape(self.scale * radius[..., None] * unit, np.shape(value))

    def distance(self, value: Any, other: Any) -> float:
        return float(length(np.atleast_1d(np.subtract(value, other))))

    def log_density(self, value: Any, output: Any) -> float:
        unit = np.atleast_1d(self.unit_noise(value, output))
        width = unit.size
        sphere = log(2) + width / 2 * log(pi) - lgamma(width / 2)  # ln of its surface
        return float(-length(unit) - sphere - lgamma(width) - width * log(self.scale))

    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        """A value by the length of the noise (gamma)."""
        unit = np.atleast_1d(self.unit_noise(value, output))
        return float(scipy.special.gammainc(unit.size, length(unit)))

    def deviation(self, width: int) -> float:
        return self.scale * sqrt(width + 1)

"""Noise that several clients add together, for somebody who sees nothing but the sum of what they send."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from hedgerow.core.rounding import root_up
from hedgerow.core.validate import at_least
from hedgerow.privacy.curves import GaussianDP
from hedgerow.privacy.mechanisms.additive import GaussianNoise


@dataclass(frozen=True)
class GaussianShare(GaussianNoise):
    """A client's share of Gaussian noise: value + scale * standard normal noise in every coordinate.

    Its curve is what the *sum* of all uploads gives away if at least `honest` clients draw their share and keep it secret: their noise
    has standard deviation scale * sqrt(honest). It says nothing about a single upload: `proofs/phased_selection.md#shared-noise`.

    >>> GaussianShare("report", scale=2.0, honest=4).curve
    GaussianDP(mu=0.25)
    """

    exact: ClassVar[bool] = False  # sums of lattice noise follow the normal law only nearly

    honest: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("honest", self.honest, 1)

    def words(self) -> str:
        return "gaussian, a share at each site"

    @property
    def curve(self) -> GaussianDP:
        return GaussianDP(
            root_up((Fraction(self.sensitivity) / Fraction(self.scale)) ** 2 / self.honest)
        )

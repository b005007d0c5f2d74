"""Noise that clients add jointly, for an observer that sees only the sum of their uploads."""

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
    """A client's share of Gaussian noise, added to every coordinate of its upload.

    The curve holds for the *sum* of all uploads if at least `honest` clients draw their share and
    keep it secret. Their noise has standard deviation scale * sqrt(honest). The curve does not hold
    for a single upload (`proofs/phased_selection.md#shared-noise`).

    >>> GaussianShare("report", scale=2.0, honest=4).curve
    GaussianDP(mu=0.25)
    """

    exact: ClassVar[bool] = False  # sums of lattice noise are only approximately normal

    honest: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("honest", self.honest, 1)

    def words(self) -> str:
        return "gaussian, a share at each client"

    @property
    def curve(self) -> GaussianDP:
        return GaussianDP(
            root_up((Fraction(self.sensitivity) / Fraction(self.scale)) ** 2 / self.honest)
        )

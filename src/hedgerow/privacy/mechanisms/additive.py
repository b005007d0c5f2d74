"""Noise added to a number or a vector: Laplace, one-sided exponential, Gaussian, K-norm, Euclidean.

A value may have one row for each client in front (`noise.batch`). `distance`, `uniformise` and
`log_density` take one row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import expm1, inf, lgamma, log, nextafter, pi, sqrt
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: they are large

from hedgerow.core.domain import length
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import UNITS_PER_LOSS, exact_scales
from hedgerow.core.mechanism import Mechanism, PrivacyCurve
from hedgerow.core.noise import Noise
from hedgerow.core.rounding import root_up, round_up
from hedgerow.core.validate import at_least, positive
from hedgerow.privacy.curves import ApproximateDP, GaussianDP, LaplaceDP, PureDP
from hedgerow.privacy.curves.gaussian import mills

RAISED = 1 + Fraction(1, 2**20)
"""The factor that covers the difference between sums of discrete normal shares and normal noise."""


class _Additive(Mechanism):
    """Base class of additive mechanisms: a scale, a sensitivity, and infinitely many outputs."""

    exact: ClassVar[bool] = True  # secure noise has a sampler for it
    drawn: ClassVar[str]  # the name of the law in `Noise.draw`
    scale: float

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        positive("sensitivity", self.sensitivity)

    @property
    def cost(self) -> float:
        """The largest change in units of the scale."""
        return round_up(Fraction(self.sensitivity) / Fraction(self.scale))

    def unit_noise(self, value: Any, output: Any) -> Values:
        """The noise that leads from the value to the output, in units of the scale."""
        return np.subtract(output, value) / self.scale

    def sample(self, value: Any, noise: Noise) -> Any:
        shape = np.shape(value)[len(noise.batch) :]
        return noise.lattice(value) + noise.draw(self.drawn, self.purpose, shape, scale=self.scale)

    def cost_of_move(self, distance: float) -> PrivacyCurve | None:
        """The curve of the same noise for values that move by `distance`."""
        return replace(self, sensitivity=distance).curve  # pyright: ignore[reportArgumentType]

    def deviation(self, width: int) -> float:
        """The standard deviation of the noise in one of `width` coordinates."""
        raise NotImplementedError

    def scaled(self, factor: float) -> Self:
        return replace(self, scale=self.scale * factor)  # pyright: ignore[reportArgumentType]

    def noise_scale(self) -> float:
        return self.scale

    def exact_scales(self, width: int, moved: int = 1) -> tuple[float, float]:
        return exact_scales(self.drawn, width)

    def outcomes(self, value: Any) -> None:
        return None

    def probe(self) -> float:
        return 0.0


@dataclass(frozen=True)
class AdditiveNoise(_Additive):
    """Laplace noise or one-sided exponential noise in every coordinate: value + scale * noise.

    Exponential noise only raises a value.

    Parameters
    ----------
    purpose
        The name of the noise stream.
    law
        "laplace" or "exponential".
    scale
        The scale of the noise, > 0, in the units of the value.
    sensitivity
        The largest change of the value in the l1 norm between neighbouring inputs. Default: 1.

    Guarantee
    ---------
    Laplace: the exact curve of one number, in every dimension, with bound = sensitivity / scale
    (`proofs/mechanisms.md#laplace`). Exponential: an output below the other world's value reveals
    everything, so only total variation is bounded, delta = 1 - exp(-sensitivity / scale) at
    epsilon = 0 (`proofs/mechanisms.md#one-sided-noise`).

    Examples
    --------
    >>> from hedgerow.privacy import AdditiveNoise
    >>> AdditiveNoise("report", "laplace", scale=2.0, sensitivity=1.0).curve
    LaplaceDP(bound=0.5)
    >>> AdditiveNoise("report", "exponential", scale=2.0).curve.stated()
    (0.0, 0.39...)
    """

    purpose: str
    law: Law
    scale: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        check_law(self.law)
        super().__post_init__()

    def words(self) -> str:
        return self.law

    @property
    def curve(self) -> LaplaceDP | ApproximateDP:
        if self.law == "laplace":
            return LaplaceDP(self.cost)
        return ApproximateDP(0.0, min(1.0, nextafter(-expm1(-self.cost), inf)))

    @property
    def drawn(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.law

    def distance(self, value: Any, other: Any) -> float:
        return float(np.abs(np.subtract(value, other)).sum())

    def log_density(self, value: Any, output: Any) -> float:
        unit = self.unit_noise(value, output)
        return float(log_density(self.law, unit).sum() - np.size(unit) * np.log(self.scale))

    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        """A number by its distribution function, a vector by the sum of absolute values (gamma)."""
        unit = self.unit_noise(value, output)
        if np.size(unit) == 1:
            return float(np.exp(log_cdf(self.law, unit)).item())
        if self.law == "exponential" and (unit < 0).any():
            return 0.0
        return float(scipy.special.gammainc(np.size(unit), np.abs(unit).sum()))

    def deviation(self, width: int) -> float:
        return self.scale * (sqrt(2) if self.law == "laplace" else 1.0)


@dataclass(frozen=True)
class GaussianNoise(_Additive):
    """Gaussian noise in every coordinate: value + scale * standard normal noise.

    Parameters
    ----------
    purpose
        The name of the noise stream.
    scale
        The standard deviation of the noise, > 0, in the units of the value.
    sensitivity
        The largest change of the value in the l2 norm between neighbouring inputs. Default: 1.

    Guarantee
    ---------
    Exactly mu-GDP with mu = sensitivity / scale (`proofs/mechanisms.md#gaussian`).

    Examples
    --------
    >>> from hedgerow.privacy import GaussianNoise
    >>> GaussianNoise("report", scale=2.0, sensitivity=1.0).curve
    GaussianDP(mu=0.5)
    """

    drawn: ClassVar[str] = "gaussian"

    purpose: str
    scale: float
    sensitivity: float = 1.0

    def words(self) -> str:
        return "gaussian"

    @property
    def curve(self) -> GaussianDP:
        return GaussianDP(self.cost)

    def distance(self, value: Any, other: Any) -> float:
        return float(np.sqrt(np.square(np.subtract(value, other)).sum()))

    def log_density(self, value: Any, output: Any) -> float:
        unit = self.unit_noise(value, output)
        return float(
            -np.square(unit).sum() / 2 - np.size(unit) * (log(self.scale) + log(2 * pi) / 2)
        )

    def summed(self, count: int) -> GaussianNoise:
        return GaussianNoise(self.purpose, self.scale * sqrt(count), self.sensitivity)

    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        """A number by its distribution function, a vector by its squared length (chi-square)."""
        unit = self.unit_noise(value, output)
        if np.size(unit) == 1:
            return float(scipy.special.ndtr(unit).item())
        return float(scipy.special.gammainc(np.size(unit) / 2, np.square(unit).sum() / 2))

    def deviation(self, width: int) -> float:
        return self.scale


@dataclass(frozen=True)
class KNorm(_Additive):
    """The K-norm mechanism for the l-infinity norm, with a pure guarantee.

    It releases value + r u with r ~ Gamma(d + 1, scale) and u uniform on the cube [-1, 1]^d.
    Laplace noise would need d times the scale.

    Parameters
    ----------
    purpose
        The name of the noise stream.
    scale
        The scale of the gamma variable, > 0, in the units of the value.
    sensitivity
        The largest change of any coordinate between neighbouring inputs. Default: 1.

    Guarantee
    ---------
    epsilon-DP with epsilon = sensitivity / scale (`proofs/mechanisms.md#k-norm`), with secure noise
    too (`proofs/secure_noise.md#cubes`).

    Examples
    --------
    >>> from hedgerow.privacy import KNorm
    >>> KNorm("report", scale=2.0, sensitivity=1.0).curve
    PureDP(bound=0.5)
    """

    drawn: ClassVar[str] = "cube"

    purpose: str
    scale: float
    sensitivity: float = 1.0

    def words(self) -> str:
        return "gamma length, uniform direction in the cube"

    @property
    def curve(self) -> PureDP:
        return PureDP(self.cost)

    def distance(self, value: Any, other: Any) -> float:
        return float(np.abs(np.subtract(value, other)).max())

    def log_density(self, value: Any, output: Any) -> float:
        unit = self.unit_noise(value, output)
        return float(
            -np.abs(unit).max() - lgamma(np.size(unit) + 1) - np.size(unit) * log(2 * self.scale)
        )

    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        """A value by its largest absolute coordinate (gamma)."""
        unit = self.unit_noise(value, output)
        return float(scipy.special.gammainc(np.size(unit), np.abs(unit).max()))

    def deviation(self, width: int) -> float:
        return self.scale * sqrt((width + 1) * (width + 2) / 3)


@dataclass(frozen=True)
class GaussianShare(GaussianNoise):
    """A client's share of Gaussian noise, added to every coordinate of its upload.

    The curve holds for the *sum* of all uploads if at least `honest` clients draw their share and
    keep it secret. Their noise has standard deviation scale * sqrt(honest). The curve does not hold
    for a single upload. Secure noise draws a discrete normal law. Its sums are so nearly normal
    that mu, raised by one millionth, is enough (`proofs/secure_sums.md#sums-of-shares`).

    >>> GaussianShare("report", scale=2.0, honest=4).curve
    GaussianDP(mu=0.2500002384185791)
    """

    honest: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("honest", self.honest, 1)

    def words(self) -> str:
        return "gaussian, a share at each client"

    @property
    def curve(self) -> GaussianDP:
        return GaussianDP(root_up((Fraction(self.cost) * RAISED) ** 2 / self.honest))

    def sample(self, value: Any, noise: Noise) -> Any:
        law = "discrete gaussian" if noise.whole else "gaussian"
        shape = np.shape(value)[len(noise.batch) :]
        return noise.lattice(value) + noise.draw(law, self.purpose, shape, scale=self.scale)

    def exact_scales(self, width: int, moved: int = 1) -> tuple[float, float]:
        """As of other noise; and the sums of shares must be normal enough, all together."""
        least, most = super().exact_scales(width)
        mu = self.curve.mu
        far = (sqrt(width * moved) + 43 + mu) ** 2 * mills(-mu / 2 - 1e-6) / mu
        nearly = sqrt(far / (2.2 * (RAISED - 1) * self.honest))
        return max(least, nearly / UNITS_PER_LOSS), most


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


Law = Literal["laplace", "exponential"]
Values = npt.NDArray[np.float64]


def check_law(law: str) -> None:
    """Refuse a law for which the stated guarantees are not proven."""
    if law not in get_args(Law):
        raise InvalidValue(f"Expected law={law!r} to be one of {get_args(Law)}.")


def log_survival(law: Law, x: npt.ArrayLike) -> Values:
    """ln Pr(noise > x) at unit scale."""
    x = np.asarray(x, float)
    tail = -np.abs(x)
    if law == "exponential":
        return np.where(x >= 0, tail, 0.0)
    return np.where(x >= 0, tail - np.log(2), np.log1p(-0.5 * np.exp(tail)))


def log_cdf(law: Law, x: npt.ArrayLike) -> Values:
    """ln Pr(noise <= x) at unit scale."""
    x = np.asarray(x, float)
    if law == "exponential":
        positive_part = np.maximum(x, 0.0)
        with np.errstate(divide="ignore"):
            near, far = (
                np.log(-np.expm1(-positive_part)),
                np.log1p(-np.exp(-positive_part - (positive_part == 0))),
            )
        return np.where(x > 0, np.where(positive_part < 0.7, near, far), -np.inf)
    return log_survival(law, -x)


def log_density(law: Law, x: Values) -> Values:
    """ln of the density at unit scale."""
    if law == "exponential":
        return np.where(x >= 0, -np.maximum(x, 0), -np.inf)
    return -np.abs(x) - np.log(2)

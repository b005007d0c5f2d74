"""Laws on the integers up to a constant factor, as floats of bounded error and to any precision."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, pi, sqrt
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: they are large

from hedgerow.privacy.secure.digits import mp

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
LatticeLaw = Literal["exponential", "laplace", "gaussian", "discrete laplace", "discrete gaussian"]

# the relative error of every float below is well under this: `proofs/secure_noise.md#floats`
ERROR = 2.0**-36


def decided(trial: Values, chance: Values, error: float) -> tuple[Flags, Flags]:
    """Where a uniform number certainly lies below a chance, and where it certainly does not.

    `trial` holds 64 bits of the number; `chance` has the relative error `error`. Bits not yet drawn
    count for less than 2^-63. Below 2^-60 more bits are needed to decide "not below".
    """
    return trial + 2.0**-63 < chance * (1 - error), trial >= np.maximum(
        chance * (1 + error), 2.0**-60
    )


class Shape(Protocol):
    """A law on the integers: Pr(x) is proportional to f(x), and f falls on both sides of 0.

    With `one_sided`, only x >= 0 occur.
    """

    one_sided: ClassVar[bool]
    # the table ends after about this many scales; the tails beyond it have a chance below 10^-6 and
    # are drawn by arbitrary-precision arithmetic
    reach: ClassVar[float]

    @property
    def scale(self) -> float: ...

    def weight(self, at: Values) -> Values:
        """f at these integers."""
        ...

    def exact(self, at: int) -> Any:
        """f at the working precision of mpmath."""
        ...

    def decay(self, at: int) -> float:
        """A rate r > 0 with f(at +- g) <= f(at) exp(-r g) for all g >= 0, away from 0."""
        ...


@dataclass(frozen=True)
class Exponential:
    """An exponential variable, rounded down: Pr(x) proportional to exp(-x / scale), x >= 0."""

    scale: float
    one_sided: ClassVar[bool] = True
    reach: ClassVar[float] = 15.5

    def weight(self, at: Values) -> Values:
        return np.exp(-np.abs(at) / self.scale)

    def exact(self, at: int) -> Any:
        return mp.exp(-mp.mpf(abs(at)) / mp.mpf(self.scale))

    def decay(self, at: int) -> float:
        return 1 / self.scale * (1 - ERROR)


@dataclass(frozen=True)
class DiscreteLaplace(Exponential):
    """The discrete Laplace law: Pr(x) proportional to exp(-|x| / scale) on all integers."""

    one_sided: ClassVar[bool] = False


@dataclass(frozen=True)
class RoundedLaplace(DiscreteLaplace):
    """A Laplace variable, rounded to the nearest integer.

    It is the discrete Laplace law except for the weight of 0, which is 2h / (1 + h) with
    h = exp(-1 / (2 scale)). Added to an integer it is Laplace noise followed by rounding, and has
    exactly the guarantee of Laplace noise.
    """

    def weight(self, at: Values) -> Values:
        h = exp(-0.5 / self.scale)
        return np.where(at == 0, 2 * h / (1 + h), super().weight(at))

    def exact(self, at: int) -> Any:
        h = mp.exp(-1 / (2 * mp.mpf(self.scale)))
        return super().exact(at) if at else 2 * h / (1 + h)


@dataclass(frozen=True)
class DiscreteGaussian:
    """The discrete Gaussian of the literature: Pr(x) proportional to exp(-x^2 / (2 scale^2))."""

    scale: float
    one_sided: ClassVar[bool] = False
    reach: ClassVar[float] = 7.7

    def weight(self, at: Values) -> Values:
        return np.exp(-np.square(at / self.scale) / 2)

    def exact(self, at: int) -> Any:
        return mp.exp(-((mp.mpf(at) / mp.mpf(self.scale)) ** 2) / 2)

    def decay(self, at: int) -> float:
        return max(abs(at), 0.5) / self.scale**2 * (1 - ERROR)


@dataclass(frozen=True)
class RoundedGaussian:
    """A normal variable of standard deviation `scale`, rounded to the nearest integer.

    Added to an integer it is normal noise followed by rounding, and has exactly the guarantee of
    Gaussian noise. f = scale sqrt(2 pi) Pr(x - 1/2 < normal < x + 1/2).
    """

    scale: float
    one_sided: ClassVar[bool] = False
    reach: ClassVar[float] = 7.7

    def weight(self, at: Values) -> Values:
        size = np.abs(at)
        # from 160 on the series is better than the difference of two numbers
        if self.scale < 160:
            unit = self.scale * sqrt(2)
            near, far = np.maximum(size - 0.5, 0.0) / unit, (size + 0.5) / unit
            parts = np.where(
                size == 0,
                2 * scipy.special.erf(0.5 / unit),
                scipy.special.erfc(near) - scipy.special.erfc(far),
            )
            return self.scale * sqrt(2 * pi) / 2 * parts
        t, s = np.square(size / self.scale), self.scale**2
        if self.scale >= 2**14:
            return np.exp(-t / 2) * (1 + (t - 1) / (24 * s))  # the other terms are below 2^-45
        series = (
            (t - 1) / (24 * s)
            + (t * t - 6 * t + 3) / (1920 * s**2)
            + (t**3 - 15 * t * t + 45 * t - 15) / (322560 * s**3)
        )
        return np.exp(-t / 2) * (1 + series)

    def exact(self, at: int) -> Any:
        with mp.extraprec(int(4 * np.log2(self.scale + 2)) + 64):
            unit = mp.mpf(self.scale) * mp.sqrt(2)
            near, far = (mp.mpf(2 * abs(at) + sign) / 2 / unit for sign in (-1, 1))
            return mp.mpf(self.scale) * mp.sqrt(2 * mp.pi) / 2 * (mp.erfc(near) - mp.erfc(far))

    def decay(self, at: int) -> float:
        return max(abs(at) - 0.5, 0.25) / self.scale**2 * (1 - ERROR)


SHAPES: dict[LatticeLaw, type[Any]] = {
    "exponential": Exponential,
    "laplace": RoundedLaplace,
    "gaussian": RoundedGaussian,
    "discrete laplace": DiscreteLaplace,
    "discrete gaussian": DiscreteGaussian,
}

"""A coin whose chance depends on a private value; it decides whether to keep the current choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import exp, expm1, inf, log, nextafter
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import UNITS_PER_LOSS
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.noise import Noise
from hedgerow.core.validate import positive
from hedgerow.privacy.curves import PureDP
from hedgerow.privacy.mechanisms.additive import Values

_OUTWARD = 1e-14  # more than the errors of a few products and exponentials


@lru_cache(maxsize=1024)
def _cost(rate: float, base: float, sensitivity: float) -> float:
    """The larger log-ratio: that of True, rate * sensitivity, or that of False at its rarest."""
    moved, rarest = rate * sensitivity, -expm1(-rate * base)
    more = exp(-rate * base) * -expm1(-moved)
    shown = Fraction(rate) * Fraction(sensitivity)
    hidden = inf if rarest == 0 else log((rarest + more) / rarest) * (1 + _OUTWARD) + _OUTWARD
    return max(hidden, nextafter(float(shown), inf))


@dataclass(frozen=True)
class Coin(Mechanism):
    """True with probability exp(-rate * (value + base)), for values >= 0.

    False must always be possible, or it would reveal the value: the probability of True is at most
    exp(-rate * base). `base` lies on the lattice, so the coin is exact on secure noise
    (`proofs/dartboard.md#coin`).

    >>> coin = Coin("keep", rate=0.5, base=1.0)
    >>> round(coin.probability(0.0), 4), round(coin.curve.bound, 4)
    (0.6065, 0.5)
    """

    exact: ClassVar[bool] = True  # secure noise has a sampler for it

    purpose: str
    rate: float
    base: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        positive("sensitivity", self.sensitivity)
        if self.base * UNITS_PER_LOSS % 1 != 0:
            raise InvalidValue(f"Expected base={self.base!r} on the lattice of 2^-20.")
        if not self.base > 0:
            raise InvalidValue(
                f"Expected base={self.base!r} > 0: otherwise one side of the coin reveals data."
            )

    @property
    def scale(self) -> float:
        return 1 / self.rate

    def noise_scale(self) -> float:
        return self.scale

    def words(self) -> str:
        return f"coin: stays with chance exp(-(value + {self.base:.6g}) / scale)"

    @property
    def curve(self) -> PureDP:
        return PureDP(_cost(self.rate, self.base, self.sensitivity))

    def sample(self, value: Any, noise: Noise) -> Any:
        if np.any(np.asarray(value) < 0):  # the curve holds for values >= 0; they stay unnamed
            raise InvalidValue(f"The value of the coin {self.purpose!r} is negative. Add a base.")
        return noise.flip(noise.lattice(value) + self.base, self.rate, self.purpose)

    def shown(self, values: Values, uniform: Values) -> np.ndarray:
        """Many coins at once, from uniform numbers drawn in advance.

        The result equals that of `sample` with seeded noise.
        """
        return uniform < np.exp(-self.rate * (values + self.base))

    def hidden(self, values: Values, uniform: Values) -> np.ndarray:
        """The negation of `shown`."""
        return uniform >= np.exp(-self.rate * (values + self.base))

    def draw_uniform(self, count: int, noise: Noise) -> Values:
        """Draw the uniform numbers of the next `count` coins."""
        return noise.draw("uniform", self.purpose, rounds=count)

    def probability(self, value: float) -> float:
        return float(np.exp(-self.rate * (float(value) + self.base)))

    def log_probability(self, value: float, output: bool) -> float:
        exponent = -self.rate * (float(value) + self.base)
        return exponent if output else log(-expm1(exponent))

    def log_density(self, value: Any, output: Any) -> float:
        return self.log_probability(value, bool(output))

    def distance(self, value: Any, other: Any) -> float:
        return abs(float(value) - float(other))

    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        true = self.probability(value)
        likely, happened = (true, output) if true >= 0.5 else (1 - true, not output)
        return coin * likely if happened else likely + coin * (1 - likely)

    def outcomes(self, value: Any) -> tuple[bool, ...]:
        return (False, True)

    def probe(self) -> float:
        return self.scale - min(self.base, self.scale)

    def scaled(self, factor: float) -> Coin:
        return replace(self, rate=self.rate / factor)

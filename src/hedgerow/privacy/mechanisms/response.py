"""Randomised response: a secret sign that is turned with a known chance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, expm1, log, log1p
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.noise import Noise
from hedgerow.core.validate import positive
from hedgerow.privacy.curves import PureDP

_INWARD = 2.0**-49  # more than the errors of two elementary functions and a sum


@lru_cache(maxsize=1024)
def _rate(epsilon: float) -> float:
    """ln(1 + e^epsilon), rounded down: a larger rate turns fewer signs and protects less."""
    return (epsilon + log1p(exp(-epsilon))) * (1 - _INWARD)


@dataclass(frozen=True)
class RandomisedResponse(Mechanism):
    """A sign, 1 or -1, that is turned with chance exp(-rate), about 1 / (1 + e^epsilon).

    The rate is ln(1 + e^epsilon), rounded down, so that epsilon is never below the cost of the coin
    that is really tossed. The coin does not depend on the sign, and it is exact on secure noise.

    Parameters
    ----------
    purpose
        The name of the noise stream.
    epsilon
        The cost of one release, > 0.
    sensitivity
        How far a sign moves between neighbouring inputs: 2, from -1 to 1.

    Guarantee
    ---------
    epsilon-DP for any change of the sign (`proofs/private_mixture.md#randomised-response`).

    Examples
    --------
    >>> from hedgerow.privacy import RandomisedResponse
    >>> answer = RandomisedResponse("answer", epsilon=1.0)
    >>> round(answer.turned, 4), round(answer.gain, 4)
    (0.2689, 2.164)
    """

    exact: ClassVar[bool] = True  # secure noise has a sampler for it

    purpose: str
    epsilon: float
    sensitivity: float = 2.0

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)

    @property
    def rate(self) -> float:
        """Minus the logarithm of the chance that a sign is turned."""
        return _rate(self.epsilon)

    @property
    def turned(self) -> float:
        """The chance that a sign is turned."""
        return exp(-self.rate)

    @property
    def gain(self) -> float:
        """What a release is multiplied by, so that its mean is the sign: 1 / (1 - 2 turned)."""
        return -1.0 / expm1(log(2.0) - self.rate)

    @property
    def curve(self) -> PureDP:
        return PureDP(self.epsilon)

    def words(self) -> str:
        return f"randomised response: a sign is turned with chance {self.turned:.6g}"

    def sample(self, value: Any, noise: Noise) -> Any:
        signs = np.asarray(value, float)
        if not (np.abs(signs) == 1).all():  # it stays unnamed
            raise InvalidValue(f"Expected {self.purpose!r} to be 1 or -1.")
        turned = noise.flip(np.ones(signs.shape), self.rate, self.purpose)
        return np.where(turned, -signs, signs)

    def distance(self, value: Any, other: Any) -> float:
        return abs(float(value) - float(other))

    def log_density(self, value: Any, output: Any) -> float:
        return -self.rate if float(value) != float(output) else log(-expm1(-self.rate))

    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        kept = -expm1(-self.rate)
        return coin * kept if float(value) == float(output) else kept + coin * (1 - kept)

    def outcomes(self, value: Any) -> tuple[float, ...]:
        return (-1.0, 1.0)

    def probe(self) -> float:
        return 1.0

    def scaled(self, factor: float) -> RandomisedResponse:
        return replace(self, epsilon=self.epsilon / factor)

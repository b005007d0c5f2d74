"""The base class of mechanisms: what one release draws, what it costs, and how it can be checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from hedgerow.core.curve import PrivacyCurve
from hedgerow.core.noise import Noise


class Mechanism(ABC):
    """A release through `noise.release`: the object that draws it also states its cost.

    `purpose` is the name of its noise stream. `sensitivity` is how far the value may move between neighbouring inputs, measured by
    `distance`. `exact` is True where secure noise has an exact sampler for it.
    """

    exact: ClassVar[bool] = False
    purpose: str
    sensitivity: float

    @property
    def curve(self) -> PrivacyCurve | None:
        """The sharpest guarantee of one release that is proven; None where a release has no cost by itself."""
        return None

    def noise_scale(self) -> float | None:
        """The scale of its noise; None where it has none."""
        return None

    def words(self) -> str:
        """The law of its noise, in words."""
        return "not named"

    @abstractmethod
    def sample(self, value: Any, noise: Noise) -> Any:
        """The release."""

    @abstractmethod
    def distance(self, value: Any, other: Any) -> float:
        """How far two values are apart, in the norm of the sensitivity."""

    @abstractmethod
    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        """A number that is uniform on [0, 1] exactly when the output follows the law; `coin` is uniform, for laws with atoms."""

    @abstractmethod
    def outcomes(self, value: Any) -> tuple[Any, ...] | None:
        """All possible outputs; None where there are infinitely many."""

    @abstractmethod
    def probe(self) -> Any:
        """A value whose output says much about the amount of noise."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The same mechanism with `factor` times the noise."""

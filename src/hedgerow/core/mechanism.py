"""Interfaces of privacy curves and mechanisms: what a release draws, costs and how to check it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from hedgerow.core.errors import Unsupported
from hedgerow.core.noise import Noise


@runtime_checkable
class PrivacyCurve(Protocol):
    """delta as a function of epsilon, and epsilon as a function of delta."""

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta with which (epsilon, delta)-DP holds."""
        ...

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon >= 0 with which (epsilon, delta)-DP holds; inf if none."""
        ...

    def stated(self) -> tuple[float, float]:
        """Return the (epsilon, delta) that is quoted for this curve."""
        ...

    def words(self) -> str:
        """Return the quoted guarantee as text."""
        ...

    def of_records(self, count: int, separate: bool, at_delta: float = 0.0) -> PrivacyCurve:
        """Return the curve of `count` records; `separate`: they enter separate releases.

        A curve that is quoted at a delta is then quoted at `at_delta`, if that is not 0.
        """
        ...


@dataclass(frozen=True)
class NoGuarantee:
    """No protection: this observer sees raw data."""

    reason: str

    def delta(self, epsilon: float) -> float:
        return 1.0

    def epsilon(self, delta: float) -> float:
        return 0.0 if delta >= 1.0 else float("inf")

    def stated(self) -> tuple[float, float]:
        return float("inf"), 1.0

    def words(self) -> str:
        return f"no guarantee ({self.reason})"

    def of_records(self, count: int, separate: bool, at_delta: float = 0.0) -> NoGuarantee:
        return self


class Mechanism(ABC):
    """A release through `noise.release`; the object that draws it also states its cost.

    `purpose` names its noise stream. `sensitivity` is the largest move of the value between
    neighbouring inputs, measured by `distance`. `exact` is True if secure noise has an exact
    sampler for it.
    """

    exact: ClassVar[bool] = False
    purpose: str
    sensitivity: float

    @property
    def curve(self) -> PrivacyCurve | None:
        """The sharpest proven guarantee of one release; None if a release alone has no cost."""
        return None

    def cost_of_move(self, distance: float) -> PrivacyCurve | None:
        """Return a guarantee of one release whose value moves by `distance`, or less.

        `distance` is at most the sensitivity. By default a short move costs as much as a long one.
        """
        return self.curve

    def noise_scale(self) -> float | None:
        """Return the scale of the noise; None if it has none."""
        return None

    def exact_scales(self, width: int, moved: int = 1) -> tuple[float, float]:
        """Return the least and the largest `noise_scale` that secure noise can draw.

        `width` is how many numbers a value has, and `moved` how many values of a game may depend on
        one unit. By default there is no limit.
        """
        return 0.0, inf

    def words(self) -> str:
        """Describe the law of the noise."""
        return "not named"

    @abstractmethod
    def sample(self, value: Any, noise: Noise) -> Any:
        """Return one release."""

    @abstractmethod
    def distance(self, value: Any, other: Any) -> float:
        """Return the distance of two values, in the norm of the sensitivity."""

    @abstractmethod
    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        """Return a number that is uniform on [0, 1] exactly when the output follows the law.

        `coin` is a uniform number, used for laws with atoms.
        """

    def log_density(self, value: Any, output: Any) -> float:
        """Return the logarithm of the density (for discrete outputs: the probability) of an output.

        `value` and `output` are those of one party. Audits compare it between worlds.
        """
        raise Unsupported(f"{type(self).__name__} has no log_density.")

    def summed(self, count: int) -> Mechanism:
        """Return the mechanism that the sum of `count` releases follows, about the sum of values.

        The releases are by different parties, with independent noise.
        """
        raise Unsupported(f"{type(self).__name__} has no law for the sum of {count} releases.")

    @abstractmethod
    def outcomes(self, value: Any) -> tuple[Any, ...] | None:
        """Return all possible outputs; None if there are infinitely many."""

    @abstractmethod
    def probe(self) -> Any:
        """Return a value whose output depends strongly on the amount of noise."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """Return the same mechanism with `factor` times the noise."""

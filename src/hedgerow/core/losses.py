"""Loss families: public rules that turn a record and a play into a charge. The records are secret.

`Linear` is prediction from experts: the record is the loss vector. `SquaredError` is the simplest
convex family: the record holds features and a target, the play is a point, and there is a gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.record import LOSS_VECTOR, Record, example
from hedgerow.core.validate import positive


def common_plays(plays: np.ndarray) -> np.ndarray | None:
    """Return the plays (rounds,) that all deciders share, or None if they may differ.

    An algorithm signals shared plays by returning one column for all deciders as a broadcast view.

    >>> common_plays(np.broadcast_to(np.array([3, 4])[:, None], (2, 5)))
    array([3, 4])
    """
    return plays[:, 0] if plays.ndim == 2 and plays.strides[1] == 0 and plays.shape[1] > 0 else None


class Family(Protocol):
    """The interface of a loss family; arrays have leading axes (rounds, deciders)."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest charge."""
        ...

    @property
    def record(self) -> Record:
        """What a record is called in certificates, and where it lies."""
        ...

    def value(self, records: Array, plays: np.ndarray) -> Array: ...

    def gradient(self, records: Array, plays: Array) -> Array:
        """Return the gradient with respect to the play, for plays that are points."""
        ...


@runtime_checkable
class Quadratic(Protocol):
    """A family whose total loss is a quadratic function of one fixed point.

    Its best point can therefore be computed exactly.
    """

    def moments(self, records: Array) -> Array:
        """Return sums over the records; moments of more records are sums of moments."""
        ...

    def best_point(self, moments: Array) -> Array: ...

    def least(self, moments: Array) -> float:
        """Return the total charge of the best point."""
        ...


@dataclass(frozen=True)
class Linear:
    """Charge `loss[expert]`, or `<loss, point>` for a point of the simplex; losses lie in [0, 1].

    >>> Linear().value(np.array([[0.25, 1.0]]), np.array([1]))
    array([1.])
    """

    @property
    def bounds(self) -> tuple[float, float]:
        return (0.0, 1.0)

    @property
    def record(self) -> Record:
        return LOSS_VECTOR

    def value(self, records: Array, plays: np.ndarray) -> Array:
        if plays.dtype.kind == "i":
            one = common_plays(plays)
            # all deciders follow one expert: take a column instead of gathering
            if one is not None and one.size and (one == one[0]).all():
                return records[..., int(one[0])]
            rows = records.reshape(-1, records.shape[-1])
            return rows[np.arange(len(rows)), plays.reshape(-1)].reshape(plays.shape)
        return np.einsum("...d,...d->...", records, plays)

    def gradient(self, records: Array, plays: Array) -> Array:
        del plays
        return records


@dataclass(frozen=True)
class SquaredError:
    """Charge `(<features, point> - target)^2 / 2`, with records `(features..., target)`.

    Features and points have Euclidean norm at most `feature_norm` and `radius`; targets lie in
    [-target, target].
    """

    feature_norm: float = 1.0
    radius: float = 1.0
    target: float = 1.0

    def __post_init__(self) -> None:
        positive("feature_norm", self.feature_norm)
        positive("radius", self.radius)
        positive("target", self.target)

    @property
    def bounds(self) -> tuple[float, float]:
        return (0.0, (self.feature_norm * self.radius + self.target) ** 2 / 2)

    @property
    def record(self) -> Record:
        features = f"features of norm at most {self.feature_norm:g}"
        target = f"target in [{-self.target:g},{self.target:g}]"
        return example(self.bounds, f"({features}, {target})")

    def _residual(self, records: Array, plays: Array) -> Array:
        if plays.shape[-1] + 1 != records.shape[-1]:
            raise InvalidValue(
                f"Expected points of width {records.shape[-1] - 1}, got width {plays.shape[-1]}."
            )
        return np.einsum("...d,...d->...", records[..., :-1], plays) - records[..., -1]

    def value(self, records: Array, plays: Array) -> Array:
        return self._residual(records, plays) ** 2 / 2

    def gradient(self, records: Array, plays: Array) -> Array:
        return self._residual(records, plays)[..., None] * records[..., :-1]

    def moments(self, records: Array) -> Array:
        """Return Z'Z for the rows (features, target) of Z.

        The total of a point w is (w, -1) Z'Z (w, -1)' / 2.
        """
        rows = records.reshape(-1, records.shape[-1])
        return rows.T @ rows

    def best_point(self, moments: Array) -> Array:
        """Return the least-squares point in the ball.

        Solves (A + mu I) w = b in the eigenbasis of A, with the smallest mu >= 0 that keeps w
        inside.
        """
        curvatures, axes = np.linalg.eigh(moments[:-1, :-1])
        pull = axes.T @ moments[:-1, -1]
        flat = curvatures <= curvatures.max(initial=0.0) * len(curvatures) * np.finfo(float).eps
        pull, curvatures = np.where(flat, 0.0, pull), np.where(flat, 1.0, curvatures)

        def point(mu: float) -> Array:
            return pull / (curvatures + mu)

        low, high = 0.0, float(np.linalg.norm(pull)) / self.radius
        if np.linalg.norm(point(0.0)) > self.radius:
            while low < (middle := (low + high) / 2) < high:  # the norm falls in mu
                low, high = (
                    (middle, high) if np.linalg.norm(point(middle)) > self.radius else (low, middle)
                )
            return axes @ point(high)
        return axes @ point(0.0)

    def least(self, moments: Array) -> float:
        extended = np.append(self.best_point(moments), -1.0)
        return max(0.0, float(extended @ moments @ extended) / 2)

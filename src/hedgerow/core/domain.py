"""Domains: the convex sets in which points are played, with exact projections and linear minima."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.validate import positive

SLACK = 1e-9  # how far rounding may move a point out of its domain


class Domain(ABC):
    """A convex set of points; arrays have the coordinates on the last axis."""

    @property
    @abstractmethod
    def diameter(self) -> float:
        """The largest Euclidean distance of two points; no point is longer than this."""

    @abstractmethod
    def project(self, points: Array) -> Array:
        """Return the nearest points of the domain in Euclidean distance."""

    @abstractmethod
    def contains(self, points: Array, slack: float = SLACK) -> np.ndarray:
        """Whether each point lies in the domain, or breaks its rules by at most `slack`."""

    @abstractmethod
    def linear_minimum(self, gradient: Array) -> tuple[Array, Array]:
        """Return a point s that minimises <gradient, s>, and the minimum."""

    @abstractmethod
    def centre(self, width: int) -> Array:
        """Return the middle point with this many coordinates."""


@dataclass(frozen=True)
class Simplex(Domain):
    """All points with coordinates that are not negative and add up to 1: mixtures of experts.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.Simplex().project([0.9, 0.5, -3.0]).round(3).tolist()
    [0.7, 0.3, 0.0]
    >>> point, value = hr.Simplex().linear_minimum([0.5, 0.25])
    >>> point.tolist(), float(value)
    ([0.0, 1.0], 0.25)
    """

    @property
    def diameter(self) -> float:
        return sqrt(2.0)  # from one vertex to another

    def project(self, points: Array) -> Array:
        """Subtract the one number that leaves positive parts with sum 1 (Held et al. 1974)."""
        given = np.asarray(points, float)
        # A coordinate more than 1 below the largest is 0 in the projection: none is far away.
        near = np.maximum(given - given.max(axis=-1, keepdims=True), -1.0)
        falling = -np.sort(-near, axis=-1)
        ranks = np.arange(1, given.shape[-1] + 1)
        levels = (np.cumsum(falling, axis=-1) - 1.0) / ranks
        used = (falling > levels).sum(axis=-1, keepdims=True)
        return np.maximum(near - np.take_along_axis(levels, used - 1, axis=-1), 0.0)

    def contains(self, points: Array, slack: float = SLACK) -> np.ndarray:
        given = np.asarray(points, float)
        return (given >= -slack).all(axis=-1) & (np.abs(given.sum(axis=-1) - 1.0) <= slack)

    def linear_minimum(self, gradient: Array) -> tuple[Array, Array]:
        given = np.asarray(gradient, float)
        vertex = given.argmin(axis=-1)
        return np.eye(given.shape[-1])[vertex], given.min(axis=-1)

    def centre(self, width: int) -> Array:
        return np.full(width, 1.0 / width)


def length(vectors: Array) -> Array:
    """Return Euclidean norms over the last axis, where squares would overflow or vanish, too."""
    given = np.asarray(vectors, float)
    peak = np.abs(given).max(axis=-1, initial=0.0)
    scale = np.where(peak > 0, peak, 1.0)
    return scale * np.sqrt(((given / scale[..., None]) ** 2).sum(axis=-1))


@dataclass(frozen=True)
class Ball(Domain):
    """All points whose Euclidean norm is at most `radius`.

    Parameters
    ----------
    radius
        The largest norm of a point, positive.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.Ball(radius=1.0).project([3.0, 4.0]).round(3).tolist()
    [0.6, 0.8]
    >>> point, value = hr.Ball(radius=2.0).linear_minimum([0.0, 0.5])
    >>> point.tolist(), float(value)
    ([0.0, -2.0], -1.0)
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        positive("radius", self.radius)

    @property
    def diameter(self) -> float:
        return 2.0 * self.radius

    def project(self, points: Array) -> Array:
        given = np.asarray(points, float)
        size = length(given)[..., None]
        long = size > self.radius
        return np.where(long, given / np.where(long, size, 1.0) * self.radius, given)

    def contains(self, points: Array, slack: float = SLACK) -> np.ndarray:
        return length(points) <= self.radius + slack

    def linear_minimum(self, gradient: Array) -> tuple[Array, Array]:
        given = np.asarray(gradient, float)
        size = length(given)
        unit = given / np.where(size > 0, size, 1.0)[..., None]
        return 0.0 - self.radius * unit, 0.0 - self.radius * size

    def centre(self, width: int) -> Array:
        return np.zeros(width)


@dataclass(frozen=True)
class Space(Domain):
    """All points: nothing is projected. The weights of a model live here.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.Space().contains([[1e9, 0.0], [float("nan"), 0.0]]).tolist()
    [True, False]
    """

    @property
    def diameter(self) -> float:
        return inf

    def project(self, points: Array) -> Array:
        return np.asarray(points, float)

    def contains(self, points: Array, slack: float = SLACK) -> np.ndarray:
        given = np.asarray(points, float)
        if given.ndim > 1 and given.shape[-2] > 1 and given.strides[-2] == 0:  # one point for all
            return np.broadcast_to(self.contains(given[..., :1, :]), given.shape[:-1])
        return np.asarray(np.isfinite(given).all(axis=-1))

    def linear_minimum(self, gradient: Array) -> tuple[Array, Array]:
        raise Unsupported("No point of the whole space minimises a linear function. Use a Ball.")

    def centre(self, width: int) -> Array:
        return np.zeros(width)

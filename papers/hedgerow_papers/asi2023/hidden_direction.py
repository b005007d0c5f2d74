"""Linear losses in a ball with a hidden best direction, in any number of dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.core.convex import Huber
from hedgerow.core.lattice import Array
from hedgerow.core.validate import between
from hedgerow.environments.drawn.examples import CHUNK, Examples


@dataclass(frozen=True, kw_only=True)
class HiddenDirection(Examples):
    """Linear losses in a ball: minus the score, plus a constant; features lean to one direction.

    The features have length 1. Their part along a hidden direction is `tilt`, the rest is uniform.
    So the best point is near the rim, in that direction, in any number of dimensions, and the
    centre loses about tilt times radius in every round. The loss is a Huber loss whose target is
    too far away for its curved part to matter.

    Parameters
    ----------
    clients
        The number of clients, at least 1.
    features
        The number of features, at least 1.
    horizon
        The number of rounds, at least 1.
    radius
        The radius of the ball of points.
    tilt
        The part of features along the hidden direction, in [0, 1].

    Examples
    --------
    >>> game = HiddenDirection(clients=4, features=3, horizon=50)
    >>> game.family.gradient_bound("l2", width=3)
    1.0
    """

    radius: float = 1.0
    tilt: float = 0.3

    def __post_init__(self) -> None:
        between("tilt", self.tilt, 0.0, 1.0)
        super().__post_init__()

    def losses(self) -> Huber:
        return Huber(radius=self.radius, target=self.radius + 1.0, threshold=1.0)

    def drawn_features(self, rng: Any, hidden: Array) -> Array:
        along = hidden / self.radius
        drawn = rng.standard_normal((CHUNK, self.clients, self.features))
        across = drawn - (drawn @ along)[..., None] * along
        size = np.linalg.norm(across, axis=-1, keepdims=True)
        unit = across / np.where(size > 1e-9, size, np.inf)
        return self.tilt * along + np.sqrt(1 - self.tilt**2) * unit

    def targets(self, rng: Any, scores: Array) -> Array:
        return np.full(scores.shape, self.radius + 1.0)

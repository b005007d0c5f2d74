"""Drawn examples for learners that play points: features, and a target or a label.

A hidden point of the ball gives every example its target or the odds of its label. The best point
in hindsight is near it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.convex import Huber, Logistic, SquaredError
from hedgerow.core.environment import Environment, Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family
from hedgerow.core.measure import Measure
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, positive
from hedgerow.environments.drawn.generated import generator
from hedgerow.environments.measures import Accuracy

CHUNK = 256  # rounds drawn at once
_PLAN, _CHUNK = 1, 2


@dataclass(frozen=True)
class Position:
    """The state: the seed, the next round, and the last chunk that was drawn."""

    seed: int
    round: int
    chunk: int = -1
    records: Array | None = None


class Chunked(Environment):
    """Base class: records that are drawn in chunks, each with its own generator."""

    @abstractmethod
    def chunk(self, seed: int, index: int) -> Array:
        """Draw `CHUNK` rounds of records."""

    @property
    def traits(self) -> Traits:
        return Traits(adversary="stochastic", fresh=True)

    def start(self, seed: int) -> Position:
        return Position(seed, 0)

    def block(
        self, state: Position, rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, Position]:
        pieces, at, stop = list[Array](), state.round, state.round + rounds
        chunk, records = state.chunk, state.records
        while at < stop:
            index, offset = divmod(at, CHUNK)
            if index != chunk or records is None:
                chunk, records = index, self.chunk(state.seed, index)
            pieces.append(records[offset : offset + stop - at])
            at += len(pieces[-1])
        joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return Block.of(joined), Position(state.seed, stop, chunk, records)


@dataclass(frozen=True, kw_only=True)
class Examples(Chunked):
    """Base class: features are uniform on the unit sphere, the hidden point on the ball's rim."""

    clients: int = 10
    features: int = 20
    horizon: int = 512
    radius: float = 3.0

    def __post_init__(self) -> None:
        at_least("features", self.features, 1)
        positive("radius", self.radius)
        _ = self.setting

    @abstractmethod
    def losses(self) -> Family:
        """Return the loss family."""

    @abstractmethod
    def targets(self, rng: Any, scores: Array) -> Array:
        """Draw targets or labels for examples with these scores at the hidden point."""

    def drawn_features(self, rng: Any, hidden: Array) -> Array:
        """Draw the features of one chunk; by default they do not depend on the hidden point."""
        return _directions(rng, (CHUNK, self.clients, self.features))

    @property
    def setting(self) -> Setting:
        return Setting(self.clients, self.features, self.horizon, family=self.losses())

    def chunk(self, seed: int, index: int) -> Array:
        hidden = self.radius * _directions(generator(seed, _PLAN), (self.features,))
        rng = generator(seed, _CHUNK, index)
        features = self.drawn_features(rng, hidden)
        targets = self.targets(rng, features @ hidden)
        return self.setting.family.clip(np.concatenate([features, targets[..., None]], -1)).records


def _directions(rng: Any, shape: tuple[int, ...]) -> Array:
    drawn = rng.standard_normal(shape)
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


@dataclass(frozen=True, kw_only=True)
class Classification(Examples):
    """Examples with labels -1 and 1, charged by logistic loss; brings the accuracy.

    A label is 1 with probability 1 / (1 + exp(-score)), the score being that of a hidden point.

    Parameters
    ----------
    clients
        The number of clients, at least 1.
    features
        The number of features, at least 1.
    horizon
        The number of rounds, at least 1.
    radius
        The radius of the ball of points, and the length of the hidden point.

    Examples
    --------
    >>> import hedgerow as hr
    >>> game = hr.Classification(clients=4, features=3, horizon=50)
    >>> study = hr.run(game, {"open": hr.GradientDescent()}, seeds=2)
    >>> study["open"].results[0].figures["accuracy"].shape
    (50,)
    """

    def losses(self) -> Logistic:
        return Logistic(radius=self.radius)

    def targets(self, rng: Any, scores: Array) -> Array:
        return np.where(rng.random(scores.shape) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)

    def measures(self) -> tuple[Measure, ...]:
        return (Accuracy(),)


@dataclass(frozen=True, kw_only=True)
class Regression(Examples):
    """Examples with real targets, charged by squared error or by the Huber loss.

    A target is the score of a hidden point plus normal noise, clipped to [-target, target].

    Parameters
    ----------
    clients
        The number of clients, at least 1.
    features
        The number of features, at least 1.
    horizon
        The number of rounds, at least 1.
    radius
        The radius of the ball of points, and the length of the hidden point.
    noise
        The standard deviation of the noise of a target, > 0.
    target
        The largest absolute target, > 0.
    loss
        "squared" or "huber" (with threshold 1).

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.Regression(clients=4, features=3, horizon=50).family
    SquaredError(feature_norm=1.0, radius=3.0, target=4.0)
    """

    noise: float = 0.5
    target: float = 4.0
    loss: Literal["squared", "huber"] = "squared"

    def __post_init__(self) -> None:
        positive("noise", self.noise)
        if self.loss not in ("squared", "huber"):
            raise InvalidValue(f"Expected loss={self.loss!r} to be 'squared' or 'huber'.")
        super().__post_init__()

    def losses(self) -> Family:
        if self.loss == "huber":
            return Huber(radius=self.radius, target=self.target, threshold=1.0)
        return SquaredError(radius=self.radius, target=self.target)

    def targets(self, rng: Any, scores: Array) -> Array:
        return scores + self.noise * rng.standard_normal(scores.shape)

"""What environments with masks share: they are made of another environment, and coins are the same whatever the block size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family
from hedgerow.core.protocol import Environment, Feature, features_of
from hedgerow.core.regret_bound import Adversary
from hedgerow.core.setting import Setting
from hedgerow.environments.adversaries import adversary_of
from hedgerow.environments.drawn.generated import generator


@dataclass(frozen=True)
class Position:
    """State of an environment that is made of another one: where it is, and the other's state."""

    seed: int
    round: int
    inner: Any


@dataclass(frozen=True, kw_only=True)
class Around:
    """An environment made of another one, `of`, which keeps its losses, clients, experts and rounds."""

    adaptive: ClassVar[bool] = False
    feature: ClassVar[Feature]
    not_around: ClassVar[frozenset[Feature]]

    of: Environment

    def __post_init__(self) -> None:
        object.__setattr__(self, "adaptive", self.of.adaptive)
        for feature in sorted(features_of(self.of) & (self.not_around | {self.feature}), key=lambda feature: feature.value):
            raise InvalidValue(f"Expected {type(self).__name__} around an environment without {feature.value}.")

    @property
    def setting(self) -> Setting:
        return self.of.setting

    @property
    def family(self) -> Family:
        return self.of.family

    @property
    def features(self) -> frozenset[Feature]:
        return features_of(self.of) | {self.feature}

    @property
    def fresh(self) -> bool:
        """Whether every seed draws data of its own, as the other environment says."""
        return getattr(self.of, "fresh", False) is True

    @property
    def adversary(self) -> Adversary:
        """Who chooses the losses that are reported: as for the other environment."""
        return adversary_of(self.of)

    def start(self, seed: int) -> Position:
        return Position(seed, 0, self.of.start(seed))


def coins(seed: int, key: int, first_round: int, rounds: int, *shape: int) -> Array:
    """Uniform numbers (rounds, *shape); those of a round depend on the seed and the round alone: the generator jumps there."""
    rng = generator(seed, key)
    rng.bit_generator.advance(first_round * int(np.prod(shape)))  # pyright: ignore[reportAttributeAccessIssue]
    return rng.random((rounds, *shape))

"""What environments with masks share: they are made of another environment, and coins are the same whatever the block size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.environment import Environment, Feature, Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family
from hedgerow.core.setting import Setting
from hedgerow.environments.drawn.generated import generator


@dataclass(frozen=True)
class Position:
    """State of an environment that is made of another one: where it is, and the other's state."""

    seed: int
    round: int
    inner: Any


@dataclass(frozen=True, kw_only=True)
class Around(Environment):
    """An environment made of another one, `of`, which keeps its losses, clients, experts and rounds."""

    feature: ClassVar[Feature]
    not_around: ClassVar[frozenset[Feature]]

    of: Environment

    def __post_init__(self) -> None:
        for feature in sorted(
            self.of.traits.features & (self.not_around | {self.feature}),
            key=lambda feature: feature.value,
        ):
            raise InvalidValue(
                f"Expected {type(self).__name__} around an environment without {feature.value}."
            )

    @property
    def setting(self) -> Setting:
        return self.of.setting

    @property
    def family(self) -> Family:
        return self.of.family

    @property
    def traits(self) -> Traits:
        """Those of the other environment, with one feature more; sums cannot be drawn around it."""
        inner = self.of.traits
        return replace(inner, features=inner.features | {self.feature}, why_no_sums=None)

    def start(self, seed: int) -> Position:
        return Position(seed, 0, self.of.start(seed))


def coins(seed: int, key: int, first_round: int, rounds: int, *shape: int) -> Array:
    """Uniform numbers (rounds, *shape); those of a round depend on the seed and the round alone: the generator jumps there."""
    rng = generator(seed, key)
    rng.bit_generator.advance(first_round * int(np.prod(shape)))  # pyright: ignore[reportAttributeAccessIssue]
    return rng.random((rounds, *shape))

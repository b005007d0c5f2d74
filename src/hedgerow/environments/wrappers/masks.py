"""The base class of wrappers, and coins that do not depend on the block size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.environment import Environment, Feature, Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.measure import Measure
from hedgerow.core.setting import Setting
from hedgerow.environments.drawn.generated import generator


@dataclass(frozen=True)
class Position:
    """The state of a wrapper: seed, round, and the state of the wrapped environment."""

    seed: int
    round: int
    inner: Any


@dataclass(frozen=True, kw_only=True)
class Around(Environment):
    """A wrapper around `of`; it keeps the losses, clients, experts and rounds."""

    feature: ClassVar[Feature]
    not_around: ClassVar[frozenset[Feature]]

    of: Environment

    def __post_init__(self) -> None:
        if not isinstance(self.of, Environment):
            raise InvalidValue(f"Expected of={self.of!r} to be an environment.")
        for feature in sorted(
            self.of.traits.features & (self.not_around | {self.feature}),
            key=lambda feature: feature.value,
        ):
            raise InvalidValue(
                f"{type(self).__name__} cannot wrap an environment with {feature.value}. "
                "Wrap an environment without them."
            )

    @property
    def setting(self) -> Setting:
        return self.of.setting

    @property
    def traits(self) -> Traits:
        """The traits of the wrapped environment plus one feature; sums cannot be drawn."""
        inner = self.of.traits
        return replace(inner, features=inner.features | {self.feature}, why_no_sums=None)

    @property
    def expert_names(self) -> tuple[str, ...]:
        return self.of.expert_names

    @property
    def client_names(self) -> tuple[str, ...]:
        return self.of.client_names

    @property
    def unit(self) -> float:
        return self.of.unit

    def measures(self) -> tuple[Measure, ...]:
        return self.of.measures()

    def notes(self) -> tuple[str, ...]:
        return self.of.notes()

    def start(self, seed: int) -> Position:
        return Position(seed, 0, self.of.start(seed))


def coins(seed: int, key: int, first_round: int, rounds: int, *shape: int) -> Array:
    """Return uniform numbers (rounds, *shape) that depend only on the seed and the round.

    The generator jumps to the first round.
    """
    rng = generator(seed, key)
    rng.bit_generator.advance(first_round * int(np.prod(shape)))  # pyright: ignore[reportAttributeAccessIssue]
    return rng.random((rounds, *shape))

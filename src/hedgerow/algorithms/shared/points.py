"""Clients that play the point, or the expert, in their state; shared by several algorithms."""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np

from hedgerow.core.lattice import Array
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Context


class HasPoint(Protocol):
    """A state with the point to play."""

    @property
    def point(self) -> Array: ...


State = TypeVar("State", bound=HasPoint)


class PlaysPoint:
    """Base class of clients that play `state.point` in every round."""

    def play(self, state: State, context: Context, noise: Noise) -> tuple[Array, State]:
        return state.point, state

    def play_many(self, state: State, rounds: int, noise: Noise) -> tuple[Array, State]:
        return np.broadcast_to(state.point, (rounds, *state.point.shape)), state

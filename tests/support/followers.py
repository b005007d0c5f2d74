"""What learners of the tests share: everybody follows the expert that was broadcast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.certificate import (
    DEFAULT_VIEWS,
    IDEAL_REALS,
    NO_CARRY_OVER,
    PUBLIC_PARAMETERS,
    Guarantee,
    Observer,
    PrivacyCurve,
    Proof,
)
from hedgerow.core.messages import Broadcast
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Context
from hedgerow.core.units import Event, Unit


@dataclass(frozen=True)
class Leader(Broadcast):
    expert: int


@dataclass(frozen=True)
class Totals:
    totals: np.ndarray


@dataclass(frozen=True)
class Told:
    expert: np.ndarray


@dataclass(frozen=True)
class Decider:
    """Follows the expert that was broadcast."""

    state: ClassVar[type[Any]] = Told

    def start(self, noise: Noise) -> Told:
        return Told(np.zeros(noise.batch, np.int64))

    def receive(self, state: Told, broadcast: Leader) -> Told:
        return Told(np.full_like(state.expert, broadcast.expert))

    def play(self, state: Told, context: Context, noise: Noise) -> tuple[np.ndarray, Told]:
        return state.expert, state


class Reporting:
    """A client that hears nothing and does not play."""

    def receive(self, state: Any, broadcast: Leader) -> Any:
        return state

    def play(self, state: Any, context: Context, noise: Noise) -> Any:
        raise AssertionError("a client does not play")


def guarantees(
    curve: PrivacyCurve,
    proof: Proof,
    about: Unit | None = None,
    adjacency: str | None = None,
    views: Mapping[Observer, Any] = DEFAULT_VIEWS,
) -> tuple[Guarantee, ...]:
    """The same promise for every observer."""
    event = Event()
    words = event.adjacency() if adjacency is None else adjacency
    assumes = frozenset({IDEAL_REALS, PUBLIC_PARAMETERS, NO_CARRY_OVER})
    return tuple(
        Guarantee(observer, view, about or event, words, curve, proof, assumes=assumes)
        for observer, view in views.items()
    )

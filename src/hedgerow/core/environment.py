"""Where losses come from: the base class of environments, and what they say of their game."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import Units
from hedgerow.core.losses import Family
from hedgerow.core.regret_bound import ADVERSARIES, Adversary
from hedgerow.core.setting import Setting
from hedgerow.core.validate import expect


class Feature(Enum):
    """What a game may have beyond the plain one; an algorithm that does not support it is refused."""

    SLEEPING_EXPERTS = "sleeping experts"
    ABSENT_CLIENTS = "absent clients"
    LATE_REPORTS = "late reports"


MASKS_AND_DELAYS = frozenset(
    {Feature.SLEEPING_EXPERTS, Feature.ABSENT_CLIENTS, Feature.LATE_REPORTS}
)
"""What `proofs/masks.md` covers, for every algorithm that uses nothing of a client but its reports."""


@dataclass(frozen=True)
class Traits:
    """What an environment says of its game; the defaults are those of the plain one.

    `adversary` is the weakest adversary that the environment is: "stochastic" where losses are drawn anew in every round from one law,
    independently at every client (some regret bounds hold only there), "oblivious" where they are fixed in advance, "adaptive" where
    reports may depend on the plays.
    `sees_plays`: `block` is handed the past plays and gives one round at a time; such an adversary is adaptive.
    `features` are those that the game has beyond the plain one.
    `fresh`: every seed draws data of its own; without this, seeds count as runs on the same data.
    `why_no_sums`: why sums cannot be drawn with these parameters, where the environment has `sums`.
    """

    adversary: Adversary = "oblivious"
    sees_plays: bool = False
    features: frozenset[Feature] = frozenset()
    fresh: bool = False
    why_no_sums: str | None = None

    def __post_init__(self) -> None:
        expect(self.adversary in ADVERSARIES, "adversary", self.adversary, f"in {ADVERSARIES}")
        if self.sees_plays:
            object.__setattr__(self, "adversary", "adaptive")


class Environment(ABC):
    """Where losses come from: a frozen dataclass of choices. `block` is pure."""

    @property
    @abstractmethod
    def setting(self) -> Setting:
        """How many clients, experts and rounds."""

    @property
    @abstractmethod
    def family(self) -> Family:
        """What a play costs."""

    @property
    def traits(self) -> Traits:
        """What the game is like; override it where the defaults do not hold."""
        return Traits()

    @abstractmethod
    def start(self, seed: int) -> Any:
        """The state before the first round."""

    @abstractmethod
    def block(self, state: Any, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, Any]:
        """The next rounds, and the state after them. `past_plays` are those of the last round, where the environment sees them."""

    def sums(self, state: Any, rounds: int) -> tuple[Units, Any]:
        """Losses of every expert in the next rounds, summed over all clients, in lattice units.

        Optional: drawn directly, with the law that adding up the losses would give.
        """
        raise Unsupported(f"{type(self).__name__} cannot draw sums of losses directly.")

    def fingerprint(self) -> str | None:
        """A text that differs where the data differ, for environments with data of their own; None for others."""
        return None


def draws_sums(kind: type[Environment]) -> bool:
    """Whether environments of this class have `sums`."""
    return kind.sums is not Environment.sums

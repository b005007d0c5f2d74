"""Whether a regret bound covers the adversary that chooses the losses."""

from __future__ import annotations

from hedgerow.core.environment import Environment
from hedgerow.core.losses import Family, Gains
from hedgerow.core.regret_bound import ADVERSARIES, Adversary, RegretBound

BOUND_HOLDS_FOR: dict[Adversary, str] = {
    "stochastic": (
        "losses drawn in every round from one law, independently of other rounds and clients"
    ),
    "oblivious": "losses fixed in advance",
    "adaptive": "losses that may react to the plays",
}


def holds_for(adversary: Adversary, family: Family) -> str:
    """For what a bound holds, in the words of the game: losses or gains.

    >>> holds_for("oblivious", Gains())
    'gains fixed in advance'
    """
    text = BOUND_HOLDS_FOR[adversary]
    return text.replace("losses", "gains") if isinstance(family, Gains) else text


def covered(bound: RegretBound, environment: Environment) -> bool:
    """Whether the bound holds against the adversary of this environment."""
    return ADVERSARIES.index(environment.traits.adversary) <= ADVERSARIES.index(bound.covers)

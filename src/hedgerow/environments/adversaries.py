"""Whether a regret bound covers the adversary that chooses the losses."""

from __future__ import annotations

from hedgerow.core.environment import Environment
from hedgerow.core.losses import LOSSES, Family, Gains
from hedgerow.core.regret_bound import (
    ADVERSARIES,
    Adversary,
    BoundWithPerfectExpert,
    RegretBound,
)

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


def bound_for(bound: RegretBound, family: Family) -> str:
    """For what this bound holds, in the words of the game.

    >>> from hedgerow.core.certificate import Proof
    >>> proof = Proof("sparse_vector_regret.md", "theorem")
    >>> bound_for(BoundWithPerfectExpert(10.0, "oblivious", proof), LOSSES)
    'losses fixed in advance if one expert never loses'
    """
    text = holds_for(bound.covers, family)
    return f"{text} if one expert never loses" if bound.perfect_expert else text


def covered(bound: RegretBound, environment: Environment) -> bool:
    """Whether the bound holds against the adversary of this environment."""
    traits = environment.traits
    if bound.perfect_expert and not traits.perfect_expert:
        return False
    return ADVERSARIES.index(traits.adversary) <= ADVERSARIES.index(bound.covers)

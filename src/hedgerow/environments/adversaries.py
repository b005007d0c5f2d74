"""Whether a regret bound covers the adversary that chooses the losses."""

from __future__ import annotations

from hedgerow.core.environment import Environment
from hedgerow.core.losses import Family, Gains
from hedgerow.core.regret_bound import (
    ADVERSARIES,
    Adversary,
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

    >>> from hedgerow.core.certificate import (Proof)
    >>> from hedgerow.core.losses import Linear
    >>> from hedgerow.core.regret_bound import BoundWithGoodExpert
    >>> proof = Proof("sparse_vector_regret.md", "theorem")
    >>> bound_for(BoundWithGoodExpert(10.0, "oblivious", proof, 0.0), Linear())
    'losses fixed in advance if one expert never loses'
    >>> bound_for(BoundWithGoodExpert(10.0, "oblivious", proof, 2.5), Linear())
    'losses fixed in advance if one expert loses at most 2.5 per client'
    """
    text = holds_for(bound.covers, family)
    if bound.best_loss is None:
        return text
    rarely = (
        "never loses" if bound.best_loss == 0 else f"loses at most {bound.best_loss:g} per client"
    )
    return f"{text} if one expert {rarely}"


def good_enough(bound: RegretBound, environment: Environment) -> bool:
    """Whether the environment promises an expert as good as the bound needs."""
    promised = environment.traits.best_loss
    return bound.best_loss is None or (promised is not None and promised <= bound.best_loss)


def covered(bound: RegretBound, environment: Environment) -> bool:
    """Whether the bound holds against the adversary of this environment."""
    traits = environment.traits
    if not good_enough(bound, environment):
        return False
    return ADVERSARIES.index(traits.adversary) <= ADVERSARIES.index(bound.covers)

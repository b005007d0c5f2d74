"""Who chooses the losses, and whether an algorithm's regret bound covers such an adversary."""

from __future__ import annotations

from hedgerow.core.environment import Environment
from hedgerow.core.regret_bound import ADVERSARIES, Adversary, RegretBound

BOUND_HOLDS_FOR: dict[Adversary, str] = {
    "stochastic": "losses drawn anew in every round from one law, independently at every client",
    "oblivious": "losses fixed in advance",
    "adaptive": "losses that may react to the plays",
}


def covered(bound: RegretBound, environment: Environment) -> bool:
    """Does the bound hold against this adversary?"""
    return ADVERSARIES.index(environment.traits.adversary) <= ADVERSARIES.index(bound.covers)

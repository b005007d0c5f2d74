"""Who chooses the losses, and whether an algorithm's regret bound covers such an adversary."""

from __future__ import annotations

from hedgerow.core.protocol import Environment
from hedgerow.core.regret_bound import ADVERSARIES, Adversary, RegretBound
from hedgerow.core.validate import expect

BOUND_HOLDS_FOR: dict[Adversary, str] = {
    "stochastic": "losses drawn anew in every round from one law, independently at every client",
    "oblivious": "losses fixed in advance",
    "adaptive": "losses that may react to the plays",
}


def adversary_of(environment: Environment) -> Adversary:
    """The weakest adversary that the environment says it is; one that says nothing is oblivious, or adaptive if it sees plays.

    >>> from hedgerow.environments.drawn.stochastic import Bernoulli
    >>> adversary_of(Bernoulli())
    'stochastic'
    """
    if environment.adaptive:
        return "adaptive"
    declared: Adversary = getattr(environment, "adversary", "oblivious")
    expect(declared in ADVERSARIES, f"{type(environment).__name__}.adversary", declared, f"in {ADVERSARIES}")
    return declared


def covered(bound: RegretBound, environment: Environment) -> bool:
    """Does the bound hold against this adversary?"""
    return ADVERSARIES.index(adversary_of(environment)) <= ADVERSARIES.index(bound.covers)

"""Who chooses the losses, whether an algorithm's regret bound covers such an adversary, and what a run should be told about it."""

from __future__ import annotations

from typing import get_args

from hedgerow.core.protocol import Adversary, Algorithm, Environment
from hedgerow.environments.realizable import Realizable
from hedgerow.environments.stochastic import Bernoulli, GaussianSoftmax, UniformLosses

ADVERSARIES: tuple[Adversary, ...] = get_args(Adversary)  # from the weakest to the strongest
DRAWN_FROM_ONE_LAW = (Bernoulli, GaussianSoftmax, Realizable, UniformLosses)


def adversary_of(environment: Environment) -> Adversary:
    """The weakest adversary that the environment is known to be; an environment may say so itself by an attribute `adversary`.

    >>> adversary_of(Bernoulli())
    'stochastic'
    """
    if environment.adaptive:
        return "adaptive"
    known: Adversary = "stochastic" if isinstance(environment, DRAWN_FROM_ONE_LAW) else "oblivious"
    return getattr(environment, "adversary", known)


def covered(algorithm: Algorithm, environment: Environment) -> bool:
    """Does the algorithm's regret bound hold against this adversary?"""
    return ADVERSARIES.index(adversary_of(environment)) <= ADVERSARIES.index(algorithm.covers)


def notes(algorithm: Algorithm, environment: Environment) -> list[str]:
    """What the reader of a result should know, if anything."""
    if algorithm.regret_bound is None or covered(algorithm, environment):
        return []
    kinds = {"stochastic": "losses drawn anew in every round from one law", "oblivious": "losses fixed in advance"}
    text = f"the regret bound of {algorithm.name} is for {kinds[algorithm.covers]}"
    return [f"{text}; {type(environment).__name__} is {adversary_of(environment)}, so nothing is proven about its regret here"]

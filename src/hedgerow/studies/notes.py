"""Notes for the reader of a result.

They warn of a regret bound that does not cover the game or is vacuous, of a budget that is too
small to learn from, and of a large delta.
"""

from __future__ import annotations

from hedgerow.core.certificate import Observer
from hedgerow.core.environment import Environment
from hedgerow.core.protocol import Algorithm
from hedgerow.environments.adversaries import BOUND_HOLDS_FOR, covered
from hedgerow.environments.hard.lower_bounds import hidden_expert_regret


def notes(algorithm: Algorithm, environment: Environment) -> list[str]:
    """All notes on an algorithm in this game; often none."""
    outside = _not_covered(algorithm, environment)
    return [
        *(outside or _vacuous_bound(algorithm)),
        *_too_private(algorithm),
        *_large_delta(algorithm),
    ]


def budget_notes(algorithm: Algorithm) -> list[str]:
    """The notes that apply for any losses: a vacuous bound, a budget too small, a large delta."""
    return [*_vacuous_bound(algorithm), *_too_private(algorithm), *_large_delta(algorithm)]


def _vacuous_bound(algorithm: Algorithm) -> list[str]:
    """A note if the bound is the number of rounds, which holds for every algorithm."""
    bound, rounds = algorithm.regret_bound, algorithm.setting.horizon
    if bound is None or bound.value < rounds:
        return []
    text = f"the regret bound of {algorithm.name} is vacuous here"
    return [f"{text}: it is the number of rounds, {rounds:,}, and no regret is larger"]


def _not_covered(algorithm: Algorithm, environment: Environment) -> list[str]:
    bound = algorithm.regret_bound
    if bound is None or covered(bound, environment):
        return []
    text = f"the regret bound of {algorithm.name} is for {BOUND_HOLDS_FOR[bound.covers]}"
    here = BOUND_HOLDS_FOR[environment.traits.adversary]
    return [f"{text}; this environment has {here}, for which nothing is proven"]


def _too_private(algorithm: Algorithm) -> list[str]:
    """A note if no algorithm with this guarantee does much better than guessing.

    The game it is judged by is easy: one expert is never wrong and all others always are.
    """
    guarantee, setting = algorithm.certificate.guarantee(Observer.PUBLIC), algorithm.setting
    epsilon, delta = guarantee.curve.stated()
    if not guarantee.protects or epsilon <= 0:
        return []
    least, guessing = (
        hidden_expert_regret(setting, epsilon, delta),
        setting.horizon * (1 - 1 / setting.experts),
    )
    if least <= guessing / 2 or setting.horizon <= 2:  # two rounds are too few for any algorithm
        return []
    clients = "1 client" if setting.clients == 1 else f"{setting.clients} clients"
    budget = f"epsilon = {epsilon:.3g}" + (f", delta = {delta:.3g}" if delta > 0 else "")
    game = f"{budget} with {clients}, {setting.experts} experts and {setting.horizon} rounds"
    text = (
        "is too little to learn from: "
        "even if one expert is never wrong and all others always are (`hidden_expert`), "
        f"every algorithm with this guarantee has a regret of at least {least:.3g}; "
        f"guessing has {guessing:.3g}"
    )
    return [f"{game} {text}"]


def _large_delta(algorithm: Algorithm) -> list[str]:
    """A note if delta is so large that it hardly protects.

    Publishing each loss vector with probability delta is (0, delta)-DP.
    """
    guarantee, setting = algorithm.certificate.guarantee(Observer.PUBLIC), algorithm.setting
    delta, vectors = guarantee.curve.stated()[1], setting.clients * setting.horizon
    if not guarantee.protects or delta * vectors < 1:
        return []
    text = (
        f"delta = {delta:.3g} is large for {vectors} loss vectors: "
        "it would allow publishing each of them with this probability"
    )
    return [f"{text}; choose delta well below {1 / vectors:.2g}"]

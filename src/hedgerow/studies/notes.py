"""What the reader of a result should be told: a regret bound that does not cover the game, a budget that is too small, a large delta."""

from __future__ import annotations

from hedgerow.core.certificate import Observer
from hedgerow.core.environment import Environment
from hedgerow.core.protocol import Algorithm
from hedgerow.environments.adversaries import BOUND_HOLDS_FOR, covered
from hedgerow.environments.hard.lower_bounds import hidden_expert_regret


def notes(algorithm: Algorithm, environment: Environment) -> list[str]:
    """Everything that there is to tell about an algorithm in this game; often nothing."""
    outside = _not_covered(algorithm, environment)
    return [
        *(outside or _idle_bound(algorithm)),
        *_too_private(algorithm),
        *_large_delta(algorithm),
    ]


def budget_notes(algorithm: Algorithm) -> list[str]:
    """What should be known whatever the losses: an idle bound, a budget too little to learn from, or a delta that hardly protects."""
    return [*_idle_bound(algorithm), *_too_private(algorithm), *_large_delta(algorithm)]


def _idle_bound(algorithm: Algorithm) -> list[str]:
    """Nobody can regret more than the number of rounds, so that such a bound is true of everything."""
    bound, rounds = algorithm.regret_bound, algorithm.setting.horizon
    if bound is None or bound.value < rounds:
        return []
    return [
        f"the regret bound of {algorithm.name} says nothing here: it is the number of rounds, {rounds:,}, and no regret is larger"
    ]


def _not_covered(algorithm: Algorithm, environment: Environment) -> list[str]:
    bound = algorithm.regret_bound
    if bound is None or covered(bound, environment):
        return []
    text = f"the regret bound of {algorithm.name} is for {BOUND_HOLDS_FOR[bound.covers]}"
    return [
        f"{text}; here are {BOUND_HOLDS_FOR[environment.traits.adversary]}, for which nothing is proven"
    ]


def _too_private(algorithm: Algorithm) -> list[str]:
    """Where no algorithm with this guarantee can do much better than guessing, even if one expert is never wrong and others always."""
    guarantee, setting = algorithm.certificate.guarantee(Observer.PUBLIC), algorithm.setting
    epsilon, delta = guarantee.curve.stated()
    if not guarantee.protects or epsilon <= 0:
        return []
    least, guessing = (
        hidden_expert_regret(setting, epsilon, delta),
        setting.horizon * (1 - 1 / setting.experts),
    )
    if least <= guessing / 2 or setting.horizon <= 2:  # two rounds are too few for anybody
        return []
    clients = "1 client" if setting.clients == 1 else f"{setting.clients} clients"
    budget = f"epsilon = {epsilon:.3g}" + (f", delta = {delta:.3g}" if delta > 0 else "")
    game = f"{budget} with {clients}, {setting.experts} experts and {setting.horizon} rounds"
    text = "is too little to learn from: even where one expert is never wrong and all others always are (`hidden_expert`)"
    return [
        f"{game} {text}, every algorithm with this guarantee regrets at least {least:.3g}, and guessing {guessing:.3g}"
    ]


def _large_delta(algorithm: Algorithm) -> list[str]:
    """To publish each loss vector with probability delta is (0, delta)-DP, and should not pass for protection."""
    guarantee, setting = algorithm.certificate.guarantee(Observer.PUBLIC), algorithm.setting
    delta, vectors = guarantee.curve.stated()[1], setting.clients * setting.horizon
    if not guarantee.protects or delta * vectors < 1:
        return []
    text = f"delta = {delta:.3g} is large for {vectors} loss vectors: to publish each of them with this probability would be allowed"
    return [f"{text}; take delta well below {1 / vectors:.2g}"]

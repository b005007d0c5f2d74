"""Contracts on learning: noiseless play equals the reference, regret stays below its bound."""

from __future__ import annotations

from functools import cache

import numpy as np

from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.contracts.agreement import games, one_game
from hedgerow.contracts.games import (
    built,
    games_of,
    has_experts,
    holding_its_unit,
    long_setting,
)
from hedgerow.contracts.neighbours import changed
from hedgerow.contracts.outcome import NotApplicable, demand, same
from hedgerow.core.block import Block
from hedgerow.core.environment import Environment
from hedgerow.core.losses import Family
from hedgerow.core.noise import NoNoise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.transcript import Everything, Plays, Sink, charges
from hedgerow.engines.simulate import simulate
from hedgerow.environments.adversaries import covered
from hedgerow.environments.drawn.realizable import Realizable, Rotating
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.environments.drawn.switching import Switching
from hedgerow.evaluation.recorder import Recorder
from hedgerow.evaluation.statistics import Estimate


def noiseless_is_reference(spec: AlgorithmSpec) -> None:
    """Without noise, the algorithm plays like the reference that it declares."""
    environment, algorithm = one_game(spec)
    if algorithm.claims.reference is None:
        raise NotApplicable(f"{algorithm.name} declares no reference")
    for seed in range(3):
        plays = []
        for one in (algorithm, algorithm.claims.reference):
            kept = Everything(wants_messages=False)
            simulate(one, environment, seed, sinks=[kept], noise=NoNoise())
            plays.append(kept.all_plays())
        demand(
            same(plays[0], plays[1], games_of(spec).tolerance),
            f"without noise the plays differ from those of {algorithm.claims.reference.name}",
        )


STREAMS: tuple[Environment, ...] = (
    Bernoulli(clients=3, experts=8, horizon=400),
    Switching(clients=3, experts=8, horizon=400),
    Realizable(clients=1, experts=8, horizon=400),
)
# A stream on which even a bound with large constants is not vacuous.
LONG_AND_EASY = Bernoulli(clients=3, experts=2, horizon=4000, mean=0.9, gap=0.8)
# One for bounds that need an expert that never loses. With many clients noise costs little, and
# regret comes near the bound.
WITH_PERFECT_EXPERT = Rotating(clients=1000, experts=8, horizon=100)


def regret_below_bound(spec: AlgorithmSpec) -> None:
    """The lower end of mean regret stays below the proven bound on every stream that it covers.

    A stream on which random guessing meets the bound says nothing and is left out.
    """
    if not has_experts(spec):
        _own_games_keep_bound(spec)
        return
    judged = sum(_keeps_bound(spec, environment) for environment in _streams(spec))
    if not (judged or _keeps_bound(spec, LONG_AND_EASY)):
        raise NotApplicable(
            "it declares no bound, or random guessing meets it too on every stream that it covers"
        )


def _streams(spec: AlgorithmSpec) -> tuple[Environment, ...]:
    """The streams that every bound is tried on; one more if the bound needs a good expert."""
    bound = built(spec, holding_its_unit(spec, STREAMS[0]).setting).claims.regret_bound
    needs = bound is not None and bound.best_loss is not None
    return (*STREAMS, WITH_PERFECT_EXPERT) if needs else STREAMS


def _keeps_bound(spec: AlgorithmSpec, environment: Environment) -> bool:
    """Demand that regret meets the bound; returns False if the stream cannot refute the bound."""
    environment = holding_its_unit(spec, environment)
    algorithm = built(spec, environment.setting)
    bound = algorithm.claims.regret_bound
    if bound is None or not covered(bound, environment):
        return False
    if _guessing(environment).low <= bound.value:
        return False
    found = _regret(algorithm, environment)
    demand(
        found.low <= bound.value,
        f"mean regret {found} on {environment} is above the proven bound {bound.value:.4g}",
    )
    return True


def _own_games_keep_bound(spec: AlgorithmSpec) -> None:
    """Check the bound on the games of a spec, without comparing to random guessing."""
    for environment, algorithm in games(spec):
        if algorithm.claims.regret_bound is None:
            raise NotApplicable(f"{algorithm.name} declares no bound")
        bound = algorithm.in_game(environment.traits).claims.regret_bound
        if bound is None or not covered(bound, environment):
            continue
        found = _regret(algorithm, environment)
        demand(
            not found.low > bound.value,
            f"mean regret {found} on {environment} is above the proven bound {bound.value:.4g}",
        )


def _regret(algorithm: Algorithm, environment: Environment) -> Estimate:
    regrets = []
    for seed in range(30):
        recorder = Recorder(environment.setting, points=2)
        regrets.append(
            recorder.result(
                "", seed, simulate(algorithm, environment, seed, sinks=[recorder])
            ).final_regret
        )
    return Estimate.of(regrets)


@cache
def _guessing(environment: Environment) -> Estimate:
    """The regret of drawing a random expert in every round."""
    return _regret(Uniform().build(environment.setting), environment)


def million_rounds(spec: AlgorithmSpec) -> str | None:
    """In a million rounds (or the long game of a spec), plays stay valid and losses in range.

    In games of experts, regret also stays finite and cumulative loss never falls. A spec that
    brings games is tested in its long game.
    """
    if not has_experts(spec):
        return _long_game(spec)
    game = Bernoulli(clients=1, experts=3, horizon=10**6, mean=0.6, gap=0.1)
    environment: Environment = holding_its_unit(spec, game)
    algorithm = changed(spec, interval=1000).build(environment.setting)
    recorder = Recorder(environment.setting)
    result = recorder.result("", 0, simulate(algorithm, environment, 0, sinks=[recorder]))
    demand(bool(np.isfinite(result.regret).all()), "regret is not finite")
    demand(
        0 <= result.loss[-1] <= 10**6, f"the loss after a million rounds is {result.loss[-1]:.4g}"
    )
    demand(bool((np.diff(result.loss) >= 0).all()), "cumulative loss went down")
    return None


def _long_game(spec: AlgorithmSpec) -> str:
    own = games_of(spec)
    environment = own.recorded(own.stream(np.random.default_rng(15), long_setting(own)))
    setting, (low, high) = environment.setting, environment.family.bounds
    kept = _Paid(environment.family)
    simulate(built(spec, setting), environment, 0, sinks=[kept])
    paid = np.concatenate(kept.paid)
    slack = 1e-9 * max(1.0, abs(low), abs(high)) * setting.players
    within = (paid >= low * setting.players - slack) & (paid <= high * setting.players + slack)
    demand(bool(within.all()), "the loss of a round is outside the bounds of its family")
    return f"{setting.rounds:,} rounds of its long game"


class _Paid(Sink):
    """Keep what all deciders together pay in each round."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.paid: list[np.ndarray] = []

    def rounds(self, first_round: int, block: Block, plays: np.ndarray | Plays) -> None:
        self.paid.append(charges(self.family, block.losses, plays))

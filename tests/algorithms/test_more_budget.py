"""More budget, or more clients, never hurts by more than noise: every certified algorithm that
plays experts, on drawn, autocorrelated, changing and recorded losses, and where all lose at first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import cache
from itertools import combinations
from typing import Any

import pytest

import hedgerow as hr
from hedgerow.algorithms.registry import variants
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.sparse_vector.columns import Column, Weights
from hedgerow.algorithms.sparse_vector.doubling import Guesser
from hedgerow.algorithms.sparse_vector.recency import RecencySelector
from hedgerow.contracts.games import has_experts
from hedgerow.core.environment import Environment
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.engines.simulate import simulate
from hedgerow.evaluation.recorder import Recorder
from hedgerow.evaluation.statistics import Estimate
from hedgerow.privacy.mechanisms import AboveThreshold, ExponentialMechanism
from hedgerow_papers.asi2023.certified_potential import Potential
from hedgerow_papers.asi2023.proven_sparse_vector import ProvenSparseVector
from support.streams import late, stand_in

BUDGETS, CLIENTS = (1.0, 3.0, 10.0, 30.0), (1, 4, 12)
SIZE: dict[str, Any] = {"experts": 8, "horizon": 600}
STAND_IN: dict[str, int] = {"experts": 8, "rounds": 600}
FEW = 4  # seeds of the first look
SLACK = 0.05  # of the regret of a random expert: what counts as a difference

Make = Callable[[int, int], Environment]  # from the number of clients and a seed
DRAWN: dict[str, Make] = {
    "bernoulli": lambda clients, _: hr.Bernoulli(clients=clients, gap=0.1, **SIZE),
    "realizable": lambda clients, _: hr.Realizable(clients=clients, **SIZE),
    "halving": lambda clients, _: hr.Halving(clients=clients, **SIZE),
    "days": lambda clients, seed: stand_in("days", seed, clients=clients, **STAND_IN),
    "autocorrelated": lambda clients, seed: stand_in("auto", seed, clients=clients, **STAND_IN),
    "one change": lambda clients, seed: stand_in("shift", seed, clients=clients, **STAND_IN),
    "late": lambda clients, seed: late(seed, clients=clients, experts=20, rounds=600),
}
# The clients of recorded losses are given, so only the budget varies there.
RECORDED: dict[str, Make] = {
    "flusight": lambda clients, _: hr.FluSight(),
    "flusight by week": lambda clients, _: hr.FluSight(scale="week"),
}
STREAMS = DRAWN | RECORDED


def certified() -> dict[str, AlgorithmSpec]:
    """The certified forms that play experts within a budget; of `papers/`, kinds of sparse vector."""
    found: dict[str, AlgorithmSpec] = {}
    for name, spec in variants().items():
        budget = spec.traits.epsilon in {field.name for field in fields(spec)}
        ours = not type(spec).__module__.startswith("hedgerow_papers")
        if budget and has_experts(spec) and (ours or name.startswith(("potential", "proven_"))):
            found[name] = spec
    return found


SPECS = certified()


@cache
def environment(stream: str, clients: int, seed: int) -> Environment:
    return STREAMS[stream](clients, seed)


@cache
def guessing(stream: str, clients: int) -> float:
    """The regret of one random expert, on the first stream."""
    made = environment(stream, clients, 0)
    losses = made.block(made.start(0), made.setting.rounds, None)[0].losses.mean(axis=1).sum(axis=0)
    return float(losses.mean() - losses.min())


@cache
def build(spec: AlgorithmSpec, setting: Setting) -> Algorithm:
    return spec.build(setting)


def promised(spec: AlgorithmSpec, made: Environment, seed: int) -> AlgorithmSpec:
    """The spec with the loss of the best expert, which a proven plan must be told.

    It minimises a bound for streams with such an expert. On others more budget may hurt: it means
    a lower threshold, so that good experts leave and are forgotten.
    """
    if not isinstance(spec, ProvenSparseVector):
        return spec
    block, _ = made.block(made.start(seed), made.setting.rounds, None)
    return replace(spec, best_loss=float(block.losses.mean(axis=1).sum(axis=0).min()))


def regret_of(played: Algorithm, made: Environment, seed: int) -> float:
    recorder = Recorder(made.setting, points=2)
    ended = simulate(played, made, seed, sinks=[recorder])
    return recorder.result("", seed, ended).final_regret


@cache
def one_regret(spec: AlgorithmSpec, stream: str, clients: int, seed: int) -> float:
    made = environment(stream, clients, seed)
    return regret_of(build(promised(spec, made, seed), made.setting), made, seed)


def regret(spec: AlgorithmSpec, stream: str, clients: int, seeds: int) -> Estimate:
    return Estimate.of([one_regret(spec, stream, clients, seed) for seed in range(seeds)])


def hurts(found: Mapping[Any, Estimate], slack: float) -> list[str]:
    """Where more is clearly worse than less."""
    return [
        f"{less} -> {more}: {found[less]} -> {found[more]}"
        for less, more in combinations(found, 2)
        if found[more].low > found[less].high + slack
    ]


def suspicious(found: Mapping[Any, Estimate], slack: float) -> bool:
    """Whether more is worse than less by half the slack, as far as a few seeds can tell."""
    return any(
        found[more].mean > found[less].mean + slack / 2 for less, more in combinations(found, 2)
    )


def compared(found: Callable[[int], Mapping[Any, Estimate]], seeds: int, slack: float) -> list[str]:
    """Where more hurts. Most cases are clear after a few seeds; the others take all of them."""
    if seeds > FEW and not suspicious(found(FEW), slack):
        return []
    return hurts(found(seeds), slack)


def with_budget(spec: Any, epsilon: float) -> Any:
    return replace(spec, **{spec.traits.epsilon: epsilon})


def more_budget(spec: Any, stream: str, seeds: int, budgets: tuple[float, ...]) -> list[str]:
    clients = 12
    specs = {e: with_budget(spec, e) for e in budgets}

    def found(count: int) -> dict[float, Estimate]:
        return {e: regret(changed, stream, clients, count) for e, changed in specs.items()}

    return compared(found, seeds, SLACK * guessing(stream, clients))


def more_clients(spec: Any, stream: str, seeds: int, clients: tuple[int, ...]) -> list[str]:
    changed = with_budget(spec, 3.0)

    def found(count: int) -> dict[int, Estimate]:
        return {m: regret(changed, stream, m, count) for m in clients}

    return compared(found, seeds, SLACK * guessing(stream, 12))


@pytest.mark.parametrize("stream", ["days", "flusight"])
@pytest.mark.parametrize("name", ["potential", "sparse_vector"])
def test_the_largest_budget_does_not_hurt(name: str, stream: str) -> None:
    assert more_budget(SPECS[name], stream, 5, (1.0, 30.0)) == []


def test_a_large_budget_does_not_hurt_where_all_lose_at_first() -> None:
    assert more_budget(SPECS["doubling"], "late", 12, (1.0, 3.0)) == []


def without_regret(epsilon: float, setting: Setting) -> Algorithm:
    """The rule of an earlier `doubling`: runs are never tested by their regret."""
    built = hr.Doubling(epsilon=epsilon, first_guess=float(setting.clients)).build(setting)
    assert isinstance(built.server, Guesser)
    server = replace(built.server, since=10**9)
    return replace(built, server=server, shortcuts=replace(built.shortcuts, advance=server.advance))


def test_guesses_without_a_test_of_the_regret_would_be_found() -> None:
    """The test has power: a guess that grows with what all lose alike hurts with more budget."""
    streams = [environment("late", 12, seed) for seed in range(12)]
    found = {}
    for epsilon in (1.0, 3.0):
        built = without_regret(epsilon, streams[0].setting)
        found[epsilon] = Estimate.of(
            [regret_of(built, made, seed) for seed, made in enumerate(streams)]
        )
    assert hurts(found, SLACK * guessing("late", 12))


def test_many_clients_do_not_hurt() -> None:
    assert more_clients(SPECS["potential"], "days", 5, (1, 12)) == []


def test_a_clear_loss_is_found_and_noise_is_not() -> None:
    small, large = Estimate.of([1.0, 1.1, 0.9, 1.0]), Estimate.of([3.0, 3.1, 2.9, 3.0])
    assert len(hurts({1: small, 3: large, 10: large}, 0.5)) == 2
    assert hurts({1: small, 3: large}, 2.5) == hurts({1: large, 3: small}, 0.0) == []
    assert hurts({1: small, 3: Estimate.of([1.0, 5.0, 0.0, 6.0])}, 0.5) == []


def test_the_first_look_passes_only_what_is_clearly_no_worse() -> None:
    looks: list[int] = []

    def falling(seeds: int) -> dict[int, Estimate]:
        looks.append(seeds)
        return {1: Estimate.of([3.0] * seeds), 3: Estimate.of([1.0] * seeds)}

    def rising(seeds: int) -> dict[int, Estimate]:
        looks.append(seeds)
        return {1: Estimate.of([1.0] * seeds), 3: Estimate.of([1.0 + 0.1 * seeds] * seeds)}

    assert compared(falling, 12, 0.6) == []
    assert len(compared(rising, 12, 0.6)) == 1
    assert looks == [FEW, FEW, 12]


def equal_epochs(epsilon: float, setting: Setting) -> Algorithm:
    """The rule of an earlier `potential`: equal weights, and epochs that do not grow."""
    test = 0.3 * epsilon
    selection = ExponentialMechanism("selection", (epsilon - test) / 6)
    equal = tuple(Column(1, 1, after, test) for after in reversed(range(6)))
    server = RecencySelector(
        setting.experts,
        Schedule(1),
        switches=6,
        threshold=float(round_to_lattice(93.0 / epsilon)),
        floor=0.0,
        sparse=AboveThreshold("exponential", 1 / test, 1 / test),
        selection=selection,
        weights=Weights(equal, None, selection.rate),
        delta=0.0,
    )
    built = Potential(epsilon=epsilon).build(setting)
    return replace(built, server=server, shortcuts=replace(built.shortcuts, advance=server.advance))


@pytest.mark.long
def test_equal_epochs_would_be_found() -> None:
    """The test has power: epochs that do not grow make regret worse with more budget."""
    found = {}
    for epsilon in (3.0, 30.0):
        regrets = []
        for seed in range(16):
            made = stand_in("days", seed, clients=12, experts=10, rounds=1461)
            regrets.append(regret_of(equal_epochs(epsilon, made.setting), made, seed))
        found[epsilon] = Estimate.of(regrets)
    assert hurts(found, SLACK * guessing("days", 12))


@pytest.mark.long
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("name", SPECS)
def test_more_budget_never_hurts(name: str, stream: str) -> None:
    assert more_budget(SPECS[name], stream, 12, BUDGETS) == []


@pytest.mark.long
@pytest.mark.parametrize("stream", DRAWN)
@pytest.mark.parametrize("name", SPECS)
def test_more_clients_never_hurt(name: str, stream: str) -> None:
    assert more_clients(SPECS[name], stream, 12, CLIENTS) == []

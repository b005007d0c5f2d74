"""Runs on neighbouring streams of data for the privacy contracts, and what they release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from hedgerow.contracts.games import built, games_of, pairs
from hedgerow.contracts.outcome import NotApplicable, demand
from hedgerow.contracts.recording import Ledger, RecordingNoise, Release, short_noise
from hedgerow.core.certificate import Guarantee
from hedgerow.core.environment import Environment
from hedgerow.core.noise import NoiseSource
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Everything, Sink
from hedgerow.core.units import Event, Person, Unit
from hedgerow.core.validate import parameters
from hedgerow.engines.simulate import simulate
from hedgerow.privacy.secure import SecureNoise

TRIALS = 60  # pairs of neighbours for each contract
TWO_RECORDS = Person(2, 2)


@dataclass(frozen=True)
class Randomness:
    """A source of noise, and the p-value below which a sample counts against a law.

    Secure noise differs in every run, so its threshold is lower.
    """

    source: Callable[[int], NoiseSource]
    alarm: float


SEEDED = Randomness(short_noise, 1e-4)
SECURE = Randomness(lambda seed: _secure(seed % 8), 1e-9)


@cache
def _secure(which: int) -> SecureNoise:
    """A few sources for all runs, because each builds tables; every number is used once."""
    return SecureNoise()


def budget_of(spec: AlgorithmSpec) -> tuple[float | None, float]:
    """The requested epsilon and delta, from the fields that the spec's traits name.

    Without a field for epsilon there is no budget: epsilon is None.
    """
    choices: dict[str | None, Any] = {**parameters(spec)}
    traits = spec.traits
    return choices.get(traits.epsilon), choices.get(traits.delta, 0.0)


def changed(
    spec: AlgorithmSpec, *, epsilon: float | None = None, interval: int | None = None
) -> AlgorithmSpec:
    """The spec with another epsilon or interval, where it has such a field (`SpecTraits`).

    An epsilon of None stays: the budget is given in another way, such as mu.
    """
    known: dict[str | None, Any] = {**parameters(spec)}
    wanted = {spec.traits.epsilon: epsilon, spec.traits.interval: interval}
    choices = {
        name: value
        for name, value in wanted.items()
        if name is not None and name in known and value is not None
    }
    if known.get(spec.traits.epsilon) is None:
        choices.pop(spec.traits.epsilon or "", None)
    return replace(spec, **choices) if choices else spec


def private(spec: AlgorithmSpec, setting: Setting | None = None) -> Algorithm:
    """The built algorithm; raises NotApplicable if it has no mechanisms."""
    algorithm = built(spec, setting or games_of(spec).setting)
    if not algorithm.has_mechanisms:
        raise NotApplicable(f"{algorithm.name} has no mechanisms")
    return algorithm


def promises(algorithm: Algorithm) -> list[Guarantee]:
    """The guarantees that promise protection."""
    return [guarantee for guarantee in algorithm.certificate.guarantees if guarantee.protects]


def units(algorithm: Algorithm) -> tuple[Unit, ...]:
    """The units that are promised protection; an event if nothing is promised.

    Where the promise to a larger unit follows from one record, it is one record.
    """
    if algorithm.certificate.grown > 1:
        return (Event(record=promises(algorithm)[0].unit.record),)
    return tuple(dict.fromkeys(promise.unit for promise in promises(algorithm))) or (Event(),)


@dataclass(frozen=True)
class Pair:
    """A run on one stream, and its replay on a neighbour with the same outputs and coins."""

    first: Ledger
    second: Ledger
    seen: Everything
    also: Everything

    def releases(self) -> list[tuple[Release, Release]]:
        """The releases of the run and of its replay, one by one."""
        first, second = self.first.releases, self.second.releases
        demand(
            len(first) == len(second),
            "neighbouring streams give different numbers of releases for the same outputs",
        )
        return list(zip(first, second, strict=True))


def replays(spec: AlgorithmSpec, unit: Unit, noise: Randomness) -> Sequence[Pair]:
    """Runs and replays on neighbours that differ in one unit; several contracts look at them."""
    try:
        hash(spec)
    except TypeError:
        return _replays.__wrapped__(spec, unit, noise)
    return _replays(spec, unit, noise)


@lru_cache(maxsize=2)
def _replays(spec: AlgorithmSpec, unit: Unit, noise: Randomness) -> Sequence[Pair]:
    games, found = games_of(spec), list[Pair]()
    algorithm = built(spec, games.setting)
    for trial, stream, neighbour in pairs(spec, unit, TRIALS):
        seen, also = Everything(), Everything()
        first = record(algorithm, games.recorded(stream), noise.source(trial), None, (seen,))
        second = record(algorithm, games.recorded(neighbour), noise.source(trial), first, (also,))
        found.append(Pair(first, second, seen, also))
    return found


def record(
    algorithm: Algorithm,
    environment: Environment,
    source: NoiseSource,
    replay: Ledger | None = None,
    sinks: tuple[Sink, ...] = (),
) -> Ledger:
    """The releases of one run; with `replay`, the outputs are those of an earlier run."""
    noise = RecordingNoise(source, replay)
    simulate(algorithm, environment, 0, noise=noise, fused=False, sinks=sinks)
    return noise.ledger

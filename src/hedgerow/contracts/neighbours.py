"""Neighbouring loss streams for the privacy contracts, and what a run on one of them releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from hedgerow.contracts.outcome import NotApplicable, demand
from hedgerow.contracts.recording import Ledger, RecordingNoise
from hedgerow.core.certificate import Event, Guarantee
from hedgerow.core.noise import NoiseSource, SeededNoise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Sink
from hedgerow.engines.simulate import simulate
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.privacy.secure import SecureNoise

SETTING = Setting(clients=3, experts=5, horizon=40)


@dataclass(frozen=True)
class Randomness:
    """A source of noise, and the p-value below which a sample counts against a law.

    Secure noise differs in every run, so its threshold is lower.
    """

    source: Callable[[int], NoiseSource]
    alarm: float


SEEDED = Randomness(SeededNoise, 1e-4)
SECURE = Randomness(lambda _: SecureNoise(), 1e-9)


def _fields_of(spec: AlgorithmSpec) -> dict[str | None, Any]:
    return (
        {f.name: getattr(spec, f.name) for f in fields(spec) if f.init}
        if is_dataclass(spec)
        else {}
    )


def budget_of(spec: AlgorithmSpec) -> tuple[float | None, float]:
    """The requested epsilon and delta, from the fields that the spec's traits name.

    Without a field for epsilon there is no budget: epsilon is None.
    """
    choices, traits = _fields_of(spec), spec.traits
    return choices.get(traits.epsilon), choices.get(traits.delta, 0.0)


def changed(
    spec: AlgorithmSpec, *, epsilon: float | None = None, interval: int | None = None
) -> AlgorithmSpec:
    """The spec with another epsilon or interval, where it has such a field (`SpecTraits`)."""
    known, wanted = _fields_of(spec), {spec.traits.epsilon: epsilon, spec.traits.interval: interval}
    choices = {
        name: value
        for name, value in wanted.items()
        if name is not None and name in known and value is not None
    }
    return replace(spec, **choices) if choices else spec  # pyright: ignore[reportArgumentType]


def private(spec: AlgorithmSpec, setting: Setting = SETTING) -> Algorithm:
    """The built algorithm; raises NotApplicable if it has no mechanisms."""
    algorithm = spec.build(setting)
    if not algorithm.has_mechanisms:
        raise NotApplicable(f"{algorithm.name} has no mechanisms")
    return algorithm


def promises(algorithm: Algorithm) -> list[Guarantee]:
    """The guarantees that promise protection.

    Neighbours here differ in one loss vector. A promise about more than that breaks the contract,
    because no contract can check it.
    """
    protected = [guarantee for guarantee in algorithm.certificate.guarantees if guarantee.protects]
    for guarantee in protected:
        text = (
            f"the {guarantee.observer.value} is promised a guarantee for {guarantee.unit.words()}"
        )
        demand(isinstance(guarantee.unit, Event), f"{text}, which no contract can check")
    return protected


def neighbours(trials: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Pairs of streams that differ in one loss vector, by 1 in every entry."""
    rng = np.random.default_rng(11)
    rounds, clients, experts = SETTING.rounds, SETTING.clients, SETTING.experts
    for trial in range(trials):
        losses = (
            rng.random((rounds, clients, experts))
            if trial % 2
            else rng.integers(0, 2, (rounds, clients, experts)).astype(float)
        )
        neighbour = losses.copy()
        when, who = int(rng.integers(rounds)) if trial % 3 else 0, int(rng.integers(clients))
        losses[when, who] = rng.integers(0, 2, experts) if trial % 4 else 0.0
        neighbour[when, who] = 1.0 - losses[when, who]
        yield trial, losses, neighbour


def record(
    algorithm: Algorithm,
    losses: np.ndarray,
    source: NoiseSource,
    replay: Ledger | None = None,
    sinks: tuple[Sink, ...] = (),
) -> Ledger:
    """The releases of one run; with `replay`, the outputs are those of an earlier run."""
    noise = RecordingNoise(source, replay)
    simulate(algorithm, RecordedArray(losses), 0, noise=noise, fused=False, sinks=sinks)
    return noise.ledger

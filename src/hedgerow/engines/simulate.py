"""One simulated game from a seed: the environment's blocks through an engine into the sinks, in bounded memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Literal, get_args

import numpy as np

from hedgerow.core.block import Block, check
from hedgerow.core.environment import Environment, Feature
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.losses import Linear
from hedgerow.core.noise import NoiseSource, NoNoise, SeededNoise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.support import require_exact_noise, require_support
from hedgerow.core.transcript import Counters, Sink, Traffic
from hedgerow.core.validate import at_least, expect
from hedgerow.engines.loop import Engine
from hedgerow.engines.summed import play_sums
from hedgerow.privacy.secure import SecureNoise

EngineName = Literal["vectorised", "in_process", "summed"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
BLOCK_ELEMENTS = (
    2**22
)  # 32 MiB of float64: so many rounds that the Python around them does not count


class LastPlays(Sink):
    """Remembers the last round's plays, for environments that see them."""

    def __init__(self) -> None:
        self.last: np.ndarray | None = None

    def rounds(self, first_round: int, block: Block, plays: np.ndarray) -> None:
        del first_round, block
        self.last = plays[-1]


def make_engine(name: str, algorithm: Algorithm, source: NoiseSource, fused: bool = True) -> Engine:
    drivers = ("vectorised", "in_process")
    expect(name in drivers, "engine", name, f"in {drivers}: no other plays losses one by one")
    if name == "in_process":
        return Engine.in_process(algorithm, source)
    seeded = isinstance(
        source, SeededNoise | NoNoise
    )  # fast paths take coins from uniform floats, which are not exact
    return Engine.vectorised(algorithm, source, fused and seeded)


def traffic_of(algorithm: Algorithm) -> Traffic:
    """Sizes of the algorithm's messages, from one of each."""
    silent = NoNoise()
    view = silent.single("client", 0, 1)
    upload, _ = algorithm.client.upload(algorithm.client.start(view), view)
    broadcast, _ = algorithm.server.open(silent.server())
    return Traffic.of(upload, broadcast)


def counters_of(algorithm: Algorithm) -> Counters:
    setting = algorithm.setting
    separate = 0 if algorithm.decider is None else setting.players
    return Counters(setting.clients, setting.clients + separate, traffic_of(algorithm))


def simulate(
    algorithm: Algorithm,
    environment: Environment,
    seed: int,
    *,
    sinks: Iterable[Sink] = (),
    engine: EngineName = "vectorised",
    block_rounds: int | None = None,
    fused: bool = True,
    noise: NoiseSource | None = None,
) -> Counters:
    """Play the whole horizon. The result depends on the seed alone, not on the block size, nor on the engine unless it is `summed`.

    That one draws sums of losses, of the same law, and never a single one.
    """
    setting, traits = environment.setting, environment.traits
    if setting != algorithm.setting:
        raise InvalidValue(
            f"Expected {algorithm.name} built for {setting}, it was built for {algorithm.setting}."
        )
    require_support(algorithm, environment)
    if isinstance(noise, SecureNoise):
        require_exact_noise(algorithm)
    at_least("seed", seed, 0)
    if (setting.deciders is None) != (algorithm.decider is None):
        raise Unsupported(
            f"{algorithm.name} lets {'the clients' if algorithm.decider is None else 'separate deciders'} play, this game does not."
        )
    if algorithm.plays == "expert" and not isinstance(environment.family, Linear):
        raise Unsupported(
            f"{algorithm.name} chooses experts and needs linear losses, not {type(environment.family).__name__}."
        )
    rounds = (
        max(1, BLOCK_ELEMENTS // (setting.players * setting.experts))
        if block_rounds is None
        else block_rounds
    )
    at_least("block_rounds", rounds, 1)
    if traits.sees_plays:
        rounds = 1
    counters = counters_of(algorithm)
    last = LastPlays()
    watching: list[Sink] = [counters, *sinks, *([last] if traits.sees_plays else [])]
    if engine == "summed":
        expect(
            block_rounds is None and fused,
            "block_rounds",
            block_rounds,
            "None, and fused=True, where only sums are drawn",
        )
        play_sums(
            algorithm, environment, seed, SeededNoise(seed) if noise is None else noise, watching
        )
        return counters
    driver = make_engine(engine, algorithm, SeededNoise(seed) if noise is None else noise, fused)
    marks = sorted({mark for sink in watching for mark in sink.marks})
    run = driver.start()
    state = environment.start(seed)
    while run.round < setting.horizon:
        wanted = min(rounds, setting.horizon - run.round)
        block, state = environment.block(state, wanted, last.last)
        block = check(
            block,
            environment.family,
            setting,
            run.round,
            wanted,
            marks[bisect_right(marks, run.round) :][:wanted],
        )
        _check_declared(environment, traits.features, block)
        run = driver.advance(run, block, watching)
    return counters


def _check_declared(environment: Environment, declared: frozenset[Feature], block: Block) -> None:
    """Certificates are made from what an environment declares, so a mask must be declared."""
    late = (
        block.reports
        if block.reports is not block.losses and environment.setting.deciders is None
        else None
    )
    masks = (
        (block.awake, Feature.SLEEPING_EXPERTS),
        (block.present, Feature.ABSENT_CLIENTS),
        (late, Feature.LATE_REPORTS),
    )
    for mask, feature in masks:
        if mask is not None and feature not in declared:
            raise InvalidValue(
                f"Expected {type(environment).__name__} to declare {feature.value} in its traits, it hands them out."
            )

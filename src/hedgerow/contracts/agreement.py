"""Contracts on execution: an algorithm is pure, causal, resumable and the same on every engine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from hedgerow.contracts.outcome import NotApplicable, demand, same
from hedgerow.core.block import ABSENT, Block, check
from hedgerow.core.environment import Environment, Feature, Traits
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.messages import decode, encode
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, RunState
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Digest, Everything
from hedgerow.engines.loop import Engine
from hedgerow.engines.simulate import EngineName, simulate, traffic_of
from hedgerow.engines.summed import why_not_by_sums
from hedgerow.environments.drawn.realizable import Realizable
from hedgerow.environments.drawn.switching import Switching
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.environments.wrappers.absent import Absent
from hedgerow.environments.wrappers.delayed import Delayed
from hedgerow.environments.wrappers.sleeping import Sleeping
from hedgerow.evaluation.recorder import Recorder

SEEDS = (0, 1, 2)


def environments() -> Sequence[Environment]:
    """Small games for these contracts: drifting, realizable, adaptive, and a single client."""
    return (
        Switching(clients=3, experts=5, horizon=61),
        Realizable(clients=4, experts=6, horizon=83),
        PlayChasing(clients=2, experts=4, horizon=37),
        Switching(clients=1, experts=3, horizon=50),
    )


def games(spec: AlgorithmSpec) -> Iterator[tuple[Environment, Algorithm]]:
    """The algorithm built for these games, and for masks and late reports if it supports them."""
    drifting = Switching(clients=3, experts=5, horizon=61)
    masked = (
        Sleeping(of=drifting, rate=0.6),
        Absent(of=drifting, rate=0.4),
        Absent(of=Sleeping(of=PlayChasing(clients=2, experts=4, horizon=37)), rate=0.3),
        Delayed(of=Absent(of=drifting), rounds=(0, 9, 4)),
    )
    built: dict[Setting, Algorithm] = {}
    for environment in (*environments(), *masked):
        if environment.setting not in built:
            built[environment.setting] = spec.build(environment.setting)
        algorithm = built[environment.setting]
        if environment.traits.features <= algorithm.supports:
            yield environment, algorithm


def _transcript(
    algorithm: Algorithm, environment: Environment, seed: int, engine: EngineName, **options: Any
) -> tuple[Any, ...]:
    everything = Everything()
    counters = simulate(algorithm, environment, seed, sinks=[everything], engine=engine, **options)
    sizes = (counters.exchanged, counters.uploaded_bytes, counters.broadcast_bytes)
    return everything.all_plays(), everything.messages, sizes


def same_on_every_engine(spec: AlgorithmSpec) -> None:
    """All engines give the same plays, messages and traffic, and messages have the counted sizes.

    The in-process engine sends every message through the codec.
    """
    for environment, algorithm in games(spec):
        for seed in SEEDS:
            vectorised = _transcript(algorithm, environment, seed, "vectorised")
            for other in (
                _transcript(algorithm, environment, seed, "in_process"),
                _transcript(algorithm, environment, seed, "vectorised", fused=False),
            ):
                for what, a, b in zip(
                    ("plays", "messages", "traffic"), vectorised, other, strict=True
                ):
                    demand(
                        same(a, b),
                        f"{what} differ between engines on {environment} with seed {seed}",
                    )
            _sizes_as_counted(algorithm, vectorised[1], vectorised[2])


def _sizes_as_counted(
    algorithm: Algorithm, messages: list[tuple[int, Any, Any]], sizes: tuple[int, int, int]
) -> None:
    sent = heard = 0
    for _, uploads, broadcast in messages:
        heard += len(encode(broadcast))
        for i in range(algorithm.setting.clients):
            one = type(uploads)(**{f.name: getattr(uploads, f.name)[i] for f in fields(uploads)})
            sent += len(encode(one))
    demand(sent == sizes[1], f"uploads of {sent} bytes were counted as {sizes[1]}")
    opening = traffic_of(algorithm).broadcast_bytes
    listeners = algorithm.setting.clients + (
        0 if algorithm.decider is None else algorithm.setting.players
    )
    demand(
        (heard + opening) * listeners == sizes[2],
        f"broadcasts of {heard + opening} bytes were counted as {sizes[2] / listeners}",
    )


def same_for_every_block(spec: AlgorithmSpec) -> None:
    """Fast paths give the plays, exchanges and states of the plain loop, for every block size."""
    for environment, algorithm in games(spec):
        for seed in SEEDS:
            found = []
            for block, fused in (
                (None, False),
                (None, True),
                (1, True),
                (3, True),
                (7, False),
                (environment.setting.rounds, True),
            ):
                digest = Digest()
                counters = simulate(
                    algorithm, environment, seed, sinks=[digest], block_rounds=block, fused=fused
                )
                found.append((digest.hex, counters.exchanged, block, fused))
            for hexes in found[1:]:
                demand(
                    hexes[:2] == found[0][:2],
                    f"blocks of {hexes[2]} (fused: {hexes[3]}) change the run on {environment},"
                    f" seed {seed}",
                )
            if not environment.traits.sees_plays:
                _states_agree(algorithm, environment, seed, 7)


def same_by_sums(spec: AlgorithmSpec) -> None:
    """Playing from sums of losses alone gives the same losses, regret, switches and exchanges."""
    losses = np.random.default_rng(0).random((90, 4, 5)) * np.linspace(0.1, 1.0, 5)
    environment = RecordedArray(losses)
    algorithm = spec.build(environment.setting)
    reason = why_not_by_sums(algorithm, environment)
    if reason is not None:
        raise NotApplicable(reason)
    for seed in SEEDS:
        found = []
        for engine in ("vectorised", "summed"):
            recorder = Recorder(environment.setting, environment.family, points=7)
            result = recorder.result(
                "", seed, simulate(algorithm, environment, seed, sinks=[recorder], engine=engine)
            )
            found.append((result.loss, result.regret, result.switches, result.exchanges))
        demand(same(*found), f"the run differs when only sums are seen, with seed {seed}")


def causal(spec: AlgorithmSpec) -> None:
    """Losses from round t on do not affect any play up to and including round t, on any engine."""
    rng = np.random.default_rng(5)
    rounds, clients, experts = 40, 3, 4
    for trial in range(16):
        losses = rng.integers(0, 2, (rounds, clients, experts)).astype(float)
        cut = int(rng.integers(1, rounds))
        if trial % 2:  # zero losses before the change: an early reaction is visible at once
            losses[:] = 0.0
        changed = losses.copy()
        changed[cut:] = 1.0 - changed[cut:]
        plays = []
        for data in (losses, changed):
            environment = RecordedArray(data)
            algorithm = spec.build(environment.setting)
            paths: tuple[tuple[bool, EngineName], ...] = (
                (True, "vectorised"),
                (False, "vectorised"),
                (False, "in_process"),
            )
            for fused, engine in paths:
                digest = Everything(wants_messages=False)
                simulate(algorithm, environment, trial, sinks=[digest], fused=fused, engine=engine)
                plays.append(digest.all_plays())
        for before, after in zip(plays[:3], plays[3:], strict=True):
            demand(
                np.array_equal(before[: cut + 1], after[: cut + 1]),
                f"a play up to round {cut} depends on losses from round {cut} on",
            )


def _states_agree(algorithm: Algorithm, environment: Environment, seed: int, size: int) -> None:
    """Demand that after every block the fast path has the same states as the plain loop."""
    fast, plain = (
        Engine.vectorised(algorithm, SeededNoise(seed), fused) for fused in (True, False)
    )
    first, second = fast.start(), plain.start()
    for block in _blocks(environment, seed, size):
        first, second = fast.advance(first, block, []), plain.advance(second, block, [])
        demand(
            same(first, second),
            f"after round {first.round} of {environment} the fast path has a different state",
        )


def _blocks(environment: Environment, seed: int, size: int) -> list[Any]:
    setting = environment.setting
    state, blocks = environment.start(seed), []
    for first in range(0, setting.rounds, size):
        rounds = min(size, setting.rounds - first)
        block, state = environment.block(state, rounds, None)
        blocks.append(check(block, setting, first, rounds))
    return blocks


def pure(spec: AlgorithmSpec) -> None:
    """The same state and noise give the same result, and no argument is changed in place."""
    environment = Switching(clients=3, experts=5, horizon=60)
    algorithm = spec.build(environment.setting)
    for fused in (True, False):
        source = SeededNoise(3)
        engine = Engine.vectorised(algorithm, source, fused)
        run = engine.start()
        for block in _blocks(environment, 3, 20):
            saved = source.snapshot()
            frozen = json.dumps(saved), encode(run.clients), encode(run.server)
            after = engine.advance(run, block, [])
            demand(
                (encode(run.clients), encode(run.server)) == frozen[1:],
                "a state was changed in place",
            )
            again = Engine.vectorised(
                algorithm, SeededNoise.restore(json.loads(frozen[0])), fused
            ).advance(run, block, [])
            demand(same(after, again), "the same state and noise gave two results")
            run = after


def resumable(spec: AlgorithmSpec) -> None:
    """A run that is saved, loaded and continued equals one that was never interrupted."""
    environment = Switching(clients=3, experts=5, horizon=60)
    algorithm = spec.build(environment.setting)
    for make in (Engine.vectorised, Engine.in_process):
        digests = []
        for interrupted in (False, True):
            source = SeededNoise(4)
            engine = make(algorithm, source)
            run, digest = engine.start(), Digest()
            for block in _blocks(environment, 4, 17):
                run = engine.advance(run, block, [digest])
                if interrupted:
                    source = SeededNoise.restore(json.loads(json.dumps(source.snapshot())))
                    engine, run = make(algorithm, source), _through_codec(run)
            digests.append(digest.hex)
        demand(
            digests[0] == digests[1],
            "a run that was saved and loaded differs from an uninterrupted one",
        )


def _through_codec(run: RunState) -> RunState:
    def copy(state: Any) -> Any:
        if state is None:
            return None
        return (
            tuple(copy(one) for one in state)
            if isinstance(state, tuple)
            else decode(type(state), encode(state))
        )

    return RunState(
        run.round, copy(run.clients), copy(run.deciders), copy(run.server), run.remaining
    )


def valid_plays(spec: AlgorithmSpec) -> None:
    """Every play is a valid expert, also with one expert, one client or one round.

    The engine refuses invalid plays.
    """
    shapes, refused = ((1, 1, 1), (1, 2, 1), (2, 1, 5), (9, 1, 2)), 0
    for shape in shapes:
        environment = RecordedArray(np.ones(shape))
        try:
            algorithm = spec.build(environment.setting)
        except InvalidValue:
            refused += 1
            continue
        simulate(algorithm, environment, 0)
    demand(refused < len(shapes), "every small game was refused")


def _supported_or_refused(feature: Feature, algorithm: Algorithm, environment: Environment) -> None:
    """Return if the algorithm supports the feature; otherwise demand that it refuses it by name."""
    if feature in algorithm.supports:
        return
    try:
        simulate(algorithm, environment, 0)
    except Unsupported:
        raise NotApplicable(f"{algorithm.name} refuses {feature.value} by name") from None
    demand(False, f"{feature.value} are neither supported nor refused")


def sleeping_experts(spec: AlgorithmSpec) -> None:
    """A sleeping expert is never chosen."""
    environment = _Drowsy()
    algorithm = spec.build(environment.setting)
    _supported_or_refused(Feature.SLEEPING_EXPERTS, algorithm, environment)
    for seed in SEEDS:
        for engine in ("vectorised", "in_process"):
            plays = Everything(wants_messages=False)
            simulate(algorithm, environment, seed, sinks=[plays], engine=engine)
            awake = environment.awake()
            chosen = np.take_along_axis(awake, plays.all_plays()[..., None], axis=-1)
            demand(bool(chosen.all()), "a sleeping expert was chosen")


def absent_clients(spec: AlgorithmSpec) -> None:
    """Absent clients do not play; the others play as if absent clients had seen zero losses."""
    environment = Absent(of=Switching(clients=3, experts=5, horizon=61), rate=0.4)
    algorithm = spec.build(environment.setting)
    _supported_or_refused(Feature.ABSENT_CLIENTS, algorithm, environment)
    paths: tuple[tuple[bool, EngineName], ...] = (
        (True, "vectorised"),
        (False, "vectorised"),
        (False, "in_process"),
    )
    for seed in SEEDS:
        block, _ = environment.block(environment.start(seed), environment.setting.rounds, None)
        present = np.asarray(block.present)
        for fused, engine in paths:
            played = []
            for game in (environment, RecordedArray(block.losses)):
                plays = Everything(wants_messages=False)
                simulate(algorithm, game, seed, sinks=[plays], engine=engine, fused=fused)
                played.append(plays.all_plays())
            demand(bool((played[0][~present] == ABSENT).all()), "an absent client played")
            demand(
                same(played[0][present], played[1][present]),
                f"absence changes the plays of other clients ({engine}, fused: {fused})",
            )


class _Drowsy(RecordedArray):
    """Random losses with about half of the experts asleep in every round, never all of them."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(6).random((30, 2, 4)))

    @property
    def traits(self) -> Traits:
        return Traits(features=frozenset({Feature.SLEEPING_EXPERTS}))

    def awake(self) -> np.ndarray:
        mask = np.random.default_rng(7).random(self.losses.shape) < 0.5
        mask[..., 1] |= ~mask.any(axis=-1)
        return mask

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        block, after = super().block(state, rounds, past_plays)
        return replace(block, awake=self.awake()[state:after]), after

"""Contracts on execution: an algorithm is pure, causal, resumable and the same on every engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from hedgerow.contracts.games import (
    SETTING,
    built,
    far_pairs,
    from_round,
    games_of,
    has_experts,
    long_setting,
    small_games,
    whole,
)
from hedgerow.contracts.outcome import NotApplicable, demand, same
from hedgerow.contracts.recording import short_noise
from hedgerow.contracts.reloading import Reloading, reload
from hedgerow.core.block import ABSENT, Block, check
from hedgerow.core.environment import Environment, Feature, Traits
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.messages import encode, encode_state
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, RunState, SpanClient
from hedgerow.core.transcript import Digest, Everything
from hedgerow.engines.loop import Engine
from hedgerow.engines.simulate import EngineName, simulate, traffic_of
from hedgerow.engines.summed import why_not_by_sums
from hedgerow.environments.drawn.switching import Switching
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.environments.wrappers.absent import Absent
from hedgerow.evaluation.recorder import Recorder

SEEDS = (0, 1, 2)


Path = tuple[bool, EngineName]  # whether fast paths are allowed, and the engine
PLAIN: tuple[Path, ...] = ((False, "vectorised"), (False, "in_process"))


def _paths(algorithm: Algorithm) -> tuple[Path, ...]:
    """All ways to play; an algorithm without a fast path takes the plain loop."""
    return ((True, "vectorised"), *PLAIN) if _is_fast(algorithm) else PLAIN


def _is_fast(algorithm: Algorithm) -> bool:
    fast = algorithm.fast_path is not None or algorithm.shortcuts.resident is not None
    return fast or isinstance(algorithm.client, SpanClient)


def games(spec: AlgorithmSpec) -> Iterator[tuple[Environment, Algorithm]]:
    """The algorithm built for its small games, as far as it supports their features."""
    for environment in small_games(spec):
        algorithm = built(spec, environment.setting)
        if environment.traits.features <= algorithm.supports:
            yield environment, algorithm


def one_game(spec: AlgorithmSpec) -> tuple[Environment, Algorithm]:
    """The algorithm built for one small game that does not see plays."""
    return next((e, a) for e, a in games(spec) if not e.traits.sees_plays)


def _experts_only(spec: AlgorithmSpec, what: str) -> None:
    if not has_experts(spec):
        raise NotApplicable(f"{what} only in games of experts, and this algorithm has other games")


def _plays(
    algorithm: Algorithm, environment: Environment, seed: int, **options: Any
) -> tuple[np.ndarray, int]:
    kept = Everything(wants_messages=False)
    options.setdefault("noise", short_noise(seed))
    counters = simulate(algorithm, environment, seed, sinks=[kept], **options)
    return kept.all_plays(), counters.exchanged


def _transcript(
    algorithm: Algorithm, environment: Environment, seed: int, engine: EngineName, **options: Any
) -> tuple[Any, ...]:
    everything, options["noise"] = Everything(), short_noise(seed)
    counters = simulate(algorithm, environment, seed, sinks=[everything], engine=engine, **options)
    sizes = (counters.exchanged, counters.uploaded_bytes, counters.broadcast_bytes)
    return everything.all_plays(), everything.messages, sizes


def same_on_every_engine(spec: AlgorithmSpec) -> None:
    """All engines give the same plays, messages and traffic, and messages have the counted sizes.

    The in-process engine sends every message through the codec.
    """
    tolerance = games_of(spec).tolerance
    for environment, algorithm in games(spec):
        for seed in SEEDS:
            vectorised = _transcript(algorithm, environment, seed, "vectorised")
            others = [_transcript(algorithm, environment, seed, "in_process")]
            if isinstance(algorithm.client, SpanClient):
                others.append(_transcript(algorithm, environment, seed, "vectorised", fused=False))
            for other in others:
                for what, a, b in zip(
                    ("plays", "messages", "traffic"), vectorised, other, strict=True
                ):
                    demand(
                        same(a, b, tolerance),
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
    """Fast paths give the plays, exchanges and states of the plain loop, for every block size.

    A resident game has no states of clients to compare. Also in long games with many clients,
    where totals are large.
    """
    tolerance = games_of(spec).tolerance
    for environment, algorithm in games(spec):
        fast, one_by_one = _is_fast(algorithm), environment.traits.sees_plays
        sizes = [] if one_by_one else [(7, False)]
        if fast:  # all rounds in one block, and in smaller ones
            sizes += [(None, True), *([] if one_by_one else [(1, True), (3, True)])]
        for seed in SEEDS:
            plain = _plays(algorithm, environment, seed, fused=False)
            for block, fused in sizes:
                found = _plays(algorithm, environment, seed, block_rounds=block, fused=fused)
                demand(
                    same(plain, found, tolerance),
                    f"blocks of {block} (fused: {fused}) change the run on {environment},"
                    f" seed {seed}",
                )
            if fast and algorithm.shortcuts.resident is None and not one_by_one:
                _states_agree(algorithm, environment, seed, 7, tolerance)
    _same_in_large_games(spec, tolerance)


def _same_in_large_games(spec: AlgorithmSpec, tolerance: float) -> None:
    own = games_of(spec)
    if not _is_fast(built(spec, own.setting)):
        return
    algorithm, apart = built(spec, long_setting(own)), tuple(far_pairs(own, long_setting(own)))
    for stream in (apart[0][1], apart[-1][0]):
        game = own.recorded(stream)
        plain, fast = (
            _plays(algorithm, game, 0, fused=fused, noise=SeededNoise(0)) for fused in (False, True)
        )
        demand(
            same(plain, fast, tolerance),
            f"the fast path plays differently in {game.setting.rounds} rounds of"
            f" {game.setting.clients} clients",
        )


def same_by_sums(spec: AlgorithmSpec) -> None:
    """Playing from sums of losses alone gives the same losses, regret, switches and exchanges."""
    _experts_only(spec, "losses are drawn as sums")
    losses = np.random.default_rng(0).random((83, 4, 6)) * np.linspace(0.1, 1.0, 6)
    environment = RecordedArray(losses)
    algorithm = built(spec, environment.setting)
    reason = why_not_by_sums(algorithm, environment)
    if reason is not None:
        raise NotApplicable(reason)
    for seed in SEEDS:
        found = []
        for engine in ("vectorised", "summed"):
            recorder = Recorder(environment.setting, points=7)
            result = recorder.result(
                "", seed, simulate(algorithm, environment, seed, sinks=[recorder], engine=engine)
            )
            found.append((result.loss, result.regret, result.switches, result.exchanges))
        demand(same(*found), f"the run differs when only sums are seen, with seed {seed}")


def causal(spec: AlgorithmSpec) -> None:
    """Records from round t on do not affect any play up to and including round t, on any engine."""
    rng, tolerance = np.random.default_rng(5), games_of(spec).tolerance
    for trial, (first, second) in enumerate(_other_futures(spec, rng)):
        algorithm = built(spec, first.setting)
        cut = int(rng.integers(1, first.setting.rounds))
        changed = from_round(cut, first, second)
        for fused, engine in _paths(algorithm):
            before, after = (
                _plays(algorithm, game, trial, fused=fused, engine=engine)[0][: cut + 1]
                for game in (first, changed)
            )
            demand(
                same(before, after, tolerance),
                f"a play up to round {cut} depends on records from round {cut} on",
            )


def _other_futures(
    spec: AlgorithmSpec, rng: np.random.Generator
) -> Iterator[tuple[Environment, Environment]]:
    """Pairs of games; in every other pair nothing happens in the first, and all in the second.

    An early reaction to the second is then visible at once.
    """
    games = games_of(spec)
    if not has_experts(spec):
        apart = tuple(far_pairs(games, games.setting))
        for trial in range(16):
            first, second = (
                apart[trial // 2 % len(apart)]
                if trial % 2
                else (games.stream(rng, games.setting), games.stream(rng, games.setting))
            )
            yield games.recorded(first), games.recorded(second)
        return
    shape = (SETTING.rounds, SETTING.clients, SETTING.experts)
    for trial in range(16):
        losses = rng.integers(0, 2, shape).astype(float)
        if trial % 2:
            losses[:] = 0.0
        yield RecordedArray(losses), RecordedArray(1.0 - losses)


def _states_agree(
    algorithm: Algorithm, environment: Environment, seed: int, size: int, tolerance: float
) -> None:
    """Demand that after every block the fast path has the same states as the plain loop."""
    fast, plain = (
        Engine.vectorised(algorithm, short_noise(seed), fused) for fused in (True, False)
    )
    first, second = fast.start(), plain.start()
    for block in _blocks(environment, seed, size):
        first, second = fast.advance(first, block, []), plain.advance(second, block, [])
        demand(
            same(first, second, tolerance),
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
    environment, algorithm = one_game(spec)
    for fused in (True, False):
        source = short_noise(3)
        engine = Engine.vectorised(algorithm, source, fused)
        run = engine.start()
        for block in _blocks(environment, 3, 20):
            saved = source.snapshot()
            frozen = json.dumps(saved), _encoded(run)
            after = engine.advance(run, block, [])
            demand(_encoded(run) == frozen[1], "a state was changed in place")
            again = Engine.vectorised(
                algorithm, SeededNoise.restore(json.loads(frozen[0])), fused
            ).advance(run, block, [])
            demand(same(after, again), "the same state and noise gave two results")
            run = after


def _encoded(run: RunState) -> tuple[bytes, ...]:
    """The states of all roles in a run of the vectorised engine, as bytes."""
    return tuple(encode_state(state) for state in (run.clients, run.deciders, run.server))


def resumable(spec: AlgorithmSpec) -> None:
    """A run that is saved, loaded and continued equals one that was never interrupted.

    The states of fast paths have the declared types, too.
    """
    environment, algorithm = one_game(spec)
    for make in (Engine.vectorised, Engine.in_process):
        digests = []
        for interrupted in (False, True):
            source = short_noise(4)
            engine = make(algorithm, source)
            run, digest = engine.start(), Digest()
            for block in _blocks(environment, 4, 17):
                run = engine.advance(run, block, [digest])
                if interrupted:
                    source = SeededNoise.restore(json.loads(json.dumps(source.snapshot())))
                    engine, run = make(algorithm, source), _reloaded(algorithm, run)
            digests.append(digest.hex)
        demand(
            digests[0] == digests[1],
            "a run that was saved and loaded differs from an uninterrupted one",
        )


def _reloaded(algorithm: Algorithm, run: RunState) -> RunState:
    def each(role: Any, states: Any) -> Any:
        if isinstance(states, tuple):
            return tuple(reload(role, one, "round") for one in states)
        return reload(role, states, "round")

    deciders = None if algorithm.decider is None else each(algorithm.decider, run.deciders)
    return replace(
        run,
        clients=each(algorithm.client, run.clients),
        deciders=deciders,
        server=each(algorithm.server, run.server),
    )


def states_survive(spec: AlgorithmSpec) -> None:
    """Every state has its declared type; reloading each state after every step changes nothing.

    Reloading means saving and loading, for one client at a time and for all at once.
    """
    for environment, algorithm in games(spec):
        survives(algorithm, environment, games_of(spec).tolerance)


def survives(algorithm: Algorithm, environment: Environment, tolerance: float = 0.0) -> None:
    """Demand that all states of one game survive, with floats up to a tolerance."""
    decider = algorithm.decider
    reloading = replace(
        algorithm,
        client=Reloading(algorithm.client),
        server=Reloading(algorithm.server),
        decider=None if decider is None else Reloading(decider),
        shortcuts=replace(algorithm.shortcuts, advance=None),
    )
    kept = _transcript(algorithm, environment, SEEDS[0], "vectorised")
    for engine in ("vectorised", "in_process"):
        demand(
            same(kept, _transcript(reloading, environment, SEEDS[0], engine), tolerance),
            f"the game goes on differently from saved states on {environment} ({engine})",
        )


def valid_plays(spec: AlgorithmSpec) -> None:
    """Every play is a valid expert or a point of the domain, also in games of one round.

    With experts, also with one expert or one client. The engine refuses invalid plays.
    """
    games, own, refused = games_of(spec), not has_experts(spec), 0
    rng, short = np.random.default_rng(14), replace(games.setting, horizon=1)
    tried = (
        (*small_games(spec), games.recorded(games.stream(rng, short)))
        if own
        else tuple(RecordedArray(np.ones(s)) for s in ((1, 1, 1), (1, 2, 1), (2, 1, 5), (9, 1, 2)))
    )
    for environment in tried:
        try:
            algorithm = built(spec, environment.setting)
        except InvalidValue:
            refused += 1
            continue
        _plays(algorithm, environment, 0)
    demand(refused < len(tried), "every small game was refused")


def anytime(spec: AlgorithmSpec) -> None:
    """An algorithm that needs no horizon plays and sends the same whether or not it knows one."""
    if not spec.traits.anytime:
        raise NotApplicable("it needs a horizon")
    for environment, algorithm in games(spec):
        setting = environment.setting
        endless = built(spec, replace(setting, horizon=None))
        found = [
            _transcript(one, environment, SEEDS[0], "vectorised", rounds=setting.rounds)
            for one in (algorithm, endless)
        ]
        for what, a, b in zip(("plays", "messages", "traffic"), *found, strict=True):
            demand(same(a, b), f"{what} differ on {environment} if the horizon is known")


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
    _experts_only(spec, "experts sleep")
    environment = _Drowsy()
    algorithm = built(spec, environment.setting)
    _supported_or_refused(Feature.SLEEPING_EXPERTS, algorithm, environment)
    for seed in SEEDS:
        for engine in ("vectorised", "in_process"):
            plays, _ = _plays(algorithm, environment, seed, engine=engine)
            chosen = np.take_along_axis(environment.awake(), plays[..., None], axis=-1)
            demand(bool(chosen.all()), "a sleeping expert was chosen")


def absent_clients(spec: AlgorithmSpec) -> None:
    """Absent clients do not play; the others play as if absent clients had seen zero losses."""
    _experts_only(spec, "clients are absent")
    environment = Absent(of=Switching(clients=3, experts=5, horizon=61), rate=0.4)
    algorithm = built(spec, environment.setting)
    _supported_or_refused(Feature.ABSENT_CLIENTS, algorithm, environment)
    for seed in SEEDS:
        block = whole(environment, seed)
        present = np.asarray(block.present)
        for fused, engine in _paths(algorithm):
            played = [
                _plays(algorithm, game, seed, engine=engine, fused=fused)[0]
                for game in (environment, RecordedArray(block.losses))
            ]
            demand(bool((played[0][~present] == ABSENT).all()), "an absent client played")
            demand(
                same(played[0][present], played[1][present]),
                f"absence changes the plays of other clients ({engine}, fused: {fused})",
            )


class _Drowsy(RecordedArray):
    """Random losses with about half of the experts asleep in every round, never all of them."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(6).random((37, 2, 4)))

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

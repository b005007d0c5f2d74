"""Simulate one game from a seed, in bounded memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, get_args

import numpy as np

from hedgerow.algorithms.registry import supporting
from hedgerow.core.block import Block, check
from hedgerow.core.environment import Environment, Feature
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.noise import NoiseSource, NoNoise, SeededNoise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Counters, Plays, Sink, Traffic
from hedgerow.core.unit_order import covers
from hedgerow.core.units import Example
from hedgerow.core.validate import at_least
from hedgerow.engines.alone import Alone, own_seed
from hedgerow.engines.loop import Engine, WholeGame
from hedgerow.engines.summed import play_sums
from hedgerow.privacy.secure import SecureNoise

EngineName = Literal["vectorised", "in_process", "summed"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
SHORT = 2**9  # rounds
# Nearly 32 MiB of float64: large enough to amortise Python overhead, and small enough for the C
# library to keep the memory between blocks. New pages would cost a quarter of drawing losses.
BLOCK_ELEMENTS = 2**22 - 2**12
POINTS = 32  # times as many numbers may be in the points of a block as in its records


class LastPlays(Sink):
    """Keep the plays of the last round, for environments that see them."""

    def __init__(self) -> None:
        self.last: np.ndarray | None = None

    def rounds(self, first_round: int, block: Block, plays: np.ndarray | Plays) -> None:
        self.last = plays.last if isinstance(plays, Plays) else plays[-1]


def make_engine(
    name: str,
    algorithm: Algorithm,
    source: NoiseSource,
    fused: bool = True,
    sinks: Iterable[Sink] = (),
) -> Engine | WholeGame:
    """Return the engine of that name that plays losses one by one, for these sinks."""
    drivers = ("vectorised", "in_process")
    if name not in drivers:
        raise InvalidValue(f"Expected engine={name!r} in {drivers}, which play losses one by one.")
    if name == "in_process":
        return Engine.in_process(algorithm, source)
    game, watched = algorithm.shortcuts.resident, any(sink.wants_messages for sink in sinks)
    if fused and game is not None and isinstance(source, SeededNoise) and not watched:
        return WholeGame(algorithm, game, source)
    # fast paths make coins from uniform floats, which are not exact
    seeded = isinstance(source, SeededNoise | NoNoise)
    return Engine.vectorised(algorithm, source, fused and seeded)


def traffic_of(algorithm: Algorithm) -> Traffic:
    """Measure the algorithm's messages, from one of each kind; once, as models are large."""
    if (found := algorithm.__dict__.get("traffic")) is None:
        silent = NoNoise()
        view = silent.single("client", 0, 1)
        upload, _ = algorithm.client.upload(algorithm.client.start(view), view)
        broadcast, _ = algorithm.server.open(silent.server())
        found = algorithm.__dict__["traffic"] = Traffic.of(upload, broadcast)
    return found


def counters_of(algorithm: Algorithm) -> Counters:
    """Return empty counters for an algorithm."""
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
    rounds: int | None = None,
    alone: bool = False,
) -> Counters:
    """Play all rounds and return the counts of rounds, exchanges and bytes.

    The result depends only on the seed. It does not depend on the block size, and all engines
    except `"summed"` give the same plays. That engine draws sums of losses, of the same law, and
    never a single loss.

    Parameters
    ----------
    algorithm
        The algorithm, built for the setting of the environment.
    environment
        The source of the losses.
    seed
        The seed of the losses and of the noise, at least 0.
    sinks
        Objects that watch the run, for example to record regret.
    engine
        `"vectorised"` (all clients in one array), `"in_process"` (one state for each client, every
        message encoded) or `"summed"` (only sums of losses).
    block_rounds
        The number of rounds drawn at a time. None: as many as fit in 32 MiB.
    fused
        Whether fast paths are allowed; they give the same plays.
    noise
        The noise source. None: seeded noise from `seed`.
    rounds
        The number of rounds to play. None: the horizon of the game.
    alone
        Whether every client plays by itself. Then the algorithm is built for one client, and
        nothing is sent.

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.Bernoulli(clients=4, experts=3, horizon=20)
    >>> algorithm = hr.FollowTheLeader().build(environment.setting)
    >>> counters = hr.simulate(algorithm, environment, seed=0)
    >>> counters.played, counters.exchanged
    (20, 19)
    """
    ((counters,),) = simulate_together(
        [[Player(algorithm, sinks, alone)]],
        environment,
        [seed],
        engine=engine,
        block_rounds=block_rounds,
        fused=fused,
        noise=noise,
        rounds=rounds,
    )
    return counters


@dataclass(frozen=True)
class Player:
    """An algorithm, what watches it, and whether every client plays it by itself."""

    algorithm: Algorithm
    sinks: Iterable[Sink] = ()
    alone: bool = False


def simulate_together(
    players: Sequence[Sequence[Player]],
    environment: Environment,
    seeds: Sequence[int],
    *,
    engine: EngineName = "vectorised",
    block_rounds: int | None = None,
    fused: bool = True,
    noise: NoiseSource | None = None,
    rounds: int | None = None,
) -> list[list[Counters]]:
    """Play the players of every seed, each with its sinks, on losses drawn and checked once.

    Every player gets what `simulate` gives it alone. Losses that react to the plays, a given noise
    source and the engine "summed" allow one algorithm only. All seeds have the same algorithms.
    """
    setting, traits = environment.setting, environment.traits
    for player in players[0]:
        require_fit(player.algorithm, environment, player.alone)
    single = traits.sees_plays or noise is not None or engine == "summed"
    if len(players[0]) != 1 and single:
        raise InvalidValue(
            f"Expected players={len(players[0])!r} to be 1: losses that react to the plays, a "
            "noise source and sums serve one algorithm."
        )
    for seed in seeds:
        at_least("seed", seed, 0)
    horizon = _played(setting, rounds)
    if isinstance(noise, SecureNoise):
        players[0][0].algorithm.require_exact_noise()
        setting.require_exact_sums(horizon)
    numbers = max(setting.numbers, setting.experts // POINTS)
    step = max(1, BLOCK_ELEMENTS // numbers) if block_rounds is None else block_rounds
    at_least("block_rounds", step, 1)
    if traits.sees_plays:
        step = 1
    if engine == "summed":
        _check_summed(players[0][0].alone, block_rounds, fused)
        return [
            [_by_sums(own, environment, seed, noise, horizon) for own in row]
            for row, seed in zip(players, seeds, strict=True)
        ]
    games = [
        _Game(
            environment,
            row,
            [_driver(one, setting.clients, engine, seed, horizon, noise, fused) for one in row],
            environment.start(seed),
        )
        for row, seed in zip(players, seeds, strict=True)
    ]
    groups, alone = _grouped(games, min(step, horizon))
    for at in range(0, horizon, step):
        blocks = [game.block(at, min(step, horizon - at)) for game in games]
        for game, block in zip(games, blocks, strict=True):
            for k in alone:
                game.runs[k] = game.drivers[k].advance(game.runs[k], block, game.sinks[k])
        for some, entrants in groups:
            _advance_together([games[s] for s in some], entrants, [blocks[s] for s in some])
    return [game.counters for game in games]


class _Game:
    """The game of one seed: its players, and the blocks of losses that they share."""

    def __init__(
        self,
        environment: Environment,
        players: Sequence[Player],
        drivers: Sequence[Any],
        state: Any,
    ) -> None:
        setting, self.environment = environment.setting, environment
        self.drivers, self.state, self.last = drivers, state, LastPlays()
        self.counters = [_counters(one, setting) for one in players]
        watching = [self.last] if environment.traits.sees_plays else []
        self.sinks: list[list[Sink]] = [
            [counter, *one.sinks, *watching]
            for counter, one in zip(self.counters, players, strict=True)
        ]
        self.marks = sorted({mark for own in self.sinks for sink in own for mark in sink.marks})
        self.runs: list[Any] = [driver.start() for driver in drivers]

    def block(self, played: int, wanted: int) -> Block:
        """The next block, checked."""
        environment = self.environment
        block, self.state = environment.block(self.state, wanted, self.last.last)
        marks = self.marks[bisect_right(self.marks, played) :][:wanted]
        block = check(block, environment.setting, played, wanted, marks)
        _check_declared(environment, environment.traits.features, block)
        return block


def _counters(player: Player, setting: Setting) -> Counters:
    if player.alone:
        return Counters(setting.clients, setting.clients, Traffic(0, 0, 0, 0))
    return counters_of(player.algorithm)


def _by_sums(
    player: Player, environment: Environment, seed: int, noise: NoiseSource | None, horizon: int
) -> Counters:
    counter, source = _counters(player, environment.setting), noise or SeededNoise(seed)
    play_sums(player.algorithm, environment, seed, source, [counter, *player.sinks], horizon)
    return counter


Group = tuple[list[int], list[int]]  # the numbers of some seeds, and of their players


def _grouped(games: Sequence[_Game], rounds: int) -> tuple[list[Group], list[int]]:
    """Whole games that are played together, and the numbers of the other players."""
    kinds: dict[Any, list[int]] = {}
    alone = list[int]()
    for k, driver in enumerate(games[0].drivers):
        whole = isinstance(driver, WholeGame) and (len(games) > 1 or not driver.game.worth)
        kind = driver.game.kind if whole else None
        (alone if kind is None else kinds.setdefault(kind, [])).append(k)
    groups = list[Group]()
    for members in kinds.values():
        most = games[0].drivers[members[0]].game.most(rounds)
        for some in _cut(members, most):
            for seeds in _cut(range(len(games)), max(1, most // len(some))):
                groups.append((list(seeds), list(some)))
    return groups, alone


def _cut(numbers: Sequence[int], most: int) -> list[Sequence[int]]:
    return [numbers[at : at + most] for at in range(0, len(numbers), most)]


def _advance_together(games: Sequence[_Game], players: list[int], blocks: list[Block]) -> None:
    """Play one block of some players in the games of some seeds, as one program."""
    drivers = [[game.drivers[k] for k in players] for game in games]
    runs = [[game.runs[k] for k in players] for game in games]
    first = drivers[0][0].game
    found = first.together([[one.game for one in row] for row in drivers], runs, blocks)
    for game, block, row in zip(games, blocks, found, strict=True):
        for k, (after, trace) in zip(players, row, strict=True):
            run, sinks = game.runs[k], game.sinks[k]
            game.runs[k] = game.drivers[k].played(run, after, trace, block, sinks)


def _check_summed(alone: bool, block_rounds: int | None, fused: bool) -> None:
    """Refuse what the engine "summed" cannot do: it draws no single losses."""
    if alone:
        raise InvalidValue(
            "The engine 'summed' draws only sums of losses, so clients cannot be alone."
        )
    if block_rounds is not None:
        raise InvalidValue(
            "The engine 'summed' draws only sums of losses, so block_rounds must be None."
        )
    if not fused:
        raise InvalidValue("The engine 'summed' draws only sums of losses, so fused must be True.")


def _driver(
    player: Player,
    clients: int,
    engine: EngineName,
    seed: int,
    rounds: int,
    noise: NoiseSource | None,
    fused: bool,
) -> Engine | WholeGame | Alone:
    """The engine of a player; clients that are alone have one each, with separate noise."""
    if not player.alone:
        source = _seeded(seed, rounds) if noise is None else noise
        return make_engine(engine, player.algorithm, source, fused, player.sinks)
    if noise is not None:
        raise InvalidValue(f"Expected noise={noise!r} to be None where clients are alone.")
    sources = [_seeded(own_seed(seed, client), rounds) for client in range(clients)]
    return Alone(tuple(make_engine(engine, player.algorithm, each, fused) for each in sources))


def _seeded(seed: int, rounds: int) -> SeededNoise:
    """Return seeded noise; short games draw little of it in advance, which changes no number."""
    return SeededNoise(seed, 2**11) if rounds <= SHORT else SeededNoise(seed)


def require_fit(algorithm: Algorithm, environment: Environment, alone: bool = False) -> None:
    """Raise unless the algorithm can play in this environment, and say what does not fit."""
    setting = setting_of(environment, alone)
    if algorithm.plays == "expert" and not setting.family.linear:
        raise Unsupported(
            f"{algorithm.name} chooses experts and needs linear losses, "
            f"not {type(setting.family).__name__}."
        )
    if not algorithm.setting.admits(setting):
        raise InvalidValue(
            f"{algorithm.name} was built for {algorithm.setting}, but the game has {setting}. "
            "Build it for environment.setting."
        )
    environment.traits.require_support(algorithm.name, algorithm.supports, supporting)
    environment.traits.require_needed(algorithm.name, algorithm.needs)
    times, distance = environment.traits.reuse
    for unit in (g.unit for g in algorithm.certificate.guarantees if g.protects and times > 1):
        if not covers(unit, Example(times, distance, record=unit.record), setting.horizon or inf):
            raise Unsupported(
                f"{type(environment).__name__} uses every example in {times} rounds, {distance} "
                f"apart, but {algorithm.name} protects {unit.words()}. Set "
                f"unit=hr.Example(passes={times}, apart={distance}), or take one pass."
            )


def setting_of(environment: Environment, alone: bool = False) -> Setting:
    """Return the setting to build an algorithm for: that of one client where clients are alone."""
    setting = environment.setting
    if not alone:
        return setting
    if setting.deciders is not None:
        raise Unsupported("Clients can be alone only where the clients play.")
    return replace(setting, clients=1)


def _played(setting: Setting, rounds: int | None) -> int:
    """Return how many rounds are played."""
    if rounds is None:
        return setting.rounds
    at_least("rounds", rounds, 1)
    if setting.horizon is not None and not rounds <= setting.horizon:
        raise InvalidValue(f"Expected rounds={rounds!r} <= horizon={setting.horizon}.")
    return rounds


def _are_late(environment: Environment, block: Block) -> bool:
    """Whether clients that play see something else than their own records."""
    if block.reports is block.losses or environment.setting.deciders is not None:
        return False
    if block.reporting is None:
        return True
    return not np.array_equal(block.reports[block.reporting], block.losses[block.reporting])


def _check_declared(environment: Environment, declared: frozenset[Feature], block: Block) -> None:
    """Require that masks and delays are declared, because certificates rely on it."""
    other = Feature.PEOPLE not in declared and _are_late(environment, block)
    late = block.reports if other else None
    masks = (
        (block.awake, Feature.SLEEPING_EXPERTS),
        (block.present, Feature.ABSENT_CLIENTS),
        (late, Feature.LATE_REPORTS),
        (block.side, Feature.SIDE_INFORMATION),
        (block.reporting, Feature.SOME_REPORT),
    )
    for mask, feature in masks:
        if mask is not None and feature not in declared:
            raise InvalidValue(
                f"{type(environment).__name__} has {feature.value} that its traits "
                "do not declare. Add the feature to its traits."
            )

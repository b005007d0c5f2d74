"""The games on which the contracts test an algorithm: its own, or those of experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Environment, Traits
from hedgerow.core.games import Games, cells_in, cells_of
from hedgerow.core.lattice import Array
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.core.unit_text import parse_unit
from hedgerow.core.units import Event, Unit
from hedgerow.environments.drawn.realizable import Realizable
from hedgerow.environments.drawn.switching import Switching
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.environments.wrappers.absent import Absent
from hedgerow.environments.wrappers.delayed import Delayed
from hedgerow.environments.wrappers.masks import Around
from hedgerow.environments.wrappers.sleeping import Sleeping

SETTING = Setting(clients=3, experts=5, horizon=40)
LONG = Setting(clients=200, experts=5, horizon=600)


def games_of(spec: AlgorithmSpec) -> Games:
    """The games of a spec; those of experts if it brings none."""
    return spec.games() or EXPERTS


def has_experts(spec: AlgorithmSpec) -> bool:
    """Whether the contracts test a spec on games of experts with losses in [0, 1]."""
    return games_of(spec) is EXPERTS


def pairs(spec: AlgorithmSpec, unit: Unit, trials: int) -> Iterator[tuple[int, Any, Any]]:
    """Neighbouring streams that differ in one unit, with the number of the trial."""
    games, rng = games_of(spec), np.random.default_rng(11)
    for trial in range(trials):
        known = games is EXPERTS  # the trials go through kinds of streams in turn
        one, other = _expert_pair(rng, unit, trial) if known else games.pair(rng, unit)
        yield trial, one, other


def far_pairs(games: Games, setting: Setting) -> Iterator[tuple[Any, Any]]:
    """Streams that are far apart; consecutive pairs may begin with the same stream."""
    rng = np.random.default_rng(13)
    if games.far is not None:
        yield from games.far(rng, setting)
        return
    for _ in range(4):
        yield games.stream(rng, setting), games.stream(rng, setting)


def long_setting(games: Games) -> Setting:
    """The setting of the longer games."""
    return games.long or replace(games.setting, horizon=10 * games.setting.rounds)


def small_games(spec: AlgorithmSpec) -> tuple[Environment, ...]:
    """The games of a spec for the contracts on execution."""
    games = games_of(spec)
    if games is EXPERTS:
        return tuple(holding_its_unit(spec, game) for game in games.small)
    if games.small:
        return games.small
    return (games.recorded(games.stream(np.random.default_rng(12), games.setting)),)


def holding_its_unit(spec: AlgorithmSpec, game: Any) -> Any:
    """A drawn game with at least as many clients as one person of the spec's unit may be at."""
    unit = Event() if spec.unit is None else parse_unit(spec.unit)
    clients = int((unit.shape or (1, 1, 1))[1])
    if game.setting.clients >= clients:
        return game
    if isinstance(game, Around):
        return replace(game, of=holding_its_unit(spec, game.of))
    return replace(game, clients=clients)


def whole(environment: Environment, seed: int = 0) -> Block:
    """All rounds of an environment that does not see plays, in one block."""
    return environment.block(environment.start(seed), environment.setting.rounds, None)[0]


@dataclass(frozen=True, eq=False)
class _Rounds(Environment):
    """The game of one block."""

    of: Setting
    features: Traits
    rounds: Block

    @property
    def setting(self) -> Setting:
        return self.of

    @property
    def traits(self) -> Traits:
        return self.features

    def start(self, seed: int) -> int:
        return 0

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        every, part = self.rounds, slice(state, state + rounds)
        losses = every.losses[part]
        return Block(
            losses,
            losses if every.reports is every.losses else every.reports[part],
            None if every.awake is None else every.awake[part],
            None if every.present is None else every.present[part],
            None if every.side is None else every.side[part],
            None if every.reporting is None else every.reporting[part],
        ), part.stop


def from_round(cut: int, first: Environment, second: Environment) -> Environment:
    """The first game up to a round, and from there on the secret records of the second.

    What is public stays that of the first game.
    """
    before, after = whole(first), whole(second)

    def spliced(one: Array, other: Array, shown: np.ndarray | None) -> Array:
        later = other[cut:] if shown is None else other[cut:] * shown[cut:, :, None]
        return np.concatenate([one[:cut], later])

    losses = spliced(before.losses, after.losses, before.present)
    reports = (
        losses
        if before.reports is before.losses
        else spliced(before.reports, after.reports, before.reporting)
    )
    block = replace(before, losses=losses, reports=reports)
    return _Rounds(first.setting, first.traits, block)


def records_between(first: Environment, second: Environment) -> list[tuple[int, int]]:
    """The rounds and clients of the reports in which two games differ."""
    differ = (whole(first).reports != whole(second).reports).any(axis=-1)
    return [(int(when), int(who)) for when, who in np.argwhere(differ)]


def with_record(cell: tuple[int, int], first: Environment, second: Environment) -> Environment:
    """The first game with one report of the second: that of a round and a client."""
    before, reports = whole(first), whole(first).reports.copy()
    reports[cell] = whole(second).reports[cell]
    losses = reports if before.reports is before.losses else before.losses
    return _Rounds(first.setting, first.traits, replace(before, losses=losses, reports=reports))


Place = tuple[bool, bool]  # whether two records are in one round, and at one client
PLACES: dict[Place, str] = {
    (True, False): "at two clients in the same round",
    (False, False): "at two clients in two rounds",
    (False, True): "at the same client in two rounds",
}


def places(cells: list[tuple[int, int]]) -> set[Place]:
    """How the records of a person lie to each other."""
    return {(a[0] == b[0], a[1] == b[1]) for a, b in combinations(cells, 2)}


def possible_places(environment: Environment) -> set[Place]:
    """How two reports of a game can lie to each other: clients may be absent or not report."""
    block = whole(environment)
    shown = np.ones(block.reports.shape[:2], bool)
    for mask in (block.present, block.reporting):
        shown &= True if mask is None else mask
    rounds, clients = (shown.any(axis=axis).sum() > 1 for axis in (1, 0))
    found = {(True, False)} if (shown.sum(axis=1) > 1).any() else set[Place]()
    found |= {(False, True)} if (shown.sum(axis=0) > 1).any() else set()
    return found | ({(False, False)} if rounds and clients else set())


@lru_cache(maxsize=256)
def _built(spec: AlgorithmSpec, setting: Setting) -> Algorithm:
    return spec.build(setting)


def built(spec: AlgorithmSpec, setting: Setting) -> Algorithm:
    """The algorithm for a setting; built once, as several contracts need it."""
    try:
        hash(spec)
    except TypeError:
        return spec.build(setting)
    return _built(spec, setting)


def _expert_pair(rng: np.random.Generator, unit: Unit, trial: int) -> tuple[Array, Array]:
    """Two streams of losses; those of one unit are inverted in the second."""
    rounds, clients, experts = SETTING.rounds, SETTING.clients, SETTING.experts
    losses = (
        rng.random((rounds, clients, experts))
        if trial % 2
        else rng.integers(0, 2, (rounds, clients, experts)).astype(float)
    )
    neighbour = losses.copy()
    when, who = int(rng.integers(rounds)) if trial % 3 else 0, int(rng.integers(clients))
    extreme = rng.integers(0, 2, experts) if trial % 4 else 0.0
    for cell in cells_of(rng, unit, cells_in(SETTING), (when, who), trial // 2):
        losses[cell] = extreme
        neighbour[cell] = 1.0 - losses[cell]
    return losses, neighbour


def _draw(rng: np.random.Generator, setting: Setting) -> Array:
    """Losses of experts that are better the lower their number."""
    shape = (setting.rounds, setting.clients, setting.experts)
    return rng.random(shape) * np.linspace(0, 1, setting.experts)


def _far(rng: np.random.Generator, setting: Setting) -> Iterator[tuple[Array, Array]]:
    """All losses low against high, of one client, of one expert, late ones; random ones inverted.

    Between such streams, every threshold on a total or on a difference of totals is crossed.
    """
    shape = (setting.rounds, setting.clients, setting.experts)
    first, last = np.eye(setting.experts)[[0, -1]]
    low, high = np.zeros(shape), np.broadcast_to(1.0, shape)
    one_client = low.copy()
    one_client[:, 0] = 1.0  # totals grow by 1: windows are crossed, too
    late = low.copy()
    late[setting.rounds // 2 :] = 1.0
    for other in (high, one_client, np.broadcast_to(first, shape), late):
        yield low, other
    mixed = rng.random(shape)
    yield mixed, 1.0 - mixed
    yield mixed, np.broadcast_to(last, shape)


_DRIFTING = Switching(clients=3, experts=5, horizon=61)
_CHASING = PlayChasing(clients=2, experts=4, horizon=37)
EXPERTS = Games(
    setting=SETTING,
    recorded=RecordedArray,
    stream=_draw,
    pair=lambda rng, unit: _expert_pair(rng, unit, int(rng.integers(12))),
    small=(
        _DRIFTING,
        Realizable(clients=4, experts=6, horizon=83),
        _CHASING,
        Switching(clients=1, experts=3, horizon=50),
        Sleeping(of=_DRIFTING, rate=0.6),
        Absent(of=_DRIFTING, rate=0.4),
        Absent(of=Sleeping(of=_CHASING), rate=0.3),
        Delayed(of=Absent(of=_DRIFTING), rounds=(0, 9, 4)),
    ),
    far=_far,
    long=LONG,
)

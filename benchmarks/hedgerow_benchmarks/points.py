"""Benchmarks of games in which points are played, and of states that keep their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.baselines.gradient_descent import (
    DescentClientState,
    DescentServerState,
    Follower,
    GradientDescent,
    GradientSum,
    Point,
)
from hedgerow.core.lattice import Array
from hedgerow.core.layout import Buffer, Vector
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.engines.simulate import simulate
from hedgerow.evaluation.recorder import Recorder
from hedgerow_benchmarks.benchmark import Benchmark, Row
from hedgerow_benchmarks.measure import REPEATS, compared, in_turn
from hedgerow_benchmarks.repeating import Repeating, losses
from hedgerow_benchmarks.simulation import SUM


@dataclass(frozen=True)
class Player(Follower):
    """Plays the broadcast point and looks at no record."""

    def observe(
        self, state: DescentClientState, reports: Array, noise: Noise
    ) -> DescentClientState:
        return state

    def observe_many(
        self, state: DescentClientState, reports: Array, noise: Noise
    ) -> DescentClientState:
        return state


@dataclass(frozen=True)
class Wanderer:
    """Sends another point at every exchange."""

    state: ClassVar[type[Any]] = DescentServerState

    width: int
    every: int

    def open(self, noise: Noise) -> tuple[Point, DescentServerState]:
        return self._next(0)

    def aggregate(
        self, state: DescentServerState, uploads: GradientSum, noise: Noise
    ) -> tuple[Point, DescentServerState]:
        return self._next(state.exchanges + 1)

    def _next(self, exchanges: int) -> tuple[Point, DescentServerState]:
        point = np.full(self.width, 0.5 / self.width)
        point[exchanges % self.width] += 0.5
        return Point(self.every, point), DescentServerState(point, exchanges)


@dataclass(frozen=True)
class KeepingState:
    """The point to play, and all records so far."""

    point: Vector
    gradients: Vector
    records: Buffer


@dataclass(frozen=True)
class Keeper(Follower):
    """Keeps every record that it sees."""

    state: ClassVar[type[Any]] = KeepingState

    def start(self, noise: Noise) -> Any:
        zeros = np.zeros((*noise.batch, self.width))
        return KeepingState(zeros, zeros, Buffer.empty(noise.batch, self.width))

    def receive(self, state: Any, broadcast: Point) -> Any:
        return replace(state, point=np.broadcast_to(broadcast.point, state.gradients.shape))

    def observe(self, state: Any, reports: Array, noise: Noise) -> Any:
        return replace(state, records=state.records.append(reports))


def wandering(setting: Setting, every: int = 64) -> Algorithm:
    """Return an algorithm that does nothing but play points."""
    built = GradientDescent(every=every, early=False).build(setting)
    player = Player(setting.experts, setting.family)
    return replace(built, client=player, server=Wanderer(setting.experts, every))


def keeping(setting: Setting) -> Algorithm:
    """Return an algorithm whose clients keep all their records."""
    built = GradientDescent(every=64, early=False).build(setting)
    keeper = Keeper(setting.experts, setting.family)
    return replace(built, client=keeper, server=Wanderer(setting.experts, 64))


def _play(
    make: Callable[[Setting], Algorithm], game: Repeating, fused: bool = True
) -> Callable[[], object]:
    algorithm = make(game.setting)

    def work() -> object:
        recorder = Recorder(game.setting)
        counters = simulate(algorithm, game, 1, sinks=[recorder], fused=fused)
        return recorder.result("", 1, counters)

    return work


def quick_points() -> Iterator[Row]:
    """Points against one pass over the losses."""
    clients, rounds, width = 10, 2**14, 100
    game = losses(rounds, clients, width)
    for every, limit in ((1024, 3.0), (64, None)):
        found = compared(_play(partial(wandering, every=every), game), game.sum, 2 * REPEATS + 1)
        yield Row(
            f"points/m={clients}/T={rounds}/d={width}/N={every}",
            found.ratio,
            SUM,
            found.seconds / (rounds * clients) * 1e9,
            "ns per loss vector",
            "<=" if limit else None,
            limit,
            found.spread,
        )


def points_rows() -> Iterator[Row]:
    """Points against one pass over the losses, and the time of a round as the game grows."""
    yield from quick_points()
    for label, make in (("points", wandering), ("kept records", keeping)):
        short, long = losses(2**11, 4, 10), losses(2**14, 4, 10)
        grown, taken = in_turn(_play(make, long, fused=False), _play(make, short, fused=False))
        yield Row(
            f"{label}/growth/T=2^11 to 2^14",
            grown / 8,
            "the same time per round",
            taken / 2**14 * 1e6,
            "us per round",
            "<=",
            1.25,
        )


POINTS = Benchmark(points_rows, quick_points)

"""Benchmark of choosing among forecasters: whole games against the forecasts alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hedgerow.core.losses import Gains
from hedgerow.core.replay import Replay
from hedgerow.engines.simulate import simulate
from hedgerow_benchmarks.benchmark import Benchmark, Row
from hedgerow_benchmarks.measure import in_turn
from hedgerow_papers.jacobsen2025.certified_meta import WalkMeta
from hedgerow_papers.jacobsen2025.forecasters import FORECASTERS, PUBLISHED, Past

HOSPITALS, WEEKS, REPETITIONS = 293, 148, 10  # as large as the largest published game


def quick_forecasters() -> Iterator[Row]:
    """The first row of `forecasters_rows`."""
    yield next(forecasters_rows())


def forecasters_rows() -> Iterator[Row]:
    """RW-Meta with 13 forecasters in silos, against the forecasters' own products and leaders.

    The second row compares with one product for all of them, which the game itself uses.
    """
    rng = np.random.default_rng(0)
    gains = rng.random((WEEKS, HOSPITALS)) / 4
    beds = rng.integers(8, 400, HOSPITALS).astype(np.float64)
    side = np.broadcast_to(beds[:, None], (WEEKS, HOSPITALS, 1))
    game = Replay(gains[:, None, :], Gains(), reports=gains[..., None], side=side)
    algorithm = WalkMeta(reports="silo", sized=True, unit="person:2@2").build(game.setting)
    panel = FORECASTERS.panel(PUBLISHED)

    def alone(past: Past) -> list[np.ndarray]:
        return [member.forecast(past) for member in panel.members]

    def together(past: Past) -> list[np.ndarray]:
        return list(panel.forecasts(past))

    def forecasts(by: Callable[[Past], list[np.ndarray]]) -> None:
        for _ in range(REPETITIONS):
            totals = np.cumsum(gains, axis=0)
            for t in range(1, WEEKS):
                past = Past(gains[max(0, t - panel.window) : t], totals[t - 1], t)
                for forecast in by(past):
                    forecast.argmax()

    def games() -> None:
        for seed in range(REPETITIONS):
            simulate(algorithm, game, seed)

    name = f"walk_meta/{len(PUBLISHED)} forecasters/d={HOSPITALS}/T={WEEKS}"
    ratio, taken = in_turn(games, lambda: forecasts(alone))
    each = taken / REPETITIONS * 1e3
    against = "forecasters one by one, and their leaders"
    yield Row(name, ratio, against, each, "ms per game", "<=", 1.5)
    ratio, taken = in_turn(games, lambda: forecasts(together))
    each = taken / REPETITIONS * 1e3
    against = "forecasters in one product, and their leaders"
    yield Row(f"{name}/strict", ratio, against, each, "ms per game")


COMPARED = Benchmark(forecasters_rows, quick_forecasters)

"""Proven regret bounds for sparse-vector algorithms, and the parameters that minimise one.

The bounds are for streams on which one expert loses little, or never. They follow the mass of all
weights, which only falls within an epoch: `values` computes the largest loss that may still come,
from the last draw of an epoch to its first. Epochs may all be alike (`regret_bound`) or differ
(`epochs_bound`). Proof: `proofs/sparse_vector_regret.md`.

Every rounding goes upward: masses are rounded up to a grid, integrals are left sums of functions
that fall, and `REL` exceeds all floating-point errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import ceil, exp, expm1, inf, log, log10, sqrt

import numpy as np
import numpy.typing as npt

from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.sparse_vector.columns import Columns
from hedgerow.algorithms.sparse_vector.plan import Constants
from hedgerow.algorithms.sparse_vector.recency import RecencySelector
from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.setting import Setting
from hedgerow.privacy.calibrate import surrogate_mu

REL = 1e-12
"""More than the floating-point error of one step of `values`, relative to the largest value."""
STEP = 1 / UNITS_PER_LOSS


@dataclass(frozen=True)
class Grid:
    """How finely masses, ranks (the variable of the integral) and levels of noise are divided."""

    masses: int
    ranks: int
    levels: int


COARSE = Grid(60, 40, 10)
FINE = Grid(256, 128, 12)


@dataclass(frozen=True)
class Game:
    """The public values of a game on which the bound depends.

    `every` is the largest number of rounds between two exchanges, `best_loss` the loss per client
    that the best expert is known not to exceed.
    """

    clients: int
    experts: int
    horizon: int
    every: int
    exchanges: int
    best_loss: float = 0.0

    @classmethod
    def of(cls, setting: Setting, schedule: Schedule, best_loss: float = 0.0) -> Game:
        return cls(
            setting.clients,
            setting.experts,
            setting.rounds,
            schedule.every,
            schedule.count(setting.rounds),
            best_loss,
        )


@dataclass(frozen=True)
class Runs:
    """The runs of a sparse-vector server that restarts: their test and their weights.

    `margin` is what a run may lose beyond the best expert's loss. `weights[k - 1]` is the weight of
    the losses of a run that begins when k draws of its epoch are still to come; it is the same in
    all these draws.
    """

    sparse_epsilon: float
    margin: float
    weights: tuple[float, ...]


def runs_of(server: RecencySelector, columns: Columns, used: int) -> Runs:
    """The runs of the epoch with these columns, which begins after `used` draws.

    Each weighs alike in all draws to come.
    """
    assert all(column.own == column.later for column in columns if column.after)
    weights = tuple(2 * server.selection.rate * column.own for column in reversed(columns))
    margin = max(0.0, server.limit(used) - server.least(used))
    return Runs(1 / server.test(used).query_scale, margin, weights)


@dataclass(frozen=True)
class Prices:
    """Prices of noise levels: `top` times the cost of a run for the highest, growing like `slope`.

    Any prices give a valid bound.
    """

    top: float
    slope: float


def run_cost(step: float, sparse_epsilon: float, threshold: float) -> float:
    """Bounds the expected loss of one run: `proofs/sparse_vector_regret.md#one-run`.

    `step` is the largest loss of all clients between two exchanges.
    """
    scaled = step * sparse_epsilon
    late = step - (1 + log(scaled)) / sparse_epsilon if scaled > 1 else 0.0
    over = threshold + late - step
    wait = exp(min(0.0, sparse_epsilon * over)) / sparse_epsilon
    return (step + max(over, 0.0) + wait) * (1 + REL) + STEP


@dataclass(frozen=True)
class _Tables:
    """What does not depend on the value of a new epoch."""

    cost: float  # of one run
    prices: Array  # by level
    paid: float  # the expected sum of all prices
    other: Array  # by mass: the share of all experts but the best
    cells: Array  # length of each cell of ranks, up to `other`: (ranks, masses)
    rows: npt.NDArray[np.intp]  # where a shifted value is found: (draws, levels, ranks)


def _tables(
    game: Game, runs: Runs, prices: Prices, grid: Grid, unit: float | None = None
) -> _Tables:
    """The tables; prices are in units of the cost of a run, or of `unit`."""
    threshold = game.clients * game.best_loss + runs.margin
    cost = run_cost(game.clients * game.every, runs.sparse_epsilon, threshold)
    levels = np.linspace(0.0, 1.0, grid.levels + 1)
    scale = prices.top * (cost if unit is None else unit)
    phi = scale * np.expm1(prices.slope * levels) / expm1(prices.slope)
    above = np.exp(runs.sparse_epsilon * (STEP - runs.margin * levels[:-1]))
    paid = float((np.diff(phi) * above).sum()) * game.exchanges / 2
    width = log(game.experts) / grid.masses * (1 + REL)
    other = -np.expm1(-width * np.arange(grid.masses + 1))
    edges = np.linspace(0.0, other[-1], grid.ranks + 1)
    cells = np.clip(other - edges[:-1, None], 0.0, np.diff(edges)[:, None])
    lost = -np.expm1(-np.outer(runs.weights, runs.margin * (1 - levels)) / 2) * (1 - REL)
    fallen = np.floor(-np.log1p(-lost[:, :, None] * edges[:-1]) / width - 1e-9)
    rows = grid.masses - np.clip(fallen, 0, grid.masses).astype(np.intp)
    return _Tables(cost, phi, paid * (1 + REL), other, cells, rows)


def values(tables: _Tables, draws: int, new_epoch: float) -> float:
    """The largest loss still to come before a draw with full mass and `draws` draws after it."""
    size = len(tables.other)
    padded = np.empty(2 * size - 1)
    shifted = np.lib.stride_tricks.sliding_window_view(padded, size)
    value: Array = np.full(size, new_epoch)
    for rows in tables.rows[:draws]:
        padded[: size - 1], padded[size - 1 :] = value[0], value
        later = (shifted[rows] - tables.prices[:, None, None]).max(axis=0)
        mean = np.einsum("ri,ri->i", np.maximum(later, 0.0), tables.cells)
        alarms = np.maximum(value - tables.prices[-1], 0.0) * (1 - tables.other)
        value = (mean + alarms + tables.other * tables.cost) * (1 + REL) + REL * value[-1]
    return float(value[-1])


def _new_epoch(tables: _Tables, most: float) -> float | None:
    """A small X with cost + values(X) <= X, or None if none up to `most` is found.

    The left side is convex in X, so a chord lies above it and meets X at a valid point.
    """
    draws = len(tables.rows) - 1

    def after(x: float) -> float:
        return (tables.cost + values(tables, draws, x)) * (1 + REL)

    low, high = tables.cost, 4 * tables.cost * (draws + 1)
    at_low, at_high = after(low), after(high)
    while at_high > high:
        low, at_low, high = high, at_high, 2 * high
        if high > most:
            return None
        at_high = after(high)
    for _ in range(3):
        slope = (at_high - at_low) / (high - low)
        x = min(high, (at_low - slope * low) / (1 - slope) * (1 + 1e-9))
        found = after(x)
        if found > x:
            break
        high, at_high = x, found
    return at_high


def loss_bound(game: Game, runs: Runs, prices: Prices, grid: Grid = FINE) -> float:
    """Bounds the expected regret per client, for these prices. It may exceed the horizon.

    Proof: `proofs/sparse_vector_regret.md#theorem`.
    """
    tables = _tables(game, runs, prices, grid)
    new_epoch = _new_epoch(tables, 100.0 * game.clients * game.horizon)
    if new_epoch is None:
        return inf
    return _each(game, values(tables, len(runs.weights), new_epoch) + tables.paid)


def _each(game: Game, total: float) -> float:
    """The regret per client if all clients together lose `total`; STEP: losses are rounded."""
    return (total / game.clients + game.horizon * STEP) * (1 + REL)


def _least(at: Callable[[float], float], start: float, factor: float) -> float:
    """Walks from `start` in steps of `factor`, up or down, as long as the value falls."""
    here, value = start, at(start)
    for step in (factor, 1 / factor):
        while (found := at(here * step)) < value * (1 - 1e-4):
            here, value = here * step, found
        if here != start:
            break
    return here


@lru_cache(maxsize=256)
def regret_bound(game: Game, runs: Runs) -> float:
    """Bounds the expected regret per client if one expert is as good as the game says.

    The bound is at most the horizon. It takes about a third of a second.

    Parameters
    ----------
    game
        The size of the game and its exchanges.
    runs
        The test and the weights of the server.

    Examples
    --------
    >>> weights = tuple(8.0 / k for k in range(1, 12))
    >>> game = Game(clients=10, experts=100, horizon=512, every=1, exchanges=511)
    >>> 5 < regret_bound(game, Runs(2.0, 8.5, weights)) < 10.5
    True
    """
    if game.experts == 1:
        return 0.0
    found = _cheapest(lambda prices, grid: loss_bound(game, runs, prices, grid), runs)
    return min(float(game.horizon), _outward(found))


def _cheapest(
    loss: Callable[[Prices, Grid], float], runs: Runs, top: float = 400.0, grid: Grid = FINE
) -> float:
    """The loss at good prices: found on the coarse grid, evaluated on the given one."""
    prices = Prices(top, max(1.0, 0.95 * runs.sparse_epsilon * runs.margin))
    for name, factor in (("top", 2.0), ("slope", 1.06)):

        def at(x: float, name: str = name, fixed: Prices = prices) -> float:
            return loss(replace(fixed, **{name: x}), COARSE)

        prices = replace(prices, **{name: _least(at, getattr(prices, name), factor)})
    return loss(prices, grid)


def _outward(bound: float) -> float:
    """A bound with six digits, rounded up: the same on machines whose arithmetic differs a little.

    >>> _outward(47.63957687)
    47.6396
    """
    if not 0 < bound < inf:
        return bound
    unit = 10.0 ** (ceil(log10(bound)) - 6)
    return float(f"{ceil(bound / unit) * unit:.6g}")


@dataclass(frozen=True)
class EpochRuns:
    """The runs of an epoch, and what the best expert may lose in it, summed over clients."""

    allowed: float
    runs: Runs


@lru_cache(maxsize=256)
def epochs_bound(game: Game, epochs: tuple[EpochRuns, ...]) -> float:
    """Bounds the expected regret per client if epochs differ.

    Epochs that allow less than the best expert loses are given up, and so is all that follows the
    last one. The bound is at most the horizon.
    Proof: `proofs/sparse_vector_regret.md#epochs-that-differ`.

    Parameters
    ----------
    game
        The size of the game, its exchanges, and what the best expert may lose per client.
    epochs
        The first epochs of the game. What they allow must not fall.

    Examples
    --------
    >>> runs = Runs(2.0, 8.5, tuple(8.0 / k for k in range(1, 12)))
    >>> game = Game(clients=10, experts=100, horizon=512, every=1, exchanges=511)
    >>> 5 < epochs_bound(game, (EpochRuns(0.0, runs), EpochRuns(10.0, runs))) < 12
    True
    """
    if game.experts == 1:
        return 0.0
    most = later = float(game.clients * game.horizon)
    for epoch in reversed(epochs[1:]):
        later = min(most, _from_epoch(game, epoch, later, COARSE))
    total = _from_epoch(game, epochs[0], later, FINE, uniform=True)
    return min(float(game.horizon), _outward(_each(game, total)))


def _from_epoch(
    game: Game, epoch: EpochRuns, later: float, grid: Grid, uniform: bool = False
) -> float:
    """Bounds what is lost from the beginning of an epoch on, if `later` bounds what follows it.

    `uniform`: its first expert is drawn uniformly.
    """
    runs = epoch.runs
    draws = len(runs.weights)
    if epoch.allowed < game.clients * game.best_loss:
        limit = epoch.allowed + runs.margin
        run = run_cost(game.clients * game.every, runs.sparse_epsilon, limit)
        return (draws * run + later) * (1 + REL)
    inner = replace(game, best_loss=epoch.allowed / game.clients)

    def lost(prices: Prices, grid: Grid) -> float:
        tables = _tables(inner, runs, prices, grid)
        first = values(tables, draws, later) if uniform else tables.cost
        rest = 0.0 if uniform else values(tables, draws - 1, later)
        return (first + rest + tables.paid) * (1 + REL)

    return _cheapest(lost, runs, grid=grid)


@lru_cache(maxsize=256)
def chance_of_end(game: Game, runs: Runs) -> float:
    """Bounds the chance that an epoch ends although one expert is as good as the game says.

    The same recursion, in which only the end of the epoch costs something: 1.
    Proof: `proofs/sparse_vector_regret.md#end-of-an-epoch`.

    >>> game = Game(clients=10, experts=100, horizon=512, every=1, exchanges=511)
    >>> chance_of_end(game, Runs(2.0, 8.5, tuple(8.0 / k for k in range(1, 20)))) < 0.02
    True
    """
    if game.experts == 1:
        return 1.0

    def ended(prices: Prices, grid: Grid) -> float:
        tables = replace(_tables(game, runs, prices, grid, unit=1.0), cost=0.0)
        return (values(tables, len(runs.weights) - 1, 1.0) + tables.paid) * (1 + REL)

    return min(1.0, _outward(_cheapest(ended, runs, top=1.0)))


def graded(epsilon: float, delta: float, sparse: float, switches: int) -> tuple[float, ...]:
    """About the weights that a budget allows if every run spreads its own over its draws.

    With delta > 0 a normal approximation; it is for the search only.
    """
    mu = _mu(epsilon, delta, sparse) if delta > 0 else 0.0
    runs = range(1, switches + 1)
    return tuple(max((epsilon - sparse) / k, 1.94 * mu / sqrt(k)) for k in runs)


_mu = lru_cache(maxsize=1024)(surrogate_mu)


@dataclass(frozen=True)
class _Point:
    """A point of the search: eps_s / epsilon, eps_s * margin - ln J, draws, and the top price."""

    share: float = 0.2
    quiet: float = 10.0
    switches: int = 11
    top: float = 400.0


SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
QUIETS = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0)
TOPS = (25.0, 100.0, 400.0, 1600.0, 6400.0, 25600.0)
DRAWS = (0.7, 0.9, 1.1, 1.3, 1.6, 2.0, 2.5, 3.0)  # times ln(experts), plus 3


@lru_cache(maxsize=256)
def _choose(game: Game, epsilon: float, delta: float) -> _Point:
    """The point with the smallest bound, by three rounds of searches along the axes."""
    calm = log(max(1, game.exchanges))

    @cache
    def score(point: _Point) -> float:
        sparse = point.share * epsilon
        margin = (point.quiet + calm) / sparse
        runs = Runs(sparse, margin, graded(epsilon, delta, sparse, point.switches))
        return loss_bound(game, runs, Prices(point.top, 0.95 * (point.quiet + calm)), COARSE)

    switches = tuple(3 + round(draws * log(game.experts)) for draws in DRAWS)
    axes = {"top": TOPS, "quiet": QUIETS, "share": SHARES, "switches": switches}
    best = _Point(switches=switches[4])
    for _ in range(3):
        for name, options in axes.items():
            best = min((replace(best, **{name: value}) for value in options), key=score)
    return best


def proved_plan(
    setting: Setting, *, epsilon: float, delta: float, schedule: Schedule, best_loss: float
) -> Constants:
    """The constants with the smallest proven regret bound on a grid, from public values.

    >>> setting = Setting(clients=10, experts=100, horizon=512)
    >>> plan = proved_plan(
    ...     setting, epsilon=10.0, delta=0.0, schedule=Schedule(1), best_loss=0.0
    ... )
    >>> plan.switches, plan.sparse_epsilon, plan.draw
    (10, 2.0, 'exponential')
    """
    game = Game.of(setting, schedule, best_loss)
    sparse, margin, switches = 0.2 * epsilon, 0.0, 1
    if setting.experts > 1:
        best = _choose(game, epsilon, delta)
        sparse, switches = best.share * epsilon, best.switches
        margin = (best.quiet + log(max(1, game.exchanges))) / sparse
    return Constants(
        sparse,
        setting.clients * best_loss + margin,
        switches,
        front=0.0,
        schedule=schedule,
        untested=False,
        draw="exponential",
    )

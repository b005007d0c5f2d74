"""A proven regret bound for the sparse-vector algorithm, and the parameters that minimise it.

The bound is for streams on which one expert never loses. It follows the mass W of all weights,
which only falls within an epoch: `values` computes the largest loss that may still come, from the
last draw of an epoch to its first. Proof: `proofs/sparse_vector_regret.md`.

Every rounding goes upward: masses are rounded up to a grid, integrals are left sums of functions
that fall, and `REL` exceeds all floating-point errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, expm1, inf, log, nextafter

import numpy as np
import numpy.typing as npt

from hedgerow.core.lattice import UNITS_PER_LOSS, Array

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
    """The public values of a game on which the bound depends."""

    clients: int
    experts: int
    horizon: int
    every: int

    @property
    def exchanges(self) -> int:
        return (self.horizon - 1) // self.every


@dataclass(frozen=True)
class Tested:
    """A sparse-vector algorithm that restarts: its test and the weights of its runs.

    `weights[k - 1]` is the weight, in every later draw of the epoch, of the losses of a run that
    begins when k draws of its epoch are still to come.
    """

    sparse_epsilon: float
    threshold: float
    weights: tuple[float, ...]


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
    extra = over if over >= 0 else 0.0
    wait = 1 / sparse_epsilon * exp(min(0.0, sparse_epsilon * over))
    return (step + extra + wait) * (1 + REL) + STEP


def _shifts(tested: Tested, levels: Array, ranks: Array, width: float, masses: int) -> np.ndarray:
    """By how many grid points the mass falls at least, by draws to come, level and rank."""
    left = tested.threshold * (1 - levels)
    lost = -np.expm1(-np.outer(tested.weights, left) / 2) * (1 - REL)
    fallen = np.floor(-np.log1p(-lost[:, :, None] * ranks) / width - 1e-9)
    return np.clip(fallen, 0, masses).astype(np.intp)


@dataclass(frozen=True)
class _Tables:
    """What does not depend on the value of a new epoch."""

    cost: float
    prices: Array  # by level
    other: Array  # by mass: share of all experts but the perfect one
    cells: Array  # length of each cell of ranks, up to `other`: (ranks, masses)
    rows: npt.NDArray[np.intp]  # rows of the table of shifted values: (draws, levels, ranks)


def _tables(game: Game, tested: Tested, prices: Prices, grid: Grid) -> tuple[_Tables, float]:
    """The tables, and what all prices of a game cost in expectation."""
    cost = run_cost(game.clients * game.every, tested.sparse_epsilon, tested.threshold)
    levels = np.linspace(0.0, 1.0, grid.levels + 1)
    phi = prices.top * cost * np.expm1(prices.slope * levels) / expm1(prices.slope)
    noisy = np.exp(tested.sparse_epsilon * (STEP - tested.threshold * levels[:-1]))
    paid = float((np.diff(phi) * noisy).sum()) * game.exchanges / 2
    width = log(game.experts) / grid.masses * (1 + REL)
    other = -np.expm1(-width * np.arange(grid.masses + 1))
    edges = np.linspace(0.0, other[-1], grid.ranks + 1)
    cells = np.clip(other - edges[:-1, None], 0.0, np.diff(edges)[:, None])
    shifts = _shifts(tested, levels, edges[:-1], width, grid.masses)
    return _Tables(cost, phi, other, cells, grid.masses - shifts), paid * (1 + REL)


def values(tables: _Tables, draws: int, new_epoch: float) -> float:
    """The largest loss still to come before a draw with full mass and `draws` draws to come."""
    size = len(tables.other)
    padded = np.empty(2 * size - 1)
    shifted = np.lib.stride_tricks.sliding_window_view(padded, size)
    value: Array = np.full(size, new_epoch)
    for rows in tables.rows[:draws]:
        padded[: size - 1], padded[size - 1 :] = value[0], value
        later = (shifted[rows] - tables.prices[:, None, None]).max(axis=0)
        alarms = np.maximum(value - tables.prices[-1], 0.0) * (1 - tables.other)
        mean = np.einsum("ri,ri->i", np.maximum(later, 0.0), tables.cells)
        value = (mean + alarms + tables.other * tables.cost) * (1 + REL) + REL * value[-1]
    return float(value[-1])


def _new_epoch(tables: _Tables, most: float) -> float | None:
    """A small X with cost + values(X) <= X, or None if there is none up to `most`.

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


def loss_bound(game: Game, tested: Tested, prices: Prices, grid: Grid = FINE) -> float:
    """Bounds the expected loss per client, for these prices. It may exceed the horizon.

    Proof: `proofs/sparse_vector_regret.md#theorem`.
    """
    tables, paid = _tables(game, tested, prices, grid)
    new_epoch = _new_epoch(tables, 100.0 * game.clients * game.horizon)
    if new_epoch is None:
        return inf
    total = values(tables, len(tested.weights), new_epoch) + paid
    rounding = game.horizon * STEP / 2  # of the losses
    return (total / game.clients + rounding) * (1 + REL)


def _least(at: Callable[[float], float], start: float, factor: float) -> tuple[float, float]:
    """Walks from `start` in steps of `factor` as long as the value falls: (place, value)."""
    here, value = start, at(start)
    for step in (factor, 1 / factor):
        moved = False
        while (next_value := at(here * step)) < value * (1 - 1e-4):
            here, value, moved = here * step, next_value, True
        if moved:
            break
    return here, value


def _best_prices(game: Game, tested: Tested, grid: Grid, start: Prices) -> tuple[Prices, float]:
    """Prices with a small bound, near `start`."""
    top, _ = _least(lambda x: loss_bound(game, tested, replace(start, top=x), grid), start.top, 2.0)
    found = replace(start, top=top)
    slope, value = _least(
        lambda x: loss_bound(game, tested, replace(found, slope=x), grid), found.slope, 1.06
    )
    return replace(found, slope=slope), value


@lru_cache(maxsize=256)
def regret_bound(
    *,
    clients: int,
    experts: int,
    horizon: int,
    every: int,
    sparse_epsilon: float,
    threshold: float,
    weights: Sequence[float],
) -> float:
    """Bounds the expected regret per client if one expert never loses; at most the horizon.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game.
    every
        Rounds between two exchanges.
    sparse_epsilon
        The rate of the exponential noise of the test, 1 / scale.
    threshold
        The loss, summed over clients, that a run may have.
    weights
        `weights[k - 1]` is the weight of the losses of a run that begins when k draws of its epoch
        are still to come. A tuple.

    Examples
    --------
    >>> weights = tuple(8.0 / k for k in range(1, 12))
    >>> bound = regret_bound(
    ...     clients=10,
    ...     experts=100,
    ...     horizon=512,
    ...     every=1,
    ...     sparse_epsilon=2.0,
    ...     threshold=8.5,
    ...     weights=weights,
    ... )
    >>> 5 < bound < 10.5
    True
    """
    if experts == 1:
        return 0.0
    game = Game(clients, experts, horizon, every)
    tested = Tested(sparse_epsilon, threshold, tuple(weights))
    start = Prices(400.0, max(1.0, 0.95 * sparse_epsilon * threshold))
    prices, _ = _best_prices(game, tested, COARSE, start)
    return min(float(horizon), nextafter(loss_bound(game, tested, prices), inf))


SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
MARGINS = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0)  # sparse_epsilon * threshold - ln(exchanges)
DRAWS = (0.7, 0.9, 1.1, 1.3, 1.6, 2.0, 2.5, 3.0)  # of ln(experts), above 3


@dataclass(frozen=True)
class Choice:
    """The parameters with the smallest bound on a grid."""

    switches: int
    threshold: float
    sparse_epsilon: float


@lru_cache(maxsize=256)
def choose_proved(
    *, clients: int, experts: int, horizon: int, every: int, epsilon: float
) -> Choice:
    """Chooses switches, threshold and share of the test: a grid search for the smallest bound.

    The weights are graded: (epsilon - sparse_epsilon) / k. Nothing here reads data.
    """
    game = Game(clients, experts, horizon, every)
    calm = log(max(1, game.exchanges))

    def score(share: float, margin: float, draws: float, top: float) -> float:
        tested = graded(epsilon, share * epsilon, margin + calm, switches_of(draws, experts))
        prices = Prices(top, 0.95 * (margin + calm))
        return loss_bound(game, tested, prices, COARSE)

    axes = {"top": tuple(25.0 * 4.0**n for n in range(6)), "margin": MARGINS}
    axes |= {"share": SHARES, "draws": DRAWS}
    best = {"share": 0.2, "margin": 10.0, "draws": 1.6, "top": 400.0}
    known: dict[tuple[float, ...], float] = {}

    def cached(point: dict[str, float]) -> float:
        key = tuple(point[name] for name in ("share", "margin", "draws", "top"))
        if key not in known:
            known[key] = score(*key)
        return known[key]

    for _ in range(3):
        for name, options in axes.items():
            best = min(({**best, name: x} for x in options), key=cached)
    sparse = best["share"] * epsilon
    return Choice(
        switches_of(best["draws"], experts), (best["margin"] + calm) / sparse, sparse
    )


def switches_of(draws: float, experts: int) -> int:
    return 3 + round(draws * log(experts))


def graded(epsilon: float, sparse: float, scaled_threshold: float, switches: int) -> Tested:
    """Every run's losses share the rest of the budget equally among the draws that they enter."""
    weights = tuple((epsilon - sparse) / k for k in range(1, switches + 1))
    return Tested(sparse, scaled_threshold / sparse, weights)

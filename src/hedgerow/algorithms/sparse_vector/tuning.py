"""Chooses the free parameters of the sparse-vector algorithm from public values.

`choose` searches for the number of switches kappa, the threshold L and the share eps_s of the
sparse-vector part in the budget. It minimises the worst expected regret over a few reference
streams. The rest of the budget goes to the selections: eta = (epsilon - eps_s) / kappa or, with
delta > 0, nearly what the normal approximation of kappa steps allows if that is more.

The regret is estimated by a surrogate that jumps from switch to switch, so its running time does
not grow with the horizon. Nothing here reads data and nothing is random, so the choice has no
privacy cost. The surrogate is an approximation (between switches losses follow their mean), and
the choice is the best point of a finite grid under it, not a proven optimum. A tenth of the mean
over the streams is added to the worst, because the worst alone is often flat in the parameters.
With L* > 0 false alarms are counted as if the good expert had already lost its L*. This is
cautious: it costs some regret if that expert never loses.
"""

import hashlib
import math
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hedgerow.core.lattice import Array
from hedgerow.privacy import calibrate, curves
from hedgerow.privacy.calibrate import surrogate_mu
from hedgerow.privacy.composition import table_cache

BERNOULLI_RATES = (0.02, 0.1, 0.5, 1.0)
HALVINGS = 7
STREAM_NAMES = (*(f"bernoulli {rate:g}" for rate in BERNOULLI_RATES), "halving")
FRACTIONS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # eps_s / epsilon
MARGINS = (0.0, 0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0)
EXTRA_SWITCHES = (0, 1, 2, 4, 7, 12, 20)  # above the fewest allowed
MORE_SWITCHES = (*EXTRA_SWITCHES, 35, 60)  # with delta > 0: the more switches, the less each costs
OF_NORMAL_LIMIT = 0.99  # certified composition allows this share of the normal approximation
STAGES = ((24, 0.12), (96, 0.2), (384, 1.0))  # replicates, share of the candidates kept
MEAN_WEIGHT = 0.1  # the mean over streams separates candidates whose worst streams tie


@dataclass(frozen=True)
class Choice:
    """The chosen parameters. The rest of the budget is split equally between the selections.

    `expected` is the surrogate's expected regret on every reference stream.
    """

    switches: int
    threshold: float
    sparse_epsilon: float
    expected: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class _Problem:
    """The public values for which parameters are chosen."""

    clients: int
    experts: int
    horizon: int
    every: int
    least: float  # m L*
    epsilon: float
    delta: float


@dataclass(frozen=True)
class _Streams:
    """Streams as cohorts of equal experts; every array has shape (streams, cohorts)."""

    size: Array
    start: Array  # the cohort loses in the rounds after this one
    rate: Array  # mean loss per round and client from then on


@dataclass(frozen=True)
class _Group:
    """Candidates with the same number of switches; every array has shape (candidates, 1, 1)."""

    switches: int
    sparse: Array  # eps_s
    selection: Array  # eta
    margin: Array  # eps_s (L - m L*)


@lru_cache(maxsize=256)
def choose(
    *,
    clients: int,
    experts: int,
    horizon: int,
    every: int,
    best_loss: float,
    epsilon: float,
    delta: float = 0.0,
) -> Choice:
    """Chooses the parameters for these public values, as `search` does; kept on disk."""
    shown = ", ".join(float(value).hex() for value in (best_loss, epsilon, delta))
    key = f"sparse vector {clients}, {experts}, {horizon}, {every}, {shown}, code={_code()}"
    kept = table_cache.load(key)
    if kept is not None and len(kept) == 3 + len(STREAM_NAMES):
        switches, threshold, sparse_epsilon, *regrets = kept.tolist()
        expected = tuple(zip(STREAM_NAMES, regrets, strict=True))
        return Choice(int(switches), threshold, sparse_epsilon, expected)
    found = search(
        clients=clients,
        experts=experts,
        horizon=horizon,
        every=every,
        best_loss=best_loss,
        epsilon=epsilon,
        delta=delta,
    )
    regrets = [regret for _, regret in found.expected]
    values = [found.switches, found.threshold, found.sparse_epsilon, *regrets]
    table_cache.store(key, np.array(values, float))
    return found


@cache
def _code() -> str:
    """A digest of the code and the library that determine a choice: others must not reuse it."""
    files = [__file__, calibrate.__file__, *sorted(Path(curves.__file__).parent.glob("*.py"))]
    parts = b"".join(Path(file).read_bytes() for file in files)
    return f"{hashlib.sha256(parts).hexdigest()} numpy={np.__version__}"


def search(
    *,
    clients: int,
    experts: int,
    horizon: int,
    every: int,
    best_loss: float,
    epsilon: float,
    delta: float = 0.0,
) -> Choice:
    """Chooses the parameters for these public values; deterministic, about a second at most."""
    least = float(clients * best_loss)
    problem = _Problem(clients, experts, horizon, every, least, epsilon, delta)
    fewest = max(1, (experts - 1).bit_length())
    unit = 1.0 + math.log1p(horizon / every)
    axes = (
        [fewest + extra for extra in (MORE_SWITCHES if delta > 0 else EXTRA_SWITCHES)],
        FRACTIONS,
        unit * np.array(MARGINS),
    )
    # Rows of the grid: kappa, eps_s / epsilon, eps_s (L - m L*).
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    regret = np.empty((0, 0))
    for replicates, share in STAGES:
        regret = _expected_regret(problem, grid, replicates)
        score = np.round(regret.max(axis=1) + MEAN_WEIGHT * regret.mean(axis=1), 9)
        order = np.argsort(score, kind="stable")[: int(share * len(score))]
        grid, regret = grid[order], regret[order]
    switches, sparse_epsilon = int(grid[0, 0]), float(grid[0, 1]) * epsilon
    threshold = least + float(grid[0, 2]) / sparse_epsilon
    expected = tuple(zip(STREAM_NAMES, regret[0].tolist(), strict=True))
    return Choice(switches, threshold, sparse_epsilon, expected)


def _bernoulli(problem: _Problem) -> _Streams:
    """One expert never loses; all others lose at the stream's rate from the start."""
    rate = np.array([[rate, 0.0] for rate in BERNOULLI_RATES])
    size = np.broadcast_to([problem.experts - 1.0, 1.0], rate.shape)
    return _Streams(size, np.broadcast_to([0.0, float(problem.horizon)], rate.shape), rate)


def _halving(problem: _Problem) -> _Streams:
    """After every eighth of the horizon half of the surviving experts start to lose 1 per round."""
    alive, cohorts = problem.experts, []
    for part in range(1, HALVINGS + 1):
        cohorts.append((alive // 2, part * problem.horizon // (HALVINGS + 1)))
        alive -= alive // 2
    size, start = np.array([*cohorts, (alive, problem.horizon)], dtype=float).T
    return _Streams(size[None], start[None], np.ones((1, len(size))))


def _expected_regret(problem: _Problem, grid: Array, replicates: int) -> Array:
    """Surrogate expected regret per client, shape (candidates, streams)."""
    result = np.empty((len(grid), len(STREAM_NAMES)))
    nodes = _nodes(3 * int(grid[:, 0].max()) + 3, replicates)
    for switches in np.unique(grid[:, 0]):
        index = np.flatnonzero(grid[:, 0] == switches)
        sparse = problem.epsilon * grid[index, 1, None, None]
        group = _Group(
            int(switches),
            sparse,
            _selection(problem, sparse, int(switches)),
            grid[index, 2, None, None],
        )
        for columns, streams, tail in (
            (slice(0, -1), _bernoulli(problem), _bernoulli_tail),
            (slice(-1, None), _halving(problem), _halving_tail),
        ):
            paid, stuck = _surrogate(problem, streams, group, nodes)
            rounds, factor = _bad_run(problem, streams, group, nodes)
            rare = tail(problem, streams, group, rounds, factor)
            # Few nodes may miss that the switches run out, which is rare but costs order T. What
            # they can have missed is at most about the share of three nodes.
            unseen = stuck + 3.0 * problem.horizon / replicates
            result[index, columns] = paid + np.maximum(stuck, np.minimum(rare, unseen))
    return result


def _selection(problem: _Problem, sparse: Array, switches: int) -> Array:
    """The eta that the budget allows for each selection."""
    pure = (problem.epsilon - sparse) / switches
    if problem.delta == 0:
        return pure
    shares, where = np.unique(sparse, return_inverse=True)
    mu = np.array([_mu(problem.epsilon, problem.delta, float(share)) for share in shares])[
        where
    ].reshape(sparse.shape)
    return np.maximum(pure, OF_NORMAL_LIMIT * 2 * mu / np.sqrt(switches))


_mu = lru_cache(maxsize=1024)(surrogate_mu)


def _nodes(dimensions: int, count: int) -> Array:
    """Kronecker sequence with the square roots of the primes, shape (dimensions, count)."""
    primes: list[int] = []
    number = 2
    while len(primes) < dimensions:
        if all(number % prime for prime in primes):
            primes.append(number)
        number += 1
    steps: Array = np.sqrt(np.array(primes, dtype=np.float64))[:, None]
    return np.clip(np.fmod(steps * (np.arange(count) + 0.5), 1.0), 1e-9, 1.0 - 1e-9)


def _surrogate(
    problem: _Problem, streams: _Streams, group: _Group, nodes: Array
) -> tuple[Array, Array]:
    """Mean loss before and after the last switch: two arrays of shape (candidates, streams).

    Works on arrays of shape (candidates, streams, replicates).
    """
    horizon, every, clients = float(problem.horizon), float(problem.every), float(problem.clients)
    decay = clients * _log_factor(streams.rate, group.selection)
    shape = (len(group.margin), len(streams.size), nodes.shape[1])
    row = np.arange(shape[1])[:, None]
    now, paid, stuck = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for used in range(group.switches + 1):
        pick, noise = nodes[3 * used], nodes[3 * used + 1 : 3 * used + 3]
        cohort = _pick(streams, decay, group.selection * (problem.least / 2.0), now, pick)
        rate, begin = streams.rate[row, cohort], np.maximum(streams.start[row, cohort], now)
        if used == group.switches:
            stuck = rate * (horizon - begin)
            break
        quiet = np.floor((begin - now) / every)  # exchanges before the first loss
        first = clients * rate * (now + (quiet + 1.0) * every - begin)
        drift = clients * rate * every
        count = _exchanges(problem, group, noise, quiet=quiet, first=first, drift=drift)
        stop = now + every * count
        now = np.where(stop < horizon, stop, horizon)
        paid += rate * np.maximum(now - begin, 0.0)
        if now.min() >= horizon:
            break
    return paid.mean(axis=2), stuck.mean(axis=2)


def _log_factor(rate: Array, selection: Array) -> Array:
    """log E exp(-eta * loss / 2) for one Bernoulli(rate) loss."""
    return np.log1p(np.maximum(rate * np.expm1(-selection / 2.0), -1.0 + 1e-15))


def _pick(
    streams: _Streams, decay: Array, clip: Array, now: Array, pick: Array
) -> npt.NDArray[np.int64]:
    """Cohort drawn at time `now`, with an upper bound for E exp(-eta max(S, m L*) / 2)."""
    logs = []
    for cohort, size in enumerate(np.log(np.maximum(streams.size, 1e-300)).T[:, :, None]):
        elapsed = np.maximum(now - streams.start[:, cohort, None], 0.0)
        logs.append(size + np.minimum(decay[:, :, cohort, None] * elapsed, -clip))
    sums = np.cumsum(np.exp(np.stack(logs) - np.maximum.reduce(logs)), axis=0)
    below: npt.NDArray[np.int64] = (sums < pick * sums[-1]).sum(axis=0)
    return np.minimum(below, len(logs) - 1)


def _exchanges(
    problem: _Problem, group: _Group, noise: Array, *, quiet: Array, first: Array, drift: Array
) -> Array:
    """Number of exchanges until q + g > L + z; `noise` holds uniform nodes for z and g.

    `quiet` is the number of exchanges before the first loss. In these the hazard is

        exp(-eps_s (L - m L* + z)),

    as if m L* were lost already (cautious: the best expert may lose that much). Then
    q is `first` and grows by `drift` per exchange, and the hazard grows by exp(eps_s * step) per
    step, until it is 1. Losses rarer than one per exchange come as jumps of size 1, and each level
    is held for 1 / drift exchanges.
    """
    margin, budget = group.margin - np.log(noise[0]), -np.log(noise[1])
    calm = -np.log1p(-np.minimum(np.exp(-margin), 1.0 - 1e-12))
    early = np.floor(budget / calm) + 1.0
    left = np.maximum(budget - quiet * calm, 1e-300)
    drift = np.maximum(drift, 1e-12)
    step = np.maximum(drift, 1.0)
    hold = step / drift
    # gap = eps_s (L + z - q) at the first step
    gap = margin + group.sparse * (problem.least - np.where(drift >= 1.0, first, 0.0))
    growth = group.sparse * step
    certain = np.ceil(np.maximum(gap, 0.0) / growth)
    slope = np.where(growth < 30.0, np.log(np.expm1(np.minimum(growth, 30.0))), growth)
    level = np.logaddexp(0.0, np.log(left) + slope + gap - np.log(hold)) / growth
    count = np.where(drift >= 1.0, np.ceil(level), np.ceil(level * hold))
    count = np.minimum(np.maximum(count, 1.0), np.ceil(certain * hold) + 1.0)
    total: Array = np.where(early <= quiet, early, quiet + count)
    return total


def _bad_run(
    problem: _Problem, streams: _Streams, group: _Group, nodes: Array
) -> tuple[Array, Array]:
    """Mean rounds of a run on a losing expert, and E exp(-eta/2 * loss of another in that time)."""
    rate = streams.rate[:, :1]
    drift = problem.clients * problem.every * rate
    count = _exchanges(problem, group, nodes[1:3], quiet=np.zeros(1), first=drift, drift=drift)
    rounds = problem.every * np.minimum(count, problem.horizon)
    decay = problem.clients * _log_factor(rate, group.selection)
    return rounds.mean(axis=2), np.exp(decay * rounds).mean(axis=2)


def _bernoulli_tail(
    problem: _Problem, streams: _Streams, group: _Group, rounds: Array, factor: Array
) -> Array:
    """Expected loss after picking a losing expert kappa + 1 times, as independent picks."""
    chance = np.ones_like(factor)
    for runs in range(group.switches + 1):
        weight = (problem.experts - 1.0) * factor**runs
        chance *= weight / (1.0 + weight)
    return chance * streams.rate[:, 0] * np.maximum(problem.horizon - group.switches * rounds, 0.0)


def _halving_tail(
    problem: _Problem, streams: _Streams, group: _Group, rounds: Array, factor: Array
) -> Array:
    """Expected loss after the last switch from the distribution of the switches used per phase.

    In a phase of T/8 rounds a false alarm (a Poisson number) costs one switch and finds a living
    expert; a dying expert costs one switch, and one more whenever the draw finds its own cohort.
    """
    phase = problem.horizon / ((HALVINGS + 1.0) * problem.every)
    mean = phase * np.exp(-group.margin[:, :, 0]) / 2.0
    numbers = np.arange(group.switches + 1)
    ratios = np.where(numbers > 0, mean / np.maximum(numbers, 1), np.exp(-mean))
    lag = numbers[None, :] - numbers[:, None]
    moves = np.where(lag >= 0, np.cumprod(ratios, axis=1)[:, np.abs(lag)], 0.0)
    moves[:, :, -1] = 1.0 - moves[:, :, :-1].sum(axis=2)
    living = np.zeros((len(mean), 1, group.switches + 1))  # alive with this many switches used
    living[:, :, 0] = 1.0
    lost, alive = np.zeros_like(mean), float(problem.experts)
    for size, start in zip(streams.size[0, :-1], streams.start[0, :-1], strict=True):
        living = living @ moves
        dying = living[:, 0] * (size / alive)
        living[:, 0] -= dying
        alive -= size
        for runs in numbers:
            lost += dying[:, -1:] * np.maximum(problem.horizon - start - runs * rounds, 0.0)
            dying = np.hstack([np.zeros_like(mean), dying[:, :-1]])
            found = alive / (alive + size * factor ** (runs + 1))
            living[:, 0] += found * dying
            dying *= 1.0 - found
    return lost

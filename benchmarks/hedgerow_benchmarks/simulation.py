"""Benchmarks of whole games: time against one pass over the losses, growth, memory and scale."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from hedgerow.algorithms.baselines.ada_hedge import AdaHedge
from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.baselines.gradient_descent import GradientDescent
from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.algorithms.correlated.running_leader import RunningLeader
from hedgerow.algorithms.correlated.window_leader import WindowLeader
from hedgerow.algorithms.dartboard.private_hedge import PrivateHedge
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.gradient.limited_updates import LimitedUpdates
from hedgerow.algorithms.gradient.noisy_ftrl import NoisyFTRL
from hedgerow.algorithms.learning.online_sgd import OnlineSGD
from hedgerow.algorithms.mixture.private_mixture import Mixture, PrivateMixture
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.phases.repeated_votes import RepeatedVotes
from hedgerow.algorithms.phases.vote_selection import VoteSelection
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.algorithms.walks.walk_leader import WalkLeader
from hedgerow.algorithms.watch.block_selection import BlockSelection
from hedgerow.algorithms.watch.watched_selection import WatchedSelection
from hedgerow.core import lattice
from hedgerow.core.combination import Combination
from hedgerow.core.convex import AbsoluteError
from hedgerow.core.noise import CHUNK, SeededNoise
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.replay import Replay
from hedgerow.engines.simulate import EngineName, simulate
from hedgerow.environments.drawn.realizable import Realizable
from hedgerow.environments.drawn.stochastic import UniformLosses
from hedgerow.evaluation.recorder import Recorder
from hedgerow_benchmarks.benchmark import Benchmark, Row
from hedgerow_benchmarks.measure import REPEATS, compared, in_turn, peak_mebibytes
from hedgerow_benchmarks.repeating import Repeating, losses
from hedgerow_papers.agarwal2017.tree_hedge import TreeHedge
from hedgerow_papers.agarwal2017.tree_leader import TreeLeader
from hedgerow_papers.asi2023.certified_potential import Potential
from hedgerow_papers.asi2023.cover_dartboard import CoverDartboard
from hedgerow_papers.gao2024.certified_frank_wolfe import FrankWolfe
from hedgerow_papers.jacobsen2025.certified_meta import WalkMeta
from hedgerow_papers.jacobsen2025.walk_batches import WalkBatches

SUM = "losses.sum()"
SIZE = (10, 2**17, 100)  # clients, rounds, experts
SHORT = (10, 2**12, 100)  # for algorithms that play round by round


class Case(NamedTuple):
    """An algorithm, the game that it plays, and the most times `losses.sum()` that it may take."""

    spec: AlgorithmSpec
    limit: float
    size: tuple[int, int, int] = SIZE
    kind: type[Realizable | UniformLosses] = Realizable
    detail: str = ""

    @property
    def name(self) -> str:
        """What the row is called, after the name of the algorithm."""
        m, t, d = self.size
        return f"m={m}/T={t}/d={d}{self.detail and '/'}{self.detail}"


ALONE, WIDE = (1, 2**17, 100), (1, 2**17, 1000)
DARTBOARD = ShrinkingDartboard(delta=1e-6)
CASES: dict[str, tuple[Case, ...]] = {
    "block_selection": (Case(BlockSelection(), 4.0),),
    "cover_dartboard": (Case(CoverDartboard(), 60.0, (10, 2**14, 4)),),
    "ada_hedge": (Case(AdaHedge(), 40.0),),
    "doubling": (
        Case(Doubling(every=32), 6.0, detail="N=32"),
        Case(Doubling(), 60.0, SHORT, UniformLosses, "no good expert"),
    ),
    "follow_the_leader": (Case(FollowTheLeader(), 10.0),),
    "frank_wolfe": tuple(
        Case(FrankWolfe(trees=trees), 6.0, detail=f"T_1={trees}") for trees in (0, 1)
    ),
    "gradient_descent": (Case(GradientDescent(), 450.0, SHORT),),
    "hedge": (Case(Hedge(), 10.0),),
    "limited_updates": (Case(LimitedUpdates(), 350.0, SHORT),),
    "noisy_ftrl": (Case(NoisyFTRL(), 950.0, SHORT),),
    "online_sgd": (Case(OnlineSGD(), 200.0, SHORT),),
    "phased_selection": (Case(PhasedSelection(), 4.0),),
    "potential": (
        Case(Potential(every=32), 6.0, detail="N=32"),
        Case(Potential(), 60.0, SHORT, UniformLosses, "no good expert"),
    ),
    "private_hedge": (Case(PrivateHedge(), 75.0, SHORT),),
    "random_prefix": (Case(RandomPrefix(), 4.0),),
    "repeated_votes": (Case(RepeatedVotes(), 4.0),),
    "running_leader": (Case(RunningLeader(), 1100.0, SHORT),),
    "shrinking_dartboard": (
        Case(DARTBOARD, 6.0, ALONE),
        Case(DARTBOARD, 6.0, ALONE, UniformLosses, "no good expert"),
        Case(DARTBOARD, 3.0, WIDE),
        Case(DARTBOARD, 3.0, WIDE, UniformLosses, "no good expert"),
    ),
    "sparse_vector": (
        Case(SparseVector(every=32), 3.0, detail="N=32"),
        Case(SparseVector(), 10.0, detail="N=1"),
    ),
    "tree_hedge": (Case(TreeHedge(), 100.0, SHORT),),
    "tree_leader": (Case(TreeLeader(), 32.0, SHORT),),
    "uniform": (Case(Uniform(), 5.0),),
    "walk_batches": (Case(WalkBatches(), 65.0, SHORT),),
    "walk_leader": (Case(WalkLeader(), 65.0, SHORT),),
    "walk_meta": (Case(WalkMeta(), 210.0, SHORT),),
    "vote_selection": (Case(VoteSelection(), 4.0),),
    "watched_selection": (Case(WatchedSelection(), 8.0),),
    "window_leader": (Case(WindowLeader(), 1100.0, SHORT),),
}
"""Every algorithm that plays experts; a test checks that none is missing."""
COMBINATIONS: dict[str, AlgorithmSpec] = {"mixture": Mixture(), "private_mixture": PrivateMixture()}
"""Those that combine forecasts."""

QUICK = {
    name: CASES[name][:1]
    for name in (
        *("hedge", "follow_the_leader", "sparse_vector", "phased_selection", "random_prefix"),
        *("frank_wolfe", "shrinking_dartboard"),
    )
}


def play(
    spec: AlgorithmSpec, environment: Repeating, engine: EngineName = "vectorised"
) -> Callable[[], object]:
    """Plays a game on recorded losses: validation, protocol, regret and communication."""
    algorithm = spec.build(environment.setting)  # `bench calibrate` times this step

    def work() -> object:
        recorder = Recorder(environment.setting)
        counters = simulate(algorithm, environment, 1, sinks=[recorder], engine=engine)
        return recorder.result("", 1, counters)

    return work


def game_rows(
    cases: Mapping[str, tuple[Case, ...]] = CASES, repeats: int = REPEATS
) -> Iterator[Row]:
    """Whole games against one pass over their losses. Games on the same losses share them."""
    listed = [(name, case) for name, several in cases.items() for case in several]
    listed.sort(key=lambda pair: (pair[1].size, pair[1].kind.__name__))
    for (size, kind), group in groupby(listed, key=lambda pair: (pair[1].size, pair[1].kind)):
        clients, rounds, experts = size
        game = losses(rounds, clients, experts, kind)
        for name, case in group:
            found = compared(play(case.spec, game), game.sum, repeats)
            each = found.seconds / (rounds * clients) * 1e9
            yield Row(
                f"{name}/{case.name}",
                found.ratio,
                SUM,
                each,
                "ns per loss vector",
                "<=",
                case.limit,
                found.spread,
            )


def quick_games() -> Iterator[Row]:
    """The games of a few algorithms, measured three times."""
    return game_rows(QUICK, 3)


def simulate_rows() -> Iterator[Row]:
    """Games against one pass over their losses.

    The rows are: each algorithm, some of them without compiled sums, Fed-SVT with one state per
    client, long walks (against drawing their noise), growth in m, T and d, and the memory that all
    this needs.
    """
    yield from game_rows()
    yield from _by_numpy()
    yield from _separate()
    yield from _walks()
    yield from combination_rows()
    yield from _growth()
    peak = peak_mebibytes()
    yield Row("memory/bench simulate", peak / 1024, "1 GiB", peak, "MiB", "<=", 1.0)


def _by_numpy() -> Iterator[Row]:
    """What compiled sums buy: some games without them. No limit holds there."""
    names = ("follow_the_leader", "hedge", "shrinking_dartboard", "sparse_vector", "uniform")
    cases = {name: CASES[name] for name in names}
    with patch.object(lattice, "compiled", None):
        for row in game_rows(cases):
            yield replace(row, name=f"{row.name}/numpy only", op=None, limit=None)


def combination_rows() -> Iterator[Row]:
    """Games of combined forecasts against one pass over the forecasts; regret is not measured."""
    clients, rounds, experts = 1000, 100, 100
    rng = np.random.default_rng(0)
    target = rng.normal(size=(rounds, clients, 1))
    records = np.concatenate([target + rng.normal(size=(rounds, clients, experts)), target], axis=2)
    game = Replay(records, Combination(AbsoluteError(feature_norm=64.0, target=64.0)))
    for name, spec in COMBINATIONS.items():
        algorithm = spec.build(game.setting)
        found = compared(lambda a=algorithm: simulate(a, game, 1), records.sum)
        each = found.seconds / (rounds * clients) * 1e9
        yield Row(
            f"{name}/m={clients}/T={rounds}/d={experts}",
            found.ratio,
            "forecasts.sum()",
            each,
            "ns per answer",
            "<=",
            12.0,
            found.spread,
        )


def _separate() -> Iterator[Row]:
    """One state per client, every message encoded; and a coin in every round of the dartboard."""
    clients, rounds, experts = 10, 2**10, 100
    game = losses(rounds, clients, experts)
    for every in (32, 1):
        found = compared(play(SparseVector(every=every), game, "in_process"), game.sum)
        name = f"sparse_vector/m={clients}/T={rounds}/d={experts}/N={every}/in_process"
        each = found.seconds / (rounds * clients) * 1e9
        yield Row(name, found.ratio, SUM, each, "ns per loss vector", spread=found.spread)
    often = ShrinkingDartboard(delta=1e-6, every=1)
    game = losses(2**17, 1, 100)
    found = compared(play(often, game), game.sum)
    each = found.seconds / 2**17 * 1e9
    name = f"shrinking_dartboard/m=1/T={2**17}/d=100/N=1"
    yield Row(name, found.ratio, SUM, each, "ns per loss vector", spread=found.spread)


def _walks() -> Iterator[Row]:
    """A walk against drawing its noise, of which every round needs a new vector.

    Then a walk in batches against the walk.
    """
    rounds, experts = 10**6, 100
    environment = losses(rounds, 1, experts, UniformLosses)

    def drawing() -> None:
        noise, step = SeededNoise(1).everyone("client", 1), CHUNK // experts
        for first in range(0, rounds, step):
            count = min(step, rounds - first)
            noise.draw("gaussian", "report", (experts,), rounds=count, scale=10.0)

    ratio, taken = in_turn(play(WalkLeader(), environment), drawing)
    name, each = f"walk_leader/m=1/T={rounds}/d={experts}", taken / rounds * 1e9
    yield Row(name, ratio, "drawing its noise", each, "ns per loss vector", "<=", 1.7)
    ratio, taken = in_turn(play(WalkBatches(), environment), play(WalkLeader(), environment))
    name, each = f"walk_batches/m=1/T={rounds}/d={experts}", taken / rounds * 1e9
    yield Row(name, ratio, "walk_leader", each, "ns per loss vector", "<=", 1.5)


GROWING: dict[str, AlgorithmSpec] = {
    "sparse_vector/N=32": SparseVector(every=32),
    "hedge": Hedge(),
    "phased_selection": PhasedSelection(),
    "frank_wolfe": FrankWolfe(),
    "shrinking_dartboard/N=32": ShrinkingDartboard(delta=1e-6, every=32),
}
MOST_GROWTH = 1.3  # of the time per loss, when m, T or d is four times as large
BASE = (10, 2**14, 100)


def _growth() -> Iterator[Row]:
    """Time per loss when m, T or d is doubled and doubled again.

    A constant time per loss means linear growth. The base is measured again with every row.
    """
    clients, rounds, experts = BASE
    base = losses(rounds, clients, experts)
    sizes = [
        *((k * clients, rounds, experts) for k in (2, 4)),
        *((clients, k * rounds, experts) for k in (2, 4)),
        *((clients, rounds, k * experts) for k in (2, 4)),
    ]
    for m, t, d in sizes:
        grown = losses(t, m, d)
        for name, spec in GROWING.items():
            found = compared(play(spec, grown), play(spec, base))
            more = grown.size / base.size
            yield Row(
                f"growth/{name}/m={m}/T={t}/d={d}",
                found.ratio / more,
                f"m={clients}, T={rounds}, d={experts}",
                found.seconds / grown.size * 1e9,
                "ns per loss",
                "<=",
                MOST_GROWTH,
                found.spread / more,
            )


def _million(rounds: int, experts: int, every: int) -> float:
    """The peak memory of a process that plays one long game."""
    environment = Realizable(clients=1, experts=experts, horizon=rounds)
    algorithm = SparseVector(epsilon=1.0, every=every).build(environment.setting)
    recorder = Recorder(environment.setting)
    result = recorder.result("", 0, simulate(algorithm, environment, 0, sinks=[recorder]))
    if not np.isfinite(result.regret).all():
        raise ArithmeticError("The regret is not finite.")
    return peak_mebibytes()


def memory_rows() -> Iterator[Row]:
    """Peak memory of a process that plays a million rounds with losses generated on the fly."""
    rounds, experts, every = 10**6, 1000, 100
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        peak = pool.apply(_million, (rounds, experts, every))
    yield Row(
        f"memory/sparse_vector/m=1/T={rounds}/d={experts}/N={every}/vectorised",
        peak / 1024,
        "1 GiB",
        peak,
        "MiB",
        "<=",
        1.0,
    )


def _played_by_sums(
    clients: int, rounds: int, experts: int, spec: AlgorithmSpec
) -> tuple[float, float]:
    """Wall-clock seconds and peak memory of a process that plays one game.

    The time includes the choice of parameters.
    """
    start = time.perf_counter()
    environment = Realizable(clients=clients, experts=experts, horizon=rounds, law="bernoulli")
    algorithm = spec.build(environment.setting)
    recorder = Recorder(environment.setting)
    result = recorder.result(
        "", 0, simulate(algorithm, environment, 0, sinks=[recorder], engine="summed")
    )
    if not np.isfinite(result.regret).all():
        raise ArithmeticError("The regret is not finite.")
    return time.perf_counter() - start, peak_mebibytes()


def scale_rows() -> Iterator[Row]:
    """Games of up to a million clients and rounds from sums alone, each in a new process."""
    rounds, experts, every = 10**6, 100, 1000
    context = multiprocessing.get_context("spawn")
    fed_svt = SparseVector(epsilon=1.0, every=every)
    games = [
        (f"sparse_vector/m={m}/T={rounds}/d={experts}/N={every}", m, fed_svt)
        for m in (10**2, 10**3, 10**4, 10**5, 10**6)
    ]
    games += [
        (f"{name}/m={10**6}/T={rounds}/d={experts}", 10**6, CASES[name][0].spec)
        for name in ("phased_selection", "random_prefix")
    ]
    games.append(
        (
            f"shrinking_dartboard/m={10**6}/T={rounds}/d={experts}/N={every}",
            10**6,
            ShrinkingDartboard(every=every),
        )
    )
    for name, clients, spec in games:
        with context.Pool(1) as pool:
            taken, peak = pool.apply(_played_by_sums, (clients, rounds, experts, spec))
        yield Row(f"{name}/time", taken / 20, "20 s", taken, "s", "<=", 1.0)
        yield Row(f"{name}/memory", peak / 512, "512 MiB", peak, "MiB", "<=", 1.0)


SIMULATE = Benchmark(simulate_rows, quick_games)
MEMORY = Benchmark(memory_rows)
SCALE = Benchmark(scale_rows)

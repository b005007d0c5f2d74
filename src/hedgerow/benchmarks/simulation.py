"""Benchmarks of whole games: time against one pass over the losses, growth, memory and scale."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator

import numpy as np

from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.gradient.frank_wolfe import FrankWolfe
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.algorithms.walks.walk_batches import WalkBatches
from hedgerow.algorithms.walks.walk_leader import WalkLeader
from hedgerow.benchmarks.measure import REPEATS, Row, in_turn, peak_mebibytes, seconds
from hedgerow.core.noise import CHUNK, SeededNoise
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.engines.simulate import EngineName, simulate
from hedgerow.environments.drawn.realizable import Realizable
from hedgerow.environments.drawn.stochastic import UniformLosses
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.evaluation.recorder import Recorder

SUM = "losses.sum()"
IN_BLOCKS: dict[str, AlgorithmSpec] = {
    "phased_selection": PhasedSelection(),
    "random_prefix": RandomPrefix(),
}


def losses(
    rounds: int, clients: int, experts: int, kind: type[Realizable | UniformLosses] = Realizable
) -> RecordedArray:
    """Recorded uniform losses on the lattice; with `Realizable` one expert never loses."""
    environment = kind(clients=clients, experts=experts, horizon=rounds)
    block, _ = environment.block(environment.start(0), rounds, None)
    return RecordedArray.on_lattice(block.losses)


def play(
    spec: AlgorithmSpec, environment: RecordedArray, engine: EngineName = "vectorised"
) -> Callable[[], object]:
    """Plays a game on recorded losses: validation, protocol, regret and communication."""
    algorithm = spec.build(environment.setting)  # `bench calibrate` times this step

    def work() -> object:
        recorder = Recorder(environment.setting)
        counters = simulate(algorithm, environment, 1, sinks=[recorder], engine=engine)
        return recorder.result("", 1, counters)

    return work


def against_sum(
    spec: AlgorithmSpec, environment: RecordedArray, engine: EngineName = "vectorised"
) -> tuple[float, float]:
    """The ratio to the time of `losses.sum()`, and the time."""
    return in_turn(play(spec, environment, engine), environment.losses.sum)


def name_of(clients: int, rounds: int, experts: int, every: int, engine: str) -> str:
    """The name of a row about `sparse_vector`."""
    return f"sparse_vector/m={clients}/T={rounds}/d={experts}/N={every}/{engine}"


def simulate_rows() -> Iterator[Row]:
    """Games against one pass over their losses.

    The rows are: each algorithm, Fed-SVT with one state per client, the shrinking dartboard, a walk
    (against drawing its noise), and growth in m, T and d.
    """
    clients, rounds, experts = 10, 2**17, 100
    environment = losses(rounds, clients, experts)
    for every, limit in ((32, 3.0), (1, 10.0)):
        ratio, taken = against_sum(SparseVector(every=every), environment)
        each = taken / (rounds * clients) * 1e9
        yield Row(
            name_of(clients, rounds, experts, every, "vectorised"),
            ratio,
            SUM,
            each,
            "ns per loss vector",
            "<=",
            limit,
        )
    for name, spec in IN_BLOCKS.items():
        ratio, taken = against_sum(spec, environment)
        each = taken / (rounds * clients) * 1e9
        yield Row(
            f"{name}/m={clients}/T={rounds}/d={experts}/vectorised",
            ratio,
            SUM,
            each,
            "ns per loss vector",
            "<=",
            4.0,
        )
    for trees in (0, 1):
        ratio, taken = against_sum(FrankWolfe(trees=trees), environment)
        each = taken / (rounds * clients) * 1e9
        name = f"frank_wolfe/m={clients}/T={rounds}/d={experts}/T_1={trees}"
        yield Row(name, ratio, SUM, each, "ns per loss vector", "<=", 6.0)
    short = RecordedArray.on_lattice(environment.losses[: 2**10])
    for every in (32, 1):
        ratio, taken = against_sum(SparseVector(every=every), short, "in_process")
        each = taken / (2**10 * clients) * 1e9
        yield Row(
            name_of(clients, 2**10, experts, every, "in_process"),
            ratio,
            SUM,
            each,
            "ns per loss vector",
        )
    del environment, short
    yield from _dartboard()
    yield from _walks()
    yield from _growth()


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


def _dartboard() -> Iterator[Row]:
    """The shrinking dartboard with one client and calibrated groups.

    Streams without a good expert have more draws. The last row has a coin in every round, for
    comparison; no calibration chose that.
    """
    rounds = 2**17
    name = f"shrinking_dartboard/m=1/T={rounds}"
    for experts, limit in ((100, 10.0), (1000, 4.0)):
        for stream, kind in (("", Realizable), ("/no good expert", UniformLosses)):
            environment = losses(rounds, 1, experts, kind)
            ratio, taken = against_sum(ShrinkingDartboard(delta=1e-6), environment)
            each = taken / rounds * 1e9
            yield Row(
                f"{name}/d={experts}{stream}", ratio, SUM, each, "ns per loss vector", "<=", limit
            )
    ratio, taken = against_sum(ShrinkingDartboard(delta=1e-6, every=1), losses(rounds, 1, 100))
    yield Row(f"{name}/d=100/N=1", ratio, SUM, taken / rounds * 1e9, "ns per loss vector")


GROWING: dict[str, AlgorithmSpec] = {
    "sparse_vector/N=32": SparseVector(every=32),
    "phased_selection": PhasedSelection(),
    "frank_wolfe": FrankWolfe(),
    "shrinking_dartboard/N=32": ShrinkingDartboard(delta=1e-6, every=32),
}


def _growth() -> Iterator[Row]:
    """Time per loss when m, T or d is doubled and doubled again.

    A constant time per loss means linear growth. The base is measured again with every row.
    """
    frame = (10, 2**14, 100)
    games = {size: losses(size[1], size[0], size[2]) for size in _sizes(*frame)}
    for name, spec in GROWING.items():
        base = play(spec, games[frame])
        for (m, t, d), grown in games.items():
            work = play(spec, grown)
            work()
            pairs = [
                (seconds(work) / grown.losses.size, seconds(base) / games[frame].losses.size)
                for _ in range(REPEATS)
            ]
            each, beside = (min(pair[i] for pair in pairs) * 1e9 for i in (0, 1))
            yield Row(
                f"growth/{name}/m={m}/T={t}/d={d}", each / beside, "the first", each, "ns per loss"
            )


def _sizes(clients: int, rounds: int, experts: int) -> list[tuple[int, int, int]]:
    larger = [(k * clients, rounds, experts) for k in (2, 4)] + [
        (clients, k * rounds, experts) for k in (2, 4)
    ]
    return [(clients, rounds, experts), *larger, *((clients, rounds, k * experts) for k in (2, 4))]


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
        f"memory/{name_of(1, rounds, experts, every, 'vectorised')}",
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
        (f"{name}/m={10**6}/T={rounds}/d={experts}", 10**6, spec)
        for name, spec in IN_BLOCKS.items()
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

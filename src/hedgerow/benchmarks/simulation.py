"""Benchmarks of whole games: time against reading the losses once, growth, memory, and games of a million clients."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np

from hedgerow.algorithms.experts.lazy_experts import LazyExperts
from hedgerow.algorithms.experts.phased_selection import PhasedSelection
from hedgerow.algorithms.experts.random_prefix import RandomPrefix
from hedgerow.algorithms.experts.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.experts.sparse_vector import SparseVector
from hedgerow.benchmarks.measure import REPEATS, Row, peak_mebibytes, seconds
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.engines.simulate import EngineName, simulate
from hedgerow.environments.realizable import Realizable
from hedgerow.environments.recorded import RecordedArray
from hedgerow.evaluation.regret import RegretRecorder

SUM = "losses.sum()"
IN_BLOCKS: dict[str, AlgorithmSpec] = {"phased_selection": PhasedSelection(), "random_prefix": RandomPrefix()}
LAZY: dict[str, AlgorithmSpec] = {"shrinking_dartboard": ShrinkingDartboard(delta=1e-6), "lazy_experts": LazyExperts(delta=1e-6)}


def losses(rounds: int, clients: int, experts: int) -> RecordedArray:
    """Uniform losses with one zero-loss expert, on the lattice, ready to be read."""
    environment = Realizable(clients=clients, experts=experts, horizon=rounds)
    block, _ = environment.block(environment.start(0), rounds, None)
    return RecordedArray.on_lattice(block.losses)


def play(environment: RecordedArray, every: int, engine: EngineName) -> Callable[[], object]:
    """Everything after generation: validation, Fed-SVT, regret, communication."""
    return play_with(SparseVector(epsilon=1.0, every=every), environment, engine)


def play_with(spec: AlgorithmSpec, environment: RecordedArray, engine: EngineName = "vectorised") -> Callable[[], object]:
    """The same with any algorithm."""
    algorithm = spec.build(environment.setting)  # choosing parameters is `bench calibrate`

    def work() -> object:
        recorder = RegretRecorder(environment.setting, environment.family)
        counters = simulate(algorithm, environment, 1, sinks=[recorder], engine=engine)
        return recorder.result("", 1, counters)

    return work


def paired(work: Callable[[], object], environment: RecordedArray, repeats: int = REPEATS) -> tuple[float, float]:
    """The median ratio to reading the same array once, the two timed in turn, and the median time."""
    work()
    environment.losses.sum()
    pairs = [(seconds(work), seconds(environment.losses.sum)) for _ in range(repeats)]
    return median(a / b for a, b in pairs), median(a for a, _ in pairs)


def name_of(clients: int, rounds: int, experts: int, every: int, engine: str) -> str:
    return f"sparse_vector/m={clients}/T={rounds}/d={experts}/N={every}/{engine}"


def simulate_rows() -> Iterator[Row]:
    """Fed-SVT against reading its losses once; then the same with one state per client; then growth in m, T and d."""
    clients, rounds, experts = 10, 2**17, 100
    environment = losses(rounds, clients, experts)
    for every, limit in ((32, 3.0), (1, 10.0)):
        ratio, taken = paired(play(environment, every, "vectorised"), environment)
        each = taken / (rounds * clients) * 1e9
        yield Row(name_of(clients, rounds, experts, every, "vectorised"), ratio, SUM, each, "ns per (round, client)", "<=", limit)
    for name, spec in IN_BLOCKS.items():
        ratio, taken = paired(play_with(spec, environment, "vectorised"), environment)
        each = taken / (rounds * clients) * 1e9
        yield Row(f"{name}/m={clients}/T={rounds}/d={experts}/vectorised", ratio, SUM, each, "ns per (round, client)", "<=", 4.0)
    short = RecordedArray.on_lattice(environment.losses[: 2**10])
    for every in (32, 1):
        ratio, taken = paired(play(short, every, "in_process"), short, 3)
        each = taken / (2**10 * clients) * 1e9
        yield Row(name_of(clients, 2**10, experts, every, "in_process"), ratio, SUM, each, "ns per (round, client)")
    del environment, short
    yield from _lazy()
    yield from _growth()


def _lazy() -> Iterator[Row]:
    """The shrinking dartboard and lazy experts with one client, their groups as calibrated."""
    rounds = 2**17
    for experts, limit in ((100, 10.0), (1000, 4.0)):
        environment = losses(rounds, 1, experts)
        for name, spec in LAZY.items():
            ratio, taken = paired(play_with(spec, environment), environment)
            row = f"{name}/m=1/T={rounds}/d={experts}/vectorised"
            yield Row(row, ratio, SUM, taken / rounds * 1e9, "ns per (round, client)", "<=", limit)


def _growth() -> Iterator[Row]:
    """Time per loss when m, T or d is doubled and doubled again; flat is linear. The base is timed anew beside every row."""
    frame = (10, 2**14, 100)
    base_losses = losses(frame[1], frame[0], frame[2])
    base = play(base_losses, 32, "vectorised")
    for m, t, d in (frame, (20, 2**14, 100), (40, 2**14, 100), (10, 2**15, 100), (10, 2**16, 100), (10, 2**14, 200), (10, 2**14, 400)):
        grown = losses(t, m, d)
        work = play(grown, 32, "vectorised")
        work()
        pairs = [(seconds(work) / grown.losses.size, seconds(base) / base_losses.losses.size) for _ in range(REPEATS)]
        each, beside = (min(pair[i] for pair in pairs) * 1e9 for i in (0, 1))
        yield Row(f"growth/{name_of(m, t, d, 32, 'vectorised')}", each / beside, "the first of these", each, "ns per loss")


def _million(rounds: int, experts: int, every: int) -> float:
    environment = Realizable(clients=1, experts=experts, horizon=rounds)
    algorithm = SparseVector(epsilon=1.0, every=every).build(environment.setting)
    recorder = RegretRecorder(environment.setting, environment.family)
    result = recorder.result("", 0, simulate(algorithm, environment, 0, sinks=[recorder]))
    if not np.isfinite(result.regret).all():
        raise ArithmeticError("regret is not finite")
    return peak_mebibytes()


def memory_rows() -> Iterator[Row]:
    """A million rounds with a thousand experts, losses generated as they are read: the peak memory of the whole process."""
    rounds, experts, every = 10**6, 1000, 100
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        peak = pool.apply(_million, (rounds, experts, every))
    yield Row(f"memory/{name_of(1, rounds, experts, every, 'vectorised')}", peak / 1024, "1 GiB", peak, "MiB", "<=", 1.0)


def _played_by_sums(clients: int, rounds: int, experts: int, spec: AlgorithmSpec) -> tuple[float, float]:
    """Wall-clock seconds of a whole game, choice of parameters included, and the peak memory of a process that does only that."""
    start = time.perf_counter()
    environment = Realizable(clients=clients, experts=experts, horizon=rounds, law="bernoulli")
    algorithm = spec.build(environment.setting)
    recorder = RegretRecorder(environment.setting, environment.family)
    result = recorder.result("", 0, simulate(algorithm, environment, 0, sinks=[recorder], engine="summed"))
    if not np.isfinite(result.regret).all():
        raise ArithmeticError("regret is not finite")
    return time.perf_counter() - start, peak_mebibytes()


def scale_rows() -> Iterator[Row]:
    """Games of up to a million clients and rounds, of which only sums are drawn; each in a process of its own."""
    rounds, experts, every = 10**6, 100, 1000
    context = multiprocessing.get_context("spawn")
    fed_svt = SparseVector(epsilon=1.0, every=every)
    games = [(f"sparse_vector/m={m}/T={rounds}/d={experts}/N={every}", m, fed_svt) for m in (10**2, 10**3, 10**4, 10**5, 10**6)]
    games += [(f"{name}/m={10**6}/T={rounds}/d={experts}", 10**6, spec) for name, spec in IN_BLOCKS.items()]
    for name, clients, spec in games:
        with context.Pool(1) as pool:
            taken, peak = pool.apply(_played_by_sums, (clients, rounds, experts, spec))
        yield Row(f"{name}/time", taken / 60, "1 minute", taken, "s", "<=", 5.0)
        yield Row(f"{name}/memory", peak / 4096, "4 GiB", peak, "MiB", "<=", 1.0)

"""Benchmarks of correlated noise: errors against the best known, time of streams and optimisers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import sqrt
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.noise import SeededNoise
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow.running_sums import (
    BufferedToeplitz,
    ContinualSum,
    Dense,
    Epochs,
    Factorisation,
    ToeplitzRoot,
    Tree,
)
from hedgerow.running_sums.buffered import optimal_gaps
from hedgerow.running_sums.dense import cached_encoding, fixed_point
from hedgerow.running_sums.filters import Filter, Precision
from hedgerow_benchmarks.benchmark import Benchmark, Row
from hedgerow_benchmarks.measure import compared, in_turn, seconds, without_caches
from hedgerow_papers.zhang2024.others import jax_privacy

WIDTH = 10**6  # of a stream
COUNTED = 10**5  # of a counter
STEPS = 15
ROOT = "square root"
NOISE = "a release with independent noise"


def error_rows() -> Iterator[Row]:
    """Error times sensitivity, against the square root or a figure that was published."""
    for rounds, limit in ((1000, 1.001), (10_000, 1.002)):
        found = BufferedToeplitz.optimised(rounds, 4).scaled_errors().max
        root = ToeplitzRoot(rounds).scaled_errors().max
        name = f"correlated/4 buffers/T={rounds}/max"
        yield Row(name, found / root, ROOT, found, "times sensitivity", "<=", limit)
    rounds = 1000
    for name, value, against, figure in (
        ("root/T=1000/max", ToeplitzRoot(rounds).scaled_errors().max, "3.265", 3.265),
        ("naive tree/T=1000/max", Tree(rounds, "naive").scaled_errors().max, "9.487", 9.487),
        ("tree/T=1000/max", Tree(rounds).scaled_errors().max, "whole tree, 7.282", 7.282),
        ("dense/T=1000/rms", Dense(rounds).scaled_errors().rms, "2.95", 2.95),
    ):
        ratio = value / figure
        yield Row(f"correlated/{name}", ratio, against, value, "times sensitivity", "<=", 1.0001)
    anytime = Epochs().errors(10**5).max
    known = ToeplitzRoot(10**5).scaled_errors().max
    yield Row("correlated/epochs/T=10^5/max", anytime / known, ROOT, anytime, "", "<=", 1.7)


def search_rows() -> Iterator[Row]:
    """The time of the optimisers, without caches; against jax-privacy where it is installed."""
    taken = median(
        without_caches(partial(optimal_gaps, 1000, 4, "max"), optimal_gaps) for _ in range(5)
    )
    name, theirs = "correlated/4 buffers/search", jax_privacy()
    if theirs is None:
        yield Row(name, None, "jax-privacy (not installed)", taken * 1e3, "ms")
    else:
        share = taken / seconds(partial(theirs, 1000, 4))
        yield Row(name, share, "jax-privacy", taken * 1e3, "ms", "<=", 0.02)
    dense = without_caches(lambda: Dense(1000).matrix(), cached_encoding, fixed_point)
    yield Row("correlated/dense/T=1000/search", None, None, dense, "s")


def _stepping(stream: Filter, given: npt.NDArray[Any], in_place: bool) -> Callable[[], object]:
    state = stream.start(given.shape)

    def work() -> None:
        nonlocal state
        _, state = stream.step(state, given, in_place=in_place)

    return work


def stream_rows() -> Iterator[Row]:
    """Filtering and releasing one vector of a million numbers, against releasing it as it is."""
    vector = np.random.default_rng(0).uniform(size=WIDTH)
    noise, mechanism = SeededNoise(0).server(), GaussianNoise("bench", scale=2.0)
    release = partial(noise.release, mechanism, vector)
    cases: tuple[tuple[Precision, bool, float | None], ...] = (
        ("float64", True, 1.7),
        ("float32", True, 1.3),
        ("float64", False, None),
        ("float32", False, None),
    )
    for precision, in_place, limit in cases:
        stream = BufferedToeplitz.optimised(1000, 4, precision=precision).encoder
        work = _stepping(stream, vector.astype(precision), in_place)
        found = compared(work, release, STEPS)
        name = f"correlated/{precision}/{'in place' if in_place else 'pure'}/d={WIDTH}"
        yield Row(
            name,
            1 + found.ratio,
            NOISE,
            found.seconds * 1e3,
            "ms",
            "<=" if limit else None,
            limit,
            found.spread,
        )


def counter_rows() -> Iterator[Row]:
    """Adding one vector to a counter, against releasing it with independent noise."""
    vector = np.random.default_rng(0).uniform(-1, 1, size=COUNTED) / sqrt(COUNTED)
    noise, mechanism = SeededNoise(0).server(), GaussianNoise("bench", scale=2.0)
    release = partial(noise.release, mechanism, vector)
    made: dict[str, Factorisation] = {
        "4 buffers": BufferedToeplitz.optimised(1000, 4),
        "tree": Tree(1000),
        "epochs": Epochs(),
    }
    for name, factors in made.items():
        counter = ContinualSum(COUNTED, 1000, mu=1.0, factorisation=factors)
        ratio, each = in_turn(partial(counter.add, vector), release, STEPS)
        yield Row(f"correlated/counter/{name}/d={COUNTED}", ratio, NOISE, each * 1e3, "ms")


def correlated_rows() -> Iterator[Row]:
    """All benchmarks of correlated noise."""
    yield from error_rows()
    yield from search_rows()
    yield from stream_rows()
    yield from counter_rows()


CORRELATED = Benchmark(correlated_rows, stream_rows)

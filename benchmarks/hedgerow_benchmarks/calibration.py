"""Benchmarks of calibration: the time of the certified choice of parameters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from hedgerow.algorithms.dartboard.tuning import choose as choose_dartboard
from hedgerow.algorithms.sparse_vector import columns
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition import random_draws
from hedgerow_benchmarks.benchmark import Benchmark, Row
from hedgerow_benchmarks.measure import without_caches


def calibrate_rows() -> Iterator[Row]:
    """The time of the certified choice of parameters, against its limit.

    The limit is two seconds for `sparse_vector` and one minute for `shrinking_dartboard`.
    """
    for clients, rounds, experts, every in (
        (10, 512, 100, 1),
        (1, 10**6, 1000, 1),
        (10**3, 10**9, 10**5, 1000),
        (10, 2**17, 100, 1),
    ):
        spec, setting = SparseVector(delta=1e-6, every=every), Setting(clients, experts, rounds)
        taken = without_caches(partial(spec.build, setting), columns.enlarged, columns.surrogate)
        yield Row(
            f"calibrate/sparse_vector/m={clients}/T={rounds}/d={experts}/N={every}",
            taken / 2,
            "2 s",
            taken,
            "s",
            "<=",
            1.0,
        )
    # With delta > 0 the certified curve is computed a few times; then the choice is kept on disk.
    for rounds in (10**4, 10**5, 10**6):
        fresh = partial(choose_dartboard.__wrapped__, Setting(1, 100, rounds), 1.0, 1e-6, None)
        taken = without_caches(fresh, random_draws._table)
        yield Row(
            f"calibrate/shrinking_dartboard/m=1/T={rounds}/d=100",
            taken / 60,
            "1 minute",
            taken,
            "s",
            "<=",
            1.0,
        )


CALIBRATE = Benchmark(calibrate_rows)

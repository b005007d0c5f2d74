"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hedgerow.benchmarks.calibration import calibrate_rows
from hedgerow.benchmarks.measure import Row
from hedgerow.benchmarks.noise import noise_rows
from hedgerow.benchmarks.privacy import privacy_rows
from hedgerow.benchmarks.simulation import memory_rows, scale_rows, simulate_rows

BENCHMARKS: dict[str, Callable[[], Iterator[Row]]] = {
    "simulate": simulate_rows,
    "memory": memory_rows,
    "calibrate": calibrate_rows,
    "scale": scale_rows,
    "noise": noise_rows,
    "privacy": privacy_rows,
}

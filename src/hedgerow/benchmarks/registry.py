"""The registry of benchmarks: one line per name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hedgerow.benchmarks.measure import Row
from hedgerow.core.registry import Registry

QUICK: dict[str, str] = {
    "simulate": "hedgerow.benchmarks.simulation:quick_games",
    "points": "hedgerow.benchmarks.points:quick_points",
    "noise": "hedgerow.benchmarks.noise:quick_noise",
    "start": "hedgerow.benchmarks.start:quick_start",
    "privacy": "hedgerow.benchmarks.privacy:library_rows",
    "correlated": "hedgerow.benchmarks.correlated:stream_rows",
    "forecasters": "hedgerow.benchmarks.forecasters:quick_forecasters",
    "deploy": "hedgerow.benchmarks.deploy:quick_deploy",
}
"""The short forms of some benchmarks; together they take about a minute."""

BENCHMARKS: Registry[Callable[[], Iterator[Row]]] = Registry(
    "benchmark",
    {
        "simulate": "hedgerow.benchmarks.simulation:simulate_rows",
        "points": "hedgerow.benchmarks.points:points_rows",
        "memory": "hedgerow.benchmarks.simulation:memory_rows",
        "calibrate": "hedgerow.benchmarks.calibration:calibrate_rows",
        "scale": "hedgerow.benchmarks.simulation:scale_rows",
        "noise": "hedgerow.benchmarks.noise:noise_rows",
        "start": "hedgerow.benchmarks.start:start_rows",
        "privacy": "hedgerow.benchmarks.privacy:privacy_rows",
        "correlated": "hedgerow.benchmarks.correlated:correlated_rows",
        "learning": "hedgerow.benchmarks.learning:learning_rows",
        "forecasters": "hedgerow.benchmarks.forecasters:forecasters_rows",
        "deploy": "hedgerow.benchmarks.deploy:deploy_rows",
    },
)

QUICK_BENCHMARKS: Registry[Callable[[], Iterator[Row]]] = Registry("quick benchmark", QUICK)

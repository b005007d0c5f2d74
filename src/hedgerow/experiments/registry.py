"""The experiments by name: one line each."""

from __future__ import annotations

from hedgerow.core.registry import Registry
from hedgerow.experiments import gao2024_figure2, gao2024_lowerbounds, gao2024_speedup
from hedgerow.experiments.experiment import Experiment

EXPERIMENTS: Registry[Experiment] = Registry(
    "experiment",
    {
        "gao2024-figure2": gao2024_figure2.EXPERIMENT,
        "gao2024-lowerbounds": gao2024_lowerbounds.EXPERIMENT,
        "gao2024-speedup": gao2024_speedup.EXPERIMENT,
    },
)

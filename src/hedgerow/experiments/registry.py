"""The experiments by name: one line each."""

from __future__ import annotations

from hedgerow.core.registry import Registry
from hedgerow.experiments import gao2024_figure2, near_realizable
from hedgerow.experiments.experiment import Experiment

EXPERIMENTS: Registry[Experiment] = Registry(
    "experiment",
    {
        "gao2024-figure2": gao2024_figure2.EXPERIMENT,
        "near-realizable": near_realizable.EXPERIMENT,
    },
)

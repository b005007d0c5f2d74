"""The experiments by name: one line each."""

from __future__ import annotations

from hedgerow.core.registry import Registry
from hedgerow.experiments import asi2023_rates, asi2023_separation, gao2024_figure2
from hedgerow.experiments.experiment import Experiment

EXPERIMENTS: Registry[Experiment] = Registry(
    "experiment",
    {
        "asi2023-rates": asi2023_rates.EXPERIMENT,
        "asi2023-separation": asi2023_separation.EXPERIMENT,
        "gao2024-figure2": gao2024_figure2.EXPERIMENT,
    },
)

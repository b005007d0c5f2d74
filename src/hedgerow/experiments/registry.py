"""The experiments by name: one line each."""

from __future__ import annotations

from hedgerow.core.registry import Registry
from hedgerow.experiments import (
    asi2023_rates,
    asi2023_separation,
    certified_vs_published,
    cesari2026_horizon,
    gao2024_figure2,
    gao2024_figure6,
    gao2024_lowerbounds,
    gao2024_speedup,
    heterogeneous_clients,
    lazy_vs_dartboard,
    near_realizable,
)
from hedgerow.experiments.experiment import Experiment

EXPERIMENTS: Registry[Experiment] = Registry(
    "experiment",
    {
        "asi2023-rates": asi2023_rates.EXPERIMENT,
        "asi2023-separation": asi2023_separation.EXPERIMENT,
        "cesari2026-horizon": cesari2026_horizon.EXPERIMENT,
        "certified-vs-published": certified_vs_published.EXPERIMENT,
        "gao2024-figure2": gao2024_figure2.EXPERIMENT,
        "gao2024-figure6": gao2024_figure6.EXPERIMENT,
        "gao2024-lowerbounds": gao2024_lowerbounds.EXPERIMENT,
        "gao2024-speedup": gao2024_speedup.EXPERIMENT,
        "heterogeneous-clients": heterogeneous_clients.EXPERIMENT,
        "lazy-vs-dartboard": lazy_vs_dartboard.EXPERIMENT,
        "near-realizable": near_realizable.EXPERIMENT,
    },
)

"""The experiments by name."""

from __future__ import annotations

from hedgerow.core.registry import Registry
from hedgerow.experiments.experiment import Experiment

EXPERIMENTS: Registry[Experiment] = Registry(
    "experiment",
    {
        "asi2023-figure1": "hedgerow.experiments.asi2023_figure1:EXPERIMENT",
        "asi2023-pure-approximate": "hedgerow.experiments.asi2023_pure_approximate:EXPERIMENT",
        "asi2023-rates": "hedgerow.experiments.asi2023_rates:EXPERIMENT",
        "asi2023-separation": "hedgerow.experiments.asi2023_separation:EXPERIMENT",
        "asi2023-table1": "hedgerow.experiments.asi2023_table1:EXPERIMENT",
        "cesari2026-horizon": "hedgerow.experiments.cesari2026_horizon:EXPERIMENT",
        "certified-vs-published": "hedgerow.experiments.certified_vs_published:EXPERIMENT",
        "distance-to-lower-bound": "hedgerow.experiments.distance_to_lower_bound:EXPERIMENT",
        "factorisations": "hedgerow.experiments.factorisations:EXPERIMENT",
        "flusight": "hedgerow.experiments.flusight:EXPERIMENT",
        "frank-wolfe-speedup": "hedgerow.experiments.frank_wolfe_speedup:EXPERIMENT",
        "frank-wolfe-trust": "hedgerow.experiments.frank_wolfe_trust:EXPERIMENT",
        "gao2024-communication": "hedgerow.experiments.gao2024_communication:EXPERIMENT",
        "gao2024-event-trigger": "hedgerow.experiments.gao2024_event_trigger:EXPERIMENT",
        "gao2024-figure1": "hedgerow.experiments.gao2024_figure1:EXPERIMENT",
        "gao2024-figure2": "hedgerow.experiments.gao2024_figure2:EXPERIMENT",
        "gao2024-figure6": "hedgerow.experiments.gao2024_figure6:EXPERIMENT",
        "gao2024-lowerbounds": "hedgerow.experiments.gao2024_lowerbounds:EXPERIMENT",
        "gao2024-speedup": "hedgerow.experiments.gao2024_speedup:EXPERIMENT",
        "gao2024-table1": "hedgerow.experiments.gao2024_table1:EXPERIMENT",
        "heterogeneous-clients": "hedgerow.experiments.heterogeneous_clients:EXPERIMENT",
        "jacobsen2025-figure1": "hedgerow.experiments.jacobsen2025_figure1:EXPERIMENT",
        "jacobsen2025-figure2": "hedgerow.experiments.jacobsen2025_figure2:EXPERIMENT",
        "jacobsen2025-table1": "hedgerow.experiments.jacobsen2025_table1:EXPERIMENT",
        "near-realizable": "hedgerow.experiments.near_realizable:EXPERIMENT",
        "prior-work": "hedgerow.experiments.prior_work:EXPERIMENT",
        "oco-ball": "hedgerow.experiments.oco_ball:EXPERIMENT",
        "zhang2024-figure3": "hedgerow.experiments.zhang2024_figure3:EXPERIMENT",
        "zhang2024-figure4": "hedgerow.experiments.zhang2024_figure4:EXPERIMENT",
    },
)

BUILT_IN = tuple(EXPERIMENTS._things)
"""The experiments of this package, which every process knows."""

"""The experiments by name: one of the package, and those of installed plugins."""

from __future__ import annotations

from hedgerow.core.registry import Registry
from hedgerow.experiments.experiment import Experiment

EXPERIMENTS: Registry[Experiment] = Registry(
    "experiment", {"flusight": "hedgerow.experiments.flusight:EXPERIMENT"}
)

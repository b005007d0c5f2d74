"""The experiments by name: one of the package, and those of installed plugins."""

from __future__ import annotations

from hedgerow.core.registry import Registry
from hedgerow.experiments.experiment import Experiment

BUILT_IN = {"flusight": "hedgerow.experiments.flusight:EXPERIMENT"}
EXPERIMENTS: Registry[Experiment] = Registry("experiment", BUILT_IN)


def what_to_install() -> str | None:
    """A sentence for users who have no experiments but that of the package; None for others."""
    if len(EXPERIMENTS.installed()) > len(BUILT_IN):
        return None
    return (
        "The experiments of the papers are not installed: run `pip install ./papers` in a checkout "
        "of Hedgerow."
    )

"""Settings that an algorithm can play."""

from __future__ import annotations

from hedgerow.core.losses import Linear
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import LOSSES, Setting


def setting_for(
    spec: AlgorithmSpec | type[AlgorithmSpec], clients: int, experts: int, horizon: int
) -> Setting:
    """Losses of experts, or the usual family of an algorithm that plays no experts."""
    linear = issubclass(Linear, spec.traits.families)
    family = LOSSES if linear or spec.traits.family is None else spec.traits.family
    return Setting(clients, experts, horizon, family=family)

"""The algorithms by name: one line each."""

from __future__ import annotations

from typing import Any

from hedgerow.algorithms.experts.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.experts.hedge import Hedge
from hedgerow.algorithms.experts.sparse_vector import SparseVector
from hedgerow.algorithms.experts.uniform import Uniform
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.registry import Registry

ALGORITHMS: Registry[type[Any]] = Registry(
    "algorithm",
    {
        "follow_the_leader": FollowTheLeader,
        "hedge": Hedge,
        "sparse_vector": SparseVector,
        "uniform": Uniform,
    },
)


def variants() -> dict[str, AlgorithmSpec]:
    """Every registered algorithm with its defaults and, where it has them, with the published constants."""
    found: dict[str, AlgorithmSpec] = {}
    for name, kind in ALGORITHMS.items():
        found[name] = kind()
        if "calibration" in getattr(kind, "__dataclass_fields__", {}):
            found[f"{name}, published"] = kind(calibration="published")
    return found

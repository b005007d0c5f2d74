"""The algorithms by name: one line each."""

from __future__ import annotations

from hedgerow.algorithms.experts.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.experts.hedge import Hedge
from hedgerow.algorithms.experts.sparse_vector import SparseVector
from hedgerow.algorithms.experts.uniform import Uniform
from hedgerow.core.registry import Registry

ALGORITHMS: Registry[type] = Registry(
    "algorithm",
    {
        "follow_the_leader": FollowTheLeader,
        "hedge": Hedge,
        "sparse_vector": SparseVector,
        "uniform": Uniform,
    },
)

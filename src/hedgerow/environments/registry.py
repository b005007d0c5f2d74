"""The environments by name: one line each."""

from __future__ import annotations

from hedgerow.core.registry import Registry
from hedgerow.environments.absent import Absent
from hedgerow.environments.adaptive import PlayChasing
from hedgerow.environments.delayed import Delayed
from hedgerow.environments.drifting import Drifting
from hedgerow.environments.heterogeneous import Heterogeneous
from hedgerow.environments.movielens import MovieLensGenres
from hedgerow.environments.realizable import Halving, NearRealizable, Realizable
from hedgerow.environments.recorded import Recorded
from hedgerow.environments.sleeping import Sleeping
from hedgerow.environments.stochastic import Bernoulli, GaussianSoftmax, UniformLosses
from hedgerow.environments.switching import Switching

ENVIRONMENTS: Registry[type] = Registry(
    "environment",
    {
        "absent": Absent,
        "bernoulli": Bernoulli,
        "drifting": Drifting,
        "delayed": Delayed,
        "gaussian_softmax": GaussianSoftmax,
        "halving": Halving,
        "heterogeneous": Heterogeneous,
        "movielens_genres": MovieLensGenres,
        "near_realizable": NearRealizable,
        "play_chasing": PlayChasing,
        "realizable": Realizable,
        "recorded": Recorded,
        "sleeping": Sleeping,
        "switching": Switching,
        "uniform": UniformLosses,
    },
)

"""The environments by name: one line each."""

from __future__ import annotations

from hedgerow.core.registry import Registry
from hedgerow.environments.absent import Absent
from hedgerow.environments.adaptive import PlayChasing
from hedgerow.environments.columns import ColumnSubsets, ConsensusColumns, SignEstimation
from hedgerow.environments.delayed import Delayed
from hedgerow.environments.drifting import Drifting
from hedgerow.environments.heterogeneous import Heterogeneous
from hedgerow.environments.movielens import MovieLensGenres
from hedgerow.environments.oblivious import CommonCoins, HiddenExpert
from hedgerow.environments.realizable import Halving, NearRealizable, Realizable
from hedgerow.environments.recorded import Recorded
from hedgerow.environments.sleeping import Sleeping
from hedgerow.environments.stochastic import Bernoulli, GapLadder, GaussianSoftmax, UniformLosses
from hedgerow.environments.switching import Switching

ENVIRONMENTS: Registry[type] = Registry(
    "environment",
    {
        "absent": Absent,
        "bernoulli": Bernoulli,
        "column_subsets": ColumnSubsets,
        "common_coins": CommonCoins,
        "consensus_columns": ConsensusColumns,
        "delayed": Delayed,
        "drifting": Drifting,
        "gap_ladder": GapLadder,
        "gaussian_softmax": GaussianSoftmax,
        "halving": Halving,
        "heterogeneous": Heterogeneous,
        "hidden_expert": HiddenExpert,
        "movielens_genres": MovieLensGenres,
        "near_realizable": NearRealizable,
        "play_chasing": PlayChasing,
        "realizable": Realizable,
        "recorded": Recorded,
        "sign_estimation": SignEstimation,
        "sleeping": Sleeping,
        "switching": Switching,
        "uniform": UniformLosses,
    },
)

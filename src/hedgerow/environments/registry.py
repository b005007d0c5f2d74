"""The environments by name: one line each."""

from __future__ import annotations

from hedgerow.core.registry import Registry
from hedgerow.environments.drawn.drifting import Drifting
from hedgerow.environments.drawn.heterogeneous import Heterogeneous
from hedgerow.environments.drawn.realizable import Halving, NearRealizable, Realizable
from hedgerow.environments.drawn.stochastic import Bernoulli, GapLadder, GaussianSoftmax, UniformLosses
from hedgerow.environments.drawn.switching import Switching
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.environments.hard.columns import ColumnSubsets, ConsensusColumns, SignEstimation
from hedgerow.environments.hard.oblivious import CommonCoins, HiddenExpert
from hedgerow.environments.recorded.losses import Recorded
from hedgerow.environments.recorded.movielens import MovieLensGenres
from hedgerow.environments.wrappers.absent import Absent
from hedgerow.environments.wrappers.delayed import Delayed
from hedgerow.environments.wrappers.sleeping import Sleeping

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

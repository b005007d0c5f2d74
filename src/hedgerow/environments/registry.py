"""The environments by name: one line each."""

from __future__ import annotations

from hedgerow.core.registry import Registry
from hedgerow.environments.adaptive import PlayChasing
from hedgerow.environments.columns import ColumnSubsets, ConsensusColumns, SignEstimation
from hedgerow.environments.oblivious import CommonCoins, HiddenExpert
from hedgerow.environments.realizable import Halving, NearRealizable, Realizable
from hedgerow.environments.recorded import Recorded
from hedgerow.environments.stochastic import Bernoulli, GaussianSoftmax, UniformLosses
from hedgerow.environments.switching import Switching

ENVIRONMENTS: Registry[type] = Registry(
    "environment",
    {
        "bernoulli": Bernoulli,
        "column_subsets": ColumnSubsets,
        "common_coins": CommonCoins,
        "consensus_columns": ConsensusColumns,
        "gaussian_softmax": GaussianSoftmax,
        "halving": Halving,
        "hidden_expert": HiddenExpert,
        "near_realizable": NearRealizable,
        "play_chasing": PlayChasing,
        "realizable": Realizable,
        "recorded": Recorded,
        "sign_estimation": SignEstimation,
        "switching": Switching,
        "uniform": UniformLosses,
    },
)

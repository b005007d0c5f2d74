"""Hedgerow: private federated prediction from experts, computed tightly, proven, audited and stated."""

from hedgerow.algorithms.experts.doubling import Doubling
from hedgerow.algorithms.experts.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.experts.hedge import Hedge
from hedgerow.algorithms.experts.lazy_experts import LazyExperts
from hedgerow.algorithms.experts.phased_selection import PhasedSelection
from hedgerow.algorithms.experts.potential import Potential
from hedgerow.algorithms.experts.random_prefix import RandomPrefix
from hedgerow.algorithms.experts.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.experts.sparse_vector import SparseVector
from hedgerow.algorithms.experts.uniform import Uniform
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.errors import HedgerowError, InvalidValue, MissingData, Unsupported
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.engines.learner import Learner
from hedgerow.engines.simulate import simulate
from hedgerow.environments.absent import Absent
from hedgerow.environments.adaptive import PlayChasing
from hedgerow.environments.columns import ColumnSubsets, ConsensusColumns, SignEstimation
from hedgerow.environments.delayed import Delayed
from hedgerow.environments.drifting import Drifting
from hedgerow.environments.heterogeneous import Heterogeneous
from hedgerow.environments.movielens import MovieLensGenres
from hedgerow.environments.oblivious import CommonCoins, HiddenExpert
from hedgerow.environments.realizable import Halving, NearRealizable, Realizable
from hedgerow.environments.recorded import Recorded, RecordedArray
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow.environments.sleeping import Sleeping
from hedgerow.environments.stochastic import Bernoulli, GapLadder, GaussianSoftmax, UniformLosses
from hedgerow.environments.switching import Switching
from hedgerow.experiments.registry import EXPERIMENTS
from hedgerow.privacy.secure import SecureNoise
from hedgerow.studies.deployment import record_deployment
from hedgerow.studies.study import Study, compare
from hedgerow.version import __version__

__all__ = [
    "ALGORITHMS",
    "ENVIRONMENTS",
    "EXPERIMENTS",
    "Absent",
    "Algorithm",
    "Bernoulli",
    "ColumnSubsets",
    "CommonCoins",
    "ConsensusColumns",
    "Delayed",
    "Doubling",
    "Drifting",
    "FollowTheLeader",
    "GapLadder",
    "GaussianSoftmax",
    "Halving",
    "Hedge",
    "HedgerowError",
    "Heterogeneous",
    "HiddenExpert",
    "InvalidValue",
    "LazyExperts",
    "Learner",
    "MissingData",
    "MovieLensGenres",
    "NearRealizable",
    "PhasedSelection",
    "PlayChasing",
    "Potential",
    "RandomPrefix",
    "Realizable",
    "Recorded",
    "RecordedArray",
    "SecureNoise",
    "Setting",
    "ShrinkingDartboard",
    "SignEstimation",
    "Sleeping",
    "SparseVector",
    "Study",
    "Switching",
    "Uniform",
    "UniformLosses",
    "Unsupported",
    "__version__",
    "compare",
    "record_deployment",
    "simulate",
]

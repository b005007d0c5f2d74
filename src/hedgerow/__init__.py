"""Hedgerow: private federated prediction from experts, computed tightly, proven, audited and stated."""

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.algorithms.dartboard.lazy_experts import LazyExperts
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.sparse_vector.potential import Potential
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.errors import HedgerowError, InvalidValue, MissingData, Unsupported
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.engines.learner import Learner
from hedgerow.engines.simulate import simulate
from hedgerow.environments.drawn.drifting import Drifting
from hedgerow.environments.drawn.heterogeneous import Heterogeneous
from hedgerow.environments.drawn.realizable import Halving, NearRealizable, Realizable
from hedgerow.environments.drawn.stochastic import Bernoulli, GapLadder, GaussianSoftmax, UniformLosses
from hedgerow.environments.drawn.switching import Switching
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.environments.hard.columns import ColumnSubsets, ConsensusColumns, SignEstimation
from hedgerow.environments.hard.oblivious import CommonCoins, HiddenExpert
from hedgerow.environments.recorded.losses import Recorded, RecordedArray
from hedgerow.environments.recorded.movielens import MovieLensGenres
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow.environments.wrappers.absent import Absent
from hedgerow.environments.wrappers.delayed import Delayed
from hedgerow.environments.wrappers.sleeping import Sleeping
from hedgerow.experiments.registry import EXPERIMENTS
from hedgerow.privacy.secure import SecureNoise
from hedgerow.studies.deployment import record_deployment
from hedgerow.studies.run import Study, compare
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

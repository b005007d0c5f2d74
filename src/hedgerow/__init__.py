"""Hedgerow: private federated prediction from experts, computed tightly, proven, audited and stated."""

from hedgerow.algorithms.experts.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.experts.hedge import Hedge
from hedgerow.algorithms.experts.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.experts.sparse_vector import SparseVector
from hedgerow.algorithms.experts.uniform import Uniform
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.errors import HedgerowError, InvalidValue, MissingData, Unsupported
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.engines.learner import Learner
from hedgerow.engines.simulate import simulate
from hedgerow.environments.adaptive import PlayChasing
from hedgerow.environments.realizable import Halving, NearRealizable, Realizable
from hedgerow.environments.recorded import Recorded, RecordedArray
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow.environments.stochastic import Bernoulli, GaussianSoftmax, UniformLosses
from hedgerow.environments.switching import Switching
from hedgerow.experiments.registry import EXPERIMENTS
from hedgerow.experiments.study import Study, compare

__version__ = "0.1.0"
__all__ = [
    "ALGORITHMS",
    "ENVIRONMENTS",
    "EXPERIMENTS",
    "Algorithm",
    "Bernoulli",
    "FollowTheLeader",
    "GaussianSoftmax",
    "Halving",
    "Hedge",
    "HedgerowError",
    "InvalidValue",
    "Learner",
    "MissingData",
    "NearRealizable",
    "PlayChasing",
    "Realizable",
    "Recorded",
    "RecordedArray",
    "Setting",
    "ShrinkingDartboard",
    "SparseVector",
    "Study",
    "Switching",
    "Uniform",
    "UniformLosses",
    "Unsupported",
    "compare",
    "simulate",
]

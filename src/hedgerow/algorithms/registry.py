"""The registry of algorithms: one line per name."""

from __future__ import annotations

from typing import Any

from hedgerow.core.environment import Feature
from hedgerow.core.errors import HedgerowError
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.registry import Registry
from hedgerow.core.setting import Setting

ALGORITHMS: Registry[type[Any]] = Registry(
    "algorithm",
    {
        "ada_hedge": "hedgerow.algorithms.baselines.ada_hedge:AdaHedge",
        "block_selection": "hedgerow.algorithms.watch.block_selection:BlockSelection",
        "doubling": "hedgerow.algorithms.sparse_vector.doubling:Doubling",
        "follow_the_leader": "hedgerow.algorithms.baselines.follow_the_leader:FollowTheLeader",
        "gradient_descent": "hedgerow.algorithms.baselines.gradient_descent:GradientDescent",
        "hedge": "hedgerow.algorithms.baselines.hedge:Hedge",
        "limited_updates": "hedgerow.algorithms.gradient.limited_updates:LimitedUpdates",
        "mixture": "hedgerow.algorithms.mixture.private_mixture:Mixture",
        "noisy_ftrl": "hedgerow.algorithms.gradient.noisy_ftrl:NoisyFTRL",
        "online_sgd": "hedgerow.algorithms.learning.online_sgd:OnlineSGD",
        "phased_selection": "hedgerow.algorithms.phases.phased_selection:PhasedSelection",
        "private_hedge": "hedgerow.algorithms.dartboard.private_hedge:PrivateHedge",
        "private_mixture": "hedgerow.algorithms.mixture.private_mixture:PrivateMixture",
        "random_prefix": "hedgerow.algorithms.phases.random_prefix:RandomPrefix",
        "repeated_votes": "hedgerow.algorithms.phases.repeated_votes:RepeatedVotes",
        "running_leader": "hedgerow.algorithms.correlated.running_leader:RunningLeader",
        "shrinking_dartboard": (
            "hedgerow.algorithms.dartboard.shrinking_dartboard:ShrinkingDartboard"
        ),
        "sparse_vector": "hedgerow.algorithms.sparse_vector.sparse_vector:SparseVector",
        "uniform": "hedgerow.algorithms.baselines.uniform:Uniform",
        "vote_selection": "hedgerow.algorithms.phases.vote_selection:VoteSelection",
        "walk_leader": "hedgerow.algorithms.walks.walk_leader:WalkLeader",
        "watched_selection": "hedgerow.algorithms.watch.watched_selection:WatchedSelection",
        "window_leader": "hedgerow.algorithms.correlated.window_leader:WindowLeader",
    },
    AlgorithmSpec,
)


def supporting(feature: Feature, plugins: bool = False) -> list[str]:
    """Names of the algorithms of the package that support games with this feature.

    An algorithm that cannot be built with its defaults is left out, and so are plugins, unless they
    are asked for.
    """
    found = []
    for name in ALGORITHMS if plugins else ALGORITHMS.built_in:
        try:
            built = ALGORITHMS[name]().build(Setting(clients=2, experts=2, horizon=2))
        except (HedgerowError, TypeError):
            continue
        if feature in built.supports:
            found.append(name)
    return found


def variants() -> dict[str, AlgorithmSpec]:
    """Every registered algorithm with its defaults, and in each form listed in its traits."""
    found: dict[str, AlgorithmSpec] = {}
    for name, kind in ALGORITHMS.items():
        found[name] = kind()
        for form, choices in kind.traits.forms.items():
            found[f"{name}, {form}"] = kind(**choices)
    return found

"""The environments by name."""

from __future__ import annotations

from typing import Any

from hedgerow.core.environment import Environment
from hedgerow.core.registry import Registry

ENVIRONMENTS: Registry[type[Any]] = Registry(
    "environment",
    {
        "absent": "hedgerow.environments.wrappers.absent:Absent",
        "bernoulli": "hedgerow.environments.drawn.stochastic:Bernoulli",
        "changing": "hedgerow.environments.drawn.changing:Changing",
        "classification": "hedgerow.environments.drawn.examples:Classification",
        "combined_forecasts": "hedgerow.environments.recorded.combining:CombinedForecasts",
        "common_coins": "hedgerow.environments.hard.oblivious:CommonCoins",
        "consensus_columns": "hedgerow.environments.hard.columns:ConsensusColumns",
        "delayed": "hedgerow.environments.wrappers.delayed:Delayed",
        "drifting": "hedgerow.environments.drawn.drifting:Drifting",
        "flusight": "hedgerow.environments.recorded.flusight:FluSight",
        "forecasts": "hedgerow.environments.recorded.forecasts:Forecasts",
        "gap_ladder": "hedgerow.environments.drawn.stochastic:GapLadder",
        "halving": "hedgerow.environments.drawn.realizable:Halving",
        "rotating": "hedgerow.environments.drawn.realizable:Rotating",
        "hidden_expert": "hedgerow.environments.hard.oblivious:HiddenExpert",
        "near_realizable": "hedgerow.environments.drawn.realizable:NearRealizable",
        "play_chasing": "hedgerow.environments.hard.adaptive:PlayChasing",
        "realizable": "hedgerow.environments.drawn.realizable:Realizable",
        "recorded": "hedgerow.environments.recorded.losses:Recorded",
        "recorded_examples": "hedgerow.environments.recorded.examples:RecordedExamples",
        "regression": "hedgerow.environments.drawn.examples:Regression",
        "sleeping": "hedgerow.environments.wrappers.sleeping:Sleeping",
        "switching": "hedgerow.environments.drawn.switching:Switching",
        "visits": "hedgerow.environments.wrappers.visits:Visits",
        "uniform": "hedgerow.environments.drawn.stochastic:UniformLosses",
    },
    Environment,
)

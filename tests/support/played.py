"""What a specification pays in a game: results of single seeds, and regrets over many."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.engines.simulate import EngineName, simulate
from hedgerow.evaluation.recorder import Recorder, RunResult
from hedgerow.evaluation.statistics import Estimate


def played(
    spec: AlgorithmSpec, environment: Any, seed: int, engine: EngineName = "vectorised"
) -> RunResult:
    algorithm = spec.build(environment.setting)
    recorder = Recorder(environment.setting, points=7)
    return recorder.result(
        "", seed, simulate(algorithm, environment, seed, sinks=[recorder], engine=engine)
    )


def regrets(spec: AlgorithmSpec, environment: Any, seeds: int) -> np.ndarray:
    return np.array([played(spec, environment, seed).final_regret for seed in range(seeds)])


def regret(spec: AlgorithmSpec, environment: Any, seeds: int) -> Estimate:
    return Estimate.of(regrets(spec, environment, seeds))

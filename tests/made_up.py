"""Studies with made-up results: the configuration is real, the regret of every entry is a function of its label and setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.evaluation.regret import RunResult
from hedgerow.studies.config import StudyConfig
from hedgerow.studies.study import Study

SPREAD = 0.01
"""Half of the seeds regret so much more than the mean, relatively, the others so much less; other halves for other entries."""
SEEDS = 16


class _BuiltWhenAsked(dict[str, Algorithm]):
    def __init__(self, config: StudyConfig) -> None:
        super().__init__()
        self.config = config

    def __missing__(self, label: str) -> Algorithm:
        self[label] = self.config.build(next(entry for entry in self.config.algorithms if entry.label == label))
        return self[label]


def _run(label: str, seed: int, regret: float) -> RunResult:
    one: Any = np.array([regret])
    return RunResult(label, seed, np.array([1]), one, one, regret, 0.0, 0, 0, 0, 0, 0)


def made_up(config: StudyConfig, law: Callable[[str, Setting], float]) -> Study:
    """`law(name, setting)` is the mean regret of the label `name/...`."""
    results = []
    for index, entry in enumerate(config.algorithms):
        mean = law(entry.label.rpartition("/")[0], config.environment_of(entry).setting)
        results += [_run(entry.label, seed, mean * (1 + SPREAD * (-1) ** (seed >> index % 4))) for seed in range(SEEDS)]
    return Study(config, _BuiltWhenAsked(config), results, [])

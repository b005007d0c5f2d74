"""Studies with made-up results: the configuration is real, the regret of every entry is a function
of its label and setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.evaluation.recorder import RunResult
from hedgerow.studies.config import StudyConfig
from hedgerow.studies.study import Study

SPREAD = 0.01
"""Half of the seeds regret so much more than the mean, relatively, the others so much less; other
halves for other entries.
"""
SEEDS = 16


class BuiltWhenAsked(dict[str, Algorithm]):
    """The algorithms of a study, built when they are first asked for."""

    def __init__(self, config: StudyConfig) -> None:
        super().__init__()
        self.config = config

    def __iter__(self) -> Iterator[str]:
        return iter([entry.label for entry in self.config.algorithms])

    def __contains__(self, label: object) -> bool:
        return label in list(self)

    def __missing__(self, label: str) -> Algorithm:
        self[label] = self.config.build(
            next(entry for entry in self.config.algorithms if entry.label == label)
        )
        return self[label]


_BUILT: dict[int, BuiltWhenAsked] = {}  # by configuration, so that verdicts share them


def made_up(
    config: StudyConfig,
    law: Callable[[str, Setting], float | np.ndarray],
    rounds: Sequence[int] | np.ndarray = (1,),
    comparators: Mapping[str, float] | None = None,
    seeds: int = SEEDS,
) -> Study:
    """`law(name, setting)` is the mean regret of the label `name/...`: a number, or one for each of
    the `rounds`.
    """
    results, at = [], np.asarray(rounds)
    for index, entry in enumerate(config.algorithms):
        setting = config.environment_of(entry).setting
        mean = law(entry.label.rpartition("/")[0], setting)
        for seed in range(seeds):
            curve = np.broadcast_to(mean * (1 + SPREAD * (-1) ** (seed >> index % 4)), at.shape)
            results.append(
                RunResult(
                    entry.label,
                    seed,
                    at,
                    curve,
                    curve,
                    float(curve[-1]),
                    0.0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    comparators or {},
                    figures={"gain": curve} if setting.family.gains else {},
                )
            )
    built = _BUILT.setdefault(id(config), BuiltWhenAsked(config))  # keeps the configuration alive
    return Study(config, built, results, [])

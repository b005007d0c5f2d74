"""Measures that environments bring: accuracy, total gain, and dynamic regret."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Environment
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family
from hedgerow.core.measure import Measure
from hedgerow.core.plays import Plays, charges
from hedgerow.core.protocol import Algorithm


class Accuracy(Measure):
    """How often the sign of the score is the label, for records (features..., label)."""

    name: ClassVar[str] = "accuracy"
    meaning: ClassVar[str] = (
        "share of labels predicted correctly; each is predicted before it is seen"
    )
    figure: ClassVar[Literal["total", "mean"]] = "mean"

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        if not isinstance(plays, Plays):
            raise Unsupported("Accuracy needs points, but this algorithm plays experts.")
        right = np.empty(len(block.losses))
        for start, stop, points in plays.pieces():
            records = block.losses[start:stop]
            scores = np.einsum("rid,id->ri", records[..., :-1], points)
            found = (scores > 0) == (records[..., -1] > 0)
            present = None if block.present is None else block.present[start:stop]
            right[start:stop] = _mean(found, present)
        return right


def _mean(found: np.ndarray, present: np.ndarray | None) -> Array:
    """The mean over the players that take part; 0 in a round without any."""
    if present is None:
        return found.mean(axis=1)
    return (found & present).sum(axis=1) / np.maximum(present.sum(axis=1), 1)


class Gain(Measure):
    """The total gain, for a family whose records are gains."""

    name: ClassVar[str] = "gain"
    meaning: ClassVar[str] = "total gain, mean over players"

    def __init__(self, family: Family) -> None:
        super().__init__()
        self.family = family

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        return -charges(self.family, block.losses, plays) / block.losses.shape[1]


class DynamicRegret(Measure):
    """Loss above that of the best expert of every single round, for linear losses or gains."""

    name: ClassVar[str] = "dynamic regret"
    meaning: ClassVar[str] = "loss above that of the best expert of each round, mean over players"

    def __init__(self, family: Family) -> None:
        super().__init__()
        self.family = family

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        totals = block.losses.sum(axis=1)
        best = -totals.max(axis=1) if self.family.gains else totals.min(axis=1)
        return (charges(self.family, block.losses, plays) - best) / block.losses.shape[1]


def measures_of(algorithm: Algorithm, environment: Environment) -> tuple[Measure, ...]:
    """The measures of a run: those of environment and algorithm, and the gain if there is one."""
    found = (
        *environment.measures(),
        *(() if algorithm.measures is None else algorithm.measures()),
        *((Gain(environment.family),) if environment.family.gains else ()),
    )
    return tuple({measure.name: measure for measure in reversed(found)}.values())[::-1]

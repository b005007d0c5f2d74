"""Measures that environments bring: accuracy, loss on test data, total gain, dynamic regret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.convex import Scored
from hedgerow.core.environment import Environment
from hedgerow.core.errors import Unsupported
from hedgerow.core.extras import need_jax
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family
from hedgerow.core.measure import AtMarks, Measure
from hedgerow.core.protocol import Algorithm
from hedgerow.core.transcript import Plays, charges

PART = 100  # test examples that a model classifies at a time: few, to stay in a CPU's cache


class Accuracy(Measure):
    """How often the sign of the score is the label, for records (features..., label).

    `size` is how many such records a client has in one round.
    """

    name: ClassVar[str] = "accuracy"
    meaning: ClassVar[str] = (
        "share of labels predicted correctly; each is predicted before it is seen"
    )
    figure: ClassVar[Literal["total", "mean", "last"]] = "mean"

    def __init__(self, size: int = 1) -> None:
        super().__init__()
        self.size = size

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        if not isinstance(plays, Plays):
            raise Unsupported("Accuracy needs points, but this algorithm plays experts.")
        right = np.empty(len(block.losses))
        for start, stop, points in plays.pieces():
            records = block.losses[start:stop]
            if self.size > 1:  # as if every example were a player
                count, players, numbers = records.shape
                records = records.reshape(count, players * self.size, numbers // self.size)
                points = np.repeat(points, self.size, axis=0)
            scores = np.einsum("rid,id->ri", records[..., :-1], points)
            found = (scores > 0) == (records[..., -1] > 0)
            present = None if block.present is None else block.present[start:stop]
            if present is not None:
                present = np.repeat(present, self.size, axis=1)
            right[start:stop] = _mean(found, present)
        return right


def _mean(found: np.ndarray, present: np.ndarray | None) -> Array:
    """The mean over the players that take part; 0 in a round without any."""
    if present is None:
        return found.mean(axis=1)
    return (found & present).sum(axis=1) / np.maximum(present.sum(axis=1), 1)


class _OnTestData(AtMarks):
    """Base class: a measure on examples that nobody trains on.

    `test` returns the examples (count, numbers) for a seed; `family` is that of one example.
    """

    def __init__(self, family: Family, test: Callable[[int], Array], points: int = 256) -> None:
        super().__init__(points)
        self.family, self.test, self._examples = family, test, np.zeros((0, 0))

    def begin(self, seed: int) -> None:
        self._examples = self.test(seed)


class TestLoss(_OnTestData):
    """The mean loss of the played model on test data."""

    __test__ = False  # no test, although its name begins like one

    name: ClassVar[str] = "test loss"
    meaning: ClassVar[str] = "mean loss of the last model on test data"

    def value(self, point: Array) -> float:
        return float(self.family.value(self._examples, point).mean())


class TestAccuracy(_OnTestData):
    """How many test examples the played model classifies correctly."""

    __test__ = False

    name: ClassVar[str] = "test accuracy"
    meaning: ClassVar[str] = "share of test examples that the last model classifies correctly"

    def value(self, point: Array) -> float:
        if isinstance(self.family, Scored):
            scores = self._examples[:, :-1] @ point
            return float(((scores > 0) == (self._examples[:, -1] > 0)).mean())
        model: Any = self.family
        part = PART if need_jax().default_backend() == "cpu" else len(self._examples)
        parts = range(0, len(self._examples), part)
        right = [model.right(self._examples[k : k + part], point).sum() for k in parts]
        return float(sum(right) / len(self._examples))


class Gain(Measure):
    """The total gain, for a family whose records are gains."""

    name: ClassVar[str] = "gain"
    meaning: ClassVar[str] = "total gain, mean over players"

    def __init__(self, family: Family) -> None:
        super().__init__()
        self.family = family

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        return -charges(self.family, block.losses, plays) / block.losses.shape[1]


def measures_of(algorithm: Algorithm, environment: Environment) -> tuple[Measure, ...]:
    """The measures of a run: those of environment and algorithm, and the gain if there is one."""
    found = (
        *environment.measures(),
        *(() if algorithm.claims.measures is None else algorithm.claims.measures()),
        *((Gain(environment.family),) if environment.family.gains else ()),
    )
    return tuple({measure.name: measure for measure in reversed(found)}.values())[::-1]

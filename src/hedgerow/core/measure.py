"""Measures, such as accuracy, that environments and algorithms add to a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import ClassVar, Literal

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.transcript import Plays, Sink


class Measure(Sink, ABC):
    """A sink that adds up one amount per round; subclasses give the amount.

    `name` is the heading of its column and its key in JSON, and `meaning` explains it in one line.
    `figure` says what is shown: the total, the mean over rounds, or the last value. `counts`: it is
    a number of things, printed without decimals.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]
    figure: ClassVar[Literal["total", "mean", "last"]] = "total"
    counts: ClassVar[bool] = False

    def __init__(self) -> None:
        self._sum = 0.0
        self._reached: list[float] = []

    def begin(self, seed: int) -> None:
        """Prepare for a run with this seed; by default there is nothing to do."""

    @abstractmethod
    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        """Return the amount of each round (rounds,), as a mean over players."""

    def rounds(self, first_round: int, block: Block, plays: np.ndarray | Plays) -> None:
        sums = self._sum + np.cumsum(self.amounts(block, plays))
        low = bisect_right(self.marks, first_round)
        high = bisect_right(self.marks, first_round + block.rounds)
        for mark in self.marks[low:high]:
            total = float(sums[mark - first_round - 1])
            self._reached.append(total / mark if self.figure == "mean" else total)
        self._sum = float(sums[-1])

    def note(self, value: float) -> str:
        """Return a note for readers of the table if this final value is bad, "" otherwise."""
        return ""

    def curve(self) -> Array:
        """Return the value at every mark."""
        return np.array(self._reached)


class AtMarks(Measure):
    """A measure of the played point itself, such as its error on test data; nothing is added up.

    Players must share one point. At most `points` marks are evaluated, the last one among them; in
    between, the curve keeps its last value.
    """

    figure: ClassVar[Literal["total", "mean", "last"]] = "last"

    def __init__(self, points: int = 256) -> None:
        super().__init__()
        self.points = points

    @abstractmethod
    def value(self, point: Array) -> float:
        """Return the value of one point."""

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        """Return the value of the point of each round."""
        return np.array([self.value(self._point(plays, r)) for r in range(block.rounds)])

    def rounds(self, first_round: int, block: Block, plays: np.ndarray | Plays) -> None:
        low = bisect_right(self.marks, first_round)
        high = bisect_right(self.marks, first_round + block.rounds)
        every, last = -(-len(self.marks) // self.points), len(self.marks) - 1
        for at in range(low, high):
            if not self._reached or (last - at) % every == 0:
                point = self._point(plays, self.marks[at] - first_round - 1)
                self._reached.append(self.value(point))
            else:
                self._reached.append(self._reached[-1])

    def _point(self, plays: np.ndarray | Plays, at: int) -> Array:
        if not isinstance(plays, Plays):
            raise Unsupported(f"The measure {self.name!r} needs points, not experts.")
        points = plays.at(at)
        if len(points) > 1 and points.strides[0] != 0 and (points != points[0]).any():
            raise Unsupported(f"The measure {self.name!r} needs one point that all players share.")
        return points[0]

"""Measures, such as accuracy, that environments and algorithms add to a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import ClassVar, Literal

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.lattice import Array
from hedgerow.core.plays import Plays
from hedgerow.core.transcript import Sink


class Measure(Sink, ABC):
    """A sink that adds up one amount per round; subclasses give the amount.

    `name` is the heading of its column and its key in JSON, and `meaning` explains it in one line.
    `figure` says whether the total or the mean over rounds is shown.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]
    figure: ClassVar[Literal["total", "mean"]] = "total"

    def __init__(self) -> None:
        self._sum = 0.0
        self._reached: list[float] = []

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

    def curve(self) -> Array:
        """Return the value at every mark."""
        return np.array(self._reached)

"""What a private offline method must offer, so that Limited Updates can run it block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import Literal

from hedgerow.core.certificate import Assumption
from hedgerow.core.lattice import Array
from hedgerow.core.mechanism import Mechanism

Law = Literal["gaussian", "euclidean", "laplace"]
LONGEST = 2**20  # rounds of a block; then blocks no longer double


class Subroutine(ABC):
    """A private method of stochastic convex optimisation: samples in, point and cost out.

    A run on n samples at each client has one or more steps. In a step each client folds its next
    samples into a memory, one after the other, and turns it into a report. The server releases the
    sum of all reports with noise, or the clients add noise to their reports: `noise` is the
    mechanism in both cases, and its curve is that of the whole run. From the release everybody
    computes the next public vector. The point of a run is a function of the last one.

    Privacy holds if every report stays within `noise.sensitivity` when one sample changes while the
    public vector stays the same. Each sample is in one step only; the reduction sees to that.
    """

    noise: Mechanism
    width: int  # numbers of a report
    longest: int = LONGEST  # rounds of a block, at most; with more, reports may break their bound

    @property
    def assumes(self) -> frozenset[Assumption]:
        """What else must be true for privacy to hold, such as constants that you declare."""
        return frozenset()

    @property
    def most(self) -> float | None:
        """The largest number of a report, for each of its samples; None: not known."""
        return None

    @property
    def least(self) -> int:
        """The fewest samples that are worth a run."""
        return 1

    @property
    def lengths(self) -> tuple[int, ...]:
        """The rounds of the blocks: they double until they are the longest."""
        found = [self.least]
        while found[-1] < self.longest:
            found.append(min(2 * found[-1], self.longest))
        return tuple(found)

    @cached_property
    def _first_steps(self) -> list[int]:
        """The exchange that announces the first step of each block length."""
        return [0, *accumulate(len(self.steps(samples)) for samples in self.lengths)]

    def _place(self, exchange: int) -> tuple[int, int]:
        """The rounds of the block that an exchange belongs to, and the step that it announces."""
        first, lengths = self._first_steps, self.lengths
        block = min(bisect_right(first, exchange), len(lengths)) - 1
        return lengths[block], (exchange - first[block]) % len(self.steps(lengths[block]))

    def samples(self, exchange: int) -> int:
        """The rounds of the block that an exchange belongs to."""
        return self._place(exchange)[0]

    def step(self, exchange: int) -> int:
        """The step that an exchange announces."""
        return self._place(exchange)[1]

    def wait(self, exchange: int) -> int:
        """The rounds of the step that an exchange announces."""
        samples, step = self._place(exchange)
        return self.steps(samples)[step]

    @abstractmethod
    def steps(self, samples: int) -> tuple[int, ...]:
        """Return the number of samples of each step; they add up to `samples`."""

    @abstractmethod
    def start(self, last: Array) -> Array:
        """Return the public vector at the start of a run; `last` is the point of the last run.

        The first run starts with the centre of the domain as `last`.
        """

    @abstractmethod
    def empty(self, public: Array) -> Array:
        """Return the memory (*batch, numbers) at the start of a step."""

    @abstractmethod
    def take(self, memory: Array, records: Array, public: Array, samples: int, step: int) -> Array:
        """Return the memory after records (rounds, *batch, numbers), taken one by one in order."""

    @abstractmethod
    def report(self, memory: Array, public: Array, samples: int, step: int) -> Array:
        """Return what each client reports at the end of a step, on the lattice."""

    @abstractmethod
    def answer(self, total: Array, public: Array, samples: int, step: int) -> Array:
        """Return the next public vector from the noisy sum of all reports."""

    @abstractmethod
    def point(self, public: Array) -> Array:
        """Return the point of a run from its last public vector."""

    @abstractmethod
    def excess(self, samples: int) -> float | None:
        """Bound the expected loss of the point above the best, for samples of one law.

        None: nothing is proven.
        """

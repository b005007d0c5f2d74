"""When clients and server exchange messages: a public list of rounds, fixed before the game."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Schedule:
    """Exchanges just before the rounds `early`, and then before every later multiple of `every`.

    Early exchanges cost few messages. Without them nothing is known for `every` rounds.

    >>> schedule = Schedule.soon(every=30)
    >>> schedule.between(0, 100).tolist()
    [1, 2, 4, 8, 16, 30, 60, 90]
    >>> [schedule.wait(exchange) for exchange in range(7)]
    [1, 1, 2, 4, 8, 14, 30]
    >>> schedule.count(512), Schedule(30).count(512)
    (22, 17)
    """

    every: int
    early: tuple[int, ...] = ()

    @classmethod
    def soon(cls, every: int, first: int = 1) -> Schedule:
        """The first exchange before round `first`, then twice as late each time, up to `every`."""
        early = [first]
        while 2 * early[-1] < every:
            early.append(2 * early[-1])
        return cls(every, tuple(early) if early != [every] else ())

    @property
    def _skipped(self) -> int:
        """Multiples of `every` up to the last early exchange."""
        return self.early[-1] // self.every if self.early else 0

    def time(self, exchange: int) -> int:
        """The round before which an exchange takes place; exchange 0 is the opening."""
        if exchange <= len(self.early):
            return (0, *self.early)[exchange]
        return (self._skipped + exchange - len(self.early)) * self.every

    def wait(self, exchange: int) -> int:
        """Rounds from an exchange to the next one."""
        return self.time(exchange + 1) - self.time(exchange)

    def between(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """The rounds in [start, stop), start >= 1 or 0, before which an exchange takes place."""
        first = max(-(-start // self.every), self._skipped + 1)
        regular = np.arange(first * self.every, stop, self.every)
        soon = [at for at in self.early if start <= at < stop]
        return np.concatenate([soon, regular]).astype(np.int64) if soon else regular

    def count(self, horizon: int) -> int:
        """The exchanges of a game of `horizon` rounds: none takes place after the last round."""
        early = sum(at < horizon for at in self.early)
        return early + max(0, (horizon - 1) // self.every - self._skipped)

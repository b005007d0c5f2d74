"""When clients and server exchange messages: a public list of rounds, fixed before the game."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hedgerow.core.lattice import Array
from hedgerow.core.setting import Setting

MEANINGS = {
    "early": "whether there are exchanges in the first rounds",
    "exchanges": "number of exchanges in the game, if it does not end early",
}


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
    >>> schedule.squares(512), Schedule(30).squares(512)
    (15582, 16200)
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

    @classmethod
    def of(cls, every: int, early: bool, first: int = 1) -> Schedule:
        """Exchanges every few rounds; with `early` also before the rounds 1, 2, 4, ...

        Or before `first`, twice as late, and so on.
        """
        return cls.soon(every, first) if early else cls(every)

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

    def due(self, first: int, remaining: int | None, rounds: int) -> npt.NDArray[np.int64]:
        """The rounds of a block, counted from its first one, before which an exchange takes place.

        The block begins with round `first` and has `rounds` rounds; the next exchange is before
        its round `remaining`. None: there is none.
        """
        if remaining is None:
            return np.arange(0)
        return self.between(first + remaining, first + rounds) - first

    def split(
        self, losses: Array, due: npt.NDArray[np.int64]
    ) -> tuple[list[Array], npt.NDArray[np.float64]]:
        """Cut the losses between the rounds `due` of a block, which are exchanges, into batches.

        The early ones come one by one, as (vectors, experts), the equal ones in one array, as
        (batches, vectors, experts).
        """
        _, clients, experts = losses.shape
        short = int((np.diff(due) != self.every).sum())  # early batches are first
        early = [
            losses[begin:end].reshape(-1, experts)
            for begin, end in pairwise(due[: short + 1] if short else [])
        ]
        equal = losses[due[short] : due[-1]]
        return early, equal.reshape(-1, self.every * clients, experts)

    def squares(self, horizon: int) -> int:
        """The sum of the squared lengths of all batches; the last one counts as a whole one."""
        return self.squares_of(self.count(horizon) + 1)

    def squares_of(self, batches: int) -> int:
        """The sum of the squared lengths of the first batches."""
        shorter = min(len(self.early) + 1, batches)
        early = sum(self.wait(batch) ** 2 for batch in range(shorter))
        return early + (batches - shorter) * self.every**2

    def lengths(self, horizon: int) -> npt.NDArray[np.int64]:
        """The rounds of every batch: before the first exchange, between two, after the last."""
        return np.diff(self.between(1, horizon), prepend=0, append=horizon)

    def shown(self, setting: Setting) -> dict[str, int]:
        """The number of exchanges, as a parameter of an algorithm, if there is a last round."""
        return {} if setting.horizon is None else {"exchanges": self.count(setting.horizon)}

    def count(self, horizon: int) -> int:
        """The exchanges of a game of `horizon` rounds: none takes place after the last round."""
        early = sum(at < horizon for at in self.early)
        return early + max(0, (horizon - 1) // self.every - self._skipped)

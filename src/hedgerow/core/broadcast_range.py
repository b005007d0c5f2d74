"""What a field of a broadcast may hold, so that clients can refuse a server that lies.

A server that follows the protocol never leaves these limits. `Algorithm.admit` checks them before a
role sees a broadcast. The check knows the broadcast and the number of its exchange and nothing
else, so whether it refuses shows nothing about records (`proofs/closing.md#false-broadcasts`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.core.domain import Domain
from hedgerow.core.lattice import MOST_EXACT


class Allowed(ABC):
    """The values that one field may have in each exchange; exchange 0 is the opening."""

    @abstractmethod
    def words(self, exchange: int) -> str:
        """What is allowed, after "Expected the field to be"."""

    @abstractmethod
    def holds(self, value: Any, exchange: int) -> bool:
        """Whether a value is allowed."""


@dataclass(frozen=True)
class Planned(Allowed):
    """The one value that a public plan, fixed before the game, names for the exchange.

    Parameters
    ----------
    plan
        A frozen dataclass, such as a `Schedule`.
    part
        The method of the plan that takes the number of the exchange. Default: "wait", the rounds
        until the next exchange.
    may_end
        Whether None, no further exchange, is allowed too. Default False.

    Examples
    --------
    >>> from hedgerow.algorithms.shared.schedule import Schedule
    >>> rounds = Planned(Schedule.soon(every=30))
    >>> rounds.holds(14, exchange=5), rounds.holds(15, exchange=5), rounds.words(5)
    (True, False, '14')
    """

    plan: Any
    part: str = "wait"
    may_end: bool = False

    def words(self, exchange: int) -> str:
        return f"{self._value(exchange)}{' or None' if self.may_end else ''}"

    def holds(self, value: Any, exchange: int) -> bool:
        if value is None:
            return self.may_end or self._value(exchange) is None
        return _whole(value) and value == self._value(exchange)

    def _value(self, exchange: int) -> int | None:
        return getattr(self.plan, self.part)(exchange)


@dataclass(frozen=True)
class Never:
    """A plan without exchanges."""

    def wait(self, exchange: int) -> None:
        """There is no next exchange."""


@dataclass(frozen=True)
class Between(Allowed):
    """A whole number from `low` to `high`; in the opening broadcast `opening`, if it is given.

    >>> Between(0, 4).holds(4, exchange=1), Between(0, 4).holds(-1, exchange=1)
    (True, False)
    """

    low: int
    high: int
    opening: int | None = None

    def words(self, exchange: int) -> str:
        if exchange == 0 and self.opening is not None:
            return f"{self.opening}"
        return f"a whole number from {self.low} to {self.high}"

    def holds(self, value: Any, exchange: int) -> bool:
        if exchange == 0 and self.opening is not None:
            return _whole(value) and value == self.opening
        return _whole(value) and self.low <= value <= self.high


@dataclass(frozen=True)
class UpTo(Allowed):
    """A whole number from 0 to the one that a plan names for the exchange."""

    plan: Any

    def words(self, exchange: int) -> str:
        return f"a whole number from 0 to {self.plan.wait(exchange)}"

    def holds(self, value: Any, exchange: int) -> bool:
        return _whole(value) and 0 <= value <= self.plan.wait(exchange)


@dataclass(frozen=True)
class Numbers(Allowed):
    """A vector of `width` numbers of size at most `most`.

    >>> Numbers(2, 5.0).holds(np.array([5.0, -5.0]), 1), Numbers(2, 5.0).holds(np.array([6, 0]), 1)
    (True, False)
    """

    width: int
    most: float

    @classmethod
    def noisy(cls, width: int, clients: int) -> Numbers:
        """Sums of noisy uploads of all clients over a whole game (`Range.noisy`)."""
        return cls(width, 2.0 * MOST_EXACT * clients * 2.0**40)

    def words(self, exchange: int) -> str:
        return f"{self.width} numbers of size <= {self.most:g}"

    def holds(self, value: Any, exchange: int) -> bool:
        if not _vector(value, self.width):
            return False
        return bool(value.min() >= -self.most and value.max() <= self.most)


@dataclass(frozen=True)
class Points(Allowed):
    """A point of the domain with `width` coordinates."""

    domain: Domain
    width: int

    def words(self, exchange: int) -> str:
        return f"a point of {self.domain} with {self.width} coordinates"

    def holds(self, value: Any, exchange: int) -> bool:
        with np.errstate(over="ignore"):  # the norm of a lie
            return _vector(value, self.width) and bool(self.domain.contains(value))


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _vector(value: Any, width: int) -> bool:
    return isinstance(value, np.ndarray) and value.shape == (width,)

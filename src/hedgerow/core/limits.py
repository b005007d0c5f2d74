"""What clients and the server of an algorithm send, and what an honest one keeps to.

A client that follows the protocol never leaves the ranges of its uploads, which stay as they are.
What a false client sends is moved into them, so that it cannot make a server overflow or fail for
one of two neighbouring inputs (`proofs/closing.md#false-uploads`).

A server that follows the protocol never leaves the limits of its broadcasts, so clients can refuse
one that lies. The check knows the broadcast and the number of its exchange and nothing else, so
whether it refuses shows nothing about records (`proofs/closing.md#false-broadcasts`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import ceil, floor
from typing import Any, Literal

import numpy as np

from hedgerow.core.domain import Domain
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import MOST_EXACT, UNITS_PER_LOSS
from hedgerow.core.messages import Broadcast, InvalidMessage, Upload
from hedgerow.core.setting import Setting

Closing = Literal["wait", "fold", "drop"]
"""When an exchange closes in a deployment, and what becomes of a late upload.

* "wait": it closes when all clients have answered.
* "fold": it may close before; a late upload enters the exchange that is open when it arrives.
* "drop": it may close before; a late upload is never counted.
"""
WAIT_ONLY: frozenset[Closing] = frozenset({"wait"})
WAIT_OR_DROP: frozenset[Closing] = frozenset({"wait", "drop"})
ANY_CLOSING: frozenset[Closing] = frozenset({"wait", "fold", "drop"})

LONGEST_BATCH = 2**20
"""The most rounds of a batch in a game without a horizon."""


@dataclass(frozen=True)
class Range:
    """The range of every number in one field of an upload; it is public.

    Parameters
    ----------
    width
        How many numbers the field has. None: it is a single number.
    low, high
        The smallest and the largest number, of one round if `per_round`. In a field of whole
        numbers, which are lattice units, they are losses or gains.
    per_round
        Whether numbers are sums over the rounds of a batch. Default True.
    exact
        Whether numbers are on the lattice of 2^-20. Default True. False: they have noise.

    Examples
    --------
    >>> Range(2, 0.0, 1.0).within("losses", np.array([-7, 2**60]), rounds=3).tolist()
    [0, 3145728]
    >>> Range.noisy(2).within("losses", np.array([0.3, 1e300]), rounds=3).tolist()
    [0.3, 17179869184.0]
    """

    width: int | None
    low: float
    high: float
    per_round: bool = True
    exact: bool = True

    @classmethod
    def noisy(cls, width: int, least: float = 1.0) -> Range:
        """The range of numbers with noise, which may be divided by `least` or more.

        Secure noise takes values below 2^33 only and refuses larger draws, so their sum is in it.
        """
        most = 2.0 * MOST_EXACT / least
        return cls(width, -most, most, per_round=False, exact=False)

    def within(self, name: str, value: Any, rounds: int) -> Any:
        """Return the nearest value in the range; only a wrong number of numbers is refused.

        `rounds` are those of the batch, and `name` is what errors call the field.
        """
        given = np.asarray(value)
        shape = () if self.width is None else (self.width,)
        if given.shape != shape:
            raise InvalidMessage(f"Expected {name} of shape {shape}, got {given.shape}.")
        low, high = self._limits(rounds if self.per_round else 1)
        rounded = given.dtype.kind != "f" or not self.exact
        if rounded and given.size and low <= given.min() and given.max() <= high:
            return value  # as honest clients send it
        if given.dtype.kind == "f":
            if self.exact:
                low, high = low / UNITS_PER_LOSS, high / UNITS_PER_LOSS
                given = np.rint(np.clip(given, low, high) * UNITS_PER_LOSS) / UNITS_PER_LOSS
            given = np.where(given >= low, given, low)  # NaN, too
        inside = np.where(given < low, low, np.where(given > high, high, given))
        found = inside.astype(given.dtype, copy=False)
        return found if isinstance(value, np.ndarray) else found.item()

    def _limits(self, times: int) -> tuple[Any, Any]:
        """The limits in lattice units, or in the units of noisy numbers."""
        if not self.exact:
            return self.low * times, self.high * times
        return (
            times * ceil(self.low * UNITS_PER_LOSS),
            times * floor(self.high * UNITS_PER_LOSS),
        )

    def largest(self, rounds: int) -> float:
        """The largest size of a number in a batch of this many rounds."""
        low, high = self._limits(rounds if self.per_round else 1)
        return max(abs(low), abs(high)) / (UNITS_PER_LOSS if self.exact else 1)


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
    def noisy(cls, width: int, clients: int, least: float = 1.0) -> Numbers:
        """Sums of noisy uploads of all clients over a whole game (`Range.noisy`)."""
        return cls(width, 2.0 * MOST_EXACT / least * clients * 2.0**40)

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


@dataclass(frozen=True)
class Uploads:
    """What clients send.

    Parameters
    ----------
    kind
        The type of an upload.
    ranges
        Where the numbers of an honest upload lie, by field. A deployed server needs them all.
    combine
        `"sum"`: the server sees only the sum of the uploads. `"each"`: it sees every upload.
    closing
        The rules by which an exchange may close in a deployment; "wait" for all clients is always
        one of them (`proofs/closing.md`).
    """

    kind: type[Upload]
    ranges: Mapping[str, Range] = field(default_factory=dict)
    combine: Literal["each", "sum"] = "sum"
    closing: frozenset[Closing] = WAIT_ONLY

    def bounded(self, upload: Any, rounds: int) -> Any:
        """Return an upload with every number in its range; an honest one stays as it is.

        A deployed server calls this for every upload, before it adds them up. `rounds` are those
        that the client played since the broadcast that it answers. A field of the wrong size
        raises `InvalidMessage`; no number does.

        >>> from hedgerow.algorithms.phases.random_prefix import RandomPrefix
        >>> uploads = RandomPrefix().build(Setting(clients=2, experts=2, horizon=8)).uploads
        >>> uploads.bounded(uploads.kind(np.array([-5, 2**62])), rounds=4).losses.tolist()
        [0, 4194304]
        """
        sent = {
            f.name: self.ranges[f.name].within(f.name, getattr(upload, f.name), rounds)
            for f in fields(self.kind)
        }
        return self.kind(**sent)

    def require_limits(self, name: str, setting: Setting) -> None:
        """Raise unless the range of every field is known and sums of exact uploads stay exact.

        `name` is that of the algorithm.
        """
        for f in fields(self.kind):
            known = self.ranges.get(f.name)
            if known is None:
                raise Unsupported(
                    f"{name} does not say where the numbers of {self.kind.__name__}.{f.name} lie, "
                    "so a false upload could end a game. It cannot be deployed."
                )
            most = setting.clients * known.largest(setting.horizon or LONGEST_BATCH)
            if known.exact and most >= MOST_EXACT:
                raise Unsupported(
                    f"The sum of {self.kind.__name__}.{f.name} may reach {most:.3g}, but secure "
                    f"noise needs sums below {MOST_EXACT}. Choose a smaller game."
                )


@dataclass(frozen=True)
class Broadcasts:
    """What the server sends.

    Parameters
    ----------
    kind
        The type of a broadcast.
    limits
        What an honest server may send in each exchange, by field. A deployed client needs them all.
    """

    kind: type[Broadcast]
    limits: Mapping[str, Allowed] = field(default_factory=dict)

    def admit(self, broadcast: Any, exchange: int) -> None:
        """Raise `InvalidMessage` unless a server may send this broadcast in this exchange.

        The plain loop and every deployed client call this before a role sees a broadcast. It looks
        at nothing else, so that a refusal does not depend on records. Exchange 0 is the opening.
        Fast paths do without it: they must agree with the loop.

        >>> from hedgerow.algorithms.phases.random_prefix import RandomPrefix
        >>> broadcasts = RandomPrefix().build(Setting(clients=2, experts=2, horizon=8)).broadcasts
        >>> broadcasts.admit(broadcasts.kind(rounds=4, expert=1, counted=3), exchange=2)
        >>> broadcasts.admit(broadcasts.kind(rounds=5, expert=1, counted=3), exchange=2)
        Traceback (most recent call last):
        ...
        hedgerow.core.messages.InvalidMessage: Expected NextBlock.rounds of exchange 2 to be 4.
        """
        kind = self.kind.__name__
        if type(broadcast) is not self.kind:
            raise InvalidMessage(
                f"Expected the server to broadcast {kind}, got {type(broadcast).__name__}."
            )
        if broadcast.rounds is not None and broadcast.rounds < 0:
            raise InvalidMessage(f"Expected {kind}.rounds of exchange {exchange} to be >= 0.")
        for name, allowed in self.limits.items():
            if not allowed.holds(getattr(broadcast, name), exchange):
                words = allowed.words(exchange)
                raise InvalidMessage(
                    f"Expected {kind}.{name} of exchange {exchange} to be {words}."
                )

    def require_limits(self, name: str) -> None:
        """Raise unless every field has limits; `name` is that of the algorithm."""
        for f in fields(self.kind):
            if f.name not in self.limits:
                raise Unsupported(
                    f"{name} does not say what {self.kind.__name__}.{f.name} may be, so clients "
                    "could not refuse a server that lies. It cannot be deployed."
                )


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _vector(value: Any, width: int) -> bool:
    return isinstance(value, np.ndarray) and value.shape == (width,)

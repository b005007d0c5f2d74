"""Where the numbers of an honest upload lie, so that a deployed server can bring any upload there.

A client that follows the protocol never leaves this range, and its uploads stay as they are. What
a false client sends is moved into it, so that it cannot make a server overflow or fail for one of
two neighbouring inputs (`proofs/closing.md#false-uploads`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import numpy as np

from hedgerow.core.lattice import MOST_EXACT, UNITS_PER_LOSS
from hedgerow.core.messages import InvalidMessage


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
    def noisy(cls, width: int) -> Range:
        """The range of numbers with noise.

        Secure noise takes values below 2^33 only and refuses larger draws, so their sum is in it.
        """
        return cls(width, -2.0 * MOST_EXACT, 2.0 * MOST_EXACT, per_round=False, exact=False)

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

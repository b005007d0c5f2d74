"""Running sums without a horizon: epochs of lengths L, L^2, L^4, ..., each with its own factors.

The logarithms of the lengths double. The error of an epoch grows with the logarithm of its length,
so all earlier epochs together add only a constant factor to the error of the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: they are large

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least
from hedgerow.running_sums.buffered import BufferedToeplitz
from hedgerow.running_sums.factorisation import Factorisation
from hedgerow.running_sums.filters import Filter, FilterState, writable

LONGEST = 2**40  # rounds of an epoch: more than 10^12


@cache
def _factors(length: int, buffers: int) -> BufferedToeplitz:
    return BufferedToeplitz.optimised(length, buffers)


@cache
def _streams(factors: BufferedToeplitz) -> tuple[Filter, Filter, float]:
    """Return the encoder, the decoder and the sensitivity of an epoch, computed once."""
    return factors.encoder, factors.decoder, factors.sensitivity()


@dataclass(frozen=True)
class _EpochFilter(Filter):
    """Where an epoch is, and the filter of its factorisation."""

    epochs: Epochs

    def _place(self, count: int) -> tuple[int, int]:
        """Return the epoch of a round and the round within it."""
        epoch = 0
        while count >= self.epochs.ends[epoch]:
            epoch += 1
        return epoch, count - (self.epochs.ends[epoch] - self.epochs.lengths[epoch])


@dataclass(frozen=True)
class EpochEncoder(_EpochFilter):
    """The encoder of the epoch, divided by its sensitivity; it forgets all at a new epoch."""

    def buffers(self, count: int) -> int:
        return self.epochs.buffers

    def _step(
        self, state: FilterState, vector: npt.NDArray[Any], in_place: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        epoch, local = self._place(state.round)
        encoder, _, sensitivity = _streams(self.epochs.factors(epoch))
        memory = state.memory if local else np.zeros_like(state.memory)
        filtered, after = encoder.step(FilterState(local, memory), vector, in_place=in_place)
        return filtered / sensitivity, after.memory


@dataclass(frozen=True)
class EpochDecoder(_EpochFilter):
    """The memory is the estimate of all earlier epochs, the last estimate, then the buffers."""

    def buffers(self, count: int) -> int:
        return self.epochs.buffers + 3

    def _step(
        self, state: FilterState, vector: npt.NDArray[Any], in_place: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        epoch, local = self._place(state.round)
        _, decoder, sensitivity = _streams(self.epochs.factors(epoch))
        memory = writable(state.memory, in_place)
        if not local:
            memory[0], memory[2:] = memory[1], 0.0
        inner, _ = decoder.step(FilterState(local, memory[2:]), vector, in_place=True)
        memory[1] = memory[0] + sensitivity * inner
        return memory[1].copy(), memory


@dataclass(frozen=True)
class Epochs(Factorisation):
    """A factorisation for every number of rounds, up to beyond 10^12.

    The sensitivity is 1, and the error stays within a constant factor of the best for a known
    horizon: 1.7 up to a million rounds.

    Parameters
    ----------
    rounds
        The horizon; None (default) means none. The noise of a round does not depend on it.
    first
        The rounds of the first epoch, from 2 to 2^40. Default: 32.
    buffers
        The buffers of each epoch. Default: 6.

    Examples
    --------
    >>> anytime = Epochs()
    >>> anytime.sensitivity() == 1.0
    True
    >>> [round(anytime.errors(rounds).max, 1) for rounds in (10, 1000, 100_000)]
    [2.0, 3.9, 6.4]
    """

    rounds: int | None = None
    first: int = 32
    buffers: int = 6

    def __post_init__(self) -> None:
        at_least("first", self.first, 2)
        if not self.first <= LONGEST:
            raise InvalidValue(f"Expected first={self.first!r} <= 2^40.")
        at_least("buffers", self.buffers, 1)
        self.count(1 if self.rounds is None else self.rounds)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The rounds of each epoch: squares, until the last has 2^40."""
        found = [self.first]
        while found[-1] < LONGEST:
            found.append(min(found[-1] ** 2, LONGEST))
        return tuple(found)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The rounds up to the end of each epoch."""
        return tuple(accumulate(self.lengths))

    @property
    def last(self) -> int:
        """The last round."""
        return self.ends[-1] if self.rounds is None else self.rounds

    def count(self, rounds: int | None) -> int:
        found = super().count(rounds)
        if not found <= self.ends[-1]:
            raise InvalidValue(f"Expected rounds={found!r} <= {self.ends[-1]}, the last round.")
        return found

    def factors(self, epoch: int) -> BufferedToeplitz:
        """Return the factorisation within an epoch."""
        return _factors(self.lengths[epoch], self.buffers)

    @property
    def encoder(self) -> Filter:
        return EpochEncoder(self.last, self)

    @property
    def decoder(self) -> Filter:
        return EpochDecoder(self.last, self)

    def _parts(self, rounds: int | None) -> list[tuple[BufferedToeplitz, int]]:
        """Return the factorisations of the epochs, and how many rounds of each are meant."""
        left, found = self.count(rounds), []
        for epoch, length in enumerate(self.lengths):
            found.append((self.factors(epoch), min(left, length)))
            left -= min(left, length)
            if not left:
                break
        return found

    def matrix(self, rounds: int | None = None) -> Array:
        return np.asarray(
            scipy.linalg.block_diag(
                *[f.matrix(n) / f.sensitivity() for f, n in self._parts(rounds)]
            )
        )

    def decoding(self, rounds: int | None = None) -> Array:
        parts = self._parts(rounds)
        found = np.asarray(
            scipy.linalg.block_diag(*[f.decoding(n) * f.sensitivity() for f, n in parts])
        )
        for end in self.ends[: len(parts) - 1]:  # the final estimates of earlier epochs stay
            start = end - self.lengths[self.ends.index(end)]
            found[end:, start:end] = found[end - 1, start:end]
        return found

    def error_by_round(self, rounds: int | None = None) -> Array:
        squares, before = [], 0.0
        for factors, count in self._parts(rounds):
            own = (factors.error_by_round(count) * factors.sensitivity()) ** 2
            squares.append(before + own)
            before += float(own[-1])
        return np.sqrt(np.concatenate(squares))

    def row_sum(self, rounds: int | None = None) -> float:
        return max(f.row_sum(count) / f.sensitivity() for f, count in self._parts(rounds))

    def roundings(self, rounds: int | None = None) -> int:
        return max(f.roundings(count) + 1 for f, count in self._parts(rounds))

    def _shared(self, times: int, apart: int) -> float:
        """Participations in different epochs share nothing: the best split over the epochs."""
        if times == 1:
            return 1.0
        best = np.zeros(times + 1)
        for factors, _ in self._parts(self.last):
            own = np.array([0.0, *(factors.sensitivity(k, apart) for k in range(1, times + 1))])
            own = (own / factors.sensitivity()) ** 2
            best = np.array([(best[: k + 1][::-1] + own[: k + 1]).max() for k in range(times + 1)])
        return float(best[-1])

    def sensitivity(self, times: int = 1, apart: int = 1) -> float:
        found = super().sensitivity(times, apart)
        return 1.0 if times == 1 else found  # each epoch is divided by a bound

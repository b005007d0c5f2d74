"""Streams that filter one vector per round: a pure step, a flat state.

All filters share one state: the round, and a memory of shape (buffers, *shape). What a buffer holds
depends on the filter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hedgerow.core.errors import InvalidValue

Precision = Literal["float64", "float32"]
PIECE = 2**16  # coordinates that are worked on together, so that they stay in the cache


def _finite(values: npt.NDArray[Any]) -> bool:
    """Whether all are finite; a finite sum is a quick proof of it."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


@dataclass(frozen=True)
class FilterState:
    """What a filter remembers.

    Parameters
    ----------
    round
        How many vectors have been filtered.
    memory
        Array (buffers, *shape).

    Examples
    --------
    >>> from hedgerow.running_sums import Independent
    >>> Independent(rounds=3).decoder.start((2,))
    FilterState(round=0, memory=array([[0., 0.]]))
    """

    round: int
    memory: npt.NDArray[Any]


@dataclass(frozen=True)
class Filter(ABC):
    """Base class of filters. `start` gives a state; `step` filters one vector.

    Nothing is changed in place unless `step` is asked to: the old state stays valid.

    Parameters
    ----------
    rounds
        The most vectors; None means no limit.
    precision
        The numbers of the memory and of the filtered vectors. Default: "float64".

    Examples
    --------
    >>> from hedgerow.running_sums import Independent
    >>> decoder = Independent(rounds=3).decoder
    >>> decoder.block(decoder.start(()), [1.0, 2.0, 3.0])[0].tolist()
    [1.0, 3.0, 6.0]
    """

    rounds: int | None
    precision: Precision = field(default="float64", kw_only=True)

    @abstractmethod
    def buffers(self, count: int) -> int:
        """Return how many buffers the memory has after a number of rounds."""

    @abstractmethod
    def _step(
        self, state: FilterState, vector: npt.NDArray[Any], in_place: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the filtered vector and the next memory, without checks."""

    def start(self, shape: tuple[int, ...]) -> FilterState:
        """Return the state before the first round, for vectors of this shape."""
        return FilterState(0, np.zeros((self.buffers(0), *shape), self.precision))

    def step(
        self, state: FilterState, vector: npt.ArrayLike, *, in_place: bool = False
    ) -> tuple[npt.NDArray[Any], FilterState]:
        """Return the filtered vector and the next state.

        With `in_place`, the memory of the given state may be written over, also where an error is
        raised: faster for long vectors, and the given state is used up.
        """
        given = np.asarray(vector, self.precision)
        self._check(state, given)
        safe = in_place and state.memory.flags.c_contiguous  # a reshaped copy would be lost
        filtered, memory = self._step(state, given, safe)
        if not _finite(filtered):
            raise InvalidValue(
                "Expected a vector of finite numbers."
                if not _finite(given)
                else "The state of the filter or a sum in it is not finite. Start again."
            )
        return filtered, FilterState(state.round + 1, memory)

    def block(
        self, state: FilterState, vectors: npt.ArrayLike
    ) -> tuple[npt.NDArray[Any], FilterState]:
        """Return the filtered vectors (rounds first) and the state after them: step by step."""
        given = np.asarray(vectors, self.precision)
        filtered = np.empty_like(given)
        for row, vector in enumerate(given):
            filtered[row], state = self.step(state, vector)
        return filtered, state

    def _check(self, state: FilterState, vector: npt.NDArray[Any]) -> None:
        past = state.round
        if isinstance(past, bool) or not isinstance(past, int) or past < 0:
            raise InvalidValue(f"Expected state.round={past!r} to be a whole number >= 0.")
        if self.rounds is not None and past >= self.rounds:
            raise InvalidValue(f"Expected at most rounds={self.rounds} vectors, got one more.")
        if np.shape(state.memory)[:1] != (self.buffers(past),):
            raise InvalidValue(
                f"Expected state.memory of {self.buffers(past)} buffers after {past} rounds, "
                f"got shape {np.shape(state.memory)}."
            )
        if state.memory.dtype != np.dtype(self.precision):
            raise InvalidValue(
                f"Expected state.memory of {self.precision}, got {state.memory.dtype}."
            )
        if vector.shape != state.memory.shape[1:]:
            raise InvalidValue(
                f"Expected a vector of shape {state.memory.shape[1:]}, got {vector.shape}."
            )


def writable(memory: npt.NDArray[Any], in_place: bool) -> npt.NDArray[Any]:
    """Return the memory itself where it may be written over, otherwise a copy."""
    return memory if in_place else memory.copy()


class Unchanged(Filter):
    """The filter that returns its vectors: C = I."""

    def buffers(self, count: int) -> int:
        return 0

    def _step(
        self, state: FilterState, vector: npt.NDArray[Any], in_place: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        return vector.copy(), state.memory


class RunningSum(Filter):
    """The filter that returns the sum of all vectors so far."""

    def buffers(self, count: int) -> int:
        return 1

    def _step(
        self, state: FilterState, vector: npt.NDArray[Any], in_place: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        total = state.memory[0] + vector
        return total, total[None]


@dataclass(frozen=True)
class GeometricFilter(Filter):
    """The filter with coefficient 1 for the newest vector and sums of powers for earlier ones.

    The coefficient of age k >= 1 is the sum of weight * ratio^(k - 1). Buffer j is the sum of all
    earlier vectors, each times ratio_j^(age - 1).
    """

    ratios: tuple[float, ...]
    weights: tuple[float, ...]

    def buffers(self, count: int) -> int:
        return len(self.ratios)

    def _step(
        self, state: FilterState, vector: npt.NDArray[Any], in_place: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        count, kind = len(self.ratios), vector.dtype.type
        rules = [(kind(w), kind(r)) for w, r in zip(self.weights, self.ratios, strict=True)]
        memory = state.memory if in_place else np.empty_like(state.memory, order="C")
        old, new = state.memory.reshape(count, -1), memory.reshape(count, -1)
        given, filtered = vector.reshape(-1), np.empty(vector.size, vector.dtype)
        scratch = np.empty(min(PIECE, given.size), vector.dtype)
        for start in range(0, given.size, PIECE):
            fresh, out = given[start : start + PIECE], filtered[start : start + PIECE]
            product, base = scratch[: out.size], fresh
            for j, (weight, ratio) in enumerate(rules):
                before, after = old[j, start : start + PIECE], new[j, start : start + PIECE]
                np.multiply(before, weight, out=product)
                np.add(base, product, out=out)
                np.multiply(before, ratio, out=after)
                np.add(after, fresh, out=after)
                base = out
        return filtered.reshape(vector.shape), memory


@dataclass(frozen=True)
class WindowFilter(Filter):
    """The filter with coefficients for the last vectors; the newest comes first in memory."""

    coefficients: tuple[float, ...]

    def buffers(self, count: int) -> int:
        return len(self.coefficients) - 1

    def _step(
        self, state: FilterState, vector: npt.NDArray[Any], in_place: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        filtered = self.coefficients[0] * vector
        for coefficient, past in zip(self.coefficients[1:], state.memory, strict=True):
            filtered += coefficient * past
        return filtered, np.concatenate([vector[None], state.memory])[: len(state.memory)]


@dataclass(frozen=True)
class SolvingFilter(Filter):
    """The filter A C^-1 of a banded C: it solves for the newest vector and adds it to the sum.

    The memory is the sum so far, then the last solutions, the newest first.
    """

    coefficients: tuple[float, ...]

    def buffers(self, count: int) -> int:
        return len(self.coefficients)

    def _step(
        self, state: FilterState, vector: npt.NDArray[Any], in_place: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        total, past = state.memory[0], state.memory[1:]
        solved = vector.copy()
        for coefficient, before in zip(self.coefficients[1:], past, strict=True):
            solved -= coefficient * before
        solved /= self.coefficients[0]
        total = total + solved
        return total, np.concatenate([total[None], solved[None], past])[: len(state.memory)]


class HistoryFilter(Filter):
    """Base class of filters that need all earlier vectors: the memory grows with the rounds."""

    @abstractmethod
    def row(self, index: int) -> npt.NDArray[np.float64]:
        """Return row `index` of the matrix, from the first entry to the diagonal."""

    def buffers(self, count: int) -> int:
        return count

    def _step(
        self, state: FilterState, vector: npt.NDArray[Any], in_place: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        memory = np.concatenate([state.memory, vector[None]])
        row = self.row(state.round).reshape(-1, *[1] * vector.ndim)
        # one after the other: the sum of a coordinate does not depend on those beside it
        return np.add.accumulate(row * memory, axis=0)[-1], memory


@dataclass(frozen=True, eq=False)
class ToeplitzFilter(HistoryFilter):
    """The filter with one coefficient for each age, by the whole history."""

    coefficients: npt.NDArray[np.float64]

    def row(self, index: int) -> npt.NDArray[np.float64]:
        return self.coefficients[index::-1]


@dataclass(frozen=True, eq=False)
class MatrixFilter(HistoryFilter):
    """The filter by the rows of a lower triangular matrix, by the whole history."""

    matrix: npt.NDArray[np.float64]

    def row(self, index: int) -> npt.NDArray[np.float64]:
        return self.matrix[index, : index + 1]

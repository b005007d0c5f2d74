"""Filters over many rounds at once, for the fast path: matrix products instead of single steps.

The results equal those of the single steps up to rounding errors.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from hedgerow.algorithms.correlated.filters import (
    Filter,
    FilterState,
    GeometricFilter,
    HistoryFilter,
    RunningSum,
    Unchanged,
)
from hedgerow.core.lattice import Array


def filtered(stream: Filter, state: FilterState, vectors: Array) -> Array:
    """Return the filtered vectors (rounds first) that follow a state.

    >>> decoder = RunningSum(None)
    >>> filtered(decoder, FilterState(1, np.array([[1.0]])), np.array([[1.0], [2.0]])).tolist()
    [[2.0], [4.0]]
    """
    count, shape = len(vectors), vectors.shape
    flat = vectors.reshape(count, -1)
    memory = state.memory.reshape(len(state.memory), flat.shape[1])  # also without any rows
    if type(stream) is Unchanged:
        return vectors
    if type(stream) is RunningSum:
        return (memory[0] + np.cumsum(flat, axis=0)).reshape(shape)
    if isinstance(stream, GeometricFilter):
        own, past, _ = _powers(stream.ratios, stream.weights, count)
        return (flat + own @ flat + past @ memory).reshape(shape)
    if isinstance(stream, HistoryFilter):
        rows = np.zeros((count, state.round + count))
        for k in range(count):
            rows[k, : state.round + k + 1] = stream.row(state.round + k)
        return (rows[:, : state.round] @ memory + rows[:, state.round :] @ flat).reshape(shape)
    return stream.block(state, vectors)[0]


def memory_after(stream: Filter, state: FilterState, vectors: Array) -> FilterState:
    """Return the state of a filter after some vectors (rounds first).

    >>> memory_after(RunningSum(None), FilterState(0, np.zeros((1, 1))), np.ones((3, 1)))
    FilterState(round=3, memory=array([[3.]]))
    """
    count, memory = len(vectors), state.memory
    if type(stream) is RunningSum:
        memory = memory + vectors.sum(axis=0)
    elif isinstance(stream, GeometricFilter):
        _, _, kept = _powers(stream.ratios, stream.weights, count)
        faded = np.array(stream.ratios) ** count
        added = kept @ vectors.reshape(count, -1)
        kept_rows = faded[:, None] * memory.reshape(added.shape)
        memory = (kept_rows + added).reshape(memory.shape)
    elif isinstance(stream, HistoryFilter):
        memory = np.concatenate([memory, vectors])
    elif type(stream) is not Unchanged:
        return stream.block(state, vectors)[1]
    return FilterState(state.round + count, memory)


@lru_cache(maxsize=64)
def _powers(
    ratios: tuple[float, ...], weights: tuple[float, ...], count: int
) -> tuple[Array, Array, Array]:
    """The matrices of a geometric filter: from vectors and from memory to the filtered vectors,
    and from vectors to memory.
    """
    age = np.arange(count)
    powers: Array = np.array(ratios, float)[:, None] ** age  # (buffers, age)
    shares = np.array(weights, float)
    coefficients = shares @ powers  # of age 1, 2, ...
    own = np.zeros((count, count))
    for k in range(1, count):
        own[k, :k] = coefficients[k - 1 :: -1]
    return own, (shares[:, None] * powers).T, powers[:, ::-1].copy()

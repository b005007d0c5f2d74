"""Seeded normal numbers that are counted: a function of key, row and lane, so drawn anywhere.

A row of a stream belongs to all clients together. Its lane 0 is G, the sum of the clients' noise
divided by the root of their number n; lanes 1, 2, ... hold numbers g_i of the clients. Client i has

    z_i = g_i - mean(g) + G / sqrt(n).

The covariance is (I - J/n) + J/n = I with J all ones, so the z_i are independent standard normal
numbers, and their sum is sqrt(n) G. A simulation that needs sums draws one lane, on the device
where it trains; the plain loop draws all of them. Both play the same game up to rounding.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np

from hedgerow.core.extras import need_jax
from hedgerow.core.lattice import Array


def words(seed: int, name: str) -> np.ndarray:
    """Return the key of a stream, two words.

    >>> words(0, "a").tolist() == words(0, "a").tolist() != words(1, "a").tolist()
    True
    """
    given = f"{seed}/{name}".encode()
    return np.frombuffer(hashlib.blake2b(given, digest_size=8).digest(), "<u4").astype(np.uint32)


def row(key: Any, index: Any, lane: Any, width: int) -> Any:
    """Return one lane of one row, `width` normal numbers of 24 bits, as a function for JAX."""
    random = need_jax().random
    own = random.wrap_key_data(key, impl="threefry2x32")
    return random.normal(random.fold_in(random.fold_in(own, index), lane), (width,), np.float32)


@lru_cache(maxsize=64)
def _lanes(lanes: int, width: int) -> Any:
    jax = need_jax()
    count = jax.numpy.arange(lanes, dtype=np.uint32)
    return jax.jit(lambda key, at: jax.vmap(lambda lane: row(key, at, lane, width))(count))


def lanes_of_row(key: np.ndarray, index: int, clients: int, width: int) -> Array:
    """Return the noise of all clients in one row, (clients, width).

    >>> key = words(0, "a")
    >>> drawn, one = lanes_of_row(key, 3, 4, 5), lanes_of_row(key, 3, 1, 5)
    >>> bool(np.allclose(drawn.sum(axis=0), 2 * one[0]))
    True
    """
    lanes = 1 if clients == 1 else clients + 1
    drawn = np.asarray(_lanes(lanes, width)(key, np.uint32(index)), float)
    if clients == 1:
        return drawn
    return drawn[1:] - drawn[1:].mean(axis=0) + drawn[0] / sqrt(clients)

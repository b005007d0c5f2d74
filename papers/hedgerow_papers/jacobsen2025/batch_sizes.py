"""The law of the batch that holds a record of `walk_batches`: a certified bound.

`proofs/walk_batches.md#size-law` bounds the probability that the batch is small, for data fixed in
advance. All integrals here are rounded so that batches look too small, never too large
(`#size-law-in-numbers`).
"""

from __future__ import annotations

from functools import lru_cache
from math import log, pi, sqrt
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least
from hedgerow_papers.jacobsen2025.delays import Delays, reflection

EXACT = 64  # batches up to this size have a probability each; later groups grow by a tenth
CELLS = 512  # of the integral over the gap
FARTHEST = 9.0  # its upper end, in units of noise
_DOWN = 1 - 1e-9  # more than the error of all logarithms and sums here


@lru_cache(maxsize=16)
def _survival(experts: int) -> tuple[Array, Array]:
    """Gaps, and ln of a lower bound on the probability that n standard normals have a larger one.

    The probability is the integral of n density(x) Phi(x - gap)^(n - 1). The integrand is
    log-concave, so it is at least the geometric mean of the ends of a cell.
    """
    gaps = np.concatenate([np.linspace(0, 2, 101), np.linspace(2, 10, 101)[1:]])
    ends = np.arange(-6.0, 17.0, 1 / 160)
    logs = -ends * ends / 2 + (experts - 1) * log_ndtr(ends - gaps[:, None])
    means = np.exp((logs[:, 1:] + logs[:, :-1]) / 2).sum(axis=1) / 160 / sqrt(2 * pi)
    with np.errstate(divide="ignore"):
        return gaps, np.log(np.minimum(1.0, experts * means * _DOWN))


def gap_survival(experts: int, gaps: Array) -> Array:
    """At most the probability that the two largest of n standard normals are farther apart.

    The probability is log-concave in the gap, so values between the entries of a table are at
    least the geometric interpolation.

    >>> from scipy.stats import norm
    >>> bool(gap_survival(2, np.array([1.0]))[0] <= 2 * norm.sf(1 / 2**0.5))
    True
    >>> gap_survival(25, np.array([0.0, 0.1, 0.5])).round(3).tolist()
    [1.0, 0.819, 0.341]
    """
    table, logs = _survival(experts)
    return np.exp(np.interp(gaps, table, logs, right=-np.inf)) * _DOWN


def size_at_most(delays: Delays, arrival: int, sizes: Any) -> Array:
    """Bounds the probability that the batch of the record of round `arrival` is at most this large.

    Rounds count from 1. Sizes of `arrival` and more get the bound 1.
    """
    noise, experts = delays.scale, delays.experts
    sizes = np.asarray(sizes, np.int64)
    bound = np.ones(sizes.shape)
    inside = sizes < arrival
    if experts == 1 or not inside.any():
        return bound
    size = sizes[inside]
    needed = delays.gap_needed(arrival, size) * (1 + 1e-12)
    # the leader at the start of the last `size` rounds keeps the gap that is needed, unless some
    # other expert gains `ahead` units of noise in the rounds after it
    ahead = np.linspace(0.0, FARTHEST, CELLS + 1)
    falls = np.minimum(1.0, reflection(ahead, experts) / _DOWN)
    steps = (size - 1)[:, None]
    gaps = needed[:, None] + delays.drift * steps + noise * np.sqrt(2.0 * steps) * ahead
    spread = noise * np.sqrt(arrival - size + 1.0)[:, None]
    above = gap_survival(experts, gaps / spread * (1 + 1e-12))
    kept = above @ -np.diff(falls, prepend=1.0)
    # without a step in between the gap itself decides
    alone = size == 1
    kept[alone] = above[alone, 0]
    bound[inside] = np.minimum(1.0, 1 - kept * _DOWN)
    return bound


@lru_cache(maxsize=256)
def size_law(delays: Delays, arrival: int) -> tuple[tuple[int, float], ...]:
    """Sizes and probabilities of a law that is stochastically below that of the batch.

    >>> delays = Delays(experts=25, scale=5.0, drift=1.0, tolerance=0.01)
    >>> size_law(delays, 1)
    ((1, 1.0),)
    >>> size_law(delays, 1000)[0]
    (1, 0.328...)
    """
    at_least("arrival", arrival, 1)
    later = EXACT * 1.1 ** np.arange(1, 2 + max(0.0, log(arrival / EXACT) / log(1.1)))
    starts = np.unique(np.concatenate([np.arange(1, EXACT + 1), later.astype(np.int64)]))
    starts = starts[starts <= arrival]
    ends = np.append(starts[1:] - 1, arrival)  # a group counts as its smallest size
    below = np.maximum.accumulate(size_at_most(delays, arrival, ends))
    weights = np.minimum(1.0, np.diff(below, prepend=0.0) * (1 + 2.0**-40))
    return tuple((int(s), float(w)) for s, w in zip(starts, weights, strict=True) if w > 0)

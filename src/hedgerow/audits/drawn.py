"""Whether noise that was really drawn has the stated scale and is independent.

An exact loss rests on the laws that mechanisms state. This test looks at the outputs of real runs
(`proofs/replay.md#noise-that-was-drawn`). Given `ENOUGH` of them it finds noise that is a fifth too
small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import log, sqrt
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincc

from hedgerow.contracts.recording import Call, Ledger
from hedgerow.core.lattice import Array
from hedgerow.privacy.mechanisms import GaussianNoise

CUT = 0.8  # noise that is a fifth too small must be caught by every audit
ENOUGH = 2000.0  # Fisher information about the logarithm of the scale
ALARM = 1e-6  # the chance of a false alarm, for each test
FAR = 6.0  # deviations: a chance below ALARM, also where sums are only roughly normal


def information(ledger: Ledger) -> float:
    """How much a run tells about the scale of its noise: Fisher's, about the logarithm."""
    return sum(_size(*one).information for call in ledger.calls for one in _rows(call))


def what_is_wrong(ledgers: Sequence[Ledger]) -> str | None:
    """Say how the noise of these runs differs from what its mechanisms state; None if it fits."""
    purposes = {call.mechanism.purpose for one in ledgers for call in one.calls}
    for purpose in sorted(purposes):
        runs = [[c for c in one.calls if c.mechanism.purpose == purpose] for one in ledgers]
        sizes = [_size(*row) for calls in runs for call in calls for row in _rows(call)]
        if _far(sizes):
            return f"the noise of {purpose!r} that was drawn is not as large as stated"
        units = [[_unit(call) for call in calls] for calls in runs]
        for sums in _pairs(units):
            if abs(sums.sum()) > FAR * sqrt(float(np.square(sums).sum())):
                return f"the noise of {purpose!r} that was drawn is not independent"
    return None


@dataclass(frozen=True)
class _Size:
    """The size of one draw, its law if noise is as stated, and what it tells about the scale.

    Additive noise: a gamma variable of this shape. A choice (shape 0): a number of mean 0 and this
    variance, which is large if the choice is likelier with a fifth less noise.
    """

    amount: float
    shape: float
    variance: float
    information: float


def _far(sizes: list[_Size]) -> bool:
    """Whether the sizes together are unlikely."""
    total, shape = sum(one.amount for one in sizes), sum(one.shape for one in sizes)
    if shape > 0:
        return 2 * float(min(gammainc(shape, total), gammaincc(shape, total))) < ALARM
    return abs(total) > FAR * sqrt(sum(one.variance for one in sizes))


def _size(mechanism: Any, value: Any, output: Any) -> _Size:
    outcomes, width = mechanism.outcomes(value), np.size(value)
    if outcomes is None:
        far = mechanism.distance(output, value) / mechanism.scale
        if isinstance(mechanism, GaussianNoise):
            return _Size(far * far / 2, width / 2, width / 2, 2.0 * width)
        return _Size(far, width, width, width)
    given = np.asarray(value, float)
    amounts, variance = _choice(mechanism, tuple(given.tolist()) if given.ndim else float(given))
    return _Size(amounts[outcomes.index(output)], 0.0, variance, variance / log(CUT) ** 2)


@lru_cache(maxsize=4096)
def _choice(mechanism: Any, value: tuple[float, ...] | float) -> tuple[list[float], float]:
    """The sizes of all outcomes of a choice, and their variance."""
    scores, less = np.array(value), mechanism.scaled(CUT)
    outcomes = mechanism.outcomes(scores)
    logs, other = (
        np.array([law.log_density(scores, one) for one in outcomes]) for law in (mechanism, less)
    )
    chances, gains = np.exp(logs), other - logs
    gains -= chances @ gains
    return gains.tolist(), float(chances @ np.square(gains))


def _rows(call: Call) -> list[tuple[Any, Any, Any]]:
    return [(release.mechanism, release.value, release.output) for release in call.releases()]


def _unit(call: Call) -> Array:
    """The noise of each party, of mean 0 and variance 1 at most: (parties, numbers)."""
    rows = _rows(call)
    mechanism, value, _ = rows[0]
    if mechanism.outcomes(value) is not None:
        places = [m.uniformise(v, output, 0.5) for m, v, output in rows]  # the middle of its part
        return sqrt(12) * (np.array(places)[:, None] - 0.5)
    noise = np.array([np.ravel(np.subtract(output, v, dtype=float)) for _, v, output in rows])
    if getattr(mechanism, "law", None) == "exponential":
        noise -= mechanism.scale  # its mean
    return noise / mechanism.deviation(noise.shape[-1])


def _pairs(units: list[list[Array]]) -> Iterator[Array]:
    """What must have mean 0: the noise, and its products by number, party, release and run."""
    every = [unit for calls in units for unit in calls]
    yield _joined(iter(every))
    yield _joined(unit[:, 1:] * unit[:, :-1] for unit in every)
    yield _joined(unit[1:] * unit[:-1] for unit in every)
    yield _joined(a * b for calls in units for a, b in pairwise(calls) if a.shape == b.shape)
    runs = (zip(one, two, strict=False) for one, two in pairwise(units))
    yield _joined(a * b for both in runs for a, b in both if a.shape == b.shape)


def _joined(products: Iterator[Array]) -> Array:
    return np.concatenate([np.zeros(0), *(product.ravel() for product in products)])

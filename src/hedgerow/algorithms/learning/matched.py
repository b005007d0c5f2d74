"""A factorisation for averaged models: its noise is small where it is averaged."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.optimize import minimize
from scipy.signal import lfilter

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least
from hedgerow.running_sums.buffered import (
    BufferedToeplitz,
    gaps_from,
    optimal_gaps,
    residues,
)


def matched(rounds: int, average: float, buffers: int = 4) -> BufferedToeplitz:
    """Return few buffers whose decoded sums have the least error after an exponential average.

    Correlated noise of neighbouring rounds cancels in part, so an average removes much of it. This
    factorisation leaves more noise in single sums and less in their averages.

    Parameters
    ----------
    rounds
        The horizon.
    average
        The share of the average that is kept in every round, in (0, 1).
    buffers
        How many buffers the filter keeps, at least 1. Default: 4.

    Examples
    --------
    >>> from hedgerow.running_sums import BufferedToeplitz
    >>> usual, own = BufferedToeplitz.optimised(500, error="rms"), matched(500, 0.9)
    >>> averaged_error(own, 0.9) < 0.95 * averaged_error(usual, 0.9)
    True
    """
    at_least("rounds", rounds, 1)
    at_least("buffers", buffers, 1)
    if not 0 < average < 1:
        raise InvalidValue(f"Expected average={average!r} in (0, 1).")
    return BufferedToeplitz(rounds, _gaps(rounds, float(average), buffers))


def averaged_error(factors: BufferedToeplitz, average: float) -> float:
    """Return the rms error of averaged sums times the sensitivity.

    >>> round(averaged_error(BufferedToeplitz.optimised(500), 0.9), 2)
    2.18
    """
    error = _error(factors.decoding_coefficients(), average)
    return float(error**0.5 * factors.sensitivity())


def _error(coefficients: Array, average: float) -> float:
    """The mean over rounds of the variance of averaged sums, with averages that start in round 1.

    An average divides by what its weights add up to, as the played one does.
    """
    count = len(coefficients)
    faded = np.asarray(lfilter([1 - average], [1, -average], coefficients))
    weights = 1 - average ** np.arange(1, count + 1)
    return float((np.cumsum(faded**2) / weights**2).mean())


@lru_cache(maxsize=64)
def _gaps(rounds: int, average: float, buffers: int) -> tuple[float, ...]:
    start = optimal_gaps(rounds, buffers, "rms")
    ages = np.arange(rounds)[:, None]

    def cost(steps: Array) -> float:
        with np.errstate(all="ignore"):
            gaps = gaps_from(steps)
            poles, zeros = gaps[0::2], np.concatenate([[0.0], gaps[1::2]])
            own, decoding = residues(gaps[1::2], poles)[0], residues(poles, zeros)[0]
            encoding = np.concatenate([[1.0], (1 - poles) ** ages[:-1] @ own])
            found = _error((1 - zeros) ** ages @ decoding, average) * (encoding**2).sum()
            value = np.log(found)
        return float(value) if np.isfinite(value) else 1e10

    logs = -np.log(np.array(start))[::-1]
    first = np.log(np.diff(np.concatenate([[0.0], logs])))
    best = minimize(cost, first, method="L-BFGS-B", options={"maxiter": 200})
    gaps = gaps_from(best.x)
    if not (best.fun < cost(first) and (np.diff(gaps) > 0).all() and 0 < gaps[0] < gaps[-1] < 1):
        return start
    short = np.array([float(f"{gap:.5e}") for gap in gaps])
    return tuple(short.tolist()) if (np.diff(short) > 0).all() else tuple(gaps.tolist())

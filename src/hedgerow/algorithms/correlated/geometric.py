"""Sums of geometric series and their derivatives, at a cost that does not depend on the length.

With x = exp(l), l <= 0:

    geometric_sum   sum of x^k over k < n                  and its derivative by l
    ramp_sum        sum of (1 - k / n) x^k over k < n      and its derivative by l

Where n l is small, the closed forms lose digits, and Taylor series in l are used.
"""

from __future__ import annotations

from functools import cache
from math import factorial, inf

import numpy as np

from hedgerow.core.lattice import Array

TERMS = 12
NEAR = 0.3  # |n l| below which the series is used; the first term left out is below 1e-15


@cache
def _moments(rounds: int, ramp: bool) -> tuple[float, ...]:
    """Return sum of k^i (times 1 - k / n for the ramp) over k < n, for i up to TERMS + 1."""
    powers = [_power_sum(rounds, i) for i in range(TERMS + 3)]
    if not ramp:
        return tuple(float(powers[i]) for i in range(TERMS + 2))
    return tuple((powers[i] * rounds - powers[i + 1]) / rounds for i in range(TERMS + 2))


@cache
def _power_sum(rounds: int, power: int) -> int:
    """Return 0^i + 1^i + ... + (n - 1)^i as a whole number: n^(i+1) minus lower sums."""
    from math import comb

    lower = sum(comb(power + 1, i) * _power_sum(rounds, i) for i in range(power))
    return (rounds ** (power + 1) - lower) // (power + 1)


def _series(logs: Array, rounds: int, ramp: bool) -> tuple[Array, Array]:
    moments = _moments(rounds, ramp)
    value, slope = np.zeros_like(logs), np.zeros_like(logs)
    power = np.ones_like(logs)
    for i in range(TERMS + 1):
        value += moments[i] / factorial(i) * power
        slope += moments[i + 1] / factorial(i) * power
        power = power * logs
    return value, slope


def geometric_sum(logs: Array, rounds: float) -> tuple[Array, Array]:
    """Return the sum over k < rounds of exp(k l), and its derivative by l.

    >>> value, slope = geometric_sum(np.log([0.5]), 3)
    >>> value.tolist(), slope.round(12).tolist()
    ([1.75], [1.0])
    """
    if rounds == inf:
        one_minus = -np.expm1(logs)
        return 1 / one_minus, (1 - one_minus) / one_minus**2
    near = np.abs(logs) * rounds < NEAR
    far = np.where(near, -1.0, logs)
    one, last = np.expm1(far), np.expm1(rounds * far)
    value = last / one
    slope = (rounds * (last + 1) - value * (one + 1)) / one
    if not near.any():
        return value, slope
    small, small_slope = _series(np.where(near, logs, 0.0), int(rounds), ramp=False)
    return np.where(near, small, value), np.where(near, small_slope, slope)


def ramp_sum(logs: Array, rounds: int) -> tuple[Array, Array]:
    """Return the sum over k < rounds of (1 - k / rounds) exp(k l), and its derivative by l.

    >>> value, slope = ramp_sum(np.log([0.5]), 2)
    >>> value.tolist(), slope.tolist()
    ([1.25], [0.25])
    """
    near = np.abs(logs) * rounds < NEAR
    far = np.where(near, -1.0, logs)
    plain, plain_slope = geometric_sum(far, rounds)
    ratio, one_minus = np.exp(far), -np.expm1(far)
    value = (1 - ratio * plain / rounds) / one_minus
    slope = (ratio * value - ratio * (plain + plain_slope) / rounds) / one_minus
    if not near.any():
        return value, slope
    small, small_slope = _series(np.where(near, logs, 0.0), rounds, ramp=True)
    return np.where(near, small, value), np.where(near, small_slope, slope)

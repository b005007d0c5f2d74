"""Bisection that returns the side on which a condition was seen to hold."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt


def closest(holds: Callable[[float], bool], good: float, bad: float, tolerance: float) -> float:
    """Find the value nearest to `bad` at which `holds` was seen to be true.

    `holds` is true at `good`. Both ends are >= 0. The result is within a relative `tolerance`.
    While the ends are far apart the search uses geometric means, so a bracket over many powers of
    ten costs a few steps. It ends at adjacent floats at the latest.

    >>> closest(lambda x: x * x <= 2.0, 0.0, 1e300, 1e-6) <= 2**0.5
    True
    """
    while abs(good - bad) > tolerance * max(good, bad):
        low, high = min(good, bad), max(good, bad)
        middle = sqrt(low) * sqrt(high) if 0 < 4 * low < high else (low + high) / 2
        if not low < middle < high:
            break
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good

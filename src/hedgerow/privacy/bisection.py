"""Bisection that returns the side on which a condition was seen to hold."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt


def closest(holds: Callable[[float], bool], good: float, bad: float, tolerance: float) -> float:
    """The value nearest to `bad`, within a relative `tolerance`, at which `holds` was seen to be true; it is at `good`.

    Geometric means while the ends, both >= 0, are far apart, so that a bracket over many powers of ten costs a few steps; the end
    comes at adjacent floats at the latest.

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

"""Searches on a line: bisection that stays on the safe side, and Brent's root of a function.

`root` takes the same steps as `scipy.optimize.brentq`. That package is large: a process that needs
nothing else of it saves 40 MB of memory and the time to import it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, sqrt

from hedgerow.core.errors import InvalidValue


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


def root(
    function: Callable[[float], float],
    low: float,
    high: float,
    xtol: float,
    rtol: float = 2.0**-50,
) -> float:
    """Where a continuous function is zero, up to `xtol` and the relative `rtol`.

    References
    ----------
    Brent 1973, Algorithms for Minimization Without Derivatives, chapter 4.

    Examples
    --------
    >>> round(root(lambda x: x * x - 2.0, 0.0, 2.0, xtol=1e-15), 12)
    1.414213562373
    """
    before, at = low, high
    f_before, f_at = function(before), function(at)
    if f_before == 0:
        return before
    if f_at == 0:
        return at
    if _positive(f_before) == _positive(f_at):
        raise InvalidValue("A root needs two points at which the function has opposite signs.")
    other = f_other = last_step = step = 0.0
    for _ in range(1000):
        if f_before != 0 and f_at != 0 and _positive(f_before) != _positive(f_at):
            other, f_other = before, f_before
            last_step = step = at - before
        if abs(f_other) < abs(f_at):
            before, at, other = at, other, at
            f_before, f_at, f_other = f_at, f_other, f_at
        near, half = (xtol + rtol * abs(at)) / 2, (other - at) / 2
        if f_at == 0 or abs(half) < near:
            return at
        tried = None
        if abs(last_step) > near and abs(f_at) < abs(f_before):
            tried = _interpolated(before, at, other, f_before, f_at, f_other)
        if tried is not None and 2 * abs(tried) < min(abs(last_step), 3 * abs(half) - near):
            last_step, step = step, tried
        else:
            last_step = step = half
        before, f_before = at, f_at
        at += step if abs(step) > near else copysign(near, half)
        f_at = function(at)
    raise ArithmeticError("The search for a root did not end.")


def _positive(value: float) -> bool:
    return copysign(1.0, value) > 0


def _interpolated(
    before: float, at: float, other: float, f_before: float, f_at: float, f_other: float
) -> float | None:
    """A step by the secant or by inverse quadratic interpolation; None: it would divide by zero."""
    try:
        if before == other:
            return -f_at * (at - before) / (f_at - f_before)
        d_before = (f_before - f_at) / (before - at)
        d_other = (f_other - f_at) / (other - at)
        slopes = d_other * d_before * (f_other - f_before)
        return -f_at * (f_other * d_other - f_before * d_before) / slopes
    except ZeroDivisionError:
        return None

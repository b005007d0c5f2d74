"""Outward rounding: from exact fractions to the next float on the safe side (stdlib only)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from math import inf, isfinite, isqrt, nextafter


def _nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf


def round_up(exact: Fraction) -> float:
    """Return the smallest float that is not below an exact value.

    A certificate must never round in its own favour.

    >>> Fraction(round_up(Fraction(1, 3))) > Fraction(1, 3), round_up(Fraction(1, 2))
    (True, 0.5)
    """
    nearest = _nearest(exact)
    return (
        nearest
        if nearest == inf or (nearest > -inf and Fraction(nearest) >= exact)
        else nextafter(nearest, inf)
    )


def round_down(exact: Fraction) -> float:
    """Return the largest float that is not above an exact value.

    >>> round_down(Fraction(1, 10)) < 0.1, round_down(Fraction(0))
    (True, 0.0)
    """
    return 0.0 - round_up(-exact)  # never -0.0


def sum_down(first: float, second: float) -> float:
    """Return the largest float that is not above the exact sum of two finite floats.

    The error of a float sum is itself a float, and these six operations find it (Knuth, TwoSum).

    >>> sum_down(1.0, 2.0**-60) == 1.0, sum_down(1.0, -(2.0**-60)) < 1.0
    (True, True)
    """
    total = first + second
    if not isfinite(total):
        return round_down(Fraction(first) + Fraction(second))
    other = total - first
    error = (first - (total - other)) + (second - other)
    return total if error >= 0 else nextafter(total, -inf)


def root_down(square: Fraction) -> float:
    """Return the largest float whose square is at most an exact value.

    >>> root_down(Fraction(9, 4)), Fraction(root_down(Fraction(2))) ** 2 < 2
    (1.5, True)
    """
    top, bottom = square.numerator, square.denominator
    # chosen so that the root below has at least 64 binary digits
    shift = max(0, 66 + (bottom.bit_length() - top.bit_length()) // 2)
    return round_down(Fraction(isqrt((top << 2 * shift) // bottom), 1 << shift))


def root_up(square: Fraction) -> float:
    """Return the smallest float whose square is at least an exact value."""
    below = root_down(square)
    return below if Fraction(below) ** 2 == square else nextafter(below, inf)


def rounded_up(value: float, digits: int = 4) -> str:
    """The value as text with `digits` significant digits, rounded up.

    A floating-point residue of 1e-12 is ignored. Otherwise the text is never below the value.

    >>> rounded_up(1.00049), rounded_up(0.75), rounded_up(0.7500000000000001)
    ('1.001', '0.75', '0.75')
    >>> rounded_up(123449.0), rounded_up(1e-6)
    ('123500', '1e-6')
    """
    if value == 0:
        return "0"
    least = Decimal(value) * (1 - Decimal("1e-12"))
    step = Decimal(1).scaleb(least.adjusted() - digits + 1)
    raised = (least / step).to_integral_value(ROUND_CEILING) * step
    if raised < Decimal("1e-4"):
        return f"{raised.normalize():e}"
    text = f"{raised:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def outward(found: float, bound: float, delta: float, curve: Callable[[float], float]) -> float:
    """The first float from `found` on, at most `bound`, at which the curve is `delta` or less."""
    while found < bound and curve(found) > delta:
        found = nextafter(found, inf)
    return min(found, bound)

"""Composition of guarantees."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import inf, nextafter

from hedgerow.privacy.curves import PureDP


def round_up(exact: Fraction) -> float:
    """The smallest float that is not below an exact value: a certificate never rounds in its own favour."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else nextafter(nearest, inf)


def pure_sum(parts: Iterable[PureDP]) -> PureDP:
    """Pure guarantees add, also when each step is chosen after seeing the earlier ones (`proofs/composition.md#pure-sum`).

    >>> pure_sum([PureDP(0.5), PureDP(0.25)]).bound
    0.75
    >>> pure_sum([PureDP(0.1)] * 3).bound
    0.30000000000000004
    """
    bounds = [part.bound for part in parts]
    return PureDP(inf if inf in bounds else round_up(sum(map(Fraction, bounds), Fraction(0))))

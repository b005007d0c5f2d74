"""Composition of guarantees."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum, inf, nextafter

from hedgerow.privacy.curves import PureDP


def pure_sum(parts: Iterable[PureDP]) -> PureDP:
    """Pure guarantees add, also when each step is chosen after seeing the earlier ones (`proofs/composition.md#pure-sum`).

    >>> pure_sum([PureDP(0.5), PureDP(0.25)]).bound
    0.75
    """
    bounds = [part.bound for part in parts]
    total = fsum(bounds)
    exact = len(bounds) < 2 or total == int(total * 2**20) / 2**20
    return PureDP(total if exact else nextafter(total, inf))

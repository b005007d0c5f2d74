"""How long the leader of a random walk may stay: the delays of `walk_batches`.

A leader with a large gap stays the leader for some rounds, whatever the data are. The bound on the
probability that it does not, and the smallest gap at which a delay is allowed, are proven in
`proofs/walk_batches.md#leader-stays` and `#delay`.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log, pi, sqrt
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import ndtr

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least, one_of, positive

LATEST = 2**62  # rounds
FINE = 128  # rounds up to here have an entry each; later entries are 1 % apart
FARTHEST = 38.0  # no lead can be longer: the bounds are 0 in floating point


def reflection(ahead: Any, experts: int) -> Array:
    """Bounds the probability that noise closes a gap of `ahead` units, by reflection.

    One unit is the standard deviation of the difference of two walks at the end of the delay.

    >>> reflection(np.array([0.0, 3.0, 4.0]), 25).round(4).tolist()
    [1.0, 0.0648, 0.0015]
    """
    return np.minimum(1.0, 2 * (experts - 1) * ndtr(-np.asarray(ahead, float)))


def published(ahead: Any, experts: int) -> Array:
    """Bounds the same probability as the paper does (its Theorem 4.1).

    >>> published(np.array([0.0, 3.0, 4.0]), 25).round(4).tolist()
    [1.0, 0.7237, 0.1758]
    """
    margin = np.maximum(np.asarray(ahead, float) - sqrt(log(2 * experts - 2)), 0.0)
    density = np.exp(-margin * margin / 2) / sqrt(2 * pi)
    first = 2 * ndtr(-sqrt(2) * margin)
    return np.minimum(1.0, first + 2 * sqrt(pi) * density * (ndtr(margin) - ndtr(-margin)))


BOUNDS = {"reflection": reflection, "published": published}
Rule = Literal["reflection", "published"]


@lru_cache(maxsize=64)
def _table(experts: int, tolerance: float, rule: Rule) -> tuple[np.ndarray, Array]:
    """The least lead, in units of noise, that the numbers of rounds up to each entry need.

    Both bounds fall, so the smallest lead with `bound(lead) <= tolerance sqrt(ln(n) / rounds)` is
    found by bisection, for all entries at once, and rounded up. It grows with the rounds.
    """
    later = FINE * 1.01 ** np.arange(1, log(LATEST / FINE) / log(1.01))
    until = np.concatenate([np.arange(1, FINE + 1), np.ceil(later), [LATEST]]).astype(np.int64)
    allowed = tolerance * np.sqrt(log(experts) / until) * (1 - 1e-9)
    low, high = np.zeros(len(until)), np.full(len(until), FARTHEST)
    for _ in range(60):
        middle = (low + high) / 2
        enough = BOUNDS[rule](middle, experts) <= allowed
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    needed = np.maximum.accumulate(high)
    if rule == "published":
        needed = np.maximum(needed, sqrt(log(2 * experts - 2)))
    return until, np.append(needed, np.inf)


@dataclass(frozen=True)
class Delays:
    """The delay that is allowed at a gap: the leader of the next rounds is almost surely the same.

    Parameters
    ----------
    experts
        The number n of experts.
    scale
        The standard deviation eta of the noise of one round in every coordinate.
    drift
        How much the records of one round can close a gap: 1 for one record in [0, 1].
    tolerance
        alpha: a play may differ from the leader's with probability alpha sqrt(ln(n) / t).

    rule
        Which bound: "reflection", the sharper one, or "published".

    Examples
    --------
    >>> delays = Delays(experts=25, scale=5.0, drift=1.0, tolerance=0.01)
    >>> [delays.at(100, gap) for gap in (10.0, 40.0, 80.0, 400.0)]
    [0, 1, 6, 105]
    """

    experts: int
    scale: float
    drift: float
    tolerance: float
    rule: Rule = "reflection"

    def __post_init__(self) -> None:
        at_least("experts", self.experts, 1)
        if not self.scale >= 0:
            raise InvalidValue(f"Expected scale={self.scale!r} >= 0.")
        positive("drift", self.drift)
        positive("tolerance", self.tolerance)
        one_of(self, rule=get_args(Rule))

    @cached_property
    def _lists(self) -> tuple[list[int], list[float]]:
        """The table for one gap at a time."""
        until, needed = _table(self.experts, self.tolerance, self.rule)
        return until.tolist(), needed.tolist()

    def gap_needed(self, rounds: Any, delay: Any) -> Array:
        """The smallest gap after `rounds` rounds that allows this delay, at least 1.

        It grows with both. In rounds it is constant over short stretches.
        """
        until, needed = _table(self.experts, self.tolerance, self.rule)
        place = np.searchsorted(until, np.add(rounds, delay))
        return self.drift * delay + self.scale * np.sqrt(2.0 * np.asarray(delay)) * needed[place]

    def at(self, rounds: int, gap: float) -> int:
        """The largest delay that the gap after `rounds` rounds allows: 0 if none does."""
        if self.experts == 1:
            return 0
        until, needed = self._lists
        drift, scale = self.drift, self.scale
        # with the lead of the first round, which is the smallest, no longer delay is allowed
        noise = scale * needed[bisect_left(until, rounds + 1)]
        root = sqrt(noise * noise + 2 * drift * gap) - noise
        high = int(root * root / (2 * drift * drift) * (1 + 1e-9))
        if not high:
            return 0
        noise = scale * needed[bisect_left(until, rounds + high)]
        if gap >= drift * high + noise * sqrt(2.0 * high):
            return high
        # with the lead of that delay, which is larger, a delay up to `low` is allowed
        root = sqrt(noise * noise + 2 * drift * gap) - noise
        low = min(high - 1, int(root * root / (2 * drift * drift) * (1 - 1e-9)))
        while high - low > 1:
            middle = (low + high) // 2
            noise = scale * needed[bisect_left(until, rounds + middle)]
            enough = gap >= drift * middle + noise * sqrt(2.0 * middle)
            low, high = (middle, high) if enough else (low, middle)
        return low

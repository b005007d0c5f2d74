"""Exact selection and exact coins from uniform words.

Floats decide all but about one choice in a thousand million; arbitrary-precision arithmetic decides
the rest. A gap is a score minus the least score. Both laws use the weight exp(-rate * gap).
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import at_least
from hedgerow.privacy.secure.digits import below, digits, mp
from hedgerow.privacy.secure.laws import ERROR, Flags, Values, decided
from hedgerow.privacy.secure.words import SecureWords


def _check(gaps: Values, rate: float) -> None:
    if gaps.ndim != 1 or len(gaps) == 0:
        raise InvalidValue(f"Expected gaps={gaps.shape!r} to be one row of scores.")
    if not bool(np.isfinite(gaps).all()) or gaps.min() != 0:
        raise InvalidValue(
            f"Expected least gap={float(gaps.min())!r} to be 0, and every gap to be finite."
        )
    if not np.isfinite(rate) or not rate > 0:
        raise InvalidValue(f"Expected rate={rate!r} > 0 and finite.")


def exponential(gaps: Values, rate: float, words: SecureWords) -> int:
    """Draw index i with probability proportional to exp(-rate * gaps[i]), by inversion."""
    _check(gaps, rate)
    sums = np.cumsum(np.exp(-rate * gaps))
    total = float(sums[-1])
    head = words.integer(64)
    target = head * 2.0**-64 * total
    found = int(np.searchsorted(sums, target, side="right"))
    unsure = total * (ERROR + len(gaps) * 2.0**-50)
    before = float(sums[found - 1]) if found else -np.inf
    if (
        found < len(gaps)
        and target - before > unsure
        and (found == len(gaps) - 1 or sums[found] - target > unsure)
    ):
        return found
    return _exponential_exactly(gaps, rate, head, words)


def _exponential_exactly(gaps: Values, rate: float, head: int, words: SecureWords) -> int:
    """Compare more bits of the same uniform number with more digits of the sums, until decided."""
    bits = 64
    while True:
        with digits(bits + 128):
            weights = [mp.exp(-mp.mpf(rate) * mp.mpf(float(gap))) for gap in gaps]
            total, before = mp.fsum(weights), mp.mpf(0)
            low, high = (mp.ldexp(mp.mpf(value), -bits) * total for value in (head, head + 1))
            slack = total * mp.ldexp(1, -bits - 64)
            for index, weight in enumerate(weights):
                after = before + weight
                last = index == len(weights) - 1
                if (index == 0 or low > before + slack) and (last or high < after - slack):
                    return index
                before = after
        head, bits = (head << 64) | words.integer(64), bits + 64


def permute_and_flip(gaps: Values, rate: float, words: SecureWords) -> int:
    """Draw an index by permute-and-flip.

    Go through the indices in random order and take the first whose coin, with chance
    exp(-rate * gap), shows heads.
    """
    _check(gaps, rate)
    order = permutation(len(gaps), words)
    heads = words.take(len(gaps))
    trial, chance = np.multiply(heads, 2.0**-64, dtype=np.float64), np.exp(-rate * gaps[order])
    yes, no = decided(trial, chance, ERROR)
    yes |= gaps[order] == 0
    for at in np.flatnonzero(yes | ~no):
        index = int(order[at])
        if yes[at] or below_exp(float(gaps[index]), rate, int(heads[at]), words):
            return index
    raise AssertionError("an index with gap 0 is always taken")


def permutation(count: int, words: SecureWords) -> np.ndarray:
    """Draw a uniform order by random words, again in the unlikely case that two are equal."""
    while True:
        drawn = words.take(count)
        order = np.argsort(drawn)
        if not (np.diff(drawn[order]) == 0).any():
            return order


def flips(gaps: Values, rate: float, words: SecureWords) -> Flags:
    """Toss coins that show True with probability exp(-rate * gap)."""
    if not bool((gaps >= 0).all() and np.isfinite(gaps).all()):
        raise InvalidValue(
            f"Expected least gap={float(gaps.min(initial=0.0))!r} >= 0, and every gap to be finite."
        )
    if not np.isfinite(rate) or not rate > 0:
        raise InvalidValue(f"Expected rate={rate!r} > 0 and finite.")
    heads = words.take(gaps.size)
    flat = gaps.ravel()
    yes, no = decided(np.multiply(heads, 2.0**-64, dtype=np.float64), np.exp(-rate * flat), ERROR)
    yes |= flat == 0
    for at in np.flatnonzero(~(yes | no)):
        yes[at] = below_exp(float(flat[at]), rate, int(heads[at]), words)
    return yes.reshape(gaps.shape)


def below_exp(gap: float, rate: float, head: int, words: SecureWords) -> bool:
    """Whether a uniform number with these first 64 bits lies below exp(-rate * gap)."""
    return below(head, lambda: mp.exp(-mp.mpf(rate) * mp.mpf(gap)), words)


def index_below(count: int, words: SecureWords) -> int:
    """Draw a uniform index 0 .. count - 1."""
    at_least("count", count, 1)
    bits = max(1, (count - 1).bit_length())
    while True:
        found = words.integer(bits)
        if found < count:
            return found

"""Exact integers from uniform words, at the speed of table look-ups, for every scale.

The integers are cut into strips of 2^k. An alias table with whole-number weights, each at least what the law needs, picks a strip;
the offset in it is uniform; a trial accepts x with the ratio of what the law gives x and what the table gave it. Nearly
every trial is decided by a few bits and a bound for the whole strip, the others by floats with a known error, and what those leave
open by as many digits as it takes. So the law is exact: tables cost tries, not accuracy (`proofs/secure_noise.md#strips`).
"""

from __future__ import annotations

import sys
from math import ceil, expm1, isfinite
from threading import local
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.checks import at_least, expect
from hedgerow.privacy.secure.digits import below, geometric, mp
from hedgerow.privacy.secure.laws import ERROR, SHAPES, LatticeLaw, Shape, Values
from hedgerow.privacy.secure.words import SecureWords, Words

Integers = npt.NDArray[np.int64]

# a word: which cell (13 bits), which of its two strips (19), the trial (16), the offset in the strip (16)
CELL_BITS, SIDE_BITS, TRIAL_BITS, OFFSET_BITS = 13, 19, 16, 16
_LITTLE = sys.byteorder == "little"
_TOP_HALF, _TRIAL_LANE = (1, 1) if _LITTLE else (0, 2)  # of the two 32-bit and of the four 16-bit parts of a word
CELLS, SIDES, TRIALS = 2**CELL_BITS, 2**SIDE_BITS, 2**TRIAL_BITS
LARGEST_SCALE = 2.0**40
_PIECE = 2**13
TRIES = 2**16  # at once
_HOPELESS = 2.0**-60


class _Scratch(local):
    """Arrays that every thread makes once: fresh memory would cost as much as the noise."""

    def __init__(self) -> None:
        most = TRIES + TRIES // 2
        self.drawn, self.found, self.lost = np.empty(most, np.uint64), np.empty(most, np.int64), np.empty(most, bool)
        self.index, self.number = np.empty(_PIECE, np.uint64), np.empty(_PIECE, np.uint64)
        self.limit, self.won, self.second = np.empty(_PIECE, np.uint32), np.empty(_PIECE, np.uint16), np.empty(_PIECE, bool)


_SCRATCH = _Scratch()


class ExactLaw:
    """A law on the integers, ready to be sampled."""

    def __init__(self, law: LatticeLaw, scale: float, *, reach: float | None = None) -> None:
        expect(law in SHAPES, "law", law, f"in {tuple(SHAPES)}")
        expect(isfinite(scale) and 0 < scale <= LARGEST_SCALE, "scale", scale, f"in (0, {LARGEST_SCALE:g}] lattice steps")
        self.shape: Shape = SHAPES[law](float(scale))
        strips = CELLS - 1 if self.shape.one_sided else (CELLS - 2) // 2
        wanted = (self.shape.reach if reach is None else reach) * scale + 1
        self.bits = max(0, ceil(np.log2(wanted / strips)))
        width = 2**self.bits
        self.end = strips * width  # the first |x| beyond the strips
        closest = np.arange(strips, dtype=float) * width
        starts, near, far = [np.arange(strips) * width], [closest], [closest + (width - 1)]
        tails = [self.end]
        if not self.shape.one_sided:
            starts.append(-(np.arange(strips) + 1) * width)
            near.append(closest + 1)
            far.append(closest + width)
            tails.append(self.end + 1)
        self._tabulate(np.concatenate(starts), np.concatenate(near), np.concatenate(far), tails)

    def _tabulate(self, starts: Integers, near: Values, far: Values, tails: list[int]) -> None:
        """Whole-number weights, the bounds below which a trial is won, and the alias table. The tails are the last strips."""
        self.tails = tails
        width, total = 2**self.bits, CELLS * SIDES
        heights = self.shape.weight(near) * (1 + ERROR)
        rates = [self.shape.decay(start) for start in tails]
        beyond = [float(self.shape.weight(np.array([float(s)]))[0]) / -expm1(-r) / width for s, r in zip(tails, rates, strict=True)]
        self.unit = (total - 4 * CELLS) / (float(heights.sum()) + sum(beyond)) * (1 - ERROR)
        weights = np.maximum(1, np.ceil(self.unit * heights)).astype(np.int64)
        weights = np.append(weights, [ceil(self.unit * mass * (1 + ERROR)) + 1 for mass in beyond])
        weights[0] += total - int(weights.sum())
        assert len(weights) <= CELLS, "every strip and tail has a cell"
        assert weights[0] >= self.unit * heights[0], "the weights fit into the table"
        won = np.floor(TRIALS * (1 - 4 * ERROR) * self.unit * self.shape.weight(far) / weights[: len(far)])
        self.weights = weights
        self.loss = min(0.3, 1 - self.unit * float((self.shape.weight(near) + self.shape.weight(far)).sum()) / 2 / total)
        self.starts = np.append(starts, [0] * len(tails)).astype(np.int64)
        won = np.append(np.clip(won, 0, TRIALS - 1), [0] * len(tails)).astype(np.uint16)
        limits, others = _alias(weights)
        # a full cell never reaches its limit: its second strip is the same one
        self._limits = ((np.arange(CELLS) << SIDE_BITS) + np.minimum(limits, SIDES - 1)).astype(np.uint32)
        others = np.where(limits == SIDES, np.arange(CELLS), others)
        strips = np.stack([np.minimum(np.arange(CELLS), len(weights) - 1), others], axis=1).ravel()
        self._strips = strips
        self._starts2 = self.starts[strips]
        self._won2 = won[strips]

    def sample(self, count: int, words: SecureWords) -> Integers:
        """`count` independent integers."""
        at_least("count", count, 0)
        result = np.empty(count, np.int64)
        self.fill(result, words)
        return result

    def fill(self, target: Integers, words: SecureWords) -> None:
        """Independent integers into an array that is there already."""
        done = 0
        while done < len(target):
            part = target[done : done + TRIES]
            tries = len(part) + int(self.loss * len(part) * 1.25) + 16
            found, lost = self._try(tries, words)
            spare = np.delete(np.arange(len(part), tries), lost[lost >= len(part)] - len(part))
            lost = lost[lost < len(part)]
            filled = len(part) if len(spare) >= len(lost) else int(lost[len(spare)])
            lost = lost[: len(spare)]
            found[lost] = found[spare[: len(lost)]]
            part[:filled] = found[:filled]
            done += filled

    def _try(self, tries: int, words: SecureWords) -> tuple[Integers, Integers]:
        """So many integers, and the places where the trial is lost."""
        drawn, found, lost = _SCRATCH.drawn[:tries], _SCRATCH.found[:tries], _SCRATCH.lost[:tries]
        words.fill(drawn)
        for first in range(0, tries, _PIECE):
            piece = slice(first, first + _PIECE)
            self._quick(drawn[piece], found[piece], lost[piece])
        if self.bits > OFFSET_BITS:
            found += (words.take(tries) >> np.uint64(64 - self.bits)).view(np.int64)
        still_open = np.flatnonzero(lost)
        return found, self._decide(still_open, drawn[still_open], found, words) if len(still_open) else still_open

    def _quick(self, drawn: Words, found: Integers, lost: npt.NDArray[np.bool_]) -> None:
        """Strip, offset and the first bits of the trial, for one piece."""
        count, scratch = len(drawn), _SCRATCH
        index, number, limit = scratch.index[:count], scratch.number[:count], scratch.limit[:count]
        second, won, cell = scratch.second[:count], scratch.won[:count], index.view(np.int64)
        np.right_shift(drawn, 64 - CELL_BITS, out=index)
        np.take(self._limits, cell, out=limit, mode="clip")
        np.greater_equal(drawn.view(np.uint32)[_TOP_HALF::2], limit, out=second)
        np.add(cell, cell, out=cell)
        np.add(cell, second, out=cell)
        np.take(self._won2, cell, out=won, mode="clip")
        np.greater_equal(drawn.view(np.uint16)[_TRIAL_LANE::4], won, out=lost)
        np.take(self._starts2, cell, out=found, mode="clip")
        if 0 < self.bits <= OFFSET_BITS:
            np.bitwise_and(drawn, 2**self.bits - 1, out=number)
            np.add(found, number.view(np.int64), out=found)

    def _decide(self, where: Integers, drawn: Words, found: Integers, words: SecureWords) -> Integers:
        """The trials that their first bits did not win: more bits, against the law at the very integer. Returns the lost ones."""
        cell = (drawn >> np.uint64(64 - CELL_BITS)).view(np.int64)
        second = drawn.view(np.uint32)[_TOP_HALF::2] >= self._limits[cell]
        strip = self._strips[2 * cell + second]
        first_bits = drawn.view(np.uint16)[_TRIAL_LANE::4].astype(np.uint64)
        more = words.take(len(drawn)) >> np.uint64(TRIAL_BITS)
        trial = first_bits * 2.0**-TRIAL_BITS + more * 2.0**-64
        x = found[where]
        chance = self.unit * self.shape.weight(np.abs(x).astype(float)) / self.weights[strip]
        yes = trial < chance * (1 - ERROR)
        no = trial >= np.maximum(chance * (1 + ERROR), _HOPELESS)
        in_tail = strip >= len(self.weights) - len(self.tails)
        yes &= ~in_tail
        for i in np.flatnonzero(in_tail | ~(yes | no)):
            head = (int(first_bits[i]) << (64 - TRIAL_BITS)) | int(more[i])
            if in_tail[i]:
                value = self._tail(int(strip[i]) - len(self.weights) + len(self.tails), head, words)
                yes[i] = value is not None
                found[where[i]] = value or 0
            else:
                weight, size = int(self.weights[strip[i]]), abs(int(x[i]))
                yes[i] = below(head, lambda w=weight, s=size: mp.mpf(self.unit) * self.shape.exact(s) / w, words)
        return where[~yes]

    def _tail(self, side: int, head: int, words: SecureWords) -> int | None:
        """A trial beyond the strips: a geometric step from their end; None if it is lost."""
        start = self.tails[side]
        rate = self.shape.decay(start)
        weight, width = int(self.weights[len(self.weights) - len(self.tails) + side]), 2**self.bits
        step = geometric(rate, words)

        def chance() -> Any:
            given = weight * -mp.expm1(-mp.mpf(rate)) * mp.exp(-mp.mpf(rate) * step)
            return mp.mpf(self.unit) / width * self.shape.exact(start + step) / given

        if not below(head, chance, words):
            return None
        return start + step if side == 0 else -(start + step)


def _alias(weights: Integers) -> tuple[Integers, Integers]:
    """Walker's table in whole numbers: cell i holds strip i below limits[i] of SIDES, others[i] above."""
    left = np.zeros(CELLS, np.int64)
    left[: len(weights)] = weights
    rest, limits, others = left.tolist(), [SIDES] * CELLS, list(range(CELLS))
    small = [i for i, w in enumerate(rest) if w < SIDES]
    large = [i for i, w in enumerate(rest) if w >= SIDES]
    while small and large:
        cell, donor = small.pop(), large[-1]
        limits[cell], others[cell] = rest[cell], donor
        rest[donor] -= SIDES - rest[cell]
        if rest[donor] < SIDES:
            small.append(large.pop())
    return np.array(limits), np.array(others)

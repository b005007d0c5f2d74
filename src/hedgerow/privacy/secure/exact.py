"""Exact integers from uniform words, at the speed of table look-ups, for every scale.

The integers are cut into strips of 2^k. An alias table with whole-number weights, each at least what the law needs, picks a strip;
the offset in it is uniform; a trial accepts x with the ratio of what the law gives x and what the table gave it. Nearly
every trial is decided by a few bits and a bound for the whole strip, the others by floats with a known error, and what those leave
open by as many digits as it takes. So the law is exact: tables cost tries, not accuracy (`proofs/secure_noise.md#strips`).
"""

from __future__ import annotations

from math import ceil, expm1
from threading import local
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.checks import at_least, expect
from hedgerow.privacy.secure.digits import below, geometric, mp
from hedgerow.privacy.secure.laws import ERROR, SHAPES, Flags, LatticeLaw, Shape, Values, decided
from hedgerow.privacy.secure.words import SecureWords, Words

Integers = npt.NDArray[np.int64]
Trials = npt.NDArray[np.uint16]

# a word: which cell (13 bits), which of its two strips (19), the offset in the strip (32); beside it 16 bits for the trial
CELL_BITS, SIDE_BITS, OFFSET_BITS, TRIAL_BITS = 13, 19, 32, 16
CELLS, SIDES, TRIALS = 2**CELL_BITS, 2**SIDE_BITS, 2**TRIAL_BITS
SMALLEST_SCALE, LARGEST_SCALE = 1e-3, 2.0**40
_PIECE = 2**13
TRIES = 2**16  # at once


class _Scratch(local):
    """Arrays that every thread makes once: fresh memory would cost as much as the noise."""

    def __init__(self) -> None:
        self.bits = np.empty(10 * _PIECE, np.uint8)
        self.index, self.number, self.limit = (np.empty(_PIECE, np.uint64) for _ in range(3))
        self.won, self.second, self.lost = np.empty(_PIECE, np.uint16), np.empty(_PIECE, bool), np.empty(_PIECE, bool)

    def split(self, count: int) -> tuple[Words, Trials]:
        """The words and the trials of one piece, side by side in memory."""
        return self.bits[: 8 * count].view(np.uint64), self.bits[8 * count : 10 * count].view(np.uint16)


_SCRATCH = _Scratch()


class ExactLaw:
    """A law on the integers, ready to be sampled."""

    def __init__(self, law: LatticeLaw, scale: float, *, reach: float | None = None) -> None:
        expect(law in SHAPES, "law", law, f"in {tuple(SHAPES)}")
        expect(SMALLEST_SCALE <= scale <= LARGEST_SCALE, "scale", scale, f"in [{SMALLEST_SCALE}, {LARGEST_SCALE:g}] lattice steps")
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
        full = (np.arange(CELLS) << SIDE_BITS) + np.minimum(limits, SIDES - 1)
        self._limits = full.astype(np.uint64) << np.uint64(OFFSET_BITS)
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
        """Independent integers into an array that is there already. A place whose trial is lost takes the next spare one."""
        done = 0
        while done < len(target):
            part = target[done : done + TRIES]
            spare = np.empty(int(1.25 * self.loss * len(part)) + 16, np.int64)
            lost = self._try(part, spare, words)
            good = np.delete(spare, lost[lost >= len(part)] - len(part))
            lost = lost[lost < len(part)]
            done += len(part) if len(lost) <= len(good) else int(lost[len(good)])
            lost = lost[: len(good)]
            part[lost] = good[: len(lost)]

    def _try(self, part: Integers, spare: Integers, words: SecureWords) -> Integers:
        """One trial for each place of both arrays; the places where it is lost, those of the second after those of the first."""
        places, values, drawn, trials = list[Integers](), list[Integers](), list[Words](), list[Trials]()
        pieces = [(part, first, first) for first in range(0, len(part), _PIECE)]
        pieces += [(spare, first, len(part) + first) for first in range(0, len(spare), _PIECE)]
        for array, first, place in pieces:
            piece = array[first : first + _PIECE]
            lost = self._quick(piece, words)
            piece_words, piece_trials = _SCRATCH.split(len(piece))
            drawn.append(piece_words[lost])
            trials.append(piece_trials[lost])
            if self.bits > OFFSET_BITS:
                piece += (words.take(len(piece)) >> np.uint64(64 - self.bits)).view(np.int64)
            places.append(lost + place)
            values.append(piece[lost])
        where = np.concatenate(places)
        if not len(where):
            return where
        x, won = self._decide(np.concatenate(drawn), np.concatenate(trials), np.concatenate(values), words)
        first_of_spare = int(np.searchsorted(where, len(part)))
        part[where[:first_of_spare]] = x[:first_of_spare]
        spare[where[first_of_spare:] - len(part)] = x[first_of_spare:]
        return where[~won]

    def _quick(self, found: Integers, words: SecureWords) -> Integers:
        """Strip, offset and the first bits of the trial, for one piece; the places where these did not win it."""
        count, scratch = len(found), _SCRATCH
        (drawn, trial), lost = scratch.split(count), scratch.lost[:count]
        words.fill(scratch.bits[: 10 * count])
        index, number, limit = scratch.index[:count], scratch.number[:count], scratch.limit[:count]
        second, won, cell = scratch.second[:count], scratch.won[:count], index.view(np.int64)
        np.right_shift(drawn, 64 - CELL_BITS, out=index)
        self._limits.take(cell, out=limit, mode="clip")
        np.greater_equal(drawn, limit, out=second)
        np.add(cell, cell, out=cell)
        np.add(cell, second, out=cell)
        self._won2.take(cell, out=won, mode="clip")
        np.greater_equal(trial, won, out=lost)
        self._starts2.take(cell, out=found, mode="clip")
        if 0 < self.bits <= OFFSET_BITS:
            np.bitwise_and(drawn, 2**self.bits - 1, out=number)
            np.add(found, number.view(np.int64), out=found)
        return lost.nonzero()[0]

    def _decide(self, drawn: Words, trials: Trials, x: Integers, words: SecureWords) -> tuple[Integers, Flags]:
        """The trials that their first bits did not win: more bits, against the law at the very integer. Integers, and which won."""
        cell = (drawn >> np.uint64(64 - CELL_BITS)).view(np.int64)
        second = drawn >= self._limits[cell]
        strip = self._strips[2 * cell + second]
        first_bits = trials.astype(np.uint64)
        more = words.take(len(drawn)) >> np.uint64(TRIAL_BITS)
        trial = first_bits * 2.0**-TRIAL_BITS + more * 2.0**-64
        chance = self.unit * self.shape.weight(np.abs(x).astype(float)) / self.weights[strip]
        yes, no = decided(trial, chance, ERROR)
        in_tail = strip >= len(self.weights) - len(self.tails)
        yes &= ~in_tail
        for i in np.flatnonzero(in_tail | ~(yes | no)):
            head = (int(first_bits[i]) << (64 - TRIAL_BITS)) | int(more[i])
            if in_tail[i]:
                value = self._tail(int(strip[i]) - len(self.weights) + len(self.tails), head, words)
                yes[i] = value is not None
                x[i] = value or 0
            else:
                weight, size = int(self.weights[strip[i]]), abs(int(x[i]))
                yes[i] = below(head, lambda w=weight, s=size: mp.mpf(self.unit) * self.shape.exact(s) / w, words)
        return x, yes

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

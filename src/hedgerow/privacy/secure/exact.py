"""Exact lattice noise from uniform words, at the speed of table look-ups.

The integers are cut into strips of 2^k. An alias table picks a strip; its weights are whole
numbers, each at least what the law needs. The offset in the strip is uniform. A trial accepts x
with the ratio of what the law gives x and what the table gave it. A few bits and a bound for the
whole strip decide nearly every trial. Floats with a known error decide the others, and
arbitrary-precision arithmetic decides what they leave open. The law is therefore exact: tables cost
trials, not accuracy (`proofs/secure_noise.md#strips`).
"""

from __future__ import annotations

from math import ceil, expm1
from sys import byteorder
from threading import local
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.validate import at_least, expect
from hedgerow.privacy.secure.digits import below, geometric, mp
from hedgerow.privacy.secure.laws import ERROR, SHAPES, Flags, LatticeLaw, Shape, Values, decided
from hedgerow.privacy.secure.words import SecureWords, Words

Integers = npt.NDArray[np.int64]
Trials = npt.NDArray[np.uint16]

# a word: the cell (13 bits), which of its two strips (19), the offset in the strip (32);
# 16 bits are for the trial: those of the offset that narrow strips leave, or another 16
CELL_BITS, SIDE_BITS, OFFSET_BITS, TRIAL_BITS = 13, 19, 32, 16
CELLS, SIDES, TRIALS = 2**CELL_BITS, 2**SIDE_BITS, 2**TRIAL_BITS
SMALLEST_SCALE, LARGEST_SCALE = 1e-3, 2.0**39  # of tables; `any_scale` has no limits
_PIECE = 2**15
BATCH = 2**17  # trials that are decided together
_BEFORE = 2.0**52  # in 2^52 + n, with whole n < 2^52, the last binary digits of the float are n


class _Scratch:
    """Arrays that are reused: allocating memory would take as long as drawing the noise."""

    def __init__(self) -> None:
        self.words, self.trials, self.lost = (
            np.empty(BATCH, np.uint64),
            np.empty(BATCH, np.uint16),
            np.zeros(BATCH, bool),
        )
        fourths = self.words.view(np.uint16).reshape(-1, 4)
        self.trials_in_words = fourths[:, 1]  # bits 16 to 31: offsets in narrow strips use 0 to 15
        self.index, self.number = (np.empty(_PIECE, np.uint64) for _ in range(2))
        self.won = np.empty(_PIECE, np.uint16)


class _Shelf(local):
    """The free scratch arrays of one thread.

    A draw that interrupts another one, in a signal handler, gets its own arrays.
    """

    def __init__(self) -> None:
        self.free: list[_Scratch] = []


_SHELF = _Shelf()


class ExactLaw:
    """A sampler for a law on the integers, in multiples of `step`, a power of two."""

    def __init__(
        self, law: LatticeLaw, scale: float, *, step: float = 1.0, reach: float | None = None
    ) -> None:
        expect(law in SHAPES, "law", law, f"in {tuple(SHAPES)}")
        expect(
            SMALLEST_SCALE <= scale <= LARGEST_SCALE,
            "scale",
            scale,
            f"in [{SMALLEST_SCALE}, {LARGEST_SCALE:g}] lattice steps",
        )
        self.shape: Shape = SHAPES[law](float(scale))
        self.step = step
        strips = CELLS - 1 if self.shape.one_sided else (CELLS - 2) // 2
        wanted = (self.shape.reach if reach is None else reach) * scale + 1
        self.bits = max(0, ceil(np.log2(wanted / strips)))
        self._tabulate(strips, 0 if self.shape.one_sided else strips)

    def _tabulate(self, right: int, left: int) -> None:
        """Compute the whole-number weights, the bounds that win a trial, and the alias table.

        `right` and `left` are the numbers of strips on each side of 0. The tails are the last.
        """
        width, total = 2**self.bits, CELLS * SIDES
        self.narrow = self.bits <= OFFSET_BITS - TRIAL_BITS and byteorder == "little"
        starts = np.concatenate([np.arange(right), -1 - np.arange(left)]) * width
        ends = (starts + (width - 1)).astype(float)
        near, far = np.where(starts < 0, ends, starts), np.where(starts < 0, starts, ends)
        self.tails = tails = [right * width, *([-left * width - 1] if left else [])]
        heights = self.shape.weight(near) * (1 + ERROR)
        rates = [self.shape.decay(start) for start in tails]
        beyond = [
            float(self.shape.weight(np.array([float(s)]))[0]) / -expm1(-r) / width
            for s, r in zip(tails, rates, strict=True)
        ]
        self.unit = (total - 4 * CELLS) / (float(heights.sum()) + sum(beyond)) * (1 - ERROR)
        weights = np.maximum(1, np.ceil(self.unit * heights)).astype(np.int64)
        weights = np.append(weights, [ceil(self.unit * mass * (1 + ERROR)) + 1 for mass in beyond])
        weights[0] += total - int(weights.sum())
        assert len(weights) <= CELLS, "every strip and tail has a cell"
        assert weights[0] >= self.unit * heights[0], "the weights fit into the table"
        won = np.floor(
            TRIALS * (1 - 4 * ERROR) * self.unit * self.shape.weight(far) / weights[: len(far)]
        )
        self.weights = weights
        self.starts = np.append(starts, [0] * len(tails)).astype(np.int64)
        won = np.append(np.clip(won, 0, TRIALS - 1), [0] * len(tails)).astype(np.uint16)
        limits, others = _alias(weights)
        first = np.minimum(np.arange(CELLS), len(weights) - 1)
        others = np.where(limits == SIDES, first, others)
        # added to a word, this carries into its cell if the word belongs to the second strip; the
        # last cell must be full, because there the carry would be lost
        swap = [int(np.flatnonzero(limits == SIDES)[-1]), CELLS - 1]
        for cells in (limits, first, others):
            cells[swap] = cells[swap[::-1]]
        self._carries = (SIDES - limits).astype(np.uint64) << np.uint64(OFFSET_BITS)
        strips = np.stack([first, others], axis=1).ravel()
        self._strips = strips
        self._starts2 = (self.starts[strips] - _BEFORE) * self.step
        self._before = np.float64(_BEFORE * self.step).view(np.uint64)
        self._won2 = won[strips]

    def sample(self, count: int, words: SecureWords) -> Integers:
        """Draw `count` independent integers."""
        at_least("count", count, 0)
        result = np.empty(count)
        self.fill(result, words)
        return (result / self.step).astype(np.int64)

    def fill(self, target: Values, words: SecureWords) -> None:
        """Fill an existing array with independent integers, times the step.

        An entry whose trial is lost is drawn again.
        """
        for first in range(0, len(target), BATCH):
            batch = target[first : first + BATCH]
            lost = self._try(batch, words)
            if len(lost):
                fresh = np.empty(len(lost))
                self.fill(fresh, words)
                batch[lost] = fresh

    def fill_most(self, target: Values, words: SecureWords) -> int:
        """Fill the beginning of an array of at most `BATCH` places; return how many are filled.

        Every place has one trial. The last accepted values move to the places that lost theirs.
        """
        lost = self._try(target, words)
        count = len(target) - len(lost)
        gaps = lost[: np.searchsorted(lost, count)]
        kept = np.ones(len(lost), bool)
        kept[lost[len(gaps) :] - count] = False
        target[gaps] = target[count:][kept]
        return count

    def _try(self, batch: Values, words: SecureWords) -> Integers:
        """Run one trial for each entry; return the entries that lost it."""
        scratch = _SHELF.free.pop() if _SHELF.free else _Scratch()
        trials = scratch.trials_in_words if self.narrow else scratch.trials
        if not self.narrow:
            words.fill(trials[: len(batch)])
        for first in range(0, len(batch), _PIECE):
            self._quick(batch, first, scratch, trials, words)
        unsure = _where(scratch.lost, len(batch))
        drawn, trials = scratch.words[unsure], trials[unsure]
        _SHELF.free.append(scratch)
        if not len(unsure):
            return unsure
        x, won = self._decide(drawn, trials, (batch[unsure] / self.step).astype(np.int64), words)
        batch[unsure] = x * self.step
        return unsure[~won]

    def _quick(
        self, batch: Values, first: int, here: _Scratch, trials: Trials, words: SecureWords
    ) -> None:
        """Draw strip, offset and the first bits of the trial, for one piece of a batch.

        Marks the entries that these bits did not win.
        """
        found = batch[first : first + _PIECE]
        count = len(found)
        drawn, trial, lost = (
            array[first : first + count] for array in (here.words, trials, here.lost)
        )
        index, number, won = (a[:count] for a in (here.index, here.number, here.won))
        words.fill(drawn)
        cell = index.view(np.int64)
        np.right_shift(drawn, 64 - CELL_BITS, out=index)
        self._carries.take(cell, out=number, mode="clip")
        np.add(drawn, number, out=number)
        np.right_shift(number, 64 - CELL_BITS, out=number)
        np.add(index, number, out=index)  # twice the cell, and 1 for the second strip
        self._won2.take(cell, out=won, mode="clip")
        np.greater_equal(trial, won, out=lost)
        self._starts2.take(cell, out=found, mode="clip")
        np.bitwise_and(drawn, 2**self.bits - 1, out=number)
        # the float (2^52 + offset) step; the starts are less by 2^52 steps
        np.bitwise_or(number, self._before, out=number)
        np.add(found, number.view(np.float64), out=found)

    def _decide(
        self, drawn: Words, trials: Trials, x: Integers, words: SecureWords
    ) -> tuple[Integers, Flags]:
        """Decide the trials that the first bits did not win.

        More bits are compared with the law at the integer itself. Returns the integers, and which
        of them won.
        """
        cell = drawn >> np.uint64(64 - CELL_BITS)
        strip = self._strips[cell + ((drawn + self._carries[cell]) >> np.uint64(64 - CELL_BITS))]
        first_bits = trials.astype(np.uint64)
        more = words.take(len(drawn)) >> np.uint64(TRIAL_BITS)
        trial = first_bits * 2.0**-TRIAL_BITS + more * 2.0**-64
        chance = self.unit * self.shape.weight(x.astype(float)) / self.weights[strip]
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
                weight, at = int(self.weights[strip[i]]), int(x[i])
                yes[i] = below(
                    head,
                    lambda w=weight, at=at: mp.mpf(self.unit) * self.shape.exact(at) / w,
                    words,
                )
        return x, yes

    def _tail(self, side: int, head: int, words: SecureWords) -> int | None:
        """Run a trial beyond the strips: a geometric step from their end; None if it is lost."""
        start = self.tails[side]
        rate = self.shape.decay(start)
        weight, width = int(self.weights[len(self.weights) - len(self.tails) + side]), 2**self.bits
        step = geometric(rate, words)
        value = start + step if side == 0 else start - step

        def chance() -> Any:
            given = weight * -mp.expm1(-mp.mpf(rate)) * mp.exp(-mp.mpf(rate) * step)
            return mp.mpf(self.unit) / width * self.shape.exact(value) / given

        return value if below(head, chance, words) else None


def _where(flags: Flags, count: int) -> Integers:
    """The indices of the set flags among the first `count`: few, and found eight at a time."""
    end = -(-count // 8) * 8
    flags[count:end] = False
    eights = flags[:end].view(np.uint64).nonzero()[0]
    places = (8 * eights[:, None] + np.arange(8)).ravel()
    return places[flags[places]]


def _alias(weights: Integers) -> tuple[Integers, Integers]:
    """Walker's alias table in whole numbers.

    Cell i holds strip i below limits[i] of SIDES, and strip others[i] above.
    """
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

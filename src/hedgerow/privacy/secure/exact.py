"""Exact lattice noise from uniform words, at the speed of table look-ups.

The integers are cut into strips of 2^k. A point is drawn uniformly below a staircase of one step
per strip, each a whole number high and nowhere below the law; it is accepted if it lies below the
law. A second staircase nowhere above the law decides nearly always: an alias table picks a strip
below it, where the offset in the strip is all that is left to draw, or the border between the two.
Floats with a known error decide points in the border, and arbitrary-precision arithmetic decides
what they leave open. The law is therefore exact: staircases cost trials, not accuracy
(`proofs/secure_noise.md#strips`).
"""

from __future__ import annotations

from math import ceil, expm1
from threading import local
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import at_least, positive
from hedgerow.privacy.secure.digits import below, geometric, mp, whole_part
from hedgerow.privacy.secure.laws import ERROR, SHAPES, Flags, LatticeLaw, Shape, Values, decided
from hedgerow.privacy.secure.words import SecureWords

Integers = npt.NDArray[np.int64]

# a word: the cell (13 bits), which of its two strips (19), the offset in the strip (32)
CELL_BITS, SIDE_BITS, OFFSET_BITS = 13, 19, 32
CELLS, SIDES, TOTAL = 2**CELL_BITS, 2**SIDE_BITS, 2 ** (CELL_BITS + SIDE_BITS)
SMALLEST_SCALE, LARGEST_SCALE = 1e-3, 2.0**39  # of tables; `integer` has no limits
_PIECE = 2**16  # words that are drawn at once
BATCH = 2**17  # trials that are decided together
_AHEAD = 2**10  # points of the border that are decided at once, if this is not far more than needed
_NONE = np.empty(0), np.empty(0, bool)
# arrays, because numpy is slower to read numbers
_TO_CELL, _BORDER = np.array(64 - CELL_BITS, np.uint64), np.array(np.inf)
_BEFORE = 2.0**52  # in 2^52 + n, with whole n < 2^52, the last binary digits of the float are n


class _Scratch:
    """Arrays that are reused: allocating memory would take as long as drawing the noise."""

    def __init__(self) -> None:
        self.words, self.index = (np.empty(_PIECE, np.uint64) for _ in range(2))
        self.border = np.zeros(BATCH, bool)


class _Shelf(local):
    """The free scratch arrays of one thread.

    A draw that interrupts another one, in a signal handler, gets its own arrays.
    """

    def __init__(self) -> None:
        self.free: list[_Scratch] = []


_SHELF = _Shelf()


class ExactLaw:
    """A sampler for a law on the integers, in multiples of `step`, a power of two.

    It serves one thread at a time, and the process that made it: some trials are run in advance.
    """

    def __init__(
        self, law: LatticeLaw, scale: float, *, step: float = 1.0, reach: float | None = None
    ) -> None:
        if law not in SHAPES:
            raise InvalidValue(f"Expected law={law!r} in {tuple(SHAPES)}.")
        if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
            raise InvalidValue(
                f"Expected scale={scale!r} in [{SMALLEST_SCALE}, {LARGEST_SCALE:g}] lattice steps."
            )
        self.shape: Shape = SHAPES[law](float(scale))
        self.step = step
        strips = CELLS - 1 if self.shape.one_sided else (CELLS - 2) // 2
        wanted = (self.shape.reach if reach is None else reach) * scale + 1
        self.bits = max(0, ceil(np.log2(wanted / strips)))
        self._tabulate(strips, 0 if self.shape.one_sided else strips)

    def _tabulate(self, right: int, left: int) -> None:
        """Compute both staircases in whole numbers, the alias table and the table of the border.

        `right` and `left` are the numbers of strips on each side of 0. The tails are the last.
        """
        width = 2**self.bits
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
        self.unit = (TOTAL - 4 * CELLS) / (float(heights.sum()) + sum(beyond)) * (1 - ERROR)
        weights = np.maximum(1, np.ceil(self.unit * heights)).astype(np.int64)
        weights = np.append(weights, [ceil(self.unit * mass * (1 + ERROR)) + 1 for mass in beyond])
        weights[0] += TOTAL - int(weights.sum())
        assert len(weights) <= CELLS, "every strip and the border have a cell"
        assert weights[0] >= self.unit * heights[0], "the weights fit into the table"
        sure = np.floor((1 - 4 * ERROR) * self.unit * self.shape.weight(far)).astype(np.int64)
        sure = np.append(sure, [0] * len(tails))
        assert (sure <= weights).all(), "the lower staircase is nowhere above the upper one"
        self.starts = np.append(starts, [0] * len(tails)).astype(np.int64)
        self.weights, self.sure = weights, np.append(sure[: len(starts)], (weights - sure).sum())
        self._ends = np.cumsum(weights - sure)
        self._heights = weights - self._ends  # of a point in the border, less its place there
        self._border = np.uint64(self._ends[-1])
        self._last = np.uint64(2**64 - 1 - 2**64 % int(self._ends[-1]))
        limits, others = _alias(self.sure)
        first = np.minimum(np.arange(CELLS), len(starts))
        others = np.where(limits == SIDES, first, others)
        # added to a word, this carries into its cell if the word belongs to the second strip; the
        # last cell must be full, because there the carry would be lost
        swap = [int(np.flatnonzero(limits == SIDES)[-1]), CELLS - 1]
        for cells in (limits, first, others):
            cells[swap] = cells[swap[::-1]]
        self._carries = (SIDES - limits).astype(np.uint64) << np.uint64(OFFSET_BITS)
        strips = np.stack([first, others], axis=1).ravel()
        self._starts2 = (np.append(starts, np.inf)[strips] - _BEFORE) * self.step
        self._before = np.array(_BEFORE * self.step).view(np.uint64)
        self._offset = np.array(width - 1, np.uint64)
        self._decided = _NONE

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
        for first in range(0, len(batch), _PIECE):
            self._quick(batch, first, scratch, words)
        (unsure,) = scratch.border[: len(batch)].nonzero()
        _SHELF.free.append(scratch)
        if not len(unsure):
            return unsure
        values, won = self._next_decided(len(unsure), words)
        batch[unsure] = values
        return unsure[~won]

    def _next_decided(self, count: int, words: SecureWords) -> tuple[Values, Flags]:
        """The next points of the border, of which some are decided in advance: one by one is slow.

        Each is used once, even if a draw is interrupted.
        """
        (values, won), self._decided = self._decided, _NONE
        if len(values) < count:
            fresh = self._decide(max(count - len(values), min(8 * count, _AHEAD)), words)
            values, won = np.append(values, fresh[0]), np.append(won, fresh[1])
        self._decided = values[count:], won[count:]
        return values[:count], won[:count]

    def _quick(self, batch: Values, first: int, here: _Scratch, words: SecureWords) -> None:
        """Draw strips and offsets for one piece of a batch, and mark what lies in the border."""
        found = batch[first : first + _PIECE]
        count = len(found)
        drawn, index, carried = here.words[:count], here.index[:count], found.view(np.uint64)
        words.fill(drawn)
        cell = index.view(np.int64)
        np.right_shift(drawn, _TO_CELL, out=index)
        self._carries.take(cell, out=carried, mode="clip")
        np.add(drawn, carried, out=carried)
        np.right_shift(carried, _TO_CELL, out=carried)
        np.add(index, carried, out=index)  # twice the cell, and 1 for the second strip
        self._starts2.take(cell, out=found, mode="clip")
        np.bitwise_and(drawn, self._offset, out=drawn)
        # the float (2^52 + offset) step; the starts are less by 2^52 steps
        np.bitwise_or(drawn, self._before, out=drawn)
        np.add(found, drawn.view(np.float64), out=found)
        np.equal(found, _BORDER, out=here.border[first : first + count])

    def _decide(self, count: int, words: SecureWords) -> tuple[Values, Flags]:
        """Draw points in the border; return their values, and which lie below the law."""
        drawn, more = words.take(2 * count).reshape(2, -1)
        while (again := drawn > self._last).any():
            drawn[again] = words.take(int(again.sum()))
        place = (drawn % self._border).view(np.int64)
        strip = np.searchsorted(self._ends, place, side="right")
        height = place + self._heights[strip]
        x = self.starts[strip] + (more & self._offset).view(np.int64)
        more >>= np.uint64(OFFSET_BITS)
        trial = height / TOTAL + more * 2.0**-64
        yes, no = decided(trial, self.unit / TOTAL * self.shape.weight(x.astype(float)), ERROR)
        in_tail = strip >= len(self.starts) - len(self.tails)
        yes &= ~in_tail
        for i in np.flatnonzero(in_tail | ~(yes | no)):
            head = (int(height[i]) << (64 - OFFSET_BITS)) | int(more[i])
            if in_tail[i]:
                side = int(strip[i]) - len(self.starts) + len(self.tails)
                value = self._tail(side, head, words)
                yes[i] = value is not None
                x[i] = value or 0
            else:
                at = int(x[i])
                yes[i] = below(
                    head, lambda at=at: mp.mpf(self.unit) * self.shape.exact(at) / TOTAL, words
                )
        return np.multiply(x, self.step, dtype=np.float64), yes

    def _tail(self, side: int, head: int, words: SecureWords) -> int | None:
        """Run a trial beyond the strips: a geometric step from their end; None if it is lost."""
        start = self.tails[side]
        rate = self.shape.decay(start)
        step = geometric(rate, words)
        value = start + step if side == 0 else start - step

        def chance() -> Any:
            given = -mp.expm1(-mp.mpf(rate)) * mp.exp(-mp.mpf(rate) * step) * 2**self.bits
            return mp.mpf(self.unit) * self.shape.exact(value) / given / TOTAL

        return value if below(head, chance, words) else None


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


# Integers of any scale, one at a time, by arbitrary-precision arithmetic alone: for scales outside
# the range of tables, or used too rarely for one. Every law is the whole part of a falling function
# of a uniform number, or a trial on such a value (`proofs/secure_noise.md#any-scale`).


def integer(law: LatticeLaw, scale: float, words: SecureWords) -> int:
    """Draw one integer of this law, of any size."""
    if law not in SHAPES:
        raise InvalidValue(f"Expected law={law!r} in {tuple(SHAPES)}.")
    positive("scale", scale)
    if law == "exponential":
        return _exponential(scale, words)
    if law == "laplace":
        return _sign(words) * whole_part(lambda u: mp.mpf(scale) * -mp.log(u) + mp.mpf(0.5), words)
    if law == "gaussian":
        return _sign(words) * whole_part(
            lambda u: mp.mpf(scale) * mp.sqrt(2) * mp.erfinv(1 - u) + mp.mpf(0.5), words
        )
    if law == "discrete laplace":
        return _discrete_laplace(scale, words)
    return _discrete_gaussian(scale, words)


def _sign(words: SecureWords) -> int:
    return 1 - 2 * words.integer(1)


def _exponential(scale: float, words: SecureWords) -> int:
    return whole_part(lambda u: mp.mpf(scale) * -mp.log(u), words)


def _discrete_laplace(scale: float, words: SecureWords) -> int:
    """A geometric size and a sign; -0 is drawn again."""
    while True:
        size, sign = _exponential(scale, words), _sign(words)
        if size or sign == 1:
            return sign * size


def _discrete_gaussian(scale: float, words: SecureWords) -> int:
    """y of the discrete Laplace law, accepted with probability exp(-(|y| / scale - 1)^2 / 2)."""
    while True:
        y = _discrete_laplace(scale, words)

        def chance(size: int = abs(y)) -> Any:
            return mp.exp(-((mp.mpf(size) / mp.mpf(scale) - 1) ** 2) / 2)

        if below(words.integer(64), chance, words):
            return y

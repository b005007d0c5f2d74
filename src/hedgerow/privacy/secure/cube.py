"""Exact K-norm noise on the integers: Pr(z) proportional to exp(-max |z_i| / scale) for z in Z^d.

exp(-|z| / b) is proportional to the sum of exp(-R / b) over all R >= |z|. So a radius R is drawn
with Pr(R) proportional to (2R + 1)^d exp(-R / b), and then every coordinate uniformly from -R to R.
The radius comes from strips on both sides of its mode (`proofs/secure_noise.md#cubes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, expm1, sqrt
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: they are large

from hedgerow.core.errors import Unsupported
from hedgerow.privacy.secure.choice import index_below
from hedgerow.privacy.secure.digits import below, digits, geometric, mp
from hedgerow.privacy.secure.exact import CELLS, LARGEST_SCALE, SMALLEST_SCALE, ExactLaw
from hedgerow.privacy.secure.laws import ERROR, Values
from hedgerow.privacy.secure.words import SecureWords

Radii = npt.NDArray[np.int64]

MOST = 2**52  # radii below it, and sums with them, are exact in floats
_BEYOND = 4e-7  # chance of the tails, which are drawn by arbitrary-precision arithmetic
_FEW = 4  # radii by digits before a table is made
_RADII = 256  # drawn in advance
_VALUES = 2**14  # coordinates drawn at once, or in advance
_UNIT = 2**20  # weight of an integer in the middle, when radii are drawn by digits


@dataclass(frozen=True)
class CubeRadius:
    """The law of R - mode: f(s) = (2R + 1)^d exp(-R / scale) over its largest value, R >= 0."""

    dimensions: int
    scale: float
    one_sided: ClassVar[bool] = False
    reach: ClassVar[float] = 0.0  # `RadiusLaw` computes its own

    @cached_property
    def mode(self) -> int:
        """The largest R at which the law does not fall: d ln((2R + 1) / (2R - 1)) >= 1 / scale."""

        def rises(radius: int) -> bool:
            ratio = mp.mpf(2 * radius + 1) / (2 * radius - 1)
            return bool(self.dimensions * mp.log(ratio) * mp.mpf(self.scale) >= 1)

        with digits(256):
            found = int(mp.floor(self.dimensions * mp.mpf(self.scale)))
            while found and not rises(found):
                found -= 1
            while rises(found + 1):
                found += 1
        return found

    def weight(self, at: Values) -> Values:
        top, inside = 2.0 * self.mode + 1, at >= -self.mode
        change = 2 * at / top
        with np.errstate(divide="ignore", invalid="ignore"):
            # near -1 the function log1p would lose digits
            far = np.log(np.where(inside, 2 * (self.mode + at) + 1, 1.0) / top)
            logs = np.where(np.abs(change) < 0.5, np.log1p(np.maximum(change, -0.5)), far)
        return np.where(inside, np.exp(self.dimensions * logs - at / self.scale), 0.0)

    def exact(self, at: int) -> Any:
        if at < -self.mode:
            return mp.mpf(0)
        with mp.extraprec(2 * (self.mode + abs(at) + 2).bit_length() + 64):
            ratio = mp.mpf(2 * (self.mode + at) + 1) / (2 * self.mode + 1)
            return mp.exp(self.dimensions * mp.log(ratio) - mp.mpf(at) / mp.mpf(self.scale))

    def decay(self, at: int) -> float:
        """The law is log-concave: it falls slowest at the start, so this step bounds all others."""
        radius, away = self.mode + at, 1 if at > 0 else -1
        if radius + away < 0:
            return 1.0  # nothing lies beyond
        with digits(256):
            ratio = mp.mpf(2 * (radius + away) + 1) / (2 * radius + 1)
            fall = away / mp.mpf(self.scale) - self.dimensions * mp.log(ratio)
            assert fall > 0, "away from the mode the law falls"
            return float(fall) * (1 - ERROR)


class RadiusLaw(ExactLaw):
    """Strips on both sides of the mode, as far as the radius nearly always lies."""

    def __init__(self, shape: CubeRadius) -> None:
        self.shape, self.step = shape, 1.0
        size, scale, mode = shape.dimensions + 1, shape.scale, shape.mode
        right = max(2.0, float(scipy.special.gammainccinv(size, _BEYOND)) * scale - mode)
        left = min(mode, max(2.0, mode - float(scipy.special.gammaincinv(size, _BEYOND)) * scale))
        self.bits = max(0, ceil(np.log2((right + left) / (CELLS - 4))))
        width = 2**self.bits
        self._tabulate(ceil(right / width), max(1, ceil(left / width)))


def radius_by_digits(shape: CubeRadius, words: SecureWords) -> int:
    """Draw one radius by arbitrary-precision arithmetic: a flat middle and two geometric tails."""
    spread = max(1, int(sqrt(shape.dimensions + 1) * shape.scale))
    starts = (spread + 1, -(spread + 1))
    rates = [shape.decay(start) for start in starts]
    heights = shape.weight(np.array(starts, float)).tolist()
    tails = [
        ceil(_UNIT * height * (1 + ERROR) / -expm1(-rate)) + 1
        for height, rate in zip(heights, rates, strict=True)
    ]
    middle = (2 * spread + 1) * _UNIT
    while True:
        place, head = index_below(middle + sum(tails), words), words.integer(64)
        if place < middle:
            at, given = place // _UNIT - spread, None
        else:
            side = int(place >= middle + tails[0])
            step = geometric(rates[side], words)
            at, given = starts[side] + (1 - 2 * side) * step, (tails[side], rates[side], step)

        def chance(
            at: int = at, given: tuple[int, float, int] | None = given
        ) -> Any:  # of what the law gives over what the draw gave
            if given is None:
                return shape.exact(at)
            weight, rate, step = given[0], mp.mpf(given[1]), given[2]
            return _UNIT * shape.exact(at) / (weight * -mp.expm1(-rate) * mp.exp(-rate * step))

        if below(head, chance, words):
            return shape.mode + at


class Cube:
    """Vectors of one length and scale, in multiples of `step`; each is returned once."""

    def __init__(self, dimensions: int, scale: float, step: float) -> None:
        self.dimensions, self.step = dimensions, step
        self.shape = CubeRadius(dimensions, float(scale))
        self.table: RadiusLaw | None = None
        self.by_digits = 0
        self.radii = np.empty(0, np.int64)
        self.drawn = np.empty((0, dimensions))
        self.used = 0

    def take(self, rows: int, words: SecureWords) -> Values:
        """Return the next vectors. Few at a time come from a store that is drawn in advance."""
        result = np.empty((rows, self.dimensions))
        done = min(rows, len(self.drawn) - self.used)
        result[:done] = self.drawn[self.used : self.used + done]
        self.used += done
        store = min(_VALUES // self.dimensions, max(16, 2 * len(self.drawn), 2 * rows))
        if done < rows and (store <= rows - done or not self._tabulated(rows - done)):
            self._fill(result[done:], words)
        elif done < rows:
            fresh = self.drawn if len(self.drawn) == store else np.empty((store, self.dimensions))
            # if this is interrupted, everything in store still counts as used
            self._fill(fresh, words)
            self.drawn, self.used = fresh, rows - done
            result[done:] = fresh[: self.used]
        return result

    def _tabulated(self, rows: int) -> bool:
        """Whether radii come from a table; it is made for a scale that is used again."""
        if self.table is None and self.by_digits + rows > _FEW:
            spread = sqrt(self.dimensions + 1) * self.shape.scale
            if SMALLEST_SCALE <= spread <= LARGEST_SCALE:
                self.table = RadiusLaw(self.shape)
        return self.table is not None

    def _fill(self, rows: Values, words: SecureWords) -> None:
        radii, piece = self._next_radii(len(rows), words), max(1, _VALUES // self.dimensions)
        if int(radii.max(initial=0)) >= MOST:
            raise Unsupported(
                f"The noise of scale={self.shape.scale:g} steps is too large for exact sums. "
                "Use a smaller scale."
            )
        for first in range(0, len(rows), piece):
            uniform_in_cubes(rows[first : first + piece], radii[first : first + piece], words)
        np.multiply(rows, self.step, out=rows)

    def _next_radii(self, count: int, words: SecureWords) -> Radii:
        if not self._tabulated(count):
            self.by_digits += count
            drawn = [min(radius_by_digits(self.shape, words), MOST) for _ in range(count)]
            return np.array(drawn, np.int64)
        assert self.table is not None
        kept, self.radii = self.radii, self.radii[:0]  # nothing is used twice if interrupted
        if len(kept) < count:
            fresh = self.table.sample(count + _RADII, words) + self.shape.mode
            kept = np.concatenate([kept, fresh])
        self.radii = kept[count:]
        return kept[:count]


def uniform_in_cubes(rows: Values, radii: Radii, words: SecureWords) -> None:
    """Fill row i with integers from -R to R, R = radii[i]: words modulo 2R + 1.

    A word above the last whole multiple of 2R + 1 is drawn again.
    """
    drawn = np.empty(rows.shape, np.uint64)
    words.fill(drawn.reshape(-1))
    sides: Any = (2 * radii + 1).astype(np.uint64)[:, None]
    if len(rows) == 1:
        sides = sides[0, 0]  # division by one number is faster
    most = np.uint64(2**64 - 1)
    last = most - (most % sides + np.uint64(1)) % sides
    while (beyond := drawn > last).any():
        drawn[beyond] = words.take(int(beyond.sum()))
    whole = drawn // sides
    np.multiply(whole, sides, out=whole)
    np.subtract(drawn, whole, out=drawn)
    np.subtract(drawn, radii[:, None].astype(float), out=rows)

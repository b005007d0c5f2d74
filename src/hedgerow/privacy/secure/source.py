"""The noise source for real data."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import log2, prod
from threading import Lock
from typing import Any, NoReturn, TypeVar

import numpy as np

from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import UNITS_PER_LOSS, WIDEST, Array, Units, exact_scales
from hedgerow.core.noise import Noise, NoiseSource, plain
from hedgerow.core.validate import at_least
from hedgerow.privacy.secure import choice
from hedgerow.privacy.secure.cube import Cube
from hedgerow.privacy.secure.exact import BATCH, LARGEST_SCALE, SMALLEST_SCALE, ExactLaw, integer
from hedgerow.privacy.secure.laws import SHAPES, Flags, LatticeLaw
from hedgerow.privacy.secure.words import SecureWords

_LATTICE = f"the lattice of 2^-{log2(UNITS_PER_LOSS):.0f}"
_SCALES_KEPT = 64
_FEW = 16  # draws of a scale before a table is made for it
Key = TypeVar("Key")
Kept = TypeVar("Kept")
_CHOOSERS = {"gumbel": choice.exponential, "exponential": choice.permute_and_flip}


class _Store:
    """Noise of one law, scale and step.

    The first draws, and scales outside the range of tables, use arbitrary-precision arithmetic. All
    others come from a table, partly drawn in advance.
    """

    def __init__(self, law: LatticeLaw, scale: float, step: float) -> None:
        self.law: LatticeLaw = law
        self.scale, self.step = scale, step
        self.table: ExactLaw | None = None
        self.by_digits = 0
        self.drawn = np.empty(0)
        self.used = 0

    def take(self, count: int, words: SecureWords) -> Array:
        """The next values, as multiples of the step; each is returned once."""
        if self.table is None:
            if not SMALLEST_SCALE <= self.scale <= LARGEST_SCALE or self.by_digits + count <= _FEW:
                self.by_digits += count
                return np.array([self._by_digits(words) for _ in range(count)], float)
            self.table = ExactLaw(self.law, self.scale, step=self.step)
        result = np.empty(count)
        done = min(count, len(self.drawn) - self.used)
        result[:done] = self.drawn[self.used : self.used + done]
        self.used += done
        if count - done >= BATCH:
            self.table.fill(result[done:], words)
            done = count
        while done < count:
            whole = self.drawn if self.drawn.base is None else self.drawn.base
            size = min(BATCH, max(256, 2 * len(whole), 2 * count))
            fresh = whole if len(whole) == size else np.empty(size)
            # if this is interrupted, everything in store still counts as used
            kept = self.table.fill_most(fresh, words)
            used = min(count - done, kept)
            self.drawn, self.used = fresh[:kept], used
            result[done : done + self.used] = self.drawn[: self.used]
            done += self.used
        return result

    def _by_digits(self, words: SecureWords) -> float:
        drawn = integer(self.law, self.scale, words)
        if abs(drawn) >= 2**53:
            raise Unsupported(
                f"The noise of scale={self.scale:g} steps is {drawn}, too large for exact sums. "
                "Use a smaller scale."
            )
        return drawn * self.step


class SecureNoise(NoiseSource):
    """Cryptographically secure noise for real data: exact additive noise, selection and coins.

    It has no seed, no state to restore and no fallback. Additive noise comes in whole steps of the
    lattice of `hedgerow.core.lattice`, 2^-20. Values must lie on the lattice too; sums are then
    exact.

    Guarantee
    ---------
    Integers, choices and coins have exactly the laws that certificates assume, if the random words
    are uniform, independent and secret. The words come from AES-256 in counter mode, under a key
    from the operating system (`proofs/secure_noise.md`).

    Examples
    --------
    >>> import hedgerow as hr
    >>> from hedgerow.privacy import AdditiveNoise
    >>> noise = hr.SecureNoise().server()
    >>> released = noise.release(AdditiveNoise("report", "laplace", scale=2.0), 0.5)
    >>> (released * 2**20).is_integer()
    True
    """

    __slots__ = ("_cubes", "_generation", "_lock", "_stores", "_words")

    def __init__(self) -> None:
        self._lock = Lock()  # two threads must never be given the same noise
        self._words = SecureWords()
        self._generation = self._words.generation
        self._stores: OrderedDict[tuple[str, float, float], _Store] = OrderedDict()
        self._cubes: OrderedDict[tuple[int, float], Cube] = OrderedDict()

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("SecureNoise cannot be subclassed: a subclass could choose the noise.")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "Secure noise cannot be copied or saved: the same noise would be used twice."
        )

    def view(self, role: str, index: int | None, count: int) -> Noise:
        """The noise of one player, or of all `count` players at once (`index=None`)."""
        return _View(self, (count,) if index is None else ())

    def uniform(self, count: int) -> Array:
        """Draw multiples of 2^-53 in [0, 1), for coins that do not protect data."""
        with self._lock:
            return np.multiply(
                self._fresh_words().take(count) >> np.uint64(11), 2.0**-53, dtype=np.float64
            )

    def choose(self, law: str, gaps: Array, rate: float) -> int:
        """Choose an index of one row of gaps."""
        if law not in _CHOOSERS:
            raise Unsupported(
                f"There is no exact choice with {law} noise. Known: {tuple(_CHOOSERS)}."
            )
        with self._lock:
            return _CHOOSERS[law](gaps, rate, self._fresh_words())

    def flip(self, gaps: Array, rate: float) -> Flags:
        """Toss coins that show True with probability exp(-rate * gap)."""
        with self._lock:
            return choice.flips(gaps, rate, self._fresh_words())

    def index(self, count: int) -> int:
        """Draw a uniform index below `count`."""
        with self._lock:
            return choice.index_below(count, self._fresh_words())

    def _fresh_words(self) -> SecureWords:
        """The uniform words.

        Noise drawn in advance in another process, or under another key, is discarded.
        """
        self._words.check()
        if self._words.generation != self._generation:
            self._stores.clear()
            self._cubes.clear()
            self._generation = self._words.generation
        return self._words

    def additive(self, law: LatticeLaw, scale: float, count: int) -> Array:
        """Draw `count` noise values on the lattice, for a scale in the units of the losses."""
        return self._take(law, _steps(law, scale), 1.0 / UNITS_PER_LOSS, count)

    def cube(self, scale: float, rows: int, dimensions: int) -> Array:
        """Draw `rows` vectors of K-norm noise on the lattice (`proofs/secure_noise.md#cubes`)."""
        steps = _steps("cube", scale, dimensions)
        with self._lock:
            words = self._fresh_words()
            cube = _kept(
                self._cubes,
                (dimensions, steps),
                lambda: Cube(dimensions, steps, 1.0 / UNITS_PER_LOSS),
            )
            return cube.take(rows, words)

    def integers(self, law: LatticeLaw, scale: float, count: int) -> Units:
        """Draw `count` integers of a law on the integers, of any scale up to 2^46."""
        if not 0 < scale <= WIDEST:
            raise InvalidValue(f"Expected scale={scale!r} > 0 and <= {WIDEST:g}.")
        at_least("count", count, 0)
        return self._take(law, float(scale), 1.0, count).astype(np.int64)

    def _take(self, law: LatticeLaw, scale: float, step: float, count: int) -> Array:
        with self._lock:
            words = self._fresh_words()
            if law not in SHAPES:
                raise InvalidValue(f"Expected law={law!r} in {tuple(SHAPES)}.")
            key = (law, scale, step)
            return _kept(self._stores, key, lambda: _Store(*key)).take(count, words)


def _steps(law: str, scale: float, width: int = 1) -> float:
    """Return the scale in lattice steps; refuse one that the lattice or floats cannot hold."""
    least, most = exact_scales(law, width)
    if not least <= scale <= most:
        coarse = f">= {least:g}: {_LATTICE} is too coarse for less"
        exact = f"<= {most:g}: noise and sums must stay exact in floats"
        raise InvalidValue(f"Expected scale={scale!r} {(exact if scale > most else coarse)}.")
    return scale * UNITS_PER_LOSS


def _kept(stores: OrderedDict[Key, Kept], key: Key, make: Callable[[], Kept]) -> Kept:
    """Return what is stored under a key, made where it is missing; the oldest are dropped."""
    store = stores.get(key)
    if store is None:
        store = stores[key] = make()
        while len(stores) > _SCALES_KEPT:
            stores.popitem(last=False)
    stores.move_to_end(key)
    return store


@dataclass(frozen=True)
class _View(Noise):
    """The noise of one role, or of all clients at once."""

    source: SecureNoise
    batch: tuple[int, ...]
    whole: bool = True

    def draw(
        self,
        law: str,
        purpose: str,
        shape: tuple[int, ...] = (),
        rounds: int | None = None,
        scale: float | None = None,
    ) -> Array:
        full = self.full(shape, rounds)
        if law == "uniform" and scale is None:
            return self.source.uniform(prod(full)).reshape(full)
        if law == "cube" and scale is not None:
            rows, width = prod(full[: len(full) - len(shape)]), prod(shape)
            return self.source.cube(scale, rows, width).reshape(full)
        if law not in SHAPES or scale is None:
            raise Unsupported(
                f"There is no exact sampler for {law} noise of scale={scale} ({purpose}). "
                f"Known: {tuple(SHAPES)}."
            )
        return self.source.additive(law, scale, prod(full)).reshape(full)

    def lattice(self, value: Any) -> Any:
        """The value if it lies on the lattice; others are refused.

        Digits finer than the lattice would be visible through the noise.
        """
        units = np.asarray(value, float) * UNITS_PER_LOSS
        off = ~(np.abs(units) < 2.0**53) | (units != np.round(units))
        if off.any():
            place = tuple(map(int, np.argwhere(off)[0]))  # the value itself is private
            raise InvalidValue(
                f"Expected a released value{f' (entry {place})' if place else ''} on {_LATTICE} "
                f"and below {2.0**53 / UNITS_PER_LOSS:g} in size. Move it there with "
                "hedgerow.core.lattice.clip_to_lattice."
            )
        return value

    def choose(self, law: str, gaps: Array, rate: float, purpose: str) -> Any:
        chosen = np.array([self.source.choose(law, row, rate) for row in np.atleast_2d(gaps)])
        return int(chosen[0]) if np.ndim(gaps) == 1 else chosen

    def flip(self, gaps: Array | float, rate: float, purpose: str) -> Any:
        return plain(self.source.flip(np.asarray(gaps, float), rate))

    def index(self, count: int, purpose: str) -> Any:
        if not self.batch:
            return self.source.index(count)
        return np.array([self.source.index(count) for _ in range(prod(self.batch))]).reshape(
            self.batch
        )


def require_secure(source: object) -> SecureNoise:
    """The source itself if it is secure; no other source may protect real data."""
    if type(source) is not SecureNoise or type(getattr(source, "_words", None)) is not SecureWords:
        advice = "Pass source=hedgerow.SecureNoise()."
        raise InvalidValue(
            f"Expected SecureNoise for real data, got {type(source).__name__}. {advice}"
        )
    return source

"""The noise source for real data."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from math import log2, prod
from threading import Lock
from typing import Any, NoReturn

import numpy as np

from hedgerow.core.checks import expect
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.noise import Noise, Releasing
from hedgerow.privacy.secure import choice
from hedgerow.privacy.secure.exact import LARGEST_SCALE, TRIES, ExactLaw
from hedgerow.privacy.secure.laws import SHAPES, LatticeLaw
from hedgerow.privacy.secure.words import SecureWords

COARSEST = 8.0  # lattice steps: a smaller scale would leave too few values to hide in
_LATTICE = f"the lattice of 2^-{log2(UNITS_PER_LOSS):.0f}"
_LAWS_KEPT = 64
_CHOOSERS = {"gumbel": choice.exponential, "exponential": choice.permute_and_flip}


class _Store:
    """A law and what was drawn from it in advance, in one array that is filled again and again."""

    def __init__(self, law: ExactLaw) -> None:
        self.law = law
        self.drawn = np.empty(0, np.int64)
        self.used = 0

    def take(self, count: int, words: SecureWords) -> Array:
        """The next values as multiples of the lattice step; each is handed out once."""
        result, done = np.empty(count), 0
        while done < count:
            if self.used == len(self.drawn):
                full = len(self.drawn) == TRIES
                fresh = self.drawn if full else np.empty(min(TRIES, max(256, 2 * len(self.drawn), count)), np.int64)
                self.law.fill(fresh, words)  # if this is interrupted, everything in store still counts as used
                self.drawn, self.used = fresh, 0
            taken = self.drawn[self.used : self.used + count - done]
            np.multiply(taken, 1.0 / UNITS_PER_LOSS, out=result[done : done + len(taken)])
            self.used += len(taken)
            done += len(taken)
        return result


class SecureNoise:
    """Exact lattice noise, exact selection and coins. There is no seed, nothing to restore, and nothing to fall back to.

    Additive noise comes in whole steps of the lattice of `core.lattice`, and values must lie on it, too: sums are then exact.
    """

    __slots__ = ("_generation", "_lock", "_stores", "_words")

    def __init__(self) -> None:
        self._lock = Lock()  # two threads must never be given the same noise
        self._words = SecureWords()
        self._generation = self._words.generation
        self._stores: OrderedDict[tuple[str, float], _Store] = OrderedDict()

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("SecureNoise cannot be subclassed: a subclass could choose the noise.")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("Secure noise cannot be copied or saved: the same noise would be used twice.")

    def server(self) -> Noise:
        return _View(self, ())

    def everyone(self, role: str, count: int) -> Noise:
        del role
        return _View(self, (count,))

    def single(self, role: str, index: int, count: int) -> Noise:
        del role, index, count
        return _View(self, ())

    def uniform(self, count: int) -> Array:
        """Multiples of 2^-53 in [0, 1): for coins that protect nothing."""
        with self._lock:
            return np.multiply(self._fresh_words().take(count) >> np.uint64(11), 2.0**-53, dtype=np.float64)

    def choose(self, law: str, gaps: Array, rate: float) -> int:
        """An index of one row of gaps."""
        if law not in _CHOOSERS:
            raise Unsupported(f"There is no exact choice with {law} noise; known: {tuple(_CHOOSERS)}.")
        with self._lock:
            return _CHOOSERS[law](gaps, rate, self._fresh_words())

    def _fresh_words(self) -> SecureWords:
        """The uniform words; what was drawn in advance in another process, or under another key, is thrown away."""
        self._words.check()
        if self._words.generation != self._generation:
            self._stores.clear()
            self._generation = self._words.generation
        return self._words

    def additive(self, law: LatticeLaw, scale: float, count: int) -> Array:
        """`count` noise values on the lattice, for a scale in the units of the losses."""
        steps = scale * UNITS_PER_LOSS
        expect(steps >= COARSEST, "scale", scale, f">= {COARSEST / UNITS_PER_LOSS:g}: {_LATTICE} is too coarse for less")
        expect(steps <= LARGEST_SCALE, "scale", scale, f"<= {LARGEST_SCALE / UNITS_PER_LOSS:g}")
        with self._lock:
            words = self._fresh_words()
            store = self._stores.get((law, steps))
            if store is None:
                store = self._stores[law, steps] = _Store(ExactLaw(law, steps))
                while len(self._stores) > _LAWS_KEPT:
                    self._stores.popitem(last=False)
            self._stores.move_to_end((law, steps))
            return store.take(count, words)


@dataclass(frozen=True)
class _View:
    """What one role, or all clients at once, may draw."""

    source: SecureNoise
    batch: tuple[int, ...]

    def draw(self, law: str, purpose: str, shape: tuple[int, ...] = (), rounds: int | None = None, scale: float | None = None) -> Array:
        full = (*self.batch, *shape) if rounds is None else (rounds, *self.batch, *shape)
        if law == "uniform" and scale is None:
            return self.source.uniform(prod(full)).reshape(full)
        if law not in SHAPES or scale is None:
            raise Unsupported(f"There is no exact sampler for {law} noise of scale={scale} ({purpose}); known: {tuple(SHAPES)}.")
        return self.source.additive(law, scale, prod(full)).reshape(full)

    def lattice(self, value: Any) -> Any:
        """The value, if it lies on the lattice: what lies between its points would show through the noise."""
        units = np.asarray(value, float) * UNITS_PER_LOSS
        off = ~(np.abs(units) < 2.0**53) | (units != np.round(units))
        if off.any():
            wrong = float(np.ravel(np.asarray(value, float))[int(np.argmax(np.ravel(off)))])
            rule = f"on {_LATTICE} (core.lattice.round_to_lattice), below {2.0**53 / UNITS_PER_LOSS:g} in size"
            raise InvalidValue(f"Expected a released value={wrong!r} {rule}.")
        return value

    def choose(self, law: str, gaps: Array, rate: float, purpose: str) -> Any:
        del purpose
        chosen = np.array([self.source.choose(law, row, rate) for row in np.atleast_2d(gaps)])
        return int(chosen[0]) if np.ndim(gaps) == 1 else chosen

    def release(self, mechanism: Releasing, value: Any) -> Any:
        return mechanism.sample(value, self)


def require_secure(source: object) -> SecureNoise:
    """The source itself, if it is a secure one: nothing else may protect real data."""
    if type(source) is not SecureNoise or type(getattr(source, "_words", None)) is not SecureWords:
        raise InvalidValue(f"Expected SecureNoise for real data, got {type(source).__name__}.")
    return source

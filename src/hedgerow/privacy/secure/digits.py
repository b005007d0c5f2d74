"""Arbitrary-precision comparisons, for the cases that floats cannot decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from threading import RLock
from typing import Any

from hedgerow.privacy.secure.words import SecureWords


class _Context:
    """Numbers of any precision, independent of global settings; mpmath is large, so it is imported
    when it is first used."""

    @cached_property
    def _made(self) -> Any:
        import mpmath

        return mpmath.MPContext()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)


mp: Any = _Context()
_ONE_AT_A_TIME = RLock()  # all threads share one precision


@contextmanager
def digits(bits: int) -> Iterator[None]:
    """Compute with `bits` binary digits; one thread at a time."""
    with _ONE_AT_A_TIME, mp.workprec(bits):
        yield


def below(head: int, chance: Callable[[], Any], words: SecureWords) -> bool:
    """Whether a uniform number whose first 64 bits are `head` lies below `chance()`.

    More bits and digits are used until the answer is certain.
    """
    bits = 64
    while True:
        with digits(bits + 128):
            scaled = mp.ldexp(chance(), bits)
            error = mp.ldexp(1, -bits - 64)
            low, high = int(mp.floor(scaled * (1 - error))), int(mp.ceil(scaled * (1 + error)))
        if head < low:
            return True
        if head >= high:
            return False
        head, bits = (head << 64) | words.integer(64), bits + 64


def whole_part(falling: Callable[[Any], Any], words: SecureWords) -> int:
    """The whole part of a falling function >= 0 of a uniform number in (0, 1).

    Bits of the number are drawn until the whole part is certain.
    """
    head, bits = words.integer(64), 64
    while True:
        if head > 0:
            with digits(2 * bits + 128):  # an inverse near its pole loses up to `bits` digits
                error = mp.ldexp(1, -bits - 64)
                most = int(mp.floor(falling(mp.ldexp(mp.mpf(head), -bits)) * (1 + error)))
                end = mp.ldexp(mp.mpf(head + 1), -bits)
                least = int(mp.floor(falling(end) * (1 - error)))
            if least == most:
                return least
        head, bits = (head << 64) | words.integer(64), bits + 64


def geometric(rate: float, words: SecureWords) -> int:
    """Draw g = 0, 1, 2, ... with Pr(g >= j) = exp(-rate j): the whole part of -ln(u) / rate."""
    return whole_part(lambda u: -mp.log(u) / mp.mpf(rate), words)

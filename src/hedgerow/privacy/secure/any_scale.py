"""Exact integers of any scale, one at a time, by arbitrary-precision arithmetic alone.

This serves scales outside the range of tables and scales used too rarely for one. Every law is the
whole part of a falling function of a uniform number, or a trial on such a value
(`proofs/secure_noise.md#any-scale`).
"""

from __future__ import annotations

from typing import Any

from hedgerow.core.validate import expect, positive
from hedgerow.privacy.secure.digits import below, mp, whole_part
from hedgerow.privacy.secure.laws import SHAPES, LatticeLaw
from hedgerow.privacy.secure.words import SecureWords


def integer(law: LatticeLaw, scale: float, words: SecureWords) -> int:
    """Draw one integer of this law, of any size."""
    expect(law in SHAPES, "law", law, f"in {tuple(SHAPES)}")
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

"""Uniform 64-bit words: AES-256 in counter mode under a key from the operating system."""

from __future__ import annotations

import os
from threading import Lock
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from hedgerow.core.errors import HedgerowError
from hedgerow.core.extras import needs
from hedgerow.privacy.secure.process import leave_no_core_dump, process_identity

Words = npt.NDArray[np.uint64]
KEY_BYTES, BLOCK_BYTES = 32, 16
REKEY_AFTER = 2**33  # bytes under one key; far below what counter mode allows
_ZEROS = memoryview(bytes(10 * 2**13))  # the zeros that are encrypted at once


class NoEntropy(HedgerowError):
    """The operating system gave no entropy, or the cipher failed. There is no fallback."""


def _fresh_cipher() -> Any:
    with needs("secure"):
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    try:
        secret = os.urandom(KEY_BYTES + BLOCK_BYTES)
        if len(secret) != KEY_BYTES + BLOCK_BYTES:
            raise NoEntropy(
                f"The operating system gave {len(secret)} of {KEY_BYTES + BLOCK_BYTES} bytes of "
                "entropy. Secure noise has no other source."
            )
        return Cipher(algorithms.AES(secret[:KEY_BYTES]), modes.CTR(secret[KEY_BYTES:])).encryptor()
    except NoEntropy:
        raise
    except Exception as error:
        raise NoEntropy(
            f"Secure noise needs os.urandom and AES from the library cryptography: {error}"
        ) from error


class SecureWords:
    """A source of uniform words that returns every word once.

    It takes a new key after a fork. It cannot be copied, pickled, seeded or subclassed.
    """

    __slots__ = ("_cipher", "_lock", "_process", "_used", "generation")

    def __init__(self) -> None:
        self.generation = 0
        self._lock = Lock()
        self._renew()

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("SecureWords cannot be subclassed: a subclass could choose the words.")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "Secure noise cannot be copied or saved: the same words would be used twice."
        )

    def _renew(self) -> None:
        leave_no_core_dump()
        self._cipher = _fresh_cipher()
        self._process, self._used = process_identity(), 0
        self.generation += 1

    def check(self) -> None:
        """Take a new key in another process, or after `REKEY_AFTER` bytes under one key."""
        if self._process != process_identity() or self._used > REKEY_AFTER:
            self._renew()

    def take(self, count: int) -> Words:
        """The next `count` words."""
        taken = np.empty(count, np.uint64)
        self.fill(taken)
        return taken

    def fill(self, target: npt.NDArray[Any]) -> None:
        """Fill an existing array of unsigned integers with the next bits."""
        raw = target.view(np.uint8).data
        with self._lock:
            self.check()
            self._used += len(raw)
            for first in range(0, len(raw), len(_ZEROS)):
                piece = raw[first : first + len(_ZEROS)]
                self._cipher.update_into(_ZEROS[: len(piece)], piece)

    def integer(self, bits: int) -> int:
        """A uniform integer of `bits` bits, for the exact paths."""
        words = -(-bits // 64)
        return int.from_bytes(self.take(words).tobytes(), "little") >> (64 * words - bits)

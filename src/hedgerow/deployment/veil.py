"""What hides messages from all but one reader: the only code that knows ciphers.

Every upload is sealed to the server's key, which the manifest names, so that proxies, load
balancers and the carriers of other frameworks see its size and nothing else. A seal is HPKE
(RFC 9180) in base mode; what it is for (study, exchange, client) is its `info`, so it opens nowhere
else.
"""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import needs
from hedgerow.deployment.keys import kept_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import (
        MLKEM768X25519PrivateKey,
        MLKEM768X25519PublicKey,
        Suite,
    )

SUITE = "HPKE base, MLKEM768-X25519, HKDF-SHA256, AES-256-GCM"
"""What the manifest says; there is no other and nothing to choose."""
LATTICE, CURVE = 1184, 32
"""The bytes of a public key of ML-KEM-768, and of X25519."""
PUBLIC = 2 * (LATTICE + CURVE)
"""The hexadecimal digits of a public key for sealing."""
SEED = 64
"""The bytes of a private key of ML-KEM-768."""
LONGER = 1088 + CURVE + 16
"""How many bytes a sealed text is longer than the text."""
FRESH = 32
"""The bytes of a seed of masks: a key of AES-256."""
Words = npt.NDArray[np.uint64]
"""Numbers modulo 2^64."""


class NotOpened(InvalidValue):
    """Bytes that were not sealed to this key for this purpose."""


@dataclass(frozen=True)
class Opener:
    """The private key of a server, which opens what was sealed to it.

    Examples
    --------
    >>> import tempfile
    >>> opener = load_or_make(Path(tempfile.mkdtemp()) / "server.box")
    >>> sealed = seal(opener.public, b"text", b"info")
    >>> opener.open(sealed, b"info"), len(sealed) - len(b"text") == LONGER
    (b'text', True)
    >>> opener.open(sealed, b"another purpose")
    Traceback (most recent call last):
    ...
    hedgerow.deployment.veil.NotOpened: These bytes were not sealed to this key for this purpose.
    """

    key: MLKEM768X25519PrivateKey
    public: str

    def open(self, sealed: bytes, info: bytes) -> bytes:
        """The text that was sealed to this key with this `info`; raises `NotOpened`."""
        from cryptography.exceptions import InvalidTag

        try:
            return _suite().decrypt(sealed, self.key, info=info)
        except (InvalidTag, ValueError):
            raise NotOpened("These bytes were not sealed to this key for this purpose.") from None


def load_or_make(path: str | Path) -> Opener:
    """The key for opening in a file; made, for its owner only, if there is none.

    The file holds the private keys of ML-KEM-768 (its seed) and of X25519.
    """
    with needs("secure"):
        from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        from cryptography.hazmat.primitives.hpke import MLKEM768X25519PrivateKey

    def made() -> bytes:
        return (
            MLKEM768PrivateKey.generate().private_bytes_raw()
            + X25519PrivateKey.generate().private_bytes_raw()
        )

    data = kept_file(Path(path), made)
    if len(data) != SEED + CURVE:
        raise InvalidValue(f"{path} is not a key for opening: it has {len(data)} bytes.")
    lattice = MLKEM768PrivateKey.from_seed_bytes(data[:SEED])
    curve = X25519PrivateKey.from_private_bytes(data[SEED:])
    public = lattice.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()
    return Opener(MLKEM768X25519PrivateKey(lattice, curve), public.hex())


def seal(public: str, text: bytes, info: bytes) -> bytes:
    """Seal a text to a public key (hexadecimal digits); each call gives other bytes."""
    return _suite().encrypt(text, _public(public), info=info)


def check_public(name: str, public: str) -> None:
    """Raise `InvalidValue` unless something can be sealed to this public key.

    A curve point of low order is a key that can be read, and fails only here.

    >>> check_public("server", "00" * 1216)
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Nothing can be sealed to the key of server. Make another.
    """
    try:
        seal(public, b"", b"hedgerow test 1\n")
    except ValueError:
        raise InvalidValue(f"Nothing can be sealed to the key of {name}. Make another.") from None


def body_info(study: bytes, exchange: int, client: int) -> bytes:
    """What the body of an upload is sealed for."""
    return b"hedgerow body 1\n" + study + struct.pack("<qI", exchange, client)


def seed_info(study: bytes, exchange: int, client: int, helper: int) -> bytes:
    """What the seed of a client is sealed to a helper for."""
    return b"hedgerow seed 1\n" + study + struct.pack("<qII", exchange, client, helper)


def share_info(study: bytes, exchange: int, helper: int) -> bytes:
    """What the sum of a helper's masks is sealed for."""
    return b"hedgerow share1\n" + study + struct.pack("<qI", exchange, helper)


def fresh_seed() -> bytes:
    """A seed that nobody has used."""
    return secrets.token_bytes(FRESH)


def mask(seed: bytes, width: int) -> Words:
    """`width` numbers modulo 2^64 that look random to all who lack the seed.

    They are the key stream of AES-256 in counter mode from zero: a seed is used once.

    >>> mask(bytes(32), 2).tolist()
    [9910523521560253916, 9736928157321283757]
    """
    with needs("secure"):
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * width)), "<u8")


@lru_cache(maxsize=1)
def _suite() -> Suite:
    with needs("secure"):
        from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


@lru_cache(maxsize=64)
def _public(public: str) -> MLKEM768X25519PublicKey:
    """A public key, read once."""
    with needs("secure"):
        from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.hpke import MLKEM768X25519PublicKey

    raw = bytes.fromhex(public)
    return MLKEM768X25519PublicKey(
        MLKEM768PublicKey.from_public_bytes(raw[:LATTICE]),
        X25519PublicKey.from_public_bytes(raw[LATTICE:]),
    )

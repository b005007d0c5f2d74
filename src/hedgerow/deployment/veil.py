"""What hides messages from all but one reader: the only code that knows ciphers.

Every upload is sealed to the server's key, which the manifest names, so that proxies, load
balancers and the carriers of other frameworks see its size and nothing else. A seal is HPKE
(RFC 9180) in base mode; what it is for (study, exchange, client) is its `info`, so it opens nowhere
else. A client seals a secret once to each reader (`Session`), and each text under a key that is
made from it.
Proof: `proofs/deployment.md#sealed-uploads`.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import needs
from hedgerow.deployment.keys import kept_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
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
"""The bytes of a seed of masks: a key of AES-256. Also those of the secret of a session."""
OPENING = FRESH + LONGER
"""The bytes of a sealed secret, with which every upload of a session begins."""
SALTED = OPENING + 32
"""Where the sealed text of such an upload begins, after the salt."""
SEALED_SEED = SALTED + FRESH + 16
"""The bytes of a seed that is sealed to a helper."""
NONCE = bytes(12)
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


class Session:
    """Seals what one client sends to one reader in one study; its secret never leaves the memory.

    Each text carries the sealed secret, so it can be opened without any other message. It has its
    own key, made from the secret, a salt and what it is for. The salt depends on the text too, so
    two texts never share a key, even if the machine draws the same bytes twice.

    Parameters
    ----------
    public
        The public key of the reader.
    study, client
        The digest of the study, and the number of the client.
    helper
        The number of the helper that reads seeds; None: the server reads bodies of uploads.

    Examples
    --------
    >>> import tempfile
    >>> opener = load_or_make(Path(tempfile.mkdtemp()) / "server.box")
    >>> session, sessions = Session(opener.public, bytes(32), 3), Sessions(opener, bytes(32))
    >>> sealed = session.seal(7, b"text")
    >>> sessions.open(7, 3, sealed)
    b'text'
    >>> sessions.open(8, 3, sealed)
    Traceback (most recent call last):
    ...
    hedgerow.deployment.veil.NotOpened: These bytes were not sealed to this key for this purpose.
    """

    def __init__(self, public: str, study: bytes, client: int, helper: int | None = None) -> None:
        self._study, self._client, self._helper = study, client, helper
        self._secret = fresh_seed()
        self._opening = seal(public, self._secret, session_info(study, client, helper))

    def seal(self, exchange: int, text: bytes) -> bytes:
        """Seal the text of an exchange; each call gives other bytes."""
        info = text_info(self._study, exchange, self._client, self._helper)
        salt = hmac.digest(self._secret, b"salt\n" + fresh_seed() + info + text, "sha256")
        return self._opening + salt + _cipher(self._secret, salt, info).encrypt(NONCE, text, None)


class Sessions:
    """Opens what the clients of a study have sealed; it keeps the last secret of each client."""

    def __init__(self, opener: Opener, study: bytes, helper: int | None = None) -> None:
        self._opener, self._study, self._helper = opener, study, helper
        self._known: dict[int, tuple[bytes, bytes]] = {}

    def open(self, exchange: int, client: int, sealed: bytes) -> bytes:
        """The text of an exchange; raises `NotOpened`."""
        from cryptography.exceptions import InvalidTag

        opening, salt, rest = sealed[:OPENING], sealed[OPENING:SALTED], sealed[SALTED:]
        name, secret = self._known.get(client, (b"", b""))
        found = sha256(opening).digest()
        if name != found:
            secret = self._opener.open(opening, session_info(self._study, client, self._helper))
        info = text_info(self._study, exchange, client, self._helper)
        try:
            text = _cipher(secret, salt, info).decrypt(NONCE, rest, None)
        except (InvalidTag, ValueError):
            raise NotOpened("These bytes were not sealed to this key for this purpose.") from None
        self._known[client] = found, secret
        return text


def _cipher(secret: bytes, salt: bytes, info: bytes) -> AESGCM:
    """The cipher of one text, whose key is used once: so its nonce may be zero."""
    return _aead()(hmac.digest(secret, b"key\n" + salt + info, "sha256"))


@lru_cache(maxsize=1)
def _aead() -> type[AESGCM]:
    with needs("secure"):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM


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


def session_info(study: bytes, client: int, helper: int | None) -> bytes:
    """What the secret of a session is sealed for: the server, or a helper."""
    reader = b"" if helper is None else struct.pack("<I", helper)
    return b"hedgerow open 1\n" + study + struct.pack("<I", client) + reader


def text_info(study: bytes, exchange: int, client: int, helper: int | None) -> bytes:
    """What a text is sealed for: the body of an upload to the server, or a seed to a helper."""
    if helper is None:
        return b"hedgerow body 1\n" + study + struct.pack("<qI", exchange, client)
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

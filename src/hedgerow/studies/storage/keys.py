"""Ed25519 keys in PEM files: reading them, and checking who signed.

libsodium signs and checks messages, in two thirds of the time of OpenSSL. It also refuses weak
public keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import needs

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from nacl.signing import VerifyKey

SIGNATURE = 64
"""The bytes of a signature."""


def read_private(file: Path) -> Ed25519PrivateKey:
    """The private key in a PEM file without a password; this process leaves no core dump then."""
    with needs("secure"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from hedgerow.privacy.secure.process import leave_no_core_dump

    leave_no_core_dump()
    key = _pem(file, lambda data: load_pem_private_key(data, None))
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidValue(
            f"{file} is not an Ed25519 private key. "
            "Make one with `openssl genpkey -algorithm ed25519`."
        )
    return key


def read_public(file: Path) -> str:
    """The public key in a PEM file, in hexadecimal digits."""
    with needs("secure"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = _pem(file, load_pem_public_key)
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidValue(f"{file} is not an Ed25519 public key.")
    return key.public_bytes_raw().hex()


def public_hex(key: Ed25519PrivateKey) -> str:
    """The public key of a private one, in hexadecimal digits."""
    return key.public_key().public_bytes_raw().hex()


def sign(key: Ed25519PrivateKey, data: bytes) -> bytes:
    """The signature of these bytes."""
    from nacl.bindings import crypto_sign

    return crypto_sign(data, _secret(key))[:SIGNATURE]


@lru_cache(maxsize=256)
def _secret(key: Ed25519PrivateKey) -> bytes:
    """A private key as libsodium takes it."""
    return key.private_bytes_raw() + key.public_key().public_bytes_raw()


def signed_by(public: str, signature: bytes, data: bytes) -> bool:
    """Whether the holder of the public key (hexadecimal digits) signed these bytes."""
    if len(signature) != SIGNATURE:
        return False
    try:
        key, wrong = _public(public)
    except (ValueError, TypeError):
        return False
    try:
        key.verify(bytes(data), bytes(signature))
    except (wrong, ValueError, TypeError):
        return False
    return True


@lru_cache(maxsize=4096)
def _public(public: str) -> tuple[VerifyKey, type[Exception]]:
    """A public key, and what it raises if a signature is wrong."""
    with needs("secure"):
        from nacl.exceptions import BadSignatureError
        from nacl.signing import VerifyKey
    return VerifyKey(bytes.fromhex(public)), BadSignatureError


def _pem(file: Path, read: Callable[[bytes], Any]) -> Any:
    """The key in a PEM file."""
    try:
        return read(file.read_bytes())
    except OSError as error:
        raise InvalidValue(f"Cannot read the key {file}: {error.strerror}.") from error
    except (ValueError, TypeError) as error:
        raise InvalidValue(
            f"{file} is not a key in PEM format without a password: {error}."
        ) from error

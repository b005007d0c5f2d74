"""Ed25519 keys of servers and clients, in the same PEM files that sign run folders."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hedgerow.core.extras import needs
from hedgerow.privacy.secure.process import leave_no_core_dump
from hedgerow.studies.storage.keys import SIGNATURE, public_hex, read_private, sign, signed_by

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "SIGNATURE",
    "fingerprint",
    "kept_file",
    "load_or_make",
    "public_hex",
    "sign",
    "signed_by",
]


def load_or_make(path: str | Path) -> Ed25519PrivateKey:
    """Return the private key in a file; make the file, for its owner only, if there is none.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "key.pem"
    >>> key = load_or_make(file)
    >>> public_hex(load_or_make(file)) == public_hex(key)
    True
    >>> signed_by(public_hex(key), key.sign(b"text"), b"text")
    True
    """
    with needs("secure"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

    def made() -> bytes:
        key = Ed25519PrivateKey.generate()
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    kept_file(Path(path), made)
    return read_private(Path(path))


def kept_file(file: Path, made: Callable[[], bytes]) -> bytes:
    """The secret in a file; what `made` returns, written for its owner only, if there is none."""
    leave_no_core_dump()
    if not file.exists():
        text = made()
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}.{os.getpid()}")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(part, file)  # fails if another process was first, and then its key counts
        except FileExistsError:
            pass
        finally:
            part.unlink()
    return file.read_bytes()


def fingerprint(keys: str) -> str:
    """Sixteen bytes of the hash of public keys, in groups of four digits.

    >>> fingerprint("00")
    '6e34 0b9c ffb3 7a98 9ca5 44e6 bb78 0a2c'
    """
    text = hashlib.sha256(bytes.fromhex(keys)).hexdigest()[:32]
    return " ".join(text[at : at + 4] for at in range(0, 32, 4))

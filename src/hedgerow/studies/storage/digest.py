"""The digest of a run folder: a hash of every file, and of all of them; signed if there is a key.

A digest shows that files have changed. Only a signature shows who wrote them: anyone who changes a
file can write a new digest.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InvalidValue
from hedgerow.studies.storage.keys import public_hex, read_private, read_public, signed_by

FILE = "digest.json"
FORMAT = "hedgerow digest 1"
KEY = "HEDGEROW_KEY"
ADDED_LATER = ("statement",)  # what `hedgerow statement` writes into a run folder


def run_file_hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of a run, by name; links count as what they are, not as a file."""
    found = {}
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if name.split("/")[0] in ADDED_LATER:
            continue
        if file.is_symlink():
            found[name] = f"link to {os.readlink(file)}"
        elif file.is_file() and name != FILE:
            try:
                found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
            except OSError as error:
                raise InvalidValue(f"Cannot read {file}: {error.strerror}.") from error
    return found


def _links(files: dict[str, str]) -> list[str]:
    """Links: what they point to may change, so no digest covers it."""
    return [name for name, found in files.items() if found.startswith("link to ")]


def hash_of_hashes(files: dict[str, str]) -> str:
    """One hash of all names and hashes."""
    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()


def write_digest(folder: Path, key: Path | None = None) -> None:
    """Write the digest of a folder, signed with `key` or the key named by `HEDGEROW_KEY`."""
    files = run_file_hashes(folder)
    for name in _links(files):
        raise InvalidValue(f"{folder / name} is a link. Replace it by a copy of the file.")
    place = key or (Path(os.environ[KEY]) if os.environ.get(KEY) else None)
    digest = {
        "format": FORMAT,
        "sha256": hash_of_hashes(files),
        "files": files,
        "signature": None if place is None else _signature(hash_of_hashes(files), place),
    }
    (folder / FILE).write_text(json.dumps(digest, indent=2), encoding="utf-8")


def sign_run(folder: Path, private: Path, expected: Path | None = None) -> None:
    """Sign a folder that is as it was written; the signature of another key stays.

    Parameters
    ----------
    folder
        The run folder.
    private
        The private key.
    expected
        The public key that must belong to it. None: any.
    """
    found = verify_digest(folder)
    mine = _signature(found.sha256, private)["public_key"]
    for difference in found.differences:
        raise InvalidValue(f"{folder} is not signed: {difference}.")
    if found.signer not in (None, mine):
        raise InvalidValue(
            f"{folder} is signed by another key: {found.signer}. That signature is not replaced."
        )
    if expected is not None and read_public(expected) != mine:
        raise InvalidValue(
            f"{folder} is not signed: {private} is not the private key of {expected}."
        )
    write_digest(folder, private)


def _signed_text(digest: str) -> bytes:
    return f"{FORMAT}\n{digest}\n".encode()


def _signature(digest: str, file: Path) -> dict[str, str]:
    key = read_private(file)
    return {"public_key": public_hex(key), "signature": key.sign(_signed_text(digest)).hex()}


@dataclass(frozen=True)
class Verdict:
    """What a digest shows.

    Parameters
    ----------
    sha256
        The hash of all files as they are now.
    differences
        What differs from the digest, in words.
    signer
        The public key that signed the digest, in hexadecimal digits. None: it is not signed.
    known
        Whether the signer is the expected one. None: nobody was expected.
    """

    sha256: str
    differences: tuple[str, ...]
    signer: str | None
    known: bool | None

    @property
    def ok(self) -> bool:
        """Whether nothing differs and an expected signer has signed."""
        return not self.differences and self.known is not False

    def words(self) -> str:
        """Who signed."""
        if self.signer is None:
            return (
                "not signed: a signature was expected"
                if self.known is False
                else "not signed: shows accidental changes only"
            )
        if self.known is None:
            return f"signed by {self.signer}; give --key to check who that is"
        return f"signed by {'the given key' if self.known else 'another key: ' + self.signer}"


def verify_digest(folder: Path, key: Path | None = None) -> Verdict:
    """Compare a folder with its digest; the holder of the public key `key` must have signed it."""
    if not (folder / FILE).is_file():
        raise InvalidValue(
            f"{folder} has no {FILE}, so nobody can see whether it was changed. Run it again."
        )
    try:
        digest = json.loads((folder / FILE).read_text(encoding="utf-8"))
        written: dict[str, str] = dict(digest["files"])
        stated, signature = str(digest["sha256"]), digest["signature"]
        if digest["format"] != FORMAT:
            raise ValueError(f"its format is {digest['format']!r}")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidValue(f"Cannot read {folder / FILE}: {error}.") from error
    now = run_file_hashes(folder)
    found = [
        f"{name} has changed" for name in written if name in now and now[name] != written[name]
    ]
    found += [f"{name} is missing" for name in written if name not in now]
    found += [f"{name} was added" for name in now if name not in written]
    found += [f"{name} is a link" for name in _links(now)]
    if hash_of_hashes(written) != stated:
        found.append(f"{FILE} does not agree with itself")
    signer = None
    if signature is not None:
        signer = _signer(signature, stated)
        if signer is None:
            found.append("the signature is wrong")
    expected = None if key is None else read_public(key)
    known = None if expected is None else signer == expected
    return Verdict(hash_of_hashes(now), tuple(found), signer, known)


def _signer(signature: Any, digest: str) -> str | None:
    """The public key if the signature is right, otherwise None."""
    try:
        key, signed = str(signature["public_key"]), bytes.fromhex(signature["signature"])
    except (ValueError, KeyError, TypeError):
        return None
    return key if signed_by(key, signed, _signed_text(digest)) else None

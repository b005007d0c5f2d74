"""What an account knows of the releases of a study: how long its log was after the last one.

A study's ledger and its server may be restored together from copies that agree with each other. The
account then still knows of every release, so the copy is refused. The counter is a small file
outside the folders of studies. An account is opened only for a moment, but the counter is written
with every release. It has two places that are written in turn, each with a checksum, so that a loss
of power leaves at least the last count but one.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment import chain as chains
from hedgerow.deployment.chain import Chain
from hedgerow.deployment.database import LedgerFailed, point, write_durably

FOLDER = "releases"
PLACE = 512  # bytes; a disk writes them at once
_sync = getattr(os, "fdatasync", os.fsync)


class Releases:
    """The counter of one study in the folder of its account.

    Parameters
    ----------
    account
        The folder of the account.
    study
        The digest of the manifest.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> Releases.make(place, bytes(32))
    >>> counter = Releases(place, bytes(32))
    >>> counter.count
    0
    >>> counter.close()
    """

    def __init__(self, account: Path, study: bytes) -> None:
        self.path = _file(account, study)
        if not self.path.is_file():
            raise InvalidValue(
                f"{self.path} is missing: it counts the releases of this study. Without it an old "
                "copy would not be noticed. Put it back, or join a new study."
            )
        whole = self.path.read_bytes()
        found = [_read(whole[at : at + PLACE]) for at in (0, PLACE)]
        known = [(count, head, place) for place, (count, head) in enumerate(found) if count >= 0]
        if not known:
            raise InvalidValue(f"{self.path} is damaged. Put it back, or join a new study.")
        self.count, self.head, self._place = max(known)
        self._file: int | None = os.open(self.path, os.O_RDWR | getattr(os, "O_BINARY", 0))

    @staticmethod
    def make(account: Path, study: bytes) -> None:
        """Make the counter of a study that is joined; one that exists stays as it is."""
        file = _file(account, study)
        if file.exists():
            return
        file.parent.mkdir(mode=0o700, exist_ok=True)
        write_durably(file, _written(0, chains.START) + bytes(PLACE))
        point("client counter made")

    def check(self, chain: Chain) -> None:
        """Refuse a log that lacks a release; note one that was made just before a crash."""
        if chain.head_at(self.count) != self.head:
            raise InvalidValue(
                "This ledger is older than what the account knows of it: a restored copy. Nothing "
                "is released. Bring back the latest ledger, or join a new study."
            )
        self.note(chain)

    def note(self, chain: Chain) -> None:
        """Write down, durably, how long the log is; before anything that was drawn is shown."""
        if chain.count <= self.count:
            return
        if self._file is None:
            raise LedgerFailed(f"The counter {self.path} is closed. Open the study again.")
        place = 1 - self._place
        point("client counting")
        try:
            os.lseek(self._file, place * PLACE, os.SEEK_SET)
            os.write(self._file, _written(chain.count, chain.head))
            _sync(self._file)
        except OSError as error:
            raise LedgerFailed(
                f"The counter {self.path} could not be written: {error}. Nothing was sent. Check "
                "the disk, then start again."
            ) from error
        self.count, self.head, self._place = chain.count, chain.head, place
        point("client counted")

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.close()


def _file(account: Path, study: bytes) -> Path:
    return account / FOLDER / study.hex()[:16]


def _written(count: int, head: bytes) -> bytes:
    body = count.to_bytes(8, "little") + head
    return (body + blake2b(body, digest_size=16).digest()).ljust(PLACE, b"\0")


def _read(place: bytes) -> tuple[int, bytes]:
    """The count and the head; -1: nothing was written here, or not all of it."""
    count, head = int.from_bytes(place[:8], "little"), place[8:40]
    return (count, head) if place == _written(count, head) else (-1, b"")

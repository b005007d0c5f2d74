"""The anchor of a study server: a small file outside the ledger that names the last answer.

It is written after an answer is committed and before the answer leaves. So a ledger without this
answer is an old copy, and a ledger that ends with it, or with one answer more, is the latest one,
unless the anchor was restored together with it. Keep the two on different disks.
"""

from __future__ import annotations

import json
from pathlib import Path

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.deployment.database import LedgerFailed, point, write_durably


class OldLedger(HedgerowError):
    """A ledger that is older than its anchor: a restored copy."""


class AnchorFailed(LedgerFailed):
    """The anchor could not be written. Nothing was sent; check its disk, then start again."""


def beside(folder: Path) -> Path:
    """Where the anchor is if nobody says where."""
    return Path(f"{folder.resolve()}.anchor")


class Anchor:
    """The anchor of one study.

    Parameters
    ----------
    path
        The file.
    study
        The digest of the study.

    Examples
    --------
    >>> import tempfile
    >>> anchor = Anchor(Path(tempfile.mkdtemp()) / "server.anchor", bytes(32))
    >>> anchor.read() is None
    True
    >>> anchor.write(3, bytes([7] * 32))
    >>> anchor.read() == (3, bytes([7] * 32))
    True
    """

    def __init__(self, path: Path, study: bytes) -> None:
        self.path, self._study = path, study

    def read(self) -> tuple[int, bytes] | None:
        """The last exchange that was answered and the hash of its answer; None: no file."""
        try:
            row = json.loads(self.path.read_bytes())
            study, exchange = bytes.fromhex(row["study"]), int(row["exchange"])
            answer = bytes.fromhex(row["answer"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidValue(
                f"Cannot read the anchor {self.path}. Bring it back, or move it away: the server "
                "then asks the clients of the last exchange instead."
            ) from error
        if study != self._study:
            raise InvalidValue(
                f"The anchor {self.path} belongs to another study. Choose another file with "
                "anchor in [server], or move this one away if the other study is over."
            )
        return exchange, answer

    def write(self, exchange: int, answer: bytes) -> None:
        """Name the last answer; on disk when this returns."""
        row = {"study": self._study.hex(), "exchange": exchange, "answer": answer.hex()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(self.path, f"{json.dumps(row)}\n".encode())
        point("server anchored")

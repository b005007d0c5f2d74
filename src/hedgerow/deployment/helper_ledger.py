"""The keys and the ledger of a helper: which exchanges it has opened, and nothing secret.

It is read by every later version of the package: nothing here builds the algorithm again.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment import chain as chains
from hedgerow.deployment import veil
from hedgerow.deployment.chain import Chain
from hedgerow.deployment.database import NAMED, open_database, write_durably
from hedgerow.deployment.keys import fingerprint, load_or_make, public_hex
from hedgerow.deployment.manifest import Manifest, check_signed

FILE, KEY, BOX, PUBLIC = "helper.db", "helper.pem", "helper.box", ".helper"
SCHEMA = (
    chains.SCHEMA
    + NAMED
    + "CREATE TABLE IF NOT EXISTS opened(exchange INTEGER PRIMARY KEY, task BLOB NOT NULL);"
)
WARNING = """The keys in this folder belong to one helper of one study. Run it once, on one machine.
Never keep a second copy that could run at the same time. If the study may leave out clients that
are silent, never start an old copy: with those of all helpers the server could read single uploads.
Never hand out helper.pem or helper.box: with the keys of all helpers it could read every upload.
"""
NOT_JOINED = "The helper in {} has not joined a study. Join one with `hedgerow helper run`."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class HelperKeys:
    """The public keys of a helper: what it hands out in a file, and what a manifest names.

    Examples
    --------
    >>> import tempfile
    >>> keys = make_helper(Path(tempfile.mkdtemp()) / "north", "north")
    >>> HelperKeys.read(Path(tempfile.mkdtemp()) / "south.helper")
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Cannot read the file of a helper ...south.helper. ...
    >>> len(keys.fingerprint)
    39
    """

    name: str
    sign: str
    seal: str

    @property
    def fingerprint(self) -> str:
        """What two people compare on the telephone."""
        return fingerprint(self.sign + self.seal)

    @classmethod
    def read(cls, file: Path) -> HelperKeys:
        """The keys in a file NAME.helper."""
        try:
            table: Any = json.loads(file.read_text(encoding="utf-8"))
            return cls(str(table["name"]), str(table["sign"]), str(table["seal"]))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InvalidValue(
                f"Cannot read the file of a helper {file}. It is what `hedgerow helper init` "
                "has written there, NAME.helper."
            ) from error


def make_helper(folder: Path, name: str) -> HelperKeys:
    """Make the keys of a helper, and the file `NAME.helper` that it hands out."""
    if not _NAME.fullmatch(name):
        raise InvalidValue(f"Expected name={name[:80]!r} of letters, digits, '.', '_' and '-'.")
    if (folder / KEY).exists():
        raise InvalidValue(
            f"{folder} already has the keys of a helper. Each study needs a helper with new keys: "
            "use another folder."
        )
    signing, opener = load_or_make(folder / KEY), veil.load_or_make(folder / BOX)
    keys = HelperKeys(name, public_hex(signing), opener.public)
    (folder / "README").write_text(WARNING, encoding="utf-8")
    write_durably(folder / f"{name}{PUBLIC}", json.dumps(asdict(keys), indent=2).encode())
    return keys


class NotJoined(InvalidValue):
    """The helper has not joined a study yet."""


class HelperLedger:
    """What a helper keeps of its study.

    Parameters
    ----------
    folder
        The folder that `hedgerow helper init` has made.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / KEY).is_file():
            raise InvalidValue(
                f"{folder} has no keys of a helper. Make them with `hedgerow helper init`."
            )
        if not (self.folder / FILE).is_file():
            raise NotJoined(NOT_JOINED.format(folder))
        self._database = open_database(self.folder / FILE, SCHEMA)
        with self._database.closed_if_it_fails():
            kept = self._database.named()
            if "manifest" not in kept:
                raise NotJoined(NOT_JOINED.format(folder))
            self.manifest = Manifest.read(kept["manifest"])
            check_signed(self.manifest, kept["signature"])
            self.study = self.manifest.digest
            self.chain = Chain(self._database)
            public = public_hex(load_or_make(self.folder / KEY))
            names = [n for n, keys in self.manifest.helpers.items() if keys["sign"] == public]
            if not names:
                raise InvalidValue(
                    f"The study in {self.folder} names another key for its helper. Put the right "
                    f"{KEY} there."
                )
            self.name = names[0]
            self.index = self.manifest.helper_names.index(self.name)
            self.over = self._database.one("SELECT 1 FROM log WHERE kind = 'over'") is not None
            """Whether the server has said that no exchange comes any more."""
            last = self._database.one("SELECT max(exchange) FROM opened")
            self.exchange: int = 0 if last is None or last[0] is None else last[0]
            """The last exchange that was opened; 0: none."""

    def opened(self) -> dict[int, bytes]:
        """The hash of the task that was answered, by exchange."""
        rows = self._database.execute("SELECT exchange, task FROM opened ORDER BY exchange")
        return {exchange: bytes(task) for exchange, task in rows}

    def check(self) -> bytes:
        """Check the log against the table of the ledger; return its head."""
        head = self.chain.check()
        logged = [entry.body for entry in self.chain.entries() if entry.kind == "opened"]
        if logged != [e.to_bytes(8, "little") + task for e, task in self.opened().items()]:
            raise InvalidValue(f"The ledger in {self.folder} does not agree with its log.")
        return head

    def close(self) -> None:
        """Close the ledger; the study goes on when it is opened again."""
        self._database.close()

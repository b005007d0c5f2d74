"""A hash-chained log inside a ledger: entries are added, and each hash covers all before it."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment.database import Database

START = bytes(32)
"""The head of an empty log."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS log(
    n INTEGER PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL, hash BLOB NOT NULL);
CREATE TRIGGER IF NOT EXISTS log_stays BEFORE UPDATE ON log
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER IF NOT EXISTS log_keeps BEFORE DELETE ON log
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
"""


@dataclass(frozen=True)
class Entry:
    """One entry: its number, what it is about, its contents, and the head after it."""

    n: int
    kind: str
    body: bytes
    hash: bytes


def after(head: bytes, n: int, kind: str, body: bytes) -> bytes:
    """The head after one more entry."""
    name = kind.encode()
    sizes = struct.pack("<QII", n, len(name), len(body))
    return hashlib.sha256(head + sizes + name + body).digest()


class Chain:
    """The log of one ledger.

    Parameters
    ----------
    database
        A ledger whose schema includes `chain.SCHEMA`.

    Examples
    --------
    >>> import tempfile
    >>> from hedgerow.deployment.database import open_database
    >>> ledger = open_database(tempfile.mkdtemp() + "/ledger.db", SCHEMA)
    >>> chain = Chain(ledger)
    >>> with ledger.transaction("example"):
    ...     chain.add("note", b"first")
    >>> chain.count, chain.check() == chain.head
    (1, True)
    >>> ledger.close()
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._later = list[tuple[int, str, bytes, bytes]]()
        last = database.one("SELECT n, hash FROM log ORDER BY n DESC LIMIT 1")
        self.count, self.head = (0, START) if last is None else (last[0] + 1, bytes(last[1]))

    def add(self, kind: str, body: bytes, at_once: bool = True) -> None:
        """Add an entry, inside a transaction of the ledger.

        `at_once=False` leaves it to the next entry, or to `write`, in the same transaction.
        """
        head = after(self.head, self.count, kind, body)
        self._later.append((self.count, kind, body, head))
        self.count, self.head = self.count + 1, head
        if at_once:
            self.write()

    def write(self) -> None:
        """Write the entries that were left."""
        self._database.all("INSERT INTO log VALUES(?, ?, ?, ?)", self._later)
        self._later.clear()

    def entries(self) -> Iterator[Entry]:
        """All entries in order."""
        for row in self._database.execute("SELECT n, kind, body, hash FROM log ORDER BY n"):
            if not (isinstance(row[1], str) and all(isinstance(cell, bytes) for cell in row[2:])):
                raise InvalidValue(f"The log was changed: entry {row[0]} is of another kind.")
            yield Entry(*row)

    def head_at(self, count: int) -> bytes | None:
        """The head after `count` entries; None if there are fewer."""
        if count == 0:
            return START
        row = self._database.one("SELECT hash FROM log WHERE n = ?", (count - 1,))
        return None if row is None else bytes(row[0])

    def check(self) -> bytes:
        """Compute every hash again and return the head; raise if the log was changed."""
        return check_entries(self.entries())

    def export(self) -> Iterator[str]:
        """The log as lines of JSON, for `check_lines`.

        `body` is what the hash covers, in hexadecimal digits. `content` says the same to a reader,
        if the body is JSON.
        """
        for entry in self.entries():
            row: dict[str, Any] = {"n": entry.n, "kind": entry.kind}
            content = _content(entry.body)
            if content is not None:
                row["content"] = content
            yield json.dumps({**row, "body": entry.body.hex(), "hash": entry.hash.hex()})


def _content(body: bytes) -> dict[str, Any] | None:
    """What a body says, if it is a JSON object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; one that shows a reader a key twice is refused."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice")
    return found


def check_entries(entries: Iterator[Entry]) -> bytes:
    """Compute every hash again and return the head; raise at the first entry that is wrong."""
    head = START
    for n, entry in enumerate(entries):
        head = after(head, n, entry.kind, entry.body)
        if entry.n != n or entry.hash != head:
            raise InvalidValue(f"The log was changed: entry {n} does not follow from those before.")
    return head


def check_lines(lines: Iterator[str]) -> bytes:
    """Check an exported log and return its head.

    >>> check_lines(iter([])) == START
    True
    >>> check_lines(iter(['{"n": 0, "kind": "note", "body": "00", "hash": "00"}']))
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: The log was changed: entry 0 does not follow from those ...
    """

    def read() -> Iterator[Entry]:
        for number, line in enumerate(lines):
            try:
                row = json.loads(line, object_pairs_hook=_each_key_once)
                entry = Entry(
                    int(row["n"]),
                    str(row["kind"]),
                    bytes.fromhex(row["body"]),
                    bytes.fromhex(row["hash"]),
                )
                shown = row.get("content")
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise InvalidValue(f"Line {number + 1} is not an entry of a log.") from error
            if shown != _content(entry.body):
                raise InvalidValue(
                    f"The log was changed: the content of entry {entry.n} is not that of its body."
                )
            yield entry

    return check_entries(read())

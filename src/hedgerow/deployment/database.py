"""Durable ledgers in SQLite: one process, one connection; a failed transaction closes the ledger.

Every write is a transaction that is on disk before anything follows from it. If one fails, the
state in memory may be ahead of the disk, so the ledger closes for good and must be opened again.
`point(name)` marks the places where a process may die; tests make it die there.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

from hedgerow.core.errors import HedgerowError
from hedgerow.privacy.secure.process import Home

NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "afs", "9p", "ceph", "lustre"),
        *("glusterfs", "gpfs", "beegfs", "orangefs", "ocfs2", "davfs", "fuse.sshfs"),
        *("fuse.glusterfs", "fuse.ceph", "fuse.davfs2", "fuse.s3fs", "fuse.rclone"),
    }
)
"""File systems on which locks or synchronous writes cannot be relied upon."""

NAMED = "CREATE TABLE IF NOT EXISTS kv(name TEXT PRIMARY KEY, value BLOB NOT NULL);"
"""The schema of values with names: `Database.name` writes them, and `named` reads them."""

RESERVED = 2**20
"""Bytes that the write-ahead log of a busy ledger has from the start."""
CHECKPOINT = 240
"""Pages after which the log begins again at its start: it stays within what is reserved."""

_hook: list[Callable[[str], None]] = []


def point(name: str) -> None:
    """A place where a process may die. It does nothing unless a test has set a hook."""
    if _hook:
        _hook[-1](name)


@contextmanager
def hooked(hook: Callable[[str], None]) -> Iterator[None]:
    """Call `hook(name)` at every `point`, inside the block."""
    _hook.append(hook)
    try:
        yield
    finally:
        _hook.remove(hook)


class LedgerInUse(HedgerowError):
    """Another process, or another object of this one, has the ledger open."""


FATAL = 70
"""The exit code after a failed commit: nothing was sent, so start the process again."""


class LedgerFailed(HedgerowError):
    """A ledger cannot be used any more: a transaction failed. Nothing was sent; open it again."""


class Closing(Protocol):
    """What can be closed."""

    def close(self) -> None: ...


class Database:
    """One SQLite file that this object alone uses, until it is closed or a transaction fails.

    Use `open_database` to make one.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = connection
        self._home = Home()
        self._durable = True
        self._begun = False
        self._reading = WeakSet[sqlite3.Cursor]()
        self.held = False
        self.beside: Closing | None = None
        """What closes with this ledger."""

    def _use(self) -> sqlite3.Connection:
        self._home.require("ledger")
        if self._connection is None:
            raise LedgerFailed(f"The ledger {self.path} is closed. Open it again.")
        return self._connection

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Run one statement; those that write belong into a `transaction`."""
        connection = self._connection if self._begun else None  # the block asked already
        cursor = (connection or self._use()).execute(statement, values)
        if cursor.description is not None:
            self._reading.add(cursor)
        return cursor

    def all(self, statement: str, rows: Collection[tuple[Any, ...]]) -> None:
        """Run one statement for many rows, inside a transaction."""
        if rows:
            self._use().executemany(statement, rows)

    def one(self, statement: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """Return the first row, or None."""
        return self.execute(statement, values).fetchone()

    def named(self) -> dict[str, bytes]:
        """The values of the table `kv` by name."""
        return {name: bytes(value) for name, value in self.execute("SELECT name, value FROM kv")}

    def name(self, **values: bytes) -> None:
        """Add values to the table `kv`, inside a transaction; a name is given once."""
        for row in values.items():
            self.execute("INSERT INTO kv VALUES(?, ?)", row)

    @contextmanager
    def closed_if_it_fails(self) -> Iterator[None]:
        """Close the ledger if the block fails."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def transaction(self, name: str, durable: bool = True) -> AbstractContextManager[None]:
        """Write all of the block or nothing; `name` names the two crash points around the commit.

        After a durable transaction the data, and those of all transactions before it, survive a
        loss of power. The others survive the death of the process. If anything in the block or the
        commit fails, the ledger is closed for good.
        """
        return self.batch(name, durable, at_once=True)

    @contextmanager
    def batch(self, name: str, durable: bool = True, at_once: bool = False) -> Iterator[None]:
        """A transaction that begins with the first `begin`; without one, nothing happens."""
        connection = self._use()
        self._begun = self.held
        try:
            if durable is not self._durable and not self.held:
                connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            if at_once:
                self.begin()
            yield
            if not self._begun:
                return
            point(f"{name} written")
            connection.execute("COMMIT")
            self.held = self._begun = False
        except BaseException as error:
            self._fail(error)
        point(f"{name} committed")

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Write the block without a commit: the next transaction commits it too, and is durable.

        Until then it can be read here, and is lost if the process dies at the point `name`, or
        later.
        """
        connection = self._use()
        try:
            if not self._durable:
                connection.execute("PRAGMA synchronous=FULL")
                self._durable = True
            self._begun = self.held
            self.begin()
            self.held = True
            yield
            self._begun = False
        except BaseException as error:
            self._fail(error)
        point(f"{name} held")

    def forget(self, name: str) -> None:
        """Leave nothing in the files but what the tables hold now; outside a transaction.

        The write-ahead log still holds what was overwritten or deleted. All of it is moved into the
        ledger, where deleted content is zeros (`secure_delete`), and the log is cut to nothing.
        """
        connection = self._use()
        try:
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise sqlite3.OperationalError("its log is in use")
        except sqlite3.Error as error:
            self._abandon()
            raise LedgerFailed(
                f"The log of the ledger {self.path} could not be emptied: {error}. Check the disk, "
                "then start again."
            ) from error
        point(f"{name} forgotten")

    def reserve(self) -> None:
        """Give the write-ahead log its whole size now, where it will be written often.

        A file that grows with every commit costs more to sync than all that is written. SQLite
        stops reading at the zeros, as it does at the end of the file.
        """
        log = self.path.with_name(f"{self.path.name}-wal")
        with suppress(OSError), log.open("r+b") as out:  # a full disk is noticed by a commit
            end = out.seek(0, os.SEEK_END)
            out.write(bytes(max(0, RESERVED - end)))

    def begin(self) -> None:
        """Begin to write, inside `batch`."""
        if not self._begun:
            self._use().execute("BEGIN IMMEDIATE")
            self._begun = True

    def _fail(self, error: BaseException) -> NoReturn:
        """Close the ledger for good, and say why."""
        self._abandon()
        if isinstance(error, sqlite3.Error):
            raise LedgerFailed(
                f"The ledger {self.path} could not be written: {error}. Nothing was sent. "
                "Check the disk, then start again."
            ) from error
        raise error

    def _abandon(self) -> None:
        """Close the connection: what was not committed is gone.

        A cursor that has more rows to give would keep the lock.
        """
        connection, self._connection = self._connection, None
        self.held = self._begun = False
        if connection is not None:
            for cursor in list(self._reading):
                with suppress(sqlite3.Error):
                    cursor.close()
            with suppress(sqlite3.Error):
                connection.close()
        if self.beside is not None:
            self.beside.close()

    @property
    def failed(self) -> bool:
        """Whether the ledger is closed."""
        return self._connection is None

    def close(self) -> None:
        """Close the ledger; it can be opened again."""
        self._abandon()


def write_durably(path: Path, data: bytes) -> None:
    """Replace a small file; it is on disk, with its name, when this returns."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    part.chmod(0o600)
    part.replace(path)
    with suppress(PermissionError):  # some systems cannot open a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def open_database(path: str | Path, schema: str, wait_s: float = 0.2) -> Database:
    """Open a ledger, or make it; nobody else can open it until it is closed.

    Parameters
    ----------
    path
        The file. Beside it SQLite keeps `-wal`, the write-ahead log: copy both or none.
    schema
        Statements that create the tables; each says `IF NOT EXISTS`.
    wait_s
        How many seconds to wait for another process to let go.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "ledger.db"
    >>> ledger = open_database(file, "CREATE TABLE IF NOT EXISTS kept(name TEXT PRIMARY KEY);")
    >>> with ledger.transaction("example"):
    ...     _ = ledger.execute("INSERT INTO kept VALUES('a')")
    >>> ledger.one("SELECT name FROM kept")
    ('a',)
    >>> open_database(file, "")
    Traceback (most recent call last):
    ...
    hedgerow.deployment.database.LedgerInUse: ... is in use by another process. ...
    >>> ledger.close()
    """
    file = Path(path)
    kind = file_system(file.parent)
    if kind in NETWORK:
        raise HedgerowError(
            f"{file} is on a network file system ({kind}), where a crash can lose what was "
            "written. Keep ledgers on a local disk."
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    private = not file.exists()
    try:
        connection = sqlite3.connect(
            file, isolation_level=None, timeout=wait_s, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise HedgerowError(f"Cannot open the ledger {file}: {error}.") from error
    try:
        if private:
            file.chmod(0o600)
        for pragma in (
            "locking_mode=EXCLUSIVE",
            "journal_mode=WAL",
            "synchronous=FULL",
            f"wal_autocheckpoint={CHECKPOINT}",
            "secure_delete=ON",
            "trusted_schema=OFF",
            "cell_size_check=ON",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute("BEGIN IMMEDIATE")  # takes the lock for as long as the ledger is open
        connection.execute("COMMIT")
        connection.executescript(schema)
    except sqlite3.OperationalError as error:
        connection.close()
        if "locked" in str(error):
            raise LedgerInUse(
                f"The ledger {file} is in use by another process. Two processes would release "
                "twice: stop the other one."
            ) from error
        raise LedgerFailed(f"Cannot use the ledger {file}: {error}.") from error
    except sqlite3.Error as error:
        connection.close()
        raise LedgerFailed(f"The ledger {file} is damaged: {error}.") from error
    return Database(file, connection)


def file_system(folder: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """The kind of file system of a folder, as far as the operating system says; otherwise "".

    >>> file_system(Path("/proc")) in ("proc", "")
    True
    """
    if not sys.platform.startswith("linux") or not mounts.is_file():
        return ""
    place, best, kind = os.path.realpath(folder), "", ""
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        mount, found = line.split()[1:3]
        mount = mount.replace("\\040", " ")
        below = place == mount or place.startswith(mount.rstrip("/") + "/")
        if below and len(mount) >= len(best):
            best, kind = mount, found
    return kind

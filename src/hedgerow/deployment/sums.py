"""The server's side of masked uploads: tasks for helpers, their parts, and the sum they open.

The numbers of an exchange are kept under their masks until every helper has returned the sum of its
masks over all clients that the exchange counts. Then the sum is opened, and all that it was made of
is erased in the same transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hedgerow.core.protocol import Algorithm
from hedgerow.deployment import veil, wire
from hedgerow.deployment.chain import Chain
from hedgerow.deployment.database import Database
from hedgerow.deployment.manifest import Manifest
from hedgerow.deployment.masks import Masked, opened, read_words
from hedgerow.deployment.veil import Opener, Words
from hedgerow.deployment.wire import Code, refuse

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class Sums:
    """What the server keeps of the open exchange under masks.

    Parameters
    ----------
    manifest, algorithm
        The study.
    key, opener
        The server's keys.
    database, chain
        The server's ledger.
    """

    def __init__(
        self,
        manifest: Manifest,
        algorithm: Algorithm,
        key: Ed25519PrivateKey,
        opener: Opener,
        database: Database,
        chain: Chain,
    ) -> None:
        self._manifest, self._algorithm = manifest, algorithm
        self._key, self._opener, self._database, self._chain = key, opener, database, chain
        self._masked = Masked.of(algorithm)
        self._signing = [manifest.helpers[name]["sign"] for name in manifest.helper_names]
        self._tasks: dict[int, bytes] = {}
        rows = database.execute("SELECT message FROM part").fetchall()
        kept = [wire.unpack(bytes(data), manifest.digest, wire.Part) for (data,) in rows]
        self.parts = {part.helper: self._sum(part) for part in kept}
        """The sum of masks of each helper that has answered, for the open exchange."""

    @property
    def missing(self) -> list[str]:
        """The helpers whose parts the open exchange still needs."""
        names = self._manifest.helper_names
        return [name for number, name in enumerate(names) if number not in self.parts]

    def words(self, body: bytes, message: wire.Upload) -> Words:
        """The numbers of an upload, under their masks."""
        found = read_words(body)
        if message.seals != len(self._signing) or len(found) != self._masked.width:
            refuse(Code.VALUE, "The upload has the wrong number of seals or of numbers.")
        return found

    def helper_of(self, message: wire.Fetch | wire.Part, data: bytes) -> int:
        """The helper that signed a message."""
        known = message.helper < len(self._signing)
        study = self._manifest.digest
        if not known or not wire.signed(data, study, self._signing[message.helper]):
            refuse(Code.SIGNATURE, "The message is not signed by a helper of this study.")
        return message.helper

    def task(self, helper: int, exchange: int, uploads: dict[int, tuple[bytes, ...]]) -> bytes:
        """The task for a helper, from tickets of all clients counted: always the same bytes."""
        if helper not in self._tasks:
            tickets = [uploads[client][helper] for client in sorted(uploads)]
            message = wire.Task(helper, exchange, len(tickets), b"".join(tickets))
            self._tasks[helper] = wire.pack(message, self._manifest.digest, self._key)
        return self._tasks[helper]

    def take(self, part: wire.Part, data: bytes, task: bytes) -> list[str]:
        """Count the part of a helper; return the names of clients whose seals are damaged.

        A part for another task than the server's is refused: its sum would open nothing.
        """
        if part.task != wire.hash_of(task):
            refuse(Code.VALUE, "The helper has opened another set than that of this server.")
        found, damaged = self._sum(part), part.damaged
        clients = self._manifest.clients
        if list(damaged) != sorted(set(damaged)) or any(c >= len(clients) for c in damaged):
            refuse(Code.FORM, "The part does not name clients of this study, in order.")
        self._database.begin()
        self._database.execute("INSERT INTO part VALUES(?, ?)", (part.helper, data))
        where = part.helper.to_bytes(4, "little") + part.exchange.to_bytes(8, "little")
        named = part.payload[: 4 * part.count]
        self._chain.add("part", where + wire.hash_of(data) + named)
        self.parts[part.helper] = found
        return [clients[client] for client in damaged]

    def _sum(self, part: wire.Part) -> Words:
        info = veil.share_info(self._manifest.digest, part.exchange, part.helper)
        try:
            found = read_words(self._opener.open(part.payload[4 * part.count :], info))
        except veil.NotOpened:
            refuse(Code.VALUE, "The part does not open.")
        if len(found) != self._masked.width:
            refuse(Code.VALUE, "The part has the wrong number of numbers.")
        return found

    def total(self, uploads: list[Words], rounds: int) -> Any:
        """Open the sum of the uploads of an exchange, and erase what it was made of."""
        whole = opened(uploads, list(self.parts.values()))
        self._database.execute("DELETE FROM part")
        self._tasks.clear()
        self.parts.clear()
        return self._masked.total(self._algorithm, whole, len(uploads), rounds)

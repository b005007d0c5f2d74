"""The ledger of a server: the tables of one study, and what can be read from them.

It is read by every later version of the package: nothing here builds the algorithm again.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypedDict

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment import chain as chains
from hedgerow.deployment import veil, wire
from hedgerow.deployment.anchor import Anchor, OldLedger
from hedgerow.deployment.chain import Chain
from hedgerow.deployment.database import NAMED, open_database
from hedgerow.deployment.keys import load_or_make, public_hex, signed_by
from hedgerow.deployment.manifest import ROOTED, Manifest, check_signed
from hedgerow.deployment.receipts import NOT_COUNTED, Receipts
from hedgerow.deployment.roster import Change, Roster

FILE, KEY, BOX = "server.db", "server.pem", "server.box"
SCHEMA = (
    chains.SCHEMA
    + NAMED
    + """
CREATE TABLE IF NOT EXISTS game(
    id INTEGER PRIMARY KEY CHECK(id = 0), exchange INTEGER NOT NULL, round INTEGER NOT NULL,
    state BLOB NOT NULL, noise BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS joined(client INTEGER PRIMARY KEY, message BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS upload(
    exchange INTEGER NOT NULL, client INTEGER NOT NULL, hash BLOB NOT NULL,
    counted INTEGER, PRIMARY KEY(exchange, client)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS late ON upload(counted) WHERE counted <> exchange;
CREATE TABLE IF NOT EXISTS payload(
    client INTEGER NOT NULL, exchange INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY(client, exchange)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS part(helper INTEGER PRIMARY KEY, message BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS answer(exchange INTEGER PRIMARY KEY, message BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS head(
    client INTEGER PRIMARY KEY, count INTEGER NOT NULL, head BLOB NOT NULL,
    uploaded INTEGER NOT NULL, hash BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS fork(
    client INTEGER NOT NULL, exchange INTEGER NOT NULL, hash BLOB NOT NULL,
    PRIMARY KEY(client, exchange, hash));
CREATE TABLE IF NOT EXISTS done(
    client INTEGER PRIMARY KEY, round INTEGER NOT NULL, count INTEGER NOT NULL,
    head BLOB NOT NULL);
"""
)


class Head(NamedTuple):
    """The longest log that a client has shown, and its last upload."""

    entries: int
    head: bytes
    uploaded: int
    hash: bytes


NO_HEAD = Head(0, chains.START, wire.NONE, wire.NOTHING)


class PublicKeys(TypedDict):
    """The public keys of a server, for signing and for sealing."""

    server: str
    sealing: str


def public_keys(folder: str | Path) -> PublicKeys:
    """The public keys of the server in a folder, as a manifest names them; made if need be."""
    place = Path(folder)
    signing = load_or_make(place / KEY)
    return {"server": public_hex(signing), "sealing": veil.load_or_make(place / BOX).public}


class NoStudy(InvalidValue):
    """There is no study in this folder."""


class ServerLedger:
    """What a server keeps of one study.

    Parameters
    ----------
    folder
        The folder with the file `server.db`.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / FILE).is_file():
            raise NoStudy(f"{self.folder} holds no study. Make one with `hedgerow serve`.")
        self._database = open_database(self.folder / FILE, SCHEMA)
        with self._database.closed_if_it_fails():
            self._identify()

    def _identify(self) -> None:
        """Read which study this is."""
        kept = self._database.named()
        if "manifest" not in kept:
            raise NoStudy(
                f"Making the study in {self.folder} was interrupted. Run `hedgerow serve` again."
            )
        self.manifest = Manifest.read(kept["manifest"])
        self.signature = kept["signature"]
        check_signed(self.manifest, self.signature)
        self.study = self.manifest.digest
        self.chain = Chain(self._database)
        changes = self._database.execute("SELECT body FROM log WHERE kind = 'roster' ORDER BY n")
        self.roster = Roster(self.manifest, (Change.read(bytes(body)) for (body,) in changes))
        """Who takes part now."""
        row = self._database.one("SELECT exchange, round FROM game")
        self.exchange, self.round = (wire.NONE, 0) if row is None else row
        self.old = self._database.one("SELECT 1 FROM log WHERE kind = 'old'") is not None
        """Whether a client has shown an answer that this ledger does not have: an old copy."""
        forks = self._database.execute("SELECT DISTINCT client FROM fork")
        self.forked = {client for (client,) in forks}

    def heads(self) -> dict[int, Head]:
        """The longest log that each client has shown, and its last upload."""
        rows = self._database.execute("SELECT client, count, head, uploaded, hash FROM head")
        return {client: Head(*row) for client, *row in rows}

    def stored_answer(self, exchange: int) -> bytes | None:
        """The signed answer of an exchange; None: there is none."""
        row = self._database.one("SELECT message FROM answer WHERE exchange = ?", (exchange,))
        return None if row is None else bytes(row[0])

    def anchored_at(self, anchor: Anchor) -> int | None:
        """The exchange that the anchor names; None: it is missing. Raises if it is newer."""
        named = anchor.read()
        if named is None:
            return None
        exchange, found = named
        own = self.stored_answer(exchange)
        if own is None or wire.hash_of(own) != found:
            raise OldLedger(
                f"The ledger in {self.folder} is a restored copy: the anchor {anchor.path} names "
                f"an answer of exchange {exchange} that is not in it. Bring back the latest "
                "ledger, or start a new study."
            )
        return exchange

    def counted(self, exchange: int) -> dict[int, bytes]:
        """The hash of the upload of every client that an exchange counts, or that it will count."""
        rows = self._database.execute(
            "SELECT client, hash FROM upload WHERE exchange = ?1 AND counted = ?1 UNION ALL "
            "SELECT client, hash FROM upload WHERE counted = ?1 AND counted <> exchange",
            (exchange,),
        )
        return {client: bytes(found) for client, found in rows}

    def receipts(self, exchange: int) -> Receipts:
        """The receipts of an exchange, from the uploads that it counts."""
        found = self.counted(exchange)
        return Receipts([found.get(c, NOT_COUNTED) for c in range(len(self.manifest.roster))])

    def uploads(self) -> dict[tuple[int, int], tuple[bytes, int | None]]:
        """By client and exchange: the hash of the upload, and the exchange that counts it."""
        rows = self._database.execute(
            "SELECT client, exchange, hash, iif(counted <= ?, counted, NULL) FROM upload",
            (self.exchange,),
        )
        return {(client, exchange): (bytes(found), at) for client, exchange, found, at in rows}

    def check(self) -> bytes:
        """Check the log against the tables of the ledger; return its head."""
        head = self.chain.check()
        logged: dict[str, list[bytes]] = {"upload": [], "answer": [], "vouch": []}
        for entry in self.chain.entries():
            logged.get(entry.kind, []).append(entry.body)
        answers = [
            exchange.to_bytes(8, "little") + wire.hash_of(bytes(message))
            for exchange, message in self._database.execute("SELECT * FROM answer")
        ]
        uploads = [
            client.to_bytes(4, "little") + exchange.to_bytes(8, "little") + found
            for (client, exchange), (found, _) in self.uploads().items()
        ]
        if sorted(logged["upload"]) != sorted(uploads) or sorted(logged["answer"]) != sorted(
            answers
        ):
            raise InvalidValue(f"The ledger in {self.folder} does not agree with its log.")
        for exchange in range(self.exchange + 1 if self.manifest.protocol >= ROOTED else 0):
            answer = wire.unpack(self.stored_answer(exchange) or b"", self.study, wire.Answer)
            if answer.root != self.receipts(exchange).root:
                raise InvalidValue(
                    f"Answer {exchange} in {self.folder} counts other uploads than the ledger has."
                )
        for body in logged["vouch"]:
            if not signed_by(self.manifest.server, body[8:], self.vouched_text(body[:8])):
                raise InvalidValue(f"A word in the log in {self.folder} is not the operator's.")
        return head

    def vouched(self) -> list[int]:
        """After which exchanges the operator has vouched that the ledger was the latest."""
        words = [entry.body[:8] for entry in self.chain.entries() if entry.kind == "vouch"]
        return [int.from_bytes(word, "little") for word in words]

    def vouched_text(self, word: bytes) -> bytes:
        """What the operator signs after the exchange of a word."""
        return b"hedgerow: this ledger is the latest\n" + self.study + word

    def signatures(self) -> dict[str, bytes]:
        """The message with which each client signed the study, by name, once checked."""
        rows = self._database.execute("SELECT client, message FROM joined")
        signed = {self.manifest.clients[client]: bytes(message) for client, message in rows}
        for name, message in signed.items():
            key = self.roster.keys[self.manifest.index(name)]
            if not wire.signed(message, self.study, key, self.manifest.protocol):
                raise InvalidValue(f"The signature of {name} in {self.folder} is wrong.")
        return signed

    def damaged(self) -> dict[int, list[str]]:
        """The clients whose seals a helper could not open, by exchange: that sum is spoiled."""
        found: dict[int, list[str]] = {}
        for entry in self.chain.entries():
            named = entry.body[44:] if entry.kind == "part" else b""
            for at in range(0, len(named), 4):
                exchange = int.from_bytes(entry.body[4:12], "little")
                name = self.manifest.clients[int.from_bytes(named[at : at + 4], "little")]
                if name not in found.setdefault(exchange, []):
                    found[exchange].append(name)
        return found

    def evidence(self) -> list[tuple[str, int, bytes]]:
        """The second messages of forks: client, exchange, hash of the signed bytes."""
        rows = self._database.execute("SELECT client, exchange, hash FROM fork")
        return [(self.manifest.clients[c], exchange, bytes(m)) for c, exchange, m in rows]

    def close(self) -> None:
        """Close the ledger; the study goes on when it is opened again."""
        self._database.close()

"""The server of a study: a state machine over its ledger that knows no sockets and no clock.

Uploads, the answer that they complete and the next state are one transaction, and replies are
returned after it. An upload of a client is counted once for each exchange; the same bytes again get
the same answer. After a start the server answers nothing before it has proof that its ledger is the
latest: the hellos of all clients of the last exchange or, where exchanges may close without some of
them, the anchor (`anchor.py`) or the operator's word. A hello repeats what this process drew when
it started, so an old one does not count. It shows an answer with the server's signature, so a
client that names one that does not exist is refused, and nobody else is.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from hedgerow.core.errors import HedgerowError, InvalidValue, Unsupported
from hedgerow.core.messages import decode, decode_state, encode, encode_state
from hedgerow.deployment import veil, wire
from hedgerow.deployment.anchor import Anchor, AnchorFailed, OldLedger, beside
from hedgerow.deployment.chain import Chain
from hedgerow.deployment.closing import rule_of
from hedgerow.deployment.database import LedgerFailed, open_database
from hedgerow.deployment.keys import load_or_make
from hedgerow.deployment.manifest import Manifest, rebuild
from hedgerow.deployment.noise import PartyNoise
from hedgerow.deployment.receipts import NOT_COUNTED, Receipts
from hedgerow.deployment.roster import OUT, Change
from hedgerow.deployment.server_ledger import (
    BOX,
    FILE,
    KEY,
    NO_HEAD,
    SCHEMA,
    Head,
    ServerLedger,
    public_keys,
)
from hedgerow.deployment.sums import Sums
from hedgerow.deployment.wire import Code, Refused, refuse
from hedgerow.engines.loop import combine, stack

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LARGEST_NEWS = 10_000
KEPT = 4  # answers in memory; older ones are read from the ledger
HELPING = -2
"""In a `Wait`: a helper waits for its next task."""
DROPPED = -1
"""The exchange that counts a late upload which is never counted."""


@dataclass(frozen=True)
class Wait:
    """No reply yet: `StudyServer.reply` has it once that exchange is complete.

    With the exchange `HELPING` it has the task of the helper `client`, once all have uploaded.
    """

    exchange: int
    client: int


class Sent:
    """A signed answer, its hash, and the receipts of what it counts, each found when needed."""

    def __init__(self, ledger: ServerLedger, exchange: int, message: bytes) -> None:
        self._ledger, self.exchange, self.message = ledger, exchange, message

    @cached_property
    def hash(self) -> bytes:
        """What names the answer."""
        return wire.hash_of(self.message)

    @cached_property
    def receipts(self) -> Receipts:
        """What the answer counts."""
        return self._ledger.receipts(self.exchange)

    def reply(self, client: int) -> bytes:
        """The reply to a client that has waited for this answer."""
        shown = self.message, self.receipts.path(client)
        return wire.Answered(self.exchange, (shown,)).pack()


@dataclass(frozen=True)
class _Open:
    """An upload that the open exchange counts; it may be late. Under masks it has tickets."""

    hash: bytes
    upload: Any
    tickets: tuple[bytes, ...]


def _check_keys(folder: Path, manifest: Manifest) -> None:
    """Refuse a folder without the private keys of the server that the manifest names."""
    own = public_keys(folder)
    named = {
        KEY: manifest.server == own["server"],
        BOX: manifest.sealing["server"] == own["sealing"],
    }
    for file, right in named.items():
        if not right:
            raise InvalidValue(
                f"The key in {folder / file} is not the server's that the study names. "
                "Put the right key there."
            )


class StudyServer(ServerLedger):
    """One study at its server.

    Parameters
    ----------
    folder
        The folder that `StudyServer.create` has made: the ledger `server.db` and the key.
    anchor
        The file that names the last answer, outside the folder. None: `FOLDER.anchor`, beside it.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> manifest = Manifest.make(
    ...     title="Wards", algorithm="sparse_vector", experts=3, horizon=10,
    ...     roster={"a": "11" * 32}, **public_keys(folder),
    ... )
    >>> server = StudyServer.create(folder, manifest)
    >>> server.exchange, server.take([b"M"])[0][:1], server.take([b"what?"])[0][:2]
    (0, b'M', b'E\\x01')
    >>> server.close()
    """

    def __init__(self, folder: str | Path, anchor: str | Path | None = None) -> None:
        self._anchor_file = beside(Path(folder)) if anchor is None else Path(anchor)
        super().__init__(folder)
        with self._database.closed_if_it_fails():
            self._load()

    @classmethod
    def create(
        cls, folder: str | Path, manifest: Manifest, anchor: str | Path | None = None
    ) -> StudyServer:
        """Make the ledger of a new study and draw its opening broadcast.

        The folder holds the server's keys (`server.pem`, `server.box`), whose public keys the
        manifest names.
        """
        out = Path(folder)
        _check_keys(out, manifest)
        key = load_or_make(out / KEY)
        rebuild(manifest)
        database = open_database(out / FILE, SCHEMA)
        try:
            if "manifest" in database.named():
                raise InvalidValue(
                    f"{out} already holds a study. Use another folder for a new one."
                )
            with database.transaction("server create"):
                signature = key.sign(manifest.signed_text)
                database.name(manifest=manifest.to_bytes(), signature=signature)
                Chain(database).add("manifest", manifest.digest)
        finally:
            database.close()
        return cls(out, anchor)

    def _load(self) -> None:
        database = self._database
        self.key: Ed25519PrivateKey = load_or_make(self.folder / KEY)
        self._opener = veil.load_or_make(self.folder / BOX)
        self._sessions = veil.Sessions(self._opener, self.study)
        self.algorithm = rebuild(self.manifest)
        _check_keys(self.folder, self.manifest)
        self._rule = rule_of(self.manifest.closing)
        self.greeted: set[int] = set()
        """Clients that have said hello since this object was made."""
        self._boot = secrets.token_bytes(wire.BOOT)  # a hello must repeat it: no old one counts
        self.trouble: str | None = None
        """What an operator should know: a fork or an old ledger; public."""
        self._news: deque[tuple[str, dict[str, Any]]] = deque(maxlen=LARGEST_NEWS)
        self._answers: dict[int, Sent] = {}
        row = database.one("SELECT state, noise FROM game")
        self._anchor = Anchor(self._anchor_file, self.study) if self._rule.may_close else None
        self.anchored = self._anchor is not None and self._is_anchored(self._anchor)
        """Whether the anchor, or the operator, says that this ledger is the latest."""
        self._proven = row is None  # this process answered, or clients have said hello
        self._noise = PartyNoise(self.manifest.seed, b"" if row is None else bytes(row[1]))
        if row is None:
            with database.transaction("server opening"):
                broadcast, state = self.algorithm.server.open(self._noise.server())
                self.exchange, self._state = 0, state
                self._say(broadcast, {})
            self._publish()
        else:
            self._state = decode_state(self.algorithm.server.state, bytes(row[0]))
            self._published = self.exchange
        self._broadcast = self._sent(self.exchange)
        self._changes, self._shown, self._begun = list[tuple[int, str]](), -1, 0
        self.joined, self.done = (
            {client for (client,) in database.execute(f"SELECT client FROM {table}")}
            for table in ("joined", "done")
        )
        counted = self.counted(self.exchange) if self.exchange else self.roster.held
        self._witnesses = frozenset(counted)  # their hellos prove that the ledger is the latest
        self._unheard = set(self._witnesses)
        self._sums: Sums | None = None
        if self.manifest.helpers:
            parties = self.key, self._opener, database, self.chain
            self._sums = Sums(self.manifest, self.algorithm, *parties)
        self._open: dict[int, _Open] = {
            client: _Open(bytes(found), *self._checked(bytes(payload), exchange, client))
            for client, exchange, found, payload in database.execute(
                "SELECT client, exchange, hash, data FROM payload JOIN upload "
                "USING (client, exchange) WHERE counted = ?",
                (self.exchange + 1,),
            ).fetchall()
        }
        self._needed = len(self.roster.active | self._open.keys())
        chosen = "SELECT 1 FROM log WHERE kind = 'set' AND body = ?", (self._set_body,)
        self._is_set = database.one(*chosen) is not None
        """Whether the open exchange has closed without some clients, and waits for helpers."""
        self._fresh = dict[int, tuple[int, bytes]]()  # payloads of this batch, not written yet
        self._uploads = dict[tuple[int, int], tuple[int, int, bytes, int | None]]()  # likewise
        self._heads, self._shown_heads = self.heads(), set[int]()  # the latter are not written
        self._stored = bool(self._open)  # whether payloads of the open exchange are on disk
        self._traces = True  # of a process that was killed, perhaps
        self._forget("server start")

    def _is_anchored(self, anchor: Anchor) -> bool:
        """Whether the anchor names the last answer, or the one before it; raises if it is newer.

        A server that dies between the commit of an answer and the anchor has not sent the answer.
        The anchor names it now, before it leaves.
        """
        exchange = self.anchored_at(anchor)
        if exchange is None:
            return False
        if exchange == self.exchange - 1:
            self._publish()
        return exchange >= self.exchange - 1

    def vouch(self) -> bool:
        """Take the operator's word that there is no later ledger of this study than this one.

        For a server whose anchor is lost while a client of the last exchange is lost as well. The
        word is signed with the server's key, logged, and in every statement of the server. Then the
        anchor is written again. False: no word is needed, and none is logged.
        """
        if not self._rule.may_close:
            raise Unsupported(
                "In this study an exchange waits for all clients, so their hellos are proof "
                "enough. Start the server without --vouch."
            )
        if self.old:
            raise OldLedger(f"The ledger in {self.folder} cannot go on: {self.stuck}.")
        if self.anchored or self._proven:
            return False
        with self._database.transaction("server vouch"):
            word = self.exchange.to_bytes(8, "little")
            self.chain.add("vouch", word + self.key.sign(self.vouched_text(word)))
        self._publish()
        self.anchored = True
        return True

    def amend(self, wanted: Mapping[str, str]) -> list[str]:
        """Change the roster as a study file says; return what was new, in words.

        By the name of a seat, `wanted` has the key of the client that gets it, or "out" if its
        client is taken out. An upload that the open exchange has of that client still counts;
        nothing more is taken from it.
        """
        known = len(self.roster.changes)
        for name, key in wanted.items():
            if name not in self.manifest.roster:
                raise InvalidValue(f"The study has no seat {name[:80]!r} whose client can change.")
            seat = self.manifest.index(name)
            done = seat in self.roster.out if key == OUT else self.roster.keys[seat] == key
            if not done:
                self._change(Change(seat, self.exchange, "" if key == OUT else key))
        self._needed = len(self.roster.active | self._open.keys())
        return self.roster.words()[known:]

    def _change(self, change: Change) -> None:
        self.roster.check(change)
        signed = replace(change, signature=self.key.sign(change.signed_text(self.study)))
        with self._database.transaction("server roster"):
            self.chain.add("roster", signed.to_bytes())
        self.roster.add(signed)

    # -- what comes in -----------------------------------------------------------------------------

    def take(self, requests: Sequence[bytes]) -> list[bytes | Wait]:
        """Handle requests that arrived together, in one transaction; return a reply for each.

        For a `Wait`, `reply` has the reply once that exchange is complete. Requests that are
        refused change nothing. If the ledger cannot be written, this raises
        `LedgerFailed`: nothing was counted, no reply may be sent, and the server must be opened
        again.
        """
        if self._database.failed:
            return [wire.pack_refusal(Code.STOPPED, "The server has stopped.") for _ in requests]
        before = self.exchange
        replies: list[bytes | Wait] = []
        with self._database.batch("server take"):
            for data in requests:
                try:
                    replies.append(self._handle(data))
                except Refused as refusal:
                    replies.append(wire.pack_refusal(refusal.code, refusal.text, self._boot))
            self._write()
            self._keep_payloads()
        self._forget("server take")
        if self.exchange != before:  # some that wait have their answer now
            self._publish()
            replies = [self._ready(reply) for reply in replies]
        return replies

    def news(self) -> list[tuple[str, dict[str, Any]]]:
        """What has happened since the last call, for a log: events with public facts."""
        found = list(self._news)
        self._news.clear()
        return found

    def _tell(self, event: str, client: int, **facts: Any) -> None:
        self._news.append((event, {"client": self.manifest.clients[client], **facts}))

    def _ready(self, reply: bytes | Wait) -> bytes | Wait:
        return (self.reply(reply) or reply) if isinstance(reply, Wait) else reply

    def _handle(self, data: bytes) -> bytes | Wait:
        if data == wire.MANIFEST:
            changes = b"".join(change.to_bytes() for change in self.roster.changes)
            return wire.pack_manifest(self.signature, self.manifest.to_bytes(), changes)
        message = wire.unpack(data, self.study, *wire.REQUESTS)
        if isinstance(message, wire.Fetch | wire.Part):
            return self._helped(message, data)
        client = message.client
        keys = self.roster.keys
        if client >= len(keys) or not wire.signed(data, self.study, keys[client]):
            given = client < len(keys) and not self.manifest.roster[self.manifest.clients[client]]
            if isinstance(message, wire.Hello) and given:
                self._compare(message)  # an old ledger may not know to whom it gave the seat
            refuse(Code.SIGNATURE, "The message is not signed by a client of this study.")
        if client in self.roster.out and not isinstance(message, wire.Hello):
            refuse(Code.OUT, "The operator of the server has taken this client out of the study.")
        if isinstance(message, wire.Join):
            return self._join(message, data)
        if client not in self.joined:
            refuse(Code.NOT_JOINED, "This client has not joined the study.")
        if isinstance(message, wire.Hello):
            return self._hello(message)
        if client in self.forked:
            refuse(Code.FORK, "This client has signed two messages for one release.")
        if client not in self.greeted:
            refuse(Code.HELLO, "Say hello first.")
        if isinstance(message, wire.Upload):
            return self._upload(message, data)
        return self._ask(message) if isinstance(message, wire.Ask) else self._finish(message)

    def _join(self, message: wire.Join, data: bytes) -> bytes:
        if message.client not in self.joined:
            self._database.begin()
            self._database.execute("INSERT INTO joined VALUES(?, ?)", (message.client, data))
            self.chain.add("join", message.client.to_bytes(4, "little") + wire.hash_of(data))
            self.joined.add(message.client)
            self._tell("joined", message.client)
        return self._welcome(message.client, bytes(16))

    def _hello(self, message: wire.Hello) -> bytes:
        client = message.client
        if message.boot != self._boot:
            refuse(Code.HELLO, "The server has started again. Say hello to it.")
        self._compare(message)
        known = self._heads.get(client, NO_HEAD)
        if message.count < known.entries or (
            message.count == known.entries and message.head != known.head
        ):
            refuse(
                Code.OLD_CLIENT,
                "This ledger is older than what the server has seen of it: a restored copy. "
                "Nothing is released. Bring back the latest ledger, or join a new study.",
            )
        reply = self._welcome(client, message.nonce)
        if client not in self._heads or message.count > known.entries:
            self._database.begin()
            self._note_head(client, message.count, message.head)
        self.greeted.add(client)
        self._unheard.discard(client)
        self._tell("hello", client, exchange=message.exchange, entries=message.count)
        self._close_if_complete()
        return reply

    def _compare(self, message: wire.Hello) -> None:
        """Refuse a hello that names an answer which is not in this ledger."""
        if message.exchange >= 0:
            seen = self._answer(message.exchange)
            if seen is None or wire.seal_of(seen.message) != message.seal:
                self._other_answer(message)
        elif message.seal != wire.UNSEALED:
            refuse(Code.FORM, "The hello contradicts itself.")

    def _welcome(self, client: int, nonce: bytes) -> bytes:
        known = self._heads.get(client, NO_HEAD)
        count, head, uploaded, found = known
        welcome = wire.Welcome(client, self.exchange, uploaded, found, count, head, nonce)
        return wire.pack(welcome, self.study, self.key)

    def _ask(self, message: wire.Ask) -> bytes | Wait:
        if not 0 <= message.exchange <= self.exchange + 1:
            refuse(Code.EXCHANGE, "There is no such exchange.")
        return self._from(message.exchange, message.client)

    def _from(self, exchange: int, client: int) -> bytes | Wait:
        """The answer of an exchange and those after it, as many as fit into a reply."""
        if exchange > self.exchange:
            return Wait(exchange, client)
        found, size = list[tuple[bytes, bytes]](), 0
        for at in range(exchange, self.exchange + 1):
            sent = self._answer(at)
            assert sent is not None, "an answer is missing"
            size += len(sent.message)
            if found and size > wire.AT_ONCE:
                break
            found.append((sent.message, sent.receipts.path(client)))
        return wire.Answered(self.exchange, tuple(found)).pack()

    def _upload(self, message: wire.Upload, data: bytes) -> bytes | Wait:
        client, exchange, found = message.client, message.exchange, wire.hash_of(data)
        known = self._known(client, exchange)
        if known is not None:
            if known != found:
                self._fork(client, exchange, found)
            return self._from(exchange, client)
        last = self._answer(exchange - 1) if 1 <= exchange <= self.exchange + 1 else None
        if exchange > self.exchange + 1 or (last is not None and last.hash != message.seen):
            self.greeted.discard(client)  # what it has seen must be shown in a hello
            self._unheard |= {client} & self._witnesses
            refuse(Code.HELLO, "The upload follows an answer that this server does not have.")
        late = exchange <= self.exchange and self._rule.may_close
        if client in self._open or exchange < 1 or not (late or self._is_open(exchange)):
            refuse(Code.EXCHANGE, "This exchange is not open.")
        stored = message.payload if self._sums is None else data
        opened = _Open(found, *self._checked(stored, exchange, client))
        entered = self._rule.enters(exchange, self.exchange + 1)
        counts = entered is not None and self._is_open(entered) and not self._is_set
        self._database.begin()
        row = (exchange, client, found, entered if counts else DROPPED)
        self._uploads[client, exchange] = row
        self._note_head(client, message.count, message.head, exchange, found)
        where = client.to_bytes(4, "little") + exchange.to_bytes(8, "little")
        self.chain.add("upload", where + found, at_once=False)
        if counts:
            self._open[client] = opened
            self._fresh[client] = exchange, stored
        self._close_if_complete()
        return self._from(exchange, client)

    def _known(self, client: int, exchange: int) -> bytes | None:
        """The hash of the upload of a client in an exchange; None: there is none."""
        if exchange > self._heads.get(client, NO_HEAD).uploaded:
            return None
        row = self._uploads.get((client, exchange))
        if row is not None:
            return row[2]
        found = self._database.one(
            "SELECT hash FROM upload WHERE client = ? AND exchange = ?", (client, exchange)
        )
        return None if found is None else bytes(found[0])

    def _write(self) -> None:
        """Write uploads, heads and the log of this batch, inside its transaction.

        All rows of a table are one statement.
        """
        self.chain.write()
        rows = self._uploads.values()
        self._database.all("INSERT INTO upload VALUES(?, ?, ?, ?)", rows)
        heads = [(client, *self._heads[client]) for client in self._shown_heads]
        self._database.all("REPLACE INTO head VALUES(?, ?, ?, ?, ?)", heads)
        self._uploads.clear()
        self._shown_heads.clear()

    def _keep_payloads(self) -> None:
        """Write the payloads of this batch that wait for others."""
        rows = [(client, *fresh) for client, fresh in self._fresh.items()]
        self._database.all("INSERT INTO payload VALUES(?, ?, ?)", rows)
        self._stored |= bool(rows)
        self._fresh.clear()

    def _drop_payloads(self) -> None:
        """Delete what an answer has counted; exact sums of one client leave no trace.

        With local trust payloads are noisy, and are kept for checks. Numbers under masks are
        deleted, so that helpers' keys that are stolen later open nothing.
        """
        if self.algorithm.certificate.trust == "local":
            self._keep_payloads()
            return
        self._traces |= self._stored or len(self._open) == 1  # then the sum is that of one client
        self._fresh.clear()
        self._database.execute("DELETE FROM payload")
        self._stored = False

    def _forget(self, name: str) -> None:
        """After a commit: leave no trace of payloads that were on disk and are counted."""
        if self._traces:
            self._database.forget(name)
            self._traces = False

    def _is_open(self, exchange: int) -> bool:
        """Whether this exchange comes next."""
        return exchange == self.exchange + 1 and self._until_next is not None

    @property
    def _until_next(self) -> int | None:
        """The rounds from the last exchange to the next; None: no other exchange comes."""
        return self.algorithm.setting.until_next(self.round, self._broadcast.rounds)

    def _checked(self, stored: bytes, exchange: int, client: int) -> tuple[Any, tuple[bytes, ...]]:
        """Open and decode a payload; refuse one that no client sends, without its values.

        Under masks the whole message is stored, and its numbers cannot be checked; it has a ticket
        for each helper.
        """
        try:
            if self._sums is not None:
                message = wire.unpack(stored, self.study, wire.Upload)
                body = self._sessions.open(exchange, client, message.parts[-1])
                return self._sums.words(body, message), wire.Ticket.of(stored)
            return self._bounded(self._sessions.open(exchange, client, stored), exchange), ()
        except HedgerowError:
            refuse(Code.VALUE, "The payload is not one that the algorithm can send.")

    def _bounded(self, payload: bytes, exchange: int) -> Any:
        """The upload, moved into the range of honest ones: a false one cannot end the game."""
        upload = decode(self.algorithm.uploads.kind, payload)
        before = self._broadcast if exchange == self.exchange + 1 else self._sent(exchange - 1)
        return self.algorithm.uploads.bounded(upload, before.rounds or 0)

    def _sent(self, exchange: int) -> Any:
        """The broadcast that answers an exchange."""
        sent = self._answer(exchange)
        answer = wire.unpack(sent.message if sent else b"", self.study, wire.Answer)
        return decode(self.algorithm.broadcasts.kind, answer.broadcast)

    def _note_head(
        self,
        client: int,
        count: int,
        head: bytes,
        uploaded: int = wire.NONE,
        found: bytes = wire.NOTHING,
    ) -> None:
        """Remember the longest log that a client has shown, and its last upload."""
        known = self._heads.get(client, NO_HEAD)
        longest = (count, head) if count > known.entries else known[:2]
        last = (uploaded, found) if uploaded > known.uploaded else known[2:]
        self._heads[client] = Head(*longest, *last)
        self._shown_heads.add(client)

    def _fork(self, client: int, exchange: int, found: bytes) -> None:
        """Note the hash of a second message for the same release, and refuse the client.

        The message itself may hold exact sums, so it is not kept.
        """
        self._database.begin()
        row = (client, exchange, found)
        self._database.execute("INSERT OR IGNORE INTO fork VALUES(?, ?, ?)", row)
        self.chain.add("fork", client.to_bytes(4, "little") + found)
        self.forked.add(client)
        self.trouble = f"{self.manifest.clients[client]} has signed two messages for one release"
        refuse(Code.FORK, "This client has signed two messages for one release.")

    def _other_answer(self, message: wire.Hello) -> NoReturn:
        """Refuse a client that names an answer which is not in this ledger.

        If the server has signed that answer, this ledger is an old copy: the proof is logged, and
        no exchange is answered with this ledger again. Otherwise only this client is refused.
        """
        name, count = self.manifest.clients[message.client], len(self.manifest.roster)
        server = self.manifest.server
        if not wire.sealed(message.exchange, count, message.seal, self.study, server):
            refuse(Code.SIGNATURE, "The server has not signed the answer that the hello names.")
        if not self.old:
            self._database.begin()
            where = message.client.to_bytes(4, "little") + message.exchange.to_bytes(8, "little")
            self.chain.add("old", where + message.seal)
            self.old = True
            self.trouble = f"{name} has shown an answer that this server does not have"
        refuse(
            Code.OLD_SERVER,
            "The server's ledger is older than what this client has seen: a restored copy. Nothing "
            "is released. Tell the operator of the server.",
        )

    def _finish(self, message: wire.Done) -> bytes:
        client = message.client
        if client not in self.done:
            self._database.begin()
            row = (client, message.round, message.count, message.head)
            self._database.execute("INSERT INTO done VALUES(?, ?, ?, ?)", row)
            self._note_head(client, message.count, message.head)
            self.chain.add("done", client.to_bytes(4, "little") + message.head)
            self.done.add(client)
            self._tell("done", client, round=message.round)
        return wire.pack(
            wire.Farewell(client, self.chain.count, self.chain.head), self.study, self.key
        )

    # -- helpers -----------------------------------------------------------------------------------

    def task(self, helper: int) -> bytes | None:
        """What a helper is to do now; None: it has to wait for clients, or for other helpers."""
        if self._sums is None or self.exchange < 0:
            return None
        if self._until_next is None:
            return wire.pack(wire.Over(self.exchange), self.study, self.key)
        if self.manifest.helper_names[helper] not in self.awaited:
            return None
        tickets = {client: one.tickets for client, one in self._open.items()}
        return self._sums.task(helper, self.exchange + 1, tickets)

    @property
    def awaited(self) -> list[str]:
        """The helpers whose sums the open exchange needs; none before it is complete."""
        return [] if self._sums is None or not self._complete else self._sums.missing

    @property
    def _complete(self) -> bool:
        """Whether the open exchange has all uploads that it counts, and may be answered."""
        known, least = self._open.keys(), self.manifest.least
        every = self._rule.complete(known, self._needed, self._is_set, least)
        return every and self._may_answer(self._is_set)

    @property
    def _set_body(self) -> bytes:
        """What the log says when the open exchange closes without some clients."""
        return (self.exchange + 1).to_bytes(8, "little")

    def _helped(self, message: wire.Fetch | wire.Part, data: bytes) -> bytes | Wait:
        """Give a helper its task; take the sum of its masks."""
        if self._sums is None:
            refuse(Code.FORM, "This study has no helpers.")
        helper = self._sums.helper_of(message, data)
        if message.exchange > self.exchange + 1:
            refuse(
                Code.OLD_SERVER,
                "The server's ledger is older than what this helper has opened: a restored copy. "
                "Tell the operator of the server.",
            )
        if isinstance(message, wire.Part) and message.exchange == self.exchange + 1:
            task = self.task(helper)
            if task is not None:
                self._counted_part(self._sums, message, data, task)
        return self._ready(Wait(HELPING, helper))

    def _counted_part(self, sums: Sums, part: wire.Part, data: bytes, task: bytes) -> None:
        name = self.manifest.helper_names[part.helper]
        damaged = sums.take(part, data, task)
        self._news.append(("part", {"helper": name, "exchange": part.exchange}))
        if damaged:
            self.trouble = (
                f"helper {name} could not open the seals of {', '.join(damaged)} in exchange "
                f"{part.exchange}: its sum is spoiled"
            )
        self._close_if_complete()

    # -- what goes out -----------------------------------------------------------------------------

    def _close_if_complete(self) -> None:
        """Answer the open exchange if it is complete and the ledger is proven to be the latest."""
        helped = self._sums is None or not self._sums.missing
        if helped and self._complete:
            self._database.begin()
            self._answer_exchange()

    def _may_answer(self, closing: bool = False) -> bool:
        """Whether this ledger is proven to be the latest.

        All clients that the last exchange counts have said hello since the start: they have seen
        its answer, and would find out an older ledger. Or this process has answered already. The
        anchor counts when somebody asks to close the exchange, and a client has said hello: until
        then those that are here had time to show a later answer, which stops everything.
        """
        if self.old:
            return False
        self._proven = self._proven or not self.unheard
        return self._proven or (closing and self.anchored and bool(self.greeted))

    @property
    def unheard(self) -> set[int]:
        """The clients whose hello the server awaits before it answers; none once it has proof."""
        if self._proven:
            return set()
        known = self.anchored and bool(self.greeted)  # then those that were taken out are not asked
        return self._unheard - self.roster.out if known else self._unheard

    @property
    def lost_anchor(self) -> Path | None:
        """The anchor, if it is needed as a proof and does not name the last answer; or None."""
        needed = self._anchor is not None and not (self.anchored or self._proven)
        return self._anchor_file if needed else None

    @property
    def stuck(self) -> str | None:
        """What keeps the server from answering any exchange, in words; None: nothing."""
        if self.old:
            return "this ledger is an old copy: bring back the latest one, or start a new study"
        names = [self.manifest.clients[client] for client in sorted(self.unheard)]
        may_close = self.anchored and self.missing > 0  # and then the timer says when
        if not names or may_close or self._until_next is None:
            return None
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} others" if names[3:] else "")
        since = "since the start of the server, a hello is awaited from"
        if self.lost_anchor is not None:
            since = f"the anchor is missing or old, and {since}"
        return f"{since} {shown}"

    @property
    def may_close(self) -> bool:
        """Whether the closing rule of the study allows `close_exchange`."""
        return self._rule.may_close

    def close_exchange(self) -> bool:
        """Close the open exchange without the uploads that are missing; return whether it was.

        It is answered at once or, under masks, when helpers have opened its sum: the set of clients
        that it counts is fixed, and no later upload is in it.

        An operator or a timer calls it, where the closing rule allows it. Nothing happens while
        no client has uploaded, or while nothing proves that this ledger is the latest: neither the
        hellos of the clients that the last exchange counts, nor the anchor, nor `vouch`.
        """
        if not self._rule.may_close:
            raise Unsupported(
                f"In this study an exchange waits for all clients (closing={self._rule.name!r})."
            )
        least = self.manifest.least
        ready = self._rule.complete(self._open.keys(), self._needed, True, least)
        if not ready or self._is_set or not self._may_answer(closing=True):
            return False
        with self._database.transaction("server close"):
            if self._sums is None:
                self._answer_exchange()
            else:
                self.chain.add("set", self._set_body)
                self._is_set = True
        if self._sums is not None:
            return True
        self._forget("server close")
        self._publish()
        return True

    def _publish(self) -> None:
        """Let the answers that are committed leave: the anchor names the last one first."""
        last = self._answer(self.exchange)
        if self._anchor is not None and last is not None:
            try:
                self._anchor.write(self.exchange, last.hash)
            except OSError as error:
                self._database.close()
                raise AnchorFailed(
                    f"The anchor {self._anchor.path} could not be written: {error.strerror}. "
                    "Nothing was sent. Check the disk, then start again."
                ) from error
        self._published = self.exchange

    def _answer_exchange(self) -> None:
        """Compute the answer to the open exchange, inside the transaction that completes it."""
        try:
            uploads = [self._open[client].upload for client in sorted(self._open)]
            if self._sums is None:
                seen = combine(self.algorithm, stack(uploads))
            else:
                seen = self._sums.total(uploads, self._broadcast.rounds or 0)
            broadcast, self._state = self.algorithm.server.aggregate(
                self._state, seen, self._noise.server()
            )
        except Exception:  # its text may show a sum
            raise HedgerowError(
                "The uploads of this exchange cannot be combined. Nothing was sent."
            ) from None
        self._write()
        counted = {client: one.hash for client, one in self._open.items()}
        self.exchange += 1
        self.round += self._broadcast.rounds or 0
        self._drop_payloads()
        self._open, self._is_set, self._proven = {}, False, True
        self._needed = len(self.roster.active)
        self._say(broadcast, counted)
        self._broadcast = broadcast
        facts = {"exchange": self.exchange, "round": self.round, "uploads": len(counted)}
        self._news.append(("exchange", facts))

    def _say(self, broadcast: Any, counted: dict[int, bytes]) -> None:
        clients = len(self.manifest.roster)
        receipts = Receipts([counted.get(c, NOT_COUNTED) for c in range(clients)])
        answer = wire.Answer(self.exchange, clients, receipts.root + encode(broadcast))
        sent = Sent(self, self.exchange, wire.pack(answer, self.study, self.key))
        sent.receipts = receipts
        self._database.execute("INSERT INTO answer VALUES(?, ?)", (self.exchange, sent.message))
        self.chain.add("answer", self.exchange.to_bytes(8, "little") + sent.hash)
        self._database.execute(
            "REPLACE INTO game VALUES(0, ?, ?, ?, ?)",
            (self.exchange, self.round, encode_state(self._state), self._noise.saved()),
        )
        self._keep(sent)

    def _keep(self, sent: Sent) -> None:
        self._answers[sent.exchange] = sent
        if len(self._answers) > KEPT:
            del self._answers[next(iter(self._answers))]

    def sent(self, exchange: int) -> Sent | None:
        """The answer of an exchange with its receipts; None: it is not complete, and durable."""
        if self._database.failed:
            raise LedgerFailed("The server has stopped. Open it again.")
        found = self._answer(exchange) if exchange <= self._published else None
        if found is not None:
            _ = found.receipts  # the ledger is read here, and not where replies are made
        return found

    def answer(self, exchange: int) -> bytes | None:
        """The signed answer of an exchange; None if the exchange is not complete, and durable."""
        found = self.sent(exchange)
        return None if found is None else found.message

    def reply(self, waited: Wait) -> bytes | None:
        """The reply to a request that has waited; None: it still has to wait."""
        if waited.exchange == HELPING:
            return self.task(waited.client)
        found = self.sent(waited.exchange)
        return None if found is None else found.reply(waited.client)

    def _answer(self, exchange: int) -> Sent | None:
        """The answer of an exchange, even if it is not committed yet."""
        if exchange not in self._answers:
            message = self.stored_answer(exchange)
            if message is None:
                return None
            self._keep(Sent(self, exchange, message))
        return self._answers[exchange]

    @property
    def over(self) -> bool:
        """Whether every client is done."""
        return self.roster.active <= self.done

    @property
    def missing(self) -> int:
        """How many uploads the open exchange still needs."""
        return self._needed - len(self._open)

    @property
    def late(self) -> int:
        """How many clients the open exchange still waits for; 0 before its first upload."""
        return self._needed - len(self._open.keys() - self.unheard) if self._open else 0

    def public(self) -> dict[str, Any]:
        """What PUBLIC and PEER see anyway, for pages and metrics: no upload, sum or threshold.

        If a transaction has failed, what is in memory may never have been committed: this raises.
        """
        if self._database.failed:
            raise LedgerFailed("The server has stopped. Open it again.")
        uploaded, out = self._open.keys(), self.roster.out
        clients = [
            {
                "name": name,
                "joined": index in self.joined,
                "present": index in self.greeted,
                "late": bool(uploaded) and index not in uploaded | self.done | out,
                "done": index in self.done,
                "forked": index in self.forked,
                "out": index in out,
                "entries": self._heads.get(index, NO_HEAD).entries,
                "head": self._heads[index].head.hex() if index in self._heads else None,
            }
            for index, name in enumerate(self.manifest.clients)
            if self.roster.keys[index]
        ]
        follow, left = self.algorithm.shortcuts.common_play, self.algorithm.shortcuts.switches_left
        play = "a point" if self.algorithm.plays == "point" else None
        if play is None and follow is not None:
            play = int(follow(self._broadcast))
        return {
            "title": self.manifest.title,
            "study": self.study.hex(),
            "algorithm": self.algorithm.name,
            "private": self.manifest.private,
            "closing": self.manifest.closing,
            "clients": clients,
            "helpers": {name: name in self.awaited for name in self.manifest.helper_names},
            "exchange": self.exchange,
            "round": self.round,
            "horizon": self.algorithm.setting.horizon,
            "next_upload_after_rounds": self._until_next,
            "play": play,
            "followed": self._followed(),
            "weights": self._weights(),
            "switches_left": None if left is None else left(self._state),
            "over": self.over,
            "trouble": self.trouble,
            "stuck": self.stuck,
            "entries": self.chain.count,
            "head": self.chain.head.hex(),
            "certificate": [one.plain_words() for one in self.algorithm.certificate.guarantees],
        }

    def _followed(self) -> list[tuple[int, str]]:
        """Every change of what all clients follow: from which round, and the name of the expert."""
        follow, changes = self.algorithm.shortcuts.common_play, self._changes
        if follow is None:
            return []
        names = self.manifest.setting.get("names")
        for exchange in range(self._shown + 1, self.exchange + 1):
            broadcast = self._sent(exchange)
            play = int(follow(broadcast))
            name = f"expert {play}" if names is None else names[play]
            if not changes or changes[-1][1] != name:
                changes.append((self._begun, name))
            self._begun += broadcast.rounds or 0
            self._shown = exchange
        return changes

    def _weights(self) -> dict[str, float] | None:
        """The broadcast weights of the experts by name, if all clients play them."""
        point = getattr(self._broadcast, "point", None)
        if not self.algorithm.setting.family.record.public or point is None:
            return None
        names = self.manifest.setting.get("names") or map(str, range(len(point)))
        return dict(zip(names, map(float, point), strict=True))

"""The helper of a study: a state machine over its ledger that knows no sockets and no clock.

A helper opens the seeds of one set of clients for each exchange and returns the sum of their masks.
It sees no numbers and calls out only. What it opens is committed before the sum is sent; asked for
the same task again, it sends the same sum. All checks are in `answer`; a refusal writes nothing.
Why one honest helper is enough is proven in `proofs/secure_sums.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.protocol import Algorithm
from hedgerow.deployment import veil, wire
from hedgerow.deployment.chain import Chain
from hedgerow.deployment.client import Distrusted, Link, fetch_manifest
from hedgerow.deployment.database import open_database, point
from hedgerow.deployment.helper_ledger import BOX, FILE, KEY, SCHEMA, HelperLedger
from hedgerow.deployment.keys import load_or_make, public_hex
from hedgerow.deployment.manifest import Manifest, ManifestRefused, rebuild
from hedgerow.deployment.masks import Masked, mask_in
from hedgerow.deployment.wire import TRY_AGAIN, Code, refuse

Agree = Callable[[Manifest, Algorithm], bool]
"""Asked before a helper joins a study."""


class StudyHelper(HelperLedger):
    """One helper of one study.

    Parameters
    ----------
    folder
        The folder with the keys and, once `join` was called, the ledger `helper.db`.
    link
        How to reach the server.
    """

    def __init__(self, folder: str | Path, link: Link) -> None:
        super().__init__(folder)
        self.link = link
        self._request: bytes | None = None
        with self._database.closed_if_it_fails():
            self.key = load_or_make(self.folder / KEY)
            algorithm = rebuild(self.manifest)
            self._masked = Masked.of(algorithm)
            self._keys = [self.manifest.roster[name] for name in self.manifest.clients]
            self._database.reserve()
            if self.over:
                erase(self.folder)  # the process died before it was done
            else:
                opener = veil.load_or_make(self.folder / BOX)
                if opener.public != self.manifest.helpers[self.name]["seal"]:
                    raise InvalidValue(
                        f"The study names another key for sealing than {self.folder / BOX}. Put "
                        "the right one there, or start a new study."
                    )
                self._sessions = veil.Sessions(opener, self.study, self.index)

    @classmethod
    def join(
        cls,
        folder: str | Path,
        link: Link,
        *,
        server_key: str,
        roster: Mapping[str, str],
        agree: Agree | None = None,
        tries: int | None = None,
    ) -> Self:
        """Join a study: check its manifest and make the ledger.

        Parameters
        ----------
        folder
            The folder of the helper's keys.
        link
            How to reach the server.
        server_key
            The server's public key, from a source you trust.
        roster
            The public key of each client by name, from a source other than the server. One helper
            that compares it is enough to keep the server from inventing clients.
        agree
            Shows the manifest to the person who decides. None: always agree.
        tries
            How often the server is called before giving up. None: until it replies.
        """
        place = Path(folder)
        found, signature = fetch_manifest(link, server_key, tries)
        manifest = found.manifest
        algorithm = rebuild(manifest)
        if dict(roster) != dict(manifest.roster):
            other = sorted(set(roster.items()) ^ set(manifest.roster.items()))[0][0]
            raise ManifestRefused(
                f"The clients of the study {manifest.title!r} are not those of your roster: see "
                f"{other}. Compare the keys with the clients themselves, not with the server."
            )
        own = public_hex(load_or_make(place / KEY)), veil.load_or_make(place / BOX).public
        if own not in [(keys["sign"], keys["seal"]) for keys in manifest.helpers.values()]:
            raise ManifestRefused(
                f"The keys in {place} are not those of a helper of {manifest.title!r}. Send your "
                "file NAME.helper to the operator of the server: only a new study can name it."
            )
        database = open_database(place / FILE, SCHEMA)
        try:
            kept = database.named()
            if kept.get("manifest", manifest.to_bytes()) != manifest.to_bytes():
                raise InvalidValue(
                    f"The helper in {place} belongs to another study. Each study needs a helper "
                    "with new keys: use another folder."
                )
            if "manifest" not in kept:
                if agree is not None and not agree(manifest, algorithm):
                    raise InvalidValue("The study was not joined.")
                with database.transaction("helper join"):
                    database.name(manifest=manifest.to_bytes(), signature=signature)
                    Chain(database).add("join", manifest.digest)
        finally:
            database.close()
        return cls(place, link)

    # -- exchanges ---------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Make at most one call to the server; return whether the study is over.

        Raises `Refused` or `Distrusted` if the server sends something that a helper must not do.
        """
        if self.over:
            return True
        if self._request is None:
            self._request = self._pack(wire.Fetch(self.index, self.exchange))
        reply = self.link.call(self._request)
        point("helper called")
        if reply is None:
            return False
        if reply[:1] == wire.REFUSAL:
            refusal = wire.read_refusal(reply)
            if refusal.code in TRY_AGAIN:
                return False
            raise refusal
        self._request = None
        if reply[:1] == wire.Over.kind:
            self._end(reply)
        else:
            self._request = self.answer(reply)
        return self.over

    def answer(self, task: bytes) -> bytes:
        """Open a task; return the message with the sum of the masks, once the task is committed.

        The order of the checks is that of `proofs/secure_sums.md#the-helper`. The commit comes
        last: nothing is left to be done after the wait for the disk.
        """
        message = wire.unpack(task, self.study, wire.Task)
        if not wire.signed(task, self.study, self.manifest.server):
            refuse(Code.SIGNATURE, "The task is not signed by the server.")
        tickets = self._tickets(message)
        found = wire.hash_of(task)
        row = "SELECT task FROM opened WHERE exchange = ?", (message.exchange,)
        known = self._database.one(*row) if message.exchange <= self.exchange else None
        if known is not None and bytes(known[0]) != found:
            refuse(Code.FORK, "Another set was opened for this exchange. A helper opens one.")
        if known is None and message.exchange <= self.exchange:
            refuse(Code.EXCHANGE, "This exchange was passed over.")
        total, damaged = np.zeros(self._masked.width, np.uint64), list[int]()
        for one in tickets:
            width, exchange = self._masked.width, message.exchange
            mask = mask_in(one.seal, self._sessions, width, exchange, one.client)
            if mask is None:  # its client has signed nonsense: it is named, and nothing stops
                damaged.append(one.client)
            else:
                total += mask
        info = veil.share_info(self.study, message.exchange, self.index)
        sealed = veil.seal(self.manifest.sealing["server"], total.tobytes(), info)
        named = np.array(damaged, "<u4").tobytes()
        part = wire.Part(self.index, message.exchange, found, len(damaged), named + sealed)
        reply = self._pack(part)
        if known is None:
            with self._database.transaction("helper open"):
                row = (message.exchange, found)
                self._database.execute("INSERT INTO opened VALUES(?, ?)", row)
                self.chain.add("opened", message.exchange.to_bytes(8, "little") + found)
            self.exchange = message.exchange
        return reply

    def _tickets(self, message: wire.Task) -> list[wire.Ticket]:
        """The tickets of a task, each signed by its client, for this exchange, each client once."""
        helpers, clients = len(self.manifest.helpers), len(self._keys)
        size = wire.Ticket.size(helpers)
        if message.helper != self.index or len(message.payload) != size * message.count:
            refuse(Code.FORM, "The task is for another helper, or has the wrong length.")
        if message.count < self.manifest.least:
            refuse(Code.VALUE, f"The set has {message.count} of {clients} clients.")
        found = list[wire.Ticket]()
        for at in range(0, len(message.payload), size):
            data = message.payload[at : at + size]
            one = wire.Ticket.read(data, self.study, self.index, self._keys, helpers)
            if one.exchange != message.exchange:
                refuse(Code.EXCHANGE, "A ticket is for another exchange.")
            if found and one.client <= found[-1].client:
                refuse(Code.VALUE, "A client is twice in the set, or out of order.")
            if found and one.seen != found[0].seen:
                refuse(Code.VALUE, "The server has sent its clients different answers.")
            found.append(one)
        return found

    def _end(self, reply: bytes) -> None:
        """The study is over: erase the key that opens seeds, and log after which exchange."""
        wire.unpack(reply, self.study, wire.Over)
        if not wire.signed(reply, self.study, self.manifest.server):
            raise Distrusted("A reply is not signed by the server of this study.")
        with self._database.transaction("helper end"):
            self.chain.add("over", self.exchange.to_bytes(8, "little"))
        self.over = True
        erase(self.folder)

    def _pack(self, message: wire.Message) -> bytes:
        return wire.pack(message, self.study, self.key)


def erase(folder: Path) -> None:
    """Delete the key that opens seeds: then nobody can open recorded ones."""
    (folder / BOX).unlink(missing_ok=True)

"""The client of a study: a state machine over its ledger that knows no sockets and no clock.

A release is one transaction: the noise is drawn, the message signed and stored, and the next state
saved, together with the report before it. It is sent after the commit, and until it is answered the
same bytes are sent again. An answer is committed with the report that follows it: until then it can
be had again, by the same bytes. Before anything is released, both sides show how far they are: a
ledger restored from a copy is refused. So is one without a release that the account has counted.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from hedgerow.core.block import Side
from hedgerow.core.certificate import Guarantee
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.messages import InvalidMessage, decode, encode
from hedgerow.core.protocol import Algorithm, Context
from hedgerow.deployment import veil, wire
from hedgerow.deployment.account import Account
from hedgerow.deployment.chain import Chain
from hedgerow.deployment.client_ledger import FILE, SCHEMA, ClientLedger, Game, array_bytes
from hedgerow.deployment.closing import rule_of
from hedgerow.deployment.database import open_database, point
from hedgerow.deployment.helper_ledger import HelperKeys
from hedgerow.deployment.keys import signed_by
from hedgerow.deployment.manifest import KEY, NOT_PRIVATE, Manifest, ManifestRefused, rebuild
from hedgerow.deployment.masks import Masked, hide
from hedgerow.deployment.noise import PartyNoise, Watched
from hedgerow.deployment.receipts import NOT_COUNTED, root_of
from hedgerow.deployment.releases import Releases
from hedgerow.deployment.roster import Change, Roster
from hedgerow.deployment.wire import TRY_AGAIN, Code, Refused
from hedgerow.engines.loop import observe

NEW = 0
"""In `Game.behind`: this client got its seat later, and begins with the server's newest answer."""


class Link(Protocol):
    """How a client reaches the server."""

    def call(self, request: bytes) -> bytes | None:
        """Send a request and return the reply; None: no reply, try again.

        It may wait before it returns None, so that calls are not too frequent.
        """
        ...


class Distrusted(HedgerowError):
    """Server and client do not agree about what has happened; nothing more is released."""


Agree = Callable[[Manifest, Algorithm, Guarantee | None], bool]
"""Asked before a study is joined: the manifest, what was rebuilt, and what will be charged."""


class Release(NamedTuple):
    """A signed message, and the hash that names it."""

    exchange: int
    message: bytes
    hash: bytes


class StudyClient(ClientLedger):
    """One study at one client.

    Parameters
    ----------
    folder
        The folder with the ledger `study.db`, made by `StudyClient.join` inside the folder of the
        account.
    link
        How to reach the server.
    """

    def __init__(self, folder: str | Path, link: Link) -> None:
        self.link = link
        super().__init__(folder)
        with self._database.closed_if_it_fails():
            self._load()

    @classmethod
    def join(
        cls,
        account: Account,
        link: Link,
        *,
        server_key: str,
        agree: Agree | None = None,
        tries: int | None = None,
        seeded: bool = False,
        convert: bool = False,
        helpers: Sequence[HelperKeys] = (),
    ) -> Self:
        """Join a study: check its manifest, charge the account, and make its ledger.

        The ledger is in the folder of the account, where an old copy of the account is noticed.
        Nothing is charged if the manifest is not signed by `server_key`, if the algorithm that is
        rebuilt here differs in any bit, if its noise comes from a seed, if this client's key is not
        in the manifest, if the budget does not suffice, or if `agree` returns False. A join that
        was interrupted goes on where it stopped, and costs nothing more.

        Parameters
        ----------
        account
            The account of the data set.
        link
            How to reach the server.
        server_key
            The server's public key, from a source you trust.
        agree
            Shows the manifest and the costs to the person who decides. None: always agree.
        tries
            How often the server is called before giving up. None: until it replies.
        seeded
            True: join even if the noise comes from a seed. Such a study protects nothing and
            charges nothing; it is for tests with data that are not secret.
        convert
            True: join a study of a smaller unit, for what it costs in that of the account.
        helpers
            The keys of helpers whose files did not come through the server. A study with helpers
            needs at least one: otherwise the server could be all its helpers.
        """
        roster, signature = fetch_manifest(link, server_key, tries)
        manifest = roster.manifest
        algorithm = rebuild(manifest)
        check_helpers(manifest, helpers)
        if not (manifest.private or seeded):
            raise ManifestRefused(
                f"The study {manifest.title!r} is {NOT_PRIVATE}, which everybody can read in its "
                "manifest. It is for tests with data that are not secret (--seeded)."
            )
        seat = roster.seat_of(account.public_key)
        if seat not in roster.active:
            raise ManifestRefused(
                f"The key of this account, {account.public_key}, is not listed in the study "
                f"{manifest.title!r}. Send it to the operator of the server: a new study, or an "
                "open seat of this one, can include it."
            )
        out = account.study(manifest.digest)
        database = open_database(out / FILE, SCHEMA)
        try:
            kept = database.named()
            if kept.get("study", manifest.digest) != manifest.digest:
                raise InvalidValue(
                    f"{out / FILE} is the ledger of another study. Move it to "
                    f"{account.study(kept['study'])}."
                )
            if "manifest" not in kept:
                if not account.knows(manifest):
                    private = manifest.private
                    cost = account.quote(algorithm, convert=convert) if private else None
                    if agree is not None and not agree(manifest, algorithm, cost):
                        raise InvalidValue("The study was not joined. Nothing was charged.")
                if "study" not in kept:
                    kept["ledger"] = secrets.token_bytes(16)
                    with database.transaction("client ledger"):
                        database.name(study=manifest.digest, ledger=kept["ledger"])
                words = account.charge(manifest, algorithm, kept["ledger"], convert=convert)
                if manifest.private:
                    account.mark(manifest)
                Releases.make(account.folder, manifest.digest)
                with database.transaction("client join"):
                    database.name(manifest=manifest.to_bytes(), signature=signature)
                    for change in roster.changes:
                        if change.seat == seat:
                            database.name(seat=change.to_bytes())
                    body = manifest.digest + kept["ledger"] + words.encode()
                    Chain(database).add("join", body)
        finally:
            database.close()
        return cls(out, link)

    def _load(self) -> None:
        self.algorithm = rebuild(self.manifest)
        shared = self.algorithm.certificate.trust == "distributed"
        self._masked = Masked.of(self.algorithm) if shared else None
        self._rule = rule_of(self.manifest.closing)
        self._greeted = self._parted = False
        self.boot = wire.UNKNOWN
        """What the server drew when it started, as it last said."""
        self._newest = wire.NONE  # the last exchange that the server named
        self._due: Release | None = None  # the last release, once it is on disk
        self._sessions: list[veil.Session] = []  # new ones after each hello
        self._seen, self._seal = self.last_answer()
        noise = self.saved_noise()
        self._noise = PartyNoise(self.manifest.seed, noise or b"")
        self._mine = Watched(self._noise.client(self.index, len(self.manifest.roster)))
        if noise is not None:
            self._game = self.saved_game(self.algorithm)
            return
        with self._database.transaction("client start"):
            start, decider = self.algorithm.client.start(self._mine), self.algorithm.decider
            beside = None if decider is None else decider.start(self._mine)
            behind = NEW if self.roster.changes else None
            self._game = Game(0, 0, wire.NONE, start, decider=beside, behind=behind)
            self._save(self._game)

    # -- exchanges ---------------------------------------------------------------------------------

    @property
    def greeted(self) -> bool:
        """Whether the server has greeted us since this ledger was opened."""
        return self._greeted

    @property
    def ready(self) -> bool:
        """Whether the next round can be played: the server has greeted us, no exchange is due."""
        game = self._game
        due = game.remaining == 0 or game.behind is not None
        return self._greeted and game.exchange >= 0 and not due

    def advance(self) -> bool:
        """Make at most one call to the server; return whether the next round can be played.

        Call it until it returns True. Raises `Refused` if the server refuses for good, and
        `Distrusted` if it shows something that cannot be: then nothing more is released.
        """
        if self.ready or self.over:
            return True
        if not self._greeted:
            self._hello()
        elif self._game.exchange < 0:
            self._request(wire.Ask(self.index, 0), 0)
        elif self._game.behind is not None:
            self._catch_up(self._game.behind)
        else:
            self._exchange()
        return self.ready

    def _call(self, request: bytes) -> bytes | None:
        """The reply, or None; the server may ask for a hello or a join first."""
        reply = self.link.call(request)
        point("client called")
        if reply is None or reply[:1] != wire.REFUSAL:
            return reply
        refusal = wire.read_refusal(reply)
        if refusal.code is Code.HELLO:
            if request[:1] == wire.Hello.kind and refusal.boot == self.boot:
                raise Distrusted("The server refuses the hello that it asked for.")
            self._greeted, self.boot = False, refusal.boot
            return None
        if refusal.code in TRY_AGAIN:
            return None
        raise refusal

    def _pack(self, message: wire.Message) -> bytes:
        return wire.pack(message, self.study, self.account.key)

    def _reply(self, data: bytes, kind: type[wire.Kind]) -> wire.Kind:
        message = wire.unpack(data, self.study, kind)
        if not wire.signed(data, self.study, self.manifest.server):
            raise Distrusted("A reply is not signed by the server of this study.")
        return message

    def _hello(self) -> None:
        """Show how far this client is, and check what the server has of it."""
        nonce = self.nonce()
        try:
            reply = self._call(self.greeting(nonce))
        except Refused as refusal:
            if refusal.code is not Code.NOT_JOINED:
                raise
            self._call(self._pack(wire.Join(self.index)))
            return
        if reply is None:
            return
        welcome = self._reply(reply, wire.Welcome)
        if (welcome.client, welcome.nonce) != (self.index, nonce):
            raise Distrusted("The server's welcome answers another hello.")
        if welcome.exchange < self._game.exchange:
            raise Distrusted(
                "The server's ledger is older than what this client has seen. Nothing is released. "
                "Tell the operator of the server."
            )
        if (welcome.uploaded >= 0 and self.released(welcome.uploaded) != welcome.hash) or (
            self.chain.head_at(welcome.count) != welcome.head
        ):
            raise Distrusted(
                "This ledger is older than what the server has seen of it: a restored copy. "
                "Nothing is released. Bring back the latest ledger, or join a new study."
            )
        self._greeted, self._newest, self._sessions = True, welcome.exchange, []
        self._database.reserve()

    def nonce(self) -> bytes:
        """What the reply to a hello must repeat: fresh, so that no old reply can be shown again."""
        return secrets.token_bytes(16)

    def greeting(self, nonce: bytes) -> bytes:
        """The signed hello with which this client shows how far it is."""
        self._flush()
        exchange, seal = self._game.exchange, self._seal
        count, head = self.chain.count, self.chain.head
        return self._pack(wire.Hello(self.index, exchange, seal, count, head, nonce, self.boot))

    def _flush(self) -> None:
        """Commit an answer that is held, before the head of the log is shown."""
        if self._database.held:
            with self._database.transaction("client flush"):
                self._save(self._game)

    def _exchange(self) -> None:
        """Send the release that is due; make it first if it does not exist yet."""
        due = self._release(self._game.exchange + 1)
        self._receive(due.exchange, self._call(due.message), due.hash)

    def _release(self, exchange: int) -> Release:
        """The release of an exchange, from the ledger; made first if it does not exist yet."""
        if self._due is None or self._due.exchange != exchange:
            row = self._database.one(
                "SELECT exchange, message, hash FROM outbox WHERE exchange = ?", (exchange,)
            )
            if row is not None:
                due = Release(*row)
            else:
                with self._drawing("client release"):
                    due = self._made(exchange)
            self._due = due
        return self._due

    @contextmanager
    def _drawing(self, name: str) -> Iterator[None]:
        """A transaction whose noise is shown after it; the account counts it in between."""
        with self._database.transaction(name):
            yield
        with self._database.closed_if_it_fails():
            self._counter.note(self.chain)

    def _made(self, exchange: int) -> Release:
        """Draw the noise, sign the message, store both it and the next state; inside a transaction.

        The message may leave once the transaction is committed.
        """
        upload, state = self.algorithm.client.upload(self._game.state, self._mine)
        parts = self._sealed(upload, exchange)
        message = wire.Upload(
            self.index,
            exchange,
            self._seen,
            self.chain.count,
            self.chain.head,
            secrets.token_bytes(16),
            len(parts) - 1,
            b"".join(parts),
        )
        data = self._pack(message)
        found = wire.hash_of(data)
        self._database.execute("INSERT INTO outbox VALUES(?, ?, ?, 0)", (exchange, data, found))
        where = exchange.to_bytes(8, "little") + self._game.round.to_bytes(8, "little")
        self.chain.add("release", where + found)
        self._set(state=state)
        return Release(exchange, data, found)

    def _sealed(self, upload: Any, exchange: int) -> tuple[bytes, ...]:
        """The upload, sealed to the server; under masks if it adds a share of noise."""
        if not self._sessions:
            found, names = self.manifest, self.manifest.helper_names
            readers = [(found.sealing["server"], None)]
            readers += [(found.helpers[name]["seal"], n) for n, name in enumerate(names)]
            self._sessions = [veil.Session(key, self.study, self.index, n) for key, n in readers]
        server, *helpers = self._sessions
        if self._masked is None:
            return (server.seal(exchange, encode(upload)),)
        return hide(self._masked.words(upload), exchange, server, helpers)

    def _request(self, message: wire.Message, exchange: int) -> None:
        self._receive(exchange, self._call(self._pack(message)), None)

    def _catch_up(self, late: int) -> None:
        """After a late upload: take the answers that were missed, up to the one to go on with.

        If late uploads are folded in, it is the answer that counts the upload; if they are
        dropped, or this client is new, it is the server's newest.
        """
        game = self._game
        newest = self._rule.name == "drop" or late == NEW
        if newest and game.exchange >= self._newest:
            with self._database.transaction("client return"):
                self._set(behind=None)
            return
        ask = wire.Ask(self.index, game.exchange + 1)
        self._receive(ask.exchange, self._call(self._pack(ask)), self.released(late))

    def _counts(self, answer: wire.Answer, path: bytes, own: bytes | None) -> bool:
        """Whether an answer counts the upload of this client; `own` is its hash.

        None: there is none yet. An answer that counts something else is refused.
        """
        if own is None:
            return self._game.behind is None
        for found in (own, NOT_COUNTED) if self._rule.may_close else (own,):
            if root_of(path, self.index, answer.clients, found) == answer.root:
                return found is own
        raise Distrusted("The server's answer counts another upload than the one sent.")

    def _after(self, answer: wire.Answer, rounds: int | None, counted: bool) -> dict[str, Any]:
        """Where the game stands after an answer; a client that is behind has skipped rounds."""
        game = self._game
        if counted and game.behind is not None and self._rule.name == "drop":
            raise Distrusted("The server's answer counts an upload that was too late.")
        skipped = 0 if game.behind is None else game.remaining or 0
        begun = game.round + skipped
        last = self.algorithm.setting.until_next(begun, rounds) is None
        late = answer.exchange if game.behind is None else game.behind
        return {
            "round": begun,
            "remaining": rounds,
            "exchange": answer.exchange,
            "behind": None if counted or last else late,  # no exchange comes before the last rounds
        }

    def _receive(self, exchange: int, reply: bytes | None, own: bytes | None) -> None:
        """Take the answer of an exchange, and those after it as long as this client is behind.

        `own` is the hash of the upload that they may count.
        """
        if reply is None:
            return
        found = wire.Answered.read(reply)
        self._newest = found.newest
        for at, (data, path) in enumerate(found.answers, exchange):
            if at == exchange or self._game.behind is not None:
                self._take(at, data, path, own)

    def _take(self, exchange: int, data: bytes, path: bytes, own: bytes | None) -> None:
        answer = self._reply(data, wire.Answer)
        if (answer.exchange, answer.clients) != (exchange, len(self.manifest.roster)):
            raise Distrusted("The server's answer is for another exchange.")
        try:  # before the role sees it, and whatever the records are
            broadcast = decode(self.algorithm.broadcasts.kind, answer.broadcast)
            self.algorithm.broadcasts.admit(broadcast, exchange)
        except InvalidMessage as error:
            raise Distrusted(
                f"The server's answer is not one that this study allows. {error} Nothing is "
                "released until an allowed answer comes. Ask the operator of the server for the "
                "reason before you join another study."
            ) from None
        after = self._after(answer, broadcast.rounds, self._counts(answer, path, own))
        with self._database.hold("client answer"):
            game, decider = self._game, self.algorithm.decider
            state = self.algorithm.client.receive(game.state, broadcast)
            if decider is not None:
                after["decider"] = decider.receive(game.decider, broadcast)
            found, seal = wire.hash_of(data), wire.seal_of(data)
            self._database.execute(
                "UPDATE outbox SET done = 1, message = NULL WHERE exchange = ?", (exchange,)
            )
            self.chain.add("answer", exchange.to_bytes(8, "little") + found + seal)
            self._set(save=False, state=state, **after)
        self._seen, self._seal, self._due = found, seal, None

    # -- rounds ------------------------------------------------------------------------------------

    @property
    def round(self) -> int:
        """The number of rounds that are finished; also the number of the next one."""
        return self._game.round

    @property
    def over(self) -> bool:
        """Whether the horizon is reached."""
        return self.algorithm.setting.over(self._game.round)

    @property
    def exchange(self) -> int:
        """The last exchange whose answer has arrived; -1: not even the opening one."""
        return self._game.exchange

    @property
    def remaining(self) -> int | None:
        """The rounds until the next exchange; None: there is none."""
        return self._game.remaining

    @property
    def last_play(self) -> np.ndarray | None:
        """The last play that was shown."""
        return self._game.last

    @property
    def played(self) -> bool:
        """Whether this round is played, and its losses are still to come."""
        return self._game.play is not None

    @property
    def mask(self) -> np.ndarray | None:
        """The experts awake, or the clients reporting, when this round was played; None: all."""
        return self._game.mask

    def play(self, mask: np.ndarray | None = None) -> np.ndarray:
        """Play this round, once `ready`; the same again until the losses come.

        `mask` marks the experts that are awake or, where a decider plays, the clients that report.
        The decider sees broadcasts and what is public, so every client plays for it. A play that
        draws noise is stored before it is returned, and so is one with a mask.
        """
        game = self._game
        if game.play is not None:
            return game.play
        if not self.ready or self.over:
            raise InvalidValue("An exchange is due, or the game is over. Call advance() first.")
        self._mine.used = False
        decider, role = self.algorithm.decider, self.algorithm.client
        try:
            if decider is None:
                context = Context(game.round, mask)
                played, state = role.play(game.state, context, self._mine)
                after = {"state": state}
            else:
                context = Context(game.round, None, Side(None, mask))
                played, state = decider.play(game.decider, context, self._mine)
                after = {"decider": state}
            play = np.asarray(played)
            after |= {"play": play, "mask": mask, "last": play}
            if not self._mine.used and mask is None:
                self._game = game._replace(**after)
                return play
            with self._drawing("client play"):
                if self._mine.used:
                    where = game.round.to_bytes(8, "little")
                    self.chain.add("play", where + wire.hash_of(array_bytes(play)))
                self._set(**after)
        except BaseException:
            self._database.close()  # noise may have been drawn: only the ledger knows what counts
            raise
        return play

    def name_of(self, about: str) -> bytes:
        """What the ledger keeps to recognise a target by its name, such as a place and a date."""
        return blake2b(b"target\n" + about.encode(), key=self._report_key, digest_size=32).digest()

    def fingerprint_of(
        self, round_number: int, given: np.ndarray | None, target: bytes | None = None
    ) -> bytes:
        """What the ledger keeps to recognise the losses of a round, as they were given.

        `target` is the `name_of` the target, where a record has one.

        Losses can be guessed, so a plain hash would show them to a reader of the ledger. This one
        depends on the private key of the account, which is in another folder.
        """
        contents = b"absent" if given is None else given.astype("<f8").tobytes()
        text = f"round {round_number}\n".encode() + contents + (target or b"")
        return blake2b(text, key=self._report_key, digest_size=32).digest()

    @cached_property
    def _report_key(self) -> bytes:
        secret = self.account.key.private_bytes_raw()
        return hmac.digest(secret, b"hedgerow reports\n" + self.study, "sha256")

    def observe(
        self,
        reports: np.ndarray,
        found: bytes,
        target: bytes | None = None,
        side: Side | None = None,
    ) -> None:
        """Take the reports of this round, after `play`; `found` is what `fingerprint_of` gave.

        `side` is what is public about this client in this round. `target` is the `name_of` the
        target, where a record has one. It is answered once: the name is stored with the answer,
        before the answer is sent.

        They survive the death of the process at once, and a loss of power with the next release,
        which is made here, in the same transaction, if this is the last round before it. An answer
        that came before is committed with them.
        """
        game = self._game
        if game.play is None:
            raise InvalidValue("The round is not played yet. Call play() first.")
        if target is not None and (before := self.answered(target)) is not None:
            raise InvalidValue(
                f"This target was answered in round {before}. A target is answered once, whatever "
                "the round is called. Leave it out."
            )
        if self._last_before_release:
            with self._drawing("client release"):
                self._observed(reports, found, target, side, save=False)
                due = self._made(game.exchange + 1)
            self._due = due
            return
        with self._database.transaction("client observation", durable=False):
            self._observed(reports, found, target, side)

    @property
    def _last_before_release(self) -> bool:
        """Whether an exchange follows this round; only a client that was greeted releases."""
        game = self._game
        follows = self.algorithm.setting.until_next(game.round, game.remaining) == 1
        return self._greeted and game.behind is None and follows

    def _observed(
        self,
        reports: np.ndarray,
        found: bytes,
        target: bytes | None,
        side: Side | None,
        save: bool = True,
    ) -> None:
        """The state after the reports of this round, inside a transaction."""
        game = self._game
        assert game.play is not None
        state = observe(self.algorithm.client, game.state, reports, self._mine, side)
        row = (game.round, found, array_bytes(game.play))
        self._database.execute("INSERT INTO inbox VALUES(?, ?, ?)", row)
        if target is not None:
            self._database.execute("INSERT INTO answered VALUES(?, ?)", (target, game.round))
        self._set(
            save,
            state=state,
            round=game.round + 1,
            remaining=None if game.remaining is None else game.remaining - 1,
            play=None,
            mask=None,
        )

    def finish(self) -> bool:
        """Tell the server that the last round is played; return whether it knows.

        Makes at most two calls. It can be repeated.
        """
        if self._parted:
            return True
        if not self._greeted:
            self._hello()
            return False
        self._flush()
        request = wire.Done(self.index, self._game.round, self.chain.count, self.chain.head)
        reply = self._call(self._pack(request))
        if reply is not None:
            self._reply(reply, wire.Farewell)
            self._parted = True
        return self._parted

    @property
    def state(self) -> Any:
        """What the algorithm keeps at this client: raw values that must stay here."""
        return self._game.state

    def _save(self, game: Game) -> None:
        self.save(game, self._noise.saved())

    def _set(self, save: bool = True, **changes: Any) -> None:
        """Change the game, in memory and in the ledger, inside a transaction.

        `save=False` leaves the ledger to a later change in the same transaction.
        """
        game = self._game._replace(**changes)
        if save:
            self._save(game)
        self._game = game


def check_helpers(manifest: Manifest, known: Sequence[HelperKeys]) -> None:
    """Refuse a study none of whose helpers is known from elsewhere, or one with other keys."""
    for keys in known:
        if manifest.helpers.get(keys.name) != {"sign": keys.sign, "seal": keys.seal}:
            raise ManifestRefused(
                f"The study {manifest.title!r} does not have the helper {keys.name} with the keys "
                f"{keys.fingerprint}. Ask that helper which study it takes part in."
            )
    if manifest.helpers and not known:
        raise ManifestRefused(
            f"The study {manifest.title!r} hides uploads from the server as long as one of its "
            f"helpers ({', '.join(manifest.helpers)}) does not work with it. Get the file of a "
            "helper that you trust from the helper itself, and join with --helper FILE."
        )


def fetch_manifest(link: Link, server_key: str, tries: int | None = None) -> tuple[Roster, bytes]:
    """Return a study with its roster, and the signature of its manifest, by `server_key`."""
    known = bool(KEY.fullmatch(server_key.lower()))
    if not known:
        raise InvalidValue(f"Expected the server's key={server_key[:80]!r} to be 64 hex digits.")
    reply, made = None, 0
    while reply is None:
        if tries is not None and made >= tries:
            raise HedgerowError("The server does not reply. Check the address.")
        reply = link.call(wire.MANIFEST)
        made += 1
    signature, data, changes = wire.read_manifest(reply)
    manifest = Manifest.read(data)
    if manifest.server != server_key.lower():
        raise ManifestRefused(
            f"The manifest is from the server {manifest.server}, not from {server_key.lower()}."
        )
    if not signed_by(manifest.server, signature, manifest.signed_text):
        raise ManifestRefused("The manifest is not signed by the server that it names.")
    return Roster(manifest, Change.read_all(changes)), signature

"""The ledger of a client: the tables of one study, and what can be read from them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.messages import decode_state, encode_state
from hedgerow.core.protocol import Algorithm
from hedgerow.deployment import chain as chains
from hedgerow.deployment.account import Account
from hedgerow.deployment.chain import Chain
from hedgerow.deployment.database import NAMED, open_database
from hedgerow.deployment.manifest import Manifest, check_signed
from hedgerow.deployment.releases import Releases
from hedgerow.deployment.roster import Change, Roster
from hedgerow.deployment.wire import NONE, NOTHING, UNSEALED

FILE, ROUTE = "study.db", "route.json"
COUNTED = 2
"""The first protocol whose releases are counted in the account."""
SCHEMA = (
    chains.SCHEMA
    + NAMED
    + """
CREATE TABLE IF NOT EXISTS game(
    id INTEGER PRIMARY KEY CHECK(id = 0), round INTEGER NOT NULL, remaining INTEGER,
    exchange INTEGER NOT NULL, state BLOB NOT NULL, noise BLOB NOT NULL, play BLOB, awake BLOB,
    last BLOB, behind INTEGER);
CREATE TABLE IF NOT EXISTS decider(id INTEGER PRIMARY KEY CHECK(id = 0), state BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS inbox(round INTEGER PRIMARY KEY, hash BLOB NOT NULL, play BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS answered(target BLOB PRIMARY KEY, round INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS outbox(
    exchange INTEGER PRIMARY KEY, message BLOB, hash BLOB NOT NULL, done INTEGER NOT NULL);
"""
)


class Game(NamedTuple):
    """Where the client stands; replaced as a whole."""

    round: int
    remaining: int | None
    exchange: int
    state: Any
    play: np.ndarray | None = None  # of this round, if it is played
    mask: np.ndarray | None = (
        None  # the experts awake, or the clients reporting, when it was played
    )
    last: np.ndarray | None = None  # the last play shown
    behind: int | None = None  # the exchange of a late upload, until this client has caught up
    decider: Any = None  # the state of the role that plays, if it is not the client


class NotJoined(InvalidValue):
    """No study was joined in this folder."""


class ClientLedger:
    """What one client keeps of one study; every later version of the package reads it.

    Parameters
    ----------
    folder
        The folder with the file `study.db`, inside the folder of the account.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / FILE).is_file():
            raise NotJoined(f"{folder} holds no study. Join one first.")
        self.account = Account.around(folder)
        self._database = open_database(self.folder / FILE, SCHEMA)
        with self._database.closed_if_it_fails():
            self.chain = Chain(self._database)
            self._identify()

    def _identify(self) -> None:
        """Read which study this is, and check that the ledger is the one that was charged."""
        kept = self._database.named()
        if "manifest" not in kept:
            raise NotJoined(f"The study in {self.folder} is not joined yet. Join it again.")
        self.manifest = Manifest.read(kept["manifest"])
        check_signed(self.manifest, kept["signature"])
        self.study = self.manifest.digest
        self.account.check_complete()
        if self.folder.absolute() != self.account.study(self.study).absolute():
            raise InvalidValue(
                f"The ledger in {self.folder} is that of the study {self.study.hex()[:16]}, which "
                "has its own folder. Two copies would release twice: delete this one or, if it is "
                f"the only one, move it to {self.account.study(self.study)}."
            )
        given = [Change.read(kept["seat"])] if "seat" in kept else []
        self.roster = Roster(self.manifest, given)
        seat = self.roster.seat_of(self.account.public_key)
        if seat is None or not self.account.paid(self.manifest, kept["ledger"]):
            raise InvalidValue(
                f"The ledger in {self.folder} does not belong to the account "
                f"{self.account.name!r}: its key or its charge is missing there."
            )
        self.name, self.index = self.manifest.clients[seat], seat
        if self.manifest.protocol >= COUNTED:
            self._counter = self._database.beside = Releases(self.account.folder, self.study)
            self._counter.check(self.chain)

    def place(self) -> tuple[int, int]:
        """The rounds that are finished, and the last exchange whose answer was taken."""
        row = self._database.one("SELECT round, exchange FROM game")
        return (0, NONE) if row is None else (row[0], row[1])

    def saved_noise(self) -> bytes | None:
        """The noise of the saved game; None: no game has begun."""
        row = self._database.one("SELECT noise FROM game")
        return None if row is None else bytes(row[0])

    def saved_game(self, algorithm: Algorithm) -> Game:
        """The saved game of this algorithm."""
        row = self._database.one(
            "SELECT round, remaining, exchange, state, play, awake, last, behind FROM game"
        )
        assert row is not None
        number, remaining, exchange, kept, *arrays, behind = row
        play, mask, last = map(_read_array, arrays)
        found, decider = decode_state(algorithm.client.state, bytes(kept)), None
        if algorithm.decider is not None:
            beside = self._database.one("SELECT state FROM decider")
            assert beside is not None
            decider = decode_state(algorithm.decider.state, bytes(beside[0]))
        return Game(number, remaining, exchange, found, play, mask, last, behind, decider)

    def save(self, game: Game, noise: bytes) -> None:
        """Replace the saved game, inside a transaction."""
        self._database.execute(
            "REPLACE INTO game VALUES(0, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                game.round,
                game.remaining,
                game.exchange,
                encode_state(game.state),
                noise,
                None if game.play is None else array_bytes(game.play),
                None if game.mask is None else array_bytes(game.mask),
                None if game.last is None else array_bytes(game.last),
                game.behind,
            ),
        )
        if game.decider is not None:
            beside = encode_state(game.decider)
            self._database.execute("REPLACE INTO decider VALUES(0, ?)", (beside,))

    def last_answer(self) -> tuple[bytes, bytes]:
        """The hash and the seal of the last answer; zeros if none has come."""
        row = self._database.one(
            "SELECT body FROM log WHERE kind = 'answer' ORDER BY n DESC LIMIT 1"
        )
        body = bytes(8) + NOTHING + UNSEALED if row is None else bytes(row[0])
        return body[8:40], body[40:]

    def released(self, exchange: int) -> bytes | None:
        """The hash of the release of an exchange; None: there is none."""
        row = self._database.one("SELECT hash FROM outbox WHERE exchange = ?", (exchange,))
        return None if row is None else bytes(row[0])

    def known(self, round_number: int) -> bytes | None:
        """What `fingerprint_of` gave for a past round; None: its losses have not come."""
        row = self._database.one("SELECT hash FROM inbox WHERE round = ?", (round_number,))
        return None if row is None else bytes(row[0])

    def answered(self, target: bytes) -> int | None:
        """The round in which a target was answered; None: it was not. `target` is its `name_of`."""
        row = self._database.one("SELECT round FROM answered WHERE target = ?", (target,))
        return None if row is None else row[0]

    def recent_rounds(self, count: int) -> list[tuple[int, np.ndarray, bytes]]:
        """The last finished rounds, the latest first: number, play, hash of the losses."""
        rows = self._database.execute(
            "SELECT round, play, hash FROM inbox ORDER BY round DESC LIMIT ?", (count,)
        ).fetchall()
        return [(number, _array(bytes(play)), bytes(found)) for number, play, found in rows]

    def recent_releases(self, count: int) -> list[tuple[int, bytes, bool]]:
        """The last releases, the latest first: exchange, hash of the message, answered or not."""
        rows = self._database.execute(
            "SELECT exchange, hash, done FROM outbox ORDER BY exchange DESC LIMIT ?", (count,)
        ).fetchall()
        return [(exchange, bytes(found), bool(done)) for exchange, found, done in rows]

    def plays(self) -> list[np.ndarray]:
        """The play of every finished round, from the ledger."""
        rows = self._database.execute("SELECT play FROM inbox ORDER BY round")
        return [_array(bytes(play)) for (play,) in rows]

    def releases(self) -> dict[int, tuple[bytes, bool]]:
        """The hash of every release by its exchange, and whether it was answered."""
        rows = self._database.execute("SELECT exchange, hash, done FROM outbox")
        return {exchange: (bytes(found), bool(done)) for exchange, found, done in rows}

    def answers(self) -> dict[int, bytes]:
        """The hash of every answer by its exchange."""
        rows = self._database.execute("SELECT body FROM log WHERE kind = 'answer' ORDER BY n")
        return {int.from_bytes(body[:8], "little"): bytes(body[8:40]) for (body,) in rows}

    def check(self) -> bytes:
        """Check the log against the tables of the ledger; return its head."""
        head = self.chain.check()
        logged: dict[int, bytes] = {}
        for entry in self.chain.entries():
            if entry.kind == "release":
                exchange = int.from_bytes(entry.body[:8], "little")
                if exchange in logged:
                    raise InvalidValue(f"The log has two releases for exchange {exchange}.")
                logged[exchange] = entry.body[16:]
        stored = {
            k: bytes(h) for k, h in self._database.execute("SELECT exchange, hash FROM outbox")
        }
        if stored != logged:
            raise InvalidValue(f"The releases in {self.folder} do not agree with the log.")
        return head

    def close(self) -> None:
        """Close the ledger; the study goes on when it is opened again."""
        self._database.close()


def array_bytes(array: np.ndarray) -> bytes:
    """An array of at most one axis as bytes: its kind, then its numbers."""
    if array.ndim > 1:
        raise InvalidValue(f"A ledger keeps plays of at most one axis, not of {array.ndim}.")
    little, start = _form_of(array.dtype)
    return start + (b"1" if array.ndim else b"0") + array.astype(little, copy=False).tobytes()


@lru_cache(maxsize=64)
def _form_of(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], bytes]:
    """A dtype in little-endian order, and its name in four bytes."""
    little = dtype.newbyteorder("<")
    return little, little.str.encode().ljust(4)


def _array(data: bytes) -> np.ndarray:
    found = np.frombuffer(data[5:], np.dtype(data[:4].decode().strip()))
    native = found.astype(found.dtype.newbyteorder("="))
    return native if data[4:5] == b"1" else native.reshape(())


def _read_array(data: bytes | None) -> np.ndarray | None:
    return None if data is None else _array(bytes(data))

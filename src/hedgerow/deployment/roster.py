"""Who takes part in a study now: the roster of its manifest, and the changes signed since then.

A seat is a client of the manifest. An open seat has no key there: the server may give it to a
client later. A client may be taken out. A seat without a client is one that is silent, so exchanges
must be able to close without it. Algorithm, noise and guarantees stay those of the manifest
(`proofs/deployment.md#changes-of-the-roster`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.deployment.closing import rule_of
from hedgerow.deployment.keys import SIGNATURE, signed_by
from hedgerow.deployment.manifest import KEY, Manifest

OUT = "out"
"""In the study file: this client is taken out."""
NOBODY = "0" * 64
_FORM = struct.Struct(f"<Iq32s{SIGNATURE}s")


@dataclass(frozen=True)
class Change:
    """One change of a roster, signed by the server.

    Parameters
    ----------
    seat
        The number of the client.
    exchange
        The last exchange before the change.
    key
        The public key of the client that gets the seat; empty: the client is taken out.
    signature
        The server's.
    """

    seat: int
    exchange: int
    key: str
    signature: bytes = bytes(SIGNATURE)

    def to_bytes(self) -> bytes:
        """The change as bytes of one length."""
        key = bytes.fromhex(self.key).ljust(32, b"\0")
        return _FORM.pack(self.seat, self.exchange, key, self.signature)

    @classmethod
    def read(cls, data: bytes) -> Change:
        """The change in these bytes."""
        seat, exchange, key, signature = _FORM.unpack(data)
        return cls(seat, exchange, key.hex() if any(key) else "", signature)

    @classmethod
    def read_all(cls, data: bytes) -> list[Change]:
        """The changes in these bytes, one after the other."""
        if len(data) % _FORM.size:
            raise InvalidValue("The changes of the roster have the wrong length.")
        return [cls.read(data[at : at + _FORM.size]) for at in range(0, len(data), _FORM.size)]

    def signed_text(self, study: bytes) -> bytes:
        """What the server signs."""
        return b"hedgerow roster\n" + study + self.to_bytes()[:-SIGNATURE]


class Roster:
    """The keys of all seats, and the clients that were taken out.

    Parameters
    ----------
    manifest
        The study.
    changes
        All changes so far, in order. One that the server did not sign, or that no server makes, is
        refused.
    """

    def __init__(self, manifest: Manifest, changes: Iterable[Change] = ()) -> None:
        self.manifest = manifest
        self.keys = [manifest.roster[name] for name in manifest.clients]
        self.out: set[int] = set()
        self.changes: list[Change] = []
        for change in changes:
            text = change.signed_text(manifest.digest)
            if not signed_by(manifest.server, change.signature, text):
                raise InvalidValue("A change of the roster is not signed by the server.")
            self.add(change)

    @property
    def held(self) -> set[int]:
        """The seats that have, or had, a client."""
        return {seat for seat, key in enumerate(self.keys) if key}

    @property
    def active(self) -> set[int]:
        """The seats whose clients take part."""
        return self.held - self.out

    def seat_of(self, public_key: str) -> int | None:
        """The seat of the client with this key; None: it has none."""
        return self.keys.index(public_key) if public_key in self.keys else None

    def add(self, change: Change) -> None:
        """Make a change that `check` allows."""
        self.check(change)
        if change.key:
            self.keys[change.seat] = change.key
        else:
            self.out.add(change.seat)
        self.changes.append(change)

    def check(self, change: Change) -> None:
        """Refuse what may not change."""
        clients, seat, key = self.manifest.clients, change.seat, change.key
        if not rule_of(self.manifest.closing).may_close:
            raise Unsupported(
                "In this study every exchange waits for all clients, so they cannot change. Make a "
                "new study; one with closing = 'fold' or 'drop' can go on with other clients."
            )
        if self.manifest.helpers:
            raise Unsupported(
                "Helpers know the clients of this study by its manifest, so they cannot change. "
                "Make a new study."
            )
        name = clients[seat] if seat < len(clients) else "This seat"
        if name not in clients or seat in self.out or not (key or self.keys[seat]):
            raise InvalidValue(f"{name} has no client that can be taken out or come in its place.")
        if not key:
            return
        if self.keys[seat]:
            raise InvalidValue(
                f"{name} has a client. Only a seat that is open in the manifest, "
                f'`{name} = ""` under [clients], can be given to one.'
            )
        if not KEY.fullmatch(key) or key == NOBODY:  # in a change this says that nobody comes
            raise InvalidValue(
                f"Expected {name}={key[:80]!r} to be {OUT!r}, or a key of 64 hex digits that are "
                "not all 0."
            )
        if key in (*self.keys, self.manifest.server):
            raise InvalidValue(f"Two parties have the same key, {key}. Each makes its own.")

    def words(self) -> list[str]:
        """All changes, for readers."""
        return [
            f"after exchange {change.exchange} the seat {self.manifest.clients[change.seat]} was "
            + (f"given to the key {change.key}" if change.key else "emptied for good")
            for change in self.changes
        ]

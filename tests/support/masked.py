"""A study with helpers, with all keys in one hand: what attackers try, and what they can compute."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.deployment import veil, wire
from hedgerow.deployment.helper import StudyHelper
from hedgerow.deployment.keys import load_or_make
from hedgerow.deployment.masks import Masked, opened, read_words
from hedgerow.deployment.server import Wait
from hedgerow.deployment.server_ledger import KEY
from support.simulated import small_study

FAR = 2.0**40
"""Units; a number under a mask is below it with chance 2^-23."""
LOW_ORDER = (
    bytes(32),
    b"\1" + bytes(31),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
)


def far(words: np.ndarray) -> bool:
    """Whether no number is small: a mask is still on each of them."""
    return bool((np.abs(words.view(np.int64).astype(float)) > FAR).all())


class World:
    """Clients that have uploaded, and a server and helpers that are driven by hand."""

    def __init__(
        self,
        folder: Path,
        clients: int = 4,
        helpers: int = 2,
        colluding: int = 1,
        experts: int = 3,
        horizon: int = 6,
        trust: str = "distributed",
        **more: Any,
    ) -> None:
        self.study = small_study(
            folder,
            clients=clients,
            experts=experts,
            horizon=horizon,
            algorithm="walk_leader",
            choices={"trust": trust},
            seed=None,
            budget="100",
            helpers=helpers,
            colluding=colluding,
            **more,
        )
        self.manifest = self.study.manifest
        self.digest, self.names = self.manifest.digest, self.manifest.helper_names
        self.opener = self.study.opener
        self.key = load_or_make(folder / "server" / KEY)
        drawn = np.random.default_rng(3).integers(0, 2, (horizon, clients, experts))
        self.losses = drawn.astype(np.float64)
        self.masked = Masked.of(self.study.learner(0).client.algorithm)
        self._held: dict[str, bytes] = {}

    @property
    def server(self) -> Any:
        return self.study.running_server()

    def helper(self, number: int) -> StudyHelper:
        return self.study.helper(self.names[number])

    def collect(self, exchange: int, clients: Iterable[int] | None = None) -> list[bytes]:
        """Let clients play until each has uploaded for the exchange; the messages, in order."""
        who = list(range(len(self.manifest.clients)) if clients is None else clients)
        for _ in range(200):  # a client takes a few steps
            if all((c, exchange) in self.study.watch.messages for c in who):
                return [self.study.watch.messages[c, exchange] for c in who]
            for c in who:
                if (c, exchange) not in self.study.watch.messages:
                    self.study._step(c, self.losses, None, None)
        raise AssertionError("a client does not upload")

    def learn(self) -> None:
        """Let every client say hello and take the answers that there are."""
        for client in range(len(self.manifest.clients)):
            for _ in range(4):
                self.study.learner(client).client.advance()

    def sums(self) -> list[tuple[np.ndarray, float]]:
        """The values and the variance of every sum that the server opens from now on."""
        found, total = list[tuple[np.ndarray, float]](), self.server._sums.total

        def kept(uploads: Any, rounds: int) -> Any:
            seen = total(uploads, rounds)
            found.append((np.asarray(seen.values), float(seen.variance)))
            return seen

        self.server._sums.total = kept
        return found

    def finish(self) -> list[str]:
        """Play the study to its end; what is wrong then."""
        self.study.play(self.losses)
        return self.study.violations(self.losses)

    # what the holder of keys can compute

    def upload(self, data: bytes) -> wire.Upload:
        return wire.unpack(data, self.digest, wire.Upload)

    def y(self, data: bytes) -> np.ndarray:
        """The numbers under masks: what the server sees."""
        up = self.upload(data)
        sessions = veil.Sessions(self.opener, self.digest)
        return read_words(sessions.open(up.exchange, up.client, up.parts[-1]))

    def seed(self, data: bytes, helper: int) -> bytes:
        up = self.upload(data)
        return self.helper(helper)._sessions.open(up.exchange, up.client, up.parts[helper])

    def mask(self, data: bytes, helper: int) -> np.ndarray:
        return veil.mask(self.seed(data, helper), self.masked.width)

    def z(self, data: bytes) -> np.ndarray:
        """What a client has released, value and noise, in steps: all helpers and the server."""
        masks = [self.mask(data, h) for h in range(len(self.names))]
        return opened([self.y(data)], masks).view(np.int64)

    def part(self, answer: bytes) -> tuple[np.ndarray, tuple[int, ...]]:
        """The sum of masks that a helper has returned, and whom it names."""
        found = wire.unpack(answer, self.digest, wire.Part)
        info = veil.share_info(self.digest, found.exchange, found.helper)
        sealed = found.payload[4 * found.count :]
        return read_words(self.opener.open(sealed, info)), found.damaged

    # what a server, or clients, that do not follow the protocol send

    def task(
        self, exchange: int, helper: int, uploads: Sequence[bytes], key: Any = None, **more: Any
    ) -> bytes:
        tickets = b"".join(wire.Ticket.of(data)[helper] for data in uploads)
        message = wire.Task(helper, exchange, len(uploads), tickets)
        return wire.pack(replace(message, **more), self.digest, key or self.key)

    def sealed(self, client: int, exchange: int, helper: int, seed: bytes) -> bytes:
        public = self.manifest.helpers[self.names[helper]]["seal"]
        return veil.Session(public, self.digest, client, helper).seal(exchange, seed)

    def body(self, client: int, exchange: int, words: np.ndarray) -> bytes:
        session = veil.Session(self.opener.public, self.digest, client)
        return session.seal(exchange, words.astype("<u8").tobytes())

    def forge(
        self, client: int, like: bytes, seals: Sequence[bytes], body: bytes, **more: Any
    ) -> bytes:
        """An upload that a false client signs, with what it has seen as in an honest one."""
        made = {"seals": len(seals), "payload": b"".join((*seals, body)), **more}
        message = replace(self.upload(like), client=client, **made)
        return wire.pack(message, self.digest, self.study.account(client).key)

    def take(self, *requests: bytes) -> list[bytes | Wait]:
        return self.server.take(list(requests))

    def copy(self, number: int, to: Path) -> StudyHelper:
        """An old copy of a helper: its folder as it is now, opened as another one."""
        name = self.names[number]
        self.helper(number)
        running, self.study.helpers[name] = self.study.helpers[name], None
        if running is not None:
            running.close()
        shutil.copytree(self.study._places[name], to)
        return StudyHelper(to, running.link if running else None)  # pyright: ignore

    def close(self) -> None:
        self.study.close()

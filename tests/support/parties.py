"""Server and clients of a study as processes over HTTP, and what must hold when they are killed."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.block import Block, check
from hedgerow.core.errors import InvalidValue
from hedgerow.core.messages import encode
from hedgerow.core.noise import SeededNoise
from hedgerow.core.transcript import Sink
from hedgerow.deployment import wire
from hedgerow.deployment.account import Account
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.config import ServerOptions
from hedgerow.deployment.desk import Desk
from hedgerow.deployment.helper import StudyHelper
from hedgerow.deployment.helper_ledger import HelperKeys, HelperLedger
from hedgerow.deployment.http_client import HttpLink, Route
from hedgerow.deployment.http_server import Tls, allow_connections, listen, make_app, serve
from hedgerow.deployment.learner import ClientLearner
from hedgerow.deployment.logs import start_logs
from hedgerow.deployment.manifest import Manifest, rebuild
from hedgerow.deployment.server import StudyServer
from hedgerow.deployment.serving import limits_of
from hedgerow.engines.loop import Engine
from support.simulated import small_study
from support.zygote import Zygote


class RecordingLink:
    """A link that first writes the hash of every upload, and of every task opened, to a file."""

    def __init__(self, link: HttpLink, file: Path) -> None:
        self._link = link
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def call(self, request: bytes) -> bytes | None:
        if request[:1] == wire.Upload.kind:
            exchange = int.from_bytes(request[13:21], "little")
            os.write(self._file, f"{exchange} {wire.hash_of(request).hex()}\n".encode())
        elif request[:1] == wire.Part.kind:
            exchange = int.from_bytes(request[13:21], "little")
            os.write(self._file, f"{exchange} {request[21:53].hex()}\n".encode())
        return self._link.call(request)


def kept_port() -> int:
    """A free port that stays free while the server is dead: the system hands out others."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with suppress(InvalidValue):
            listen("127.0.0.1", port).close()
            return port
    raise AssertionError("no port is free")


def run_server(root: str, port: int, options: Mapping[str, Any]) -> int:
    """The server of the study in `root`, in its own process."""
    chosen = ServerOptions(**options)
    start_logs(chosen.log)
    study = StudyServer(Path(root) / "server")
    tls = None
    if chosen.certificate is not None and chosen.certificate_key is not None:
        ca = None if chosen.client_ca is None else Path(chosen.client_ca)
        tls = Tls(Path(chosen.certificate), Path(chosen.certificate_key), ca)
    desk = Desk(lambda: study, limits_of(study, chosen))
    return serve(make_app(desk), desk, listen("127.0.0.1", port), tls)


def open_client(root: Path, index: int, route: Route) -> ClientLearner:
    """A client, joined or opened again."""
    name = f"client-{index:03d}"
    link = RecordingLink(HttpLink(route), root / f"wire-{name}")
    key = (root / "server.key").read_text()
    account = Account(root / f"data-{name}")
    known = [HelperKeys.read(file) for file in root.glob("helper-*/*.helper")]
    return ClientLearner(
        StudyClient.join(account, link, server_key=key, seeded=True, helpers=known)
    )


def run_helper(root: str, name: str, route: Mapping[str, Any]) -> int:
    """A helper, until the study is over."""
    place = Path(root)
    link = RecordingLink(HttpLink(Route(**route)), place / f"wire-{name}")
    folder, key = place / f"helper-{name}", (place / "server.key").read_text()
    roster = json.loads((place / "roster.json").read_text())
    helper = StudyHelper.join(folder, link, server_key=key, roster=roster)
    while not helper.advance():
        pass
    helper.close()
    return 0


def run_client(
    root: str, index: int, route: Mapping[str, Any], pause: float, hold: int | None = None
) -> int:
    """A client that feeds recorded losses; from round `hold`, by default the last one, it waits for the
    file `end`. Rounds that were closed without it are missed.
    """
    place = Path(root)
    losses = np.load(place / "losses.npy", mmap_mode="r")
    learner = open_client(place, index, Route(**route))
    for again in range(max(0, learner.round - 2), learner.round):
        learner.observe(again, losses[again, index])  # counted before: changes nothing
    while not learner.over:
        at = learner.round
        learner.predict()
        while at >= (len(losses) - 1 if hold is None else hold) and not (place / "end").exists():
            time.sleep(0.01)
        time.sleep(pause)
        try:
            learner.observe(at, losses[at, index])
        except InvalidValue as error:
            if "was missed" not in str(error):
                raise
    learner.finish()
    learner.close()
    return 0


def run_clients(root: str, first: int, count: int, route: Mapping[str, Any]) -> int:
    """Several clients in one process, each in a thread."""
    allow_connections(4 * count)
    place = Path(root)
    losses = np.load(place / "losses.npy", mmap_mode="r")
    failed: list[BaseException] = []

    def one(index: int) -> None:
        try:
            learner = open_client(place, index, Route(**route))
            while not learner.over:
                at = learner.round
                learner.predict()
                learner.observe(at, losses[at, index])
            learner.finish()
            learner.close()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(first + i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in failed:
        raise error
    return 0


@dataclass
class Deployed:
    """A study whose parties run as processes, and are started again when they die."""

    root: Path
    manifest: Manifest
    losses: np.ndarray
    zygote: Zygote
    port: int
    options: dict[str, Any] = field(default_factory=dict)
    route: dict[str, Any] = field(default_factory=dict)
    pause: float = 0.0
    hold: dict[str, int] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)
    kills: int = 0

    @classmethod
    def make(
        cls, root: Path, zygote: Zygote, losses: np.ndarray, seed: int | None, **study: Any
    ) -> Deployed:
        """Keys, accounts, manifest and losses in an empty folder; nothing runs yet."""
        rounds, clients, experts = losses.shape
        made = small_study(
            root, clients=clients, experts=experts, horizon=rounds, seed=seed, **study
        )
        made.running_server().close()
        np.save(root / "losses.npy", losses)
        (root / "server.key").write_text(made.manifest.server)
        (root / "roster.json").write_text(json.dumps(dict(made.manifest.roster)))
        return cls(root, made.manifest, losses, zygote, kept_port())

    @property
    def parties(self) -> list[str]:
        return ["server", *self.manifest.clients, *self.manifest.helpers]

    @property
    def url(self) -> str:
        return f"{'https' if 'certificate' in self.options else 'http'}://127.0.0.1:{self.port}"

    def start(self, party: str) -> None:
        """Start the server or a client."""
        errors = self.root / f"{party}.err"
        if party == "server":
            what: tuple[Any, ...] = ("run_server", str(self.root), self.port, self.options)
        elif party in self.manifest.helpers:
            what = ("run_helper", str(self.root), party, {"url": self.url, "proxy": ""})
        else:
            route = {"url": self.url, "proxy": "", **self.route}
            index, hold = self.manifest.index(party), self.hold.get(party)
            what = ("run_client", str(self.root), index, route, self.pause, hold)
        name, *arguments = what
        self.pids[party] = self.zygote.start(f"support.parties:{name}", *arguments, errors=errors)

    def start_all(self) -> None:
        for party in self.parties:
            self.start(party)

    def kill(self, party: str) -> None:
        """Kill a party and start it again."""
        self.zygote.kill(self.pids[party])
        assert self.zygote.ended[self.pids[party]] == -9, self.errors(party)
        self.kills += 1
        self.start(party)

    def errors(self, party: str) -> str:
        return (self.root / f"{party}.err").read_text()[-2000:]

    def finish(self, seconds: float) -> None:
        """Let the game end: every client ends by itself, then the server is stopped."""
        (self.root / "end").touch()
        for name in (*self.manifest.clients, *self.manifest.helpers):
            code = self.zygote.wait(self.pids[name], seconds)
            assert code == 0, f"{name}: {self.errors(name)}"
        self.stop_server()

    def stop_server(self) -> None:
        os.kill(self.pids["server"], 15)
        assert self.zygote.wait(self.pids["server"]) == 0, self.errors("server")

    def check(self) -> None:
        """Everything was released once and counted once, and the transcript is the reference's."""
        server = StudyServer(self.root / "server")
        assert server.over
        assert not server.forked
        server.chain.check()
        answers = [server.answer(exchange) for exchange in range(server.exchange + 1)]
        counted = {
            (client, exchange): bytes(found)
            for client, exchange, found in server._database.execute(
                "SELECT client, exchange, hash FROM upload WHERE counted = exchange"
            )
        }
        server.close()
        clients, exchanges = len(self.manifest.clients), len(answers) - 1
        waits = self.manifest.closing == "wait"
        assert len(counted) == clients * exchanges or not waits
        plays = []
        for index, name in enumerate(self.manifest.clients):
            sent = dict[int, set[str]]()
            for line in (self.root / f"wire-{name}").read_text().splitlines():
                exchange, found = line.split()
                sent.setdefault(int(exchange), set()).add(found)
            own = {at: {found.hex()} for (client, at), found in counted.items() if client == index}
            late = {at: found for at, found in sent.items() if at not in own}
            assert not (waits and late), f"{name} sent an upload that is not counted"
            assert all(len(found) == 1 for found in late.values()), f"{name} sent two late uploads"
            assert sent == {**late, **own}, f"{name} sent two messages for one release"
            account = Account(self.root / f"data-{name}")
            ledger = StudyClient(account.study(self.manifest.digest), _NoLink())
            ledger.check()
            assert ledger.exchange == exchanges or not waits
            plays.append(np.stack(ledger.plays()))
            ledger.close()
        for name in self.manifest.helpers:
            lines = set((self.root / f"wire-{name}").read_text().splitlines())
            helper = HelperLedger(self.root / f"helper-{name}")
            helper.check()
            opened = {f"{exchange} {task.hex()}" for exchange, task in helper.opened().items()}
            assert lines == opened, f"{name} answered two tasks for one exchange, or none"
            assert len(opened) == exchanges
            helper.close()
        found = [
            wire.unpack(a or b"", self.manifest.digest, wire.Answer).broadcast for a in answers
        ]
        if self.manifest.seed is not None:
            expected_plays, expected = reference(self.manifest, self.losses)
            assert np.array_equal(np.stack(plays, axis=1), expected_plays)
            assert found == expected
        else:
            played = [len(p) for p in plays]
            assert played == [len(self.losses)] * clients or not waits


class _NoLink:
    def call(self, request: bytes) -> bytes | None:
        raise AssertionError("nothing may be sent here")


class _Messages(Sink):
    wants_messages = True

    def __init__(self) -> None:
        self.broadcasts: list[bytes] = []
        self.plays: list[np.ndarray] = []

    def message(self, round_number: int, uploads: Any, broadcast: Any) -> None:
        self.broadcasts.append(encode(broadcast))

    def rounds(self, first_round: int, block: Block, plays: Any) -> None:
        self.plays.append(plays)


def reference(manifest: Manifest, losses: np.ndarray) -> tuple[np.ndarray, list[bytes]]:
    """Plays and broadcasts of the same game in one process."""
    assert manifest.seed is not None
    algorithm = rebuild(manifest)
    engine, seen = Engine.in_process(algorithm, SeededNoise(manifest.seed)), _Messages()
    broadcast, run = engine.open()
    engine.advance(run, check(Block.of(losses), algorithm.setting, 0, len(losses)), [seen])
    return np.concatenate(seen.plays), [encode(broadcast), *seen.broadcasts]

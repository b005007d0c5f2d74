"""A study server over HTTP in a thread of the test, and small studies for it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.deployment.account import Account
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.config import ServerOptions
from hedgerow.deployment.desk import Desk, Limits
from hedgerow.deployment.helper import StudyHelper
from hedgerow.deployment.helper_ledger import HelperKeys
from hedgerow.deployment.http_client import HttpLink, Route
from hedgerow.deployment.http_server import (
    OrderlyServer,
    Part,
    Tls,
    listen,
    make_app,
    make_server,
)
from hedgerow.deployment.learner import ClientLearner
from hedgerow.deployment.server import StudyServer
from hedgerow.deployment.serving import limits_of
from support.simulated import small_study
from support.waiting import PATIENCE, until


@dataclass
class Served:
    """A running server: where it is, and its parts."""

    root: Path
    port: int
    desk: Desk
    server: OrderlyServer
    study: StudyServer
    thread: threading.Thread
    operations: int = 0
    links: list[HttpLink] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def link(self, **changes: Any) -> HttpLink:
        given = {"url": f"http://{self.host}", "proxy": "", **changes}
        self.links.append(HttpLink(Route(**given), PATIENCE))
        return self.links[-1]

    def learner(self, index: int, link: Any = None) -> ClientLearner:
        """A client that joins."""
        name = self.study.manifest.clients[index]
        account = Account(self.root / f"data-{name}")
        known = [HelperKeys(name, **keys) for name, keys in self.study.manifest.helpers.items()]
        return ClientLearner(
            StudyClient.join(
                account,
                self.link() if link is None else link,
                server_key=self.study.manifest.server,
                seeded=True,
                helpers=known,
            )
        )

    def helper(self, name: str) -> StudyHelper:
        """A helper that joins."""
        named = {"server_key": self.study.manifest.server, "roster": self.study.manifest.roster}
        return StudyHelper.join(self.root / f"helper-{name}", self.link(), **named)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        port: int | None = None,
        **headers: str,
    ) -> Any:
        """One request on a new connection: status, headers, body."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def stop(self) -> None:
        for link in self.links:
            link.close()
        self.server.end()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


@contextmanager
def served(
    root: Path,
    tls: Tls | None = None,
    limits: dict[str, Any] | None = None,
    parts: tuple[Part, ...] = (),
    operations: bool = False,
    **study: Any,
) -> Iterator[Served]:
    """A study that is served until the block ends."""
    size = {"clients": 2, "experts": 3, "horizon": 6, "seed": 0, **study}
    opened = small_study(root, **size).running_server()
    usual: Limits = replace(limits_of(opened, ServerOptions()), **(limits or {}))
    desk = Desk(lambda: opened, usual)
    listening = listen("127.0.0.1", 0)
    beside = listen("127.0.0.1", 0) if operations else None
    server = make_server(make_app(desk, *parts), desk, tls, beside)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    found = Served(root, listening.getsockname()[1], desk, server, opened, thread)
    found.operations = 0 if beside is None else beside.getsockname()[1]
    thread.start()
    until(lambda: server.started or not thread.is_alive(), "the server")
    assert server.started
    try:
        yield found
    finally:
        found.stop()


def play(learners: list[ClientLearner], losses: np.ndarray) -> list[list[int]]:
    """All rounds of all clients, each in a thread; the plays of each."""
    plays: list[list[int]] = [[] for _ in learners]
    failed: list[BaseException] = []

    def one(index: int) -> None:
        try:
            learner = learners[index]
            while not learner.over:
                at = learner.round
                plays[index].append(int(learner.predict()))
                learner.observe(at, losses[at, index])
            learner.finish()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(len(learners))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if failed:
        raise failed[0]
    assert not any(thread.is_alive() for thread in threads)
    return plays

"""A study with its live pages in this process, and a real browser."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from hedgerow.deployment.application import Application, Port
from hedgerow.deployment.learner import ClientLearner
from hedgerow.deployment.pages.live import live_page
from hedgerow.deployment.pages.own import client_pages
from support.served import Served, served


@dataclass
class Watched:
    """A study that runs, its clients, and the port of each."""

    server: Served
    learners: list[ClientLearner]
    ports: list[Port]

    @property
    def url(self) -> str:
        return f"http://{self.server.host}"

    def page(self, client: int) -> str:
        return self.ports[client].page

    def stop(self) -> None:
        """Stop the server and wait until it has ended."""
        self.server.stop()

    def play(self, rounds: int, losses: list[float], clients: list[int] | None = None) -> None:
        """Play rounds at some clients at once."""

        def work(learner: ClientLearner) -> None:
            for _ in range(rounds):
                learner.predict(tries=200)
                learner.observe(learner.round, losses, tries=200)

        chosen = range(len(self.learners)) if clients is None else clients
        threads = [threading.Thread(target=work, args=(self.learners[c],)) for c in chosen]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@contextmanager
def watched(root: Path) -> Iterator[Watched]:
    """Two clients with secure noise, a server with the live page, and a port for every client."""
    with served(root, limits={"wait": 2.0}, parts=(live_page,), horizon=30, seed=None) as server:
        learners = [server.learner(index) for index in (0, 1)]
        ports = [Port(Application(learner), 0) for learner in learners]
        for learner, port in zip(learners, ports, strict=True):
            port.pages |= client_pages(learner.client)
            threading.Thread(target=port.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield Watched(server, learners, ports)
        finally:
            for learner, port in zip(learners, ports, strict=True):
                port.shutdown()
                port.server_close()
                learner.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    """The distribution's Chromium."""
    path = shutil.which("chromium")
    assert path is not None, "install the distribution package chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()

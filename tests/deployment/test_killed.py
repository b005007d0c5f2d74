"""Server and clients as processes over HTTP, killed with kill -9: everything is released once, and
the transcript is that of the game in one process.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.deployment.anchor import OldLedger
from hedgerow.deployment.server import StudyServer
from support.parties import Deployed
from support.waiting import until
from support.zygote import Zygote, zygote

STUDIES: dict[str, dict[str, Any]] = {
    "central": {"algorithm": "sparse_vector", "choices": {"epsilon": 1.0, "every": 2}},
    "local": {
        "algorithm": "phased_selection",
        "choices": {"epsilon": 1.0, "trust": "local", "report": "laplace"},
    },
    "shared": {
        "algorithm": "walk_leader",
        "choices": {"mu": 1.0, "trust": "distributed"},
        "helpers": 2,
    },
    "drawn": {"algorithm": "shrinking_dartboard", "choices": {"epsilon": 1.0, "every": 1}},
}


@pytest.fixture(scope="module")
def processes() -> Iterator[Zygote]:
    with zygote() as found:
        yield found


def play_and_kill(
    deployed: Deployed, kills: int, chance: np.random.Generator, between: float, seconds: float
) -> None:
    """Play a game; every few moments a party dies. The server is the victim in a quarter of them."""
    deployed.start_all()
    clients = (*deployed.manifest.clients, *deployed.manifest.helpers)
    for _ in range(kills):
        time.sleep(between * (0.5 + chance.random()))
        server = chance.random() < 0.25
        deployed.kill("server" if server else clients[int(chance.integers(len(clients)))])
    deployed.finish(seconds)
    assert deployed.kills == kills
    deployed.check()


def game(seed: int, rounds: int, clients: int, experts: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**20, (rounds, clients, experts)) / 2**20


@pytest.mark.parametrize(("name", "seed"), [("central", 7), ("local", None), ("shared", None)])
def test_killed_a_few_times(name: str, seed: int | None, tmp_path: Path, processes: Zygote) -> None:
    losses = game(1, 25, 2, 3)
    deployed = Deployed.make(tmp_path, processes, losses, seed, **STUDIES[name])
    deployed.pause = 0.005
    play_and_kill(deployed, 4, np.random.default_rng(2), 0.15, 120.0)


def test_a_lost_client_and_a_killed_server(tmp_path: Path, processes: Zygote) -> None:
    """Exchanges close without the client that never comes back, also after the server was killed.

    An old copy of the ledger is refused at the start.
    """
    choices = {"epsilon": "1", "every": 2, "early": False}
    deployed = Deployed.make(
        tmp_path, processes, game(9, 16, 3, 3), 3,
        algorithm="private_hedge", choices=choices, closing="drop",
    )  # fmt: skip
    *others, last = deployed.manifest.clients
    deployed.options = {"close_after": 0.3}
    deployed.pause = 0.02
    deployed.hold = {last: 3}  # its first upload has been sent, and no other one will be
    deployed.start_all()
    sent = tmp_path / f"wire-{last}"
    until(lambda: sent.exists() and sent.read_text().endswith("\n"), "the first upload")
    time.sleep(0.1)  # exchanges may begin to close without it
    processes.kill(deployed.pids[last])
    processes.kill(deployed.pids["server"])
    (tmp_path / "end").touch()
    backup = shutil.copytree(tmp_path / "server", tmp_path / "backup")
    deployed.start("server")
    for name in others:
        code = processes.wait(deployed.pids[name])
        assert code == 0, deployed.errors(name)
    deployed.stop_server()
    server = StudyServer(tmp_path / "server")
    found, again = server.exchange, server.uploads()
    assert found == 7
    assert server.vouched() == []
    assert len({exchange for client, exchange in again if client == 2}) <= 1
    server.close()
    shutil.rmtree(tmp_path / "server")
    shutil.copytree(backup, tmp_path / "server")
    with pytest.raises(OldLedger, match="names an answer of exchange 7"):
        StudyServer(tmp_path / "server")
    deployed.start("server")
    assert processes.wait(deployed.pids["server"]) != 0
    assert "OldLedger" in deployed.errors("server")


@pytest.mark.parametrize("kills", [6, pytest.param(170, marks=pytest.mark.long)])
def test_killed_where_sums_leave_out_the_silent(
    kills: int, tmp_path: Path, processes: Zygote
) -> None:
    losses = game(3, 40 if kills < 10 else 200, 4, 5)
    study: dict[str, Any] = {**STUDIES["shared"], "closing": "drop", "least": 3}
    deployed = Deployed.make(tmp_path, processes, losses, None, **study)
    deployed.options, deployed.pause = {"close_after": 0.2}, 0.002
    play_and_kill(deployed, kills, np.random.default_rng(6), 0.1, 300.0)
    server = StudyServer(tmp_path / "server")
    sizes = [len(server.counted(exchange)) for exchange in range(1, server.exchange + 1)]
    server.close()
    assert min(sizes) >= 3
    assert kills < 100 or min(sizes) < max(sizes)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "seed"),
    [(name, seed) for name in STUDIES for seed in (11, None) if name != "shared" or seed is None],
)
def test_killed_a_thousand_times(
    name: str, seed: int | None, tmp_path: Path, processes: Zygote
) -> None:
    """Seven games with 170 kills each, of server, clients and helpers."""
    losses = game(3, 200, 4, 5)
    deployed = Deployed.make(tmp_path, processes, losses, seed, **STUDIES[name])
    deployed.pause = 0.002
    play_and_kill(deployed, 170, np.random.default_rng(4), 0.1, 300.0)


@pytest.mark.long
def test_a_thousand_clients_in_few_processes(tmp_path: Path, processes: Zygote) -> None:
    losses = game(5, 3, 1000, 4)
    deployed = Deployed.make(tmp_path, processes, losses, 6, algorithm="tree_leader")
    deployed.start("server")
    route = {"url": deployed.url, "proxy": "", "wait": 300.0}
    pids = [
        processes.start(
            "support.parties:run_clients", str(tmp_path), first, 250, route, errors=tmp_path / "err"
        )
        for first in range(0, 1000, 250)
    ]
    for pid in pids:
        assert processes.wait(pid, 3000.0) == 0, (tmp_path / "err").read_text()[-2000:]
    deployed.stop_server()
    deployed.check()

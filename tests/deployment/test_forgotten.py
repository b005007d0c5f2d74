"""After an exchange the server's files hold no upload of a single client, also if it is killed."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from hedgerow.deployment.database import Database, hooked, open_database
from support.simulated import Crash, SimulatedStudy, small_study

CLIENTS, EXPERTS, ROUNDS = 16, 64, 6
MARK = 8 * EXPERTS  # bytes: the exact sums of one upload, at its end

KILLED = f"""
import os, pickle, signal, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from deployment.test_forgotten import half_way
study = half_way(Path(sys.argv[1]))
found = study.running_server().exchange, study.watch.sealed, study.watch.payloads
Path(sys.argv[1], "sent").write_bytes(pickle.dumps(found))
os.kill(os.getpid(), signal.SIGKILL)
"""


def losses() -> np.ndarray:
    shape = (ROUNDS, CLIENTS, EXPERTS)
    return np.random.default_rng(3).integers(0, 2**20, shape) / 2**20


def half_way(place: Path) -> SimulatedStudy:
    """A study with an exchange before every round; half of the clients wait for the last one."""
    study = small_study(
        place,
        clients=CLIENTS,
        experts=EXPERTS,
        horizon=ROUNDS,
        choices={"epsilon": "1", "every": 1},
        seed=None,
    )
    drawn = losses()
    while any(study.learner(client).round < ROUNDS - 1 for client in range(CLIENTS)):
        for client in range(CLIENTS):
            learner = study.learner(client)
            if learner.round < ROUNDS - 1 and learner.client.advance():
                learner.predict()
                learner.observe(learner.round, drawn[learner.round, client])
    for client in range(CLIENTS // 2):
        study.learner(client).client.advance()
    return study


def raw(place: Path) -> bytes:
    """All bytes of the server's files: the ledger, its log, and whatever else is there."""
    return b"".join(file.read_bytes() for file in place.iterdir())


def split(
    place: Path, exchange: int, payloads: dict[tuple[int, int], bytes]
) -> tuple[list[bool], list[bool]]:
    """Whether each counted upload is in the server's files, and each that waits."""
    held = raw(place / "server")
    marks = {where: payload[-MARK:] for where, payload in payloads.items()}
    counted = [mark in held for (_, at), mark in marks.items() if at <= exchange]
    waiting = [mark in held for (_, at), mark in marks.items() if at > exchange]
    return counted, waiting


def test_a_killed_server_leaves_no_upload_that_was_counted(tmp_path: Path) -> None:
    """101 of 398 exact vectors of single clients were in the write-ahead log."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], check=False, capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    exchange, sealed, payloads = pickle.loads((tmp_path / "sent").read_bytes())
    counted, waiting = split(tmp_path, exchange, sealed)
    assert len(counted) == CLIENTS * exchange >= CLIENTS * 4
    assert not any(counted)
    assert len(waiting) == CLIENTS // 2
    assert all(waiting)  # they must survive, and the search has power
    assert not any(chain(*split(tmp_path, exchange, payloads)))  # also those wait sealed


def test_a_server_killed_before_it_forgets_does_so_when_it_starts(
    place: Path, built_once: None
) -> None:
    study = half_way(place)
    server = study.running_server()
    last = server.exchange

    def die(name: str) -> None:
        if name == "server take committed" and server.exchange > last:
            study._image = study._imaged("server")
            raise Crash(name)

    requests = [
        study.learner(client).client._release(last + 1).message
        for client in range(CLIENTS // 2, CLIENTS)
    ]
    for request in requests:
        study.watch.request(request, study.manifest.digest, study.opener)
    with hooked(die), pytest.raises(Crash):
        server.take(requests)
    study.kill("server")
    marks = [payload[-MARK:] for payload in study.watch.sealed.values()]

    def left() -> int:
        held = raw(study.place("server"))
        return sum(mark in held for mark in marks)

    assert left()  # until the next start
    study.running_server()
    assert left() == 0
    study.close()


def test_a_batch_that_completes_an_exchange_writes_no_payload(
    place: Path, built_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = small_study(
        place, clients=3, experts=EXPERTS, horizon=3, choices={"every": 1}, seed=None
    )
    for client in range(3):
        learner = study.learner(client)
        learner.predict()
        learner.observe(0, losses()[0, client])
    server = study.running_server()
    requests = [study.learner(client).client._release(1).message for client in range(3)]
    for request in requests:
        study.watch.request(request, study.manifest.digest, study.opener)
    monkeypatch.setattr(Database, "forget", _not_needed)
    server.take(requests)
    assert server.exchange == 1
    held = raw(study.place("server"))
    assert not any(payload[-MARK:] in held for payload in study.watch.sealed.values())
    study.close()


def _not_needed(ledger: Database, name: str) -> None:
    raise AssertionError(name)


def test_forgetting_leaves_what_is_kept(place: Path) -> None:
    ledger = open_database(place / "x.db", "CREATE TABLE IF NOT EXISTS t(a BLOB);")
    secret, kept = b"secret " * 700, b"kept " * 700
    with ledger.transaction("both"):
        ledger.execute("INSERT INTO t VALUES(?), (?)", (secret, kept))
    with ledger.transaction("one"):
        ledger.execute("DELETE FROM t WHERE a = ?", (secret,))
    found = (place / "x.db-wal").read_bytes()
    assert b"secret" in found
    ledger.forget("test")
    assert b"secret" not in raw(place)
    assert raw(place).count(b"kept ") >= 690
    ledger.close()

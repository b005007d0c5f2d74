"""Mutated requests over HTTP and at the study: no crash, no state change, a clear status."""

from __future__ import annotations

import hashlib
import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.deployment import wire
from hedgerow.deployment.http_client import MESSAGES, HttpLink
from hedgerow.deployment.server import StudyServer, Wait
from hedgerow_benchmarks.measure import peak_mebibytes
from support.parties import reference
from support.served import Served, play, served
from support.waiting import PATIENCE

STATUSES = {200, 204, 400, 403, 404, 409, 413, 422}


class Recording:
    """A link that keeps every request."""

    def __init__(self, link: HttpLink, kept: list[bytes]) -> None:
        self._link, self._kept = link, kept

    def call(self, request: bytes) -> bytes | None:
        self._kept.append(request)
        return self._link.call(request)


def mutants(
    good: list[bytes], foreign: list[bytes], chance: np.random.Generator
) -> Iterator[bytes]:
    """Requests that must change nothing: damaged, replayed, cut, long, of other studies."""
    while True:
        data = good[int(chance.integers(len(good)))]
        kind = int(chance.integers(8))
        if kind == 0:  # a replay
            yield data
        elif kind == 1:  # some bits
            wrong = bytearray(data)
            for _ in range(int(chance.integers(1, 4))):
                wrong[int(chance.integers(len(wrong)))] ^= 1 << int(chance.integers(8))
            yield bytes(wrong)
        elif kind == 2:  # cut off
            yield data[: int(chance.integers(len(data)))]
        elif kind == 3:  # too long
            yield data + chance.bytes(int(chance.integers(1, 300)))
        elif kind == 4:  # another signature
            yield data[: -wire.SIGNATURE] + chance.bytes(wire.SIGNATURE)
        elif kind == 5:  # of another study, or with its signature
            other = foreign[int(chance.integers(len(foreign)))]
            yield (
                other
                if chance.random() < 0.5
                else data[: -wire.SIGNATURE] + other[-wire.SIGNATURE :]
            )
        elif kind == 6:  # noise
            yield chance.bytes(int(chance.integers(0, 400)))
        else:  # another client or kind in the head
            yield bytes([int(chance.integers(256))]) + data[1:9] + chance.bytes(4) + data[13:]


def state_of(study: StudyServer) -> str:
    """A hash of everything in the ledger."""
    names = [
        n for (n,) in study._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]
    found = hashlib.sha256()
    for name in sorted(names):
        for row in study._database.execute(f"SELECT * FROM {name} ORDER BY 1, 2"):
            found.update(repr(row).encode())
    return found.hexdigest()


def bombard(one: Served, good: list[bytes], foreign: list[bytes], taken: int, sent: int) -> None:
    """Give mutants to the study and to the port; the ledger stays as it is."""
    chance = np.random.default_rng(5)
    stream = mutants(good, foreign, chance)
    before = state_of(one.study)
    peak = None
    for start in range(0, taken, 100):
        batch = [next(stream) for _ in range(min(100, taken - start))]
        for reply in one.study.take(batch):
            assert isinstance(reply, Wait) or reply[:1] in (b"E", b"M", b"S", b"W", b"F")
        if start == 5000:
            peak = peak_mebibytes()
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=PATIENCE)
    for _ in range(sent):
        connection.request("POST", MESSAGES, next(stream))
        answer = connection.getresponse()
        answer.read()
        assert answer.status in STATUSES, answer.status
    connection.close()
    assert state_of(one.study) == before
    if peak is not None:
        assert peak_mebibytes() - peak < 16, "memory grows"


def scene(tmp_path: Path, taken: int, sent: int) -> None:
    losses = np.random.default_rng(4).integers(0, 2**20, (6, 2, 3)) / 2**20
    foreign: list[bytes] = []
    good: list[bytes] = []
    with served(tmp_path / "other") as other:
        clients = [other.learner(i, Recording(other.link(), foreign)) for i in range(2)]
        play(clients, losses)
    with served(tmp_path / "this", limits={"wait": 0.01}) as one:
        learners = [one.learner(i, Recording(one.link(), good)) for i in range(2)]
        for at in range(3):
            play_round(learners, losses, at)
        assert not learners[0].client.advance()  # an upload waits: the exchange is open
        bombard(one, good, foreign, taken, sent)
        plays = play(learners, losses)
        assert one.study.over
        assert not one.study.forked
        expected, _ = reference(one.study.manifest, losses)
        assert np.array_equal(np.array(plays), expected[3:].T)


def play_round(learners: list[Any], losses: np.ndarray, at: int) -> None:
    """One round of both clients, in one thread."""
    ready = [False]
    while not all(ready):
        ready = [learner.client.advance() for learner in learners]
    for index, learner in enumerate(learners):
        learner.predict()
        learner.observe(at, losses[at, index])


def test_thousands_of_mutants(tmp_path: Path) -> None:
    scene(tmp_path, 1000, 40)


@pytest.mark.long
def test_a_million_mutants(tmp_path: Path) -> None:
    scene(tmp_path, 950_000, 50_000)

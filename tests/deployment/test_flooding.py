"""A client that floods is refused in its own lane; the others go on."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from hedgerow.deployment import wire
from hedgerow.deployment.desk import Desk, Limits
from hedgerow.deployment.http_client import MESSAGES
from support.served import play, served
from support.waiting import PATIENCE, until


def ask(client: int) -> bytes:
    """The beginning of a request of a client."""
    return wire.Ask.kind + bytes(8) + client.to_bytes(4, "little") + bytes(80)


NAMES: dict[str, Any] = {"clients": (), "helper_names": (), "helpers": {}}


class _Slow:
    """A study that begins when it may, and notes who was served."""

    missing, exchange, awaited = 0, 0, ()
    stuck = trouble = None
    old = False

    def __init__(self, clients: int) -> None:
        self.manifest = SimpleNamespace(
            roster=dict.fromkeys(range(clients)), closing="wait", **NAMES
        )
        self.served: list[list[int]] = []
        self.may = threading.Event()

    def take(self, requests: list[bytes]) -> list[bytes]:
        self.served.append([int.from_bytes(data[9:13], "little") for data in requests])
        assert self.may.wait(PATIENCE)
        return list(requests)

    def news(self) -> list[object]:
        return []

    def answer(self, exchange: int) -> None:
        return None

    def close(self) -> None:
        pass


def test_each_batch_serves_every_lane_once() -> None:
    async def scene() -> tuple[_Slow, list[Any], list[Any]]:
        study: Any = _Slow(3)
        desk = Desk(lambda: study, Limits(body=1000, lane=4, queue=1000))
        await desk.start()
        flood = [asyncio.create_task(desk.ask("evil", ask(0))) for _ in range(50)]
        await asyncio.sleep(0)
        others = [
            asyncio.create_task(desk.ask(*one)) for one in (("good", ask(1)), ("evil", ask(2)))
        ]
        await asyncio.sleep(0)
        study.may.set()
        done, refused = await asyncio.gather(*others), await asyncio.gather(*flood)
        await desk.close()
        return study, list(done), list(refused)

    study, done, refused = asyncio.run(scene())
    assert [reply.status for reply in done] == [200, 200]
    assert all(len(batch) == len(set(batch)) for batch in study.served)
    assert {1, 2} <= {client for batch in study.served[:2] for client in batch}  # did not wait
    statuses = [reply.status for reply in refused]
    assert statuses.count(200) == 4
    assert statuses.count(429) == 46


def test_one_address_cannot_fill_the_queue() -> None:
    async def scene() -> tuple[list[int], int]:
        study: Any = _Slow(100)
        desk = Desk(lambda: study, Limits(body=1000, lane=4, queue=20))
        await desk.start()
        flood = [asyncio.create_task(desk.ask("evil", ask(i))) for i in range(60)]
        await asyncio.sleep(0)
        other = asyncio.create_task(desk.ask("good", ask(70)))
        study.may.set()
        found = [reply.status for reply in await asyncio.gather(*flood)]
        status = (await other).status
        await desk.close()
        return found, status

    statuses, other = asyncio.run(scene())
    assert other == 200
    assert statuses.count(200) == 10
    assert statuses.count(429) == 50


def test_a_study_ends_while_a_stranger_floods(tmp_path: Path) -> None:
    losses = np.random.default_rng(3).integers(0, 2**20, (6, 2, 3)) / 2**20
    with served(tmp_path, limits={"lane": 1}) as one:
        learners = [one.learner(i) for i in range(2)]
        over, sent = threading.Event(), list[int]()

        def flood() -> None:
            while not over.is_set():
                sent.append(one.ask("POST", MESSAGES, 200 * b"x")[0])

        threads = [threading.Thread(target=flood, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        play(learners, losses)
        until(lambda: len(sent) > 3, "the flood")
        over.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert one.study.over
        assert set(sent) <= {400, 429}

"""The desk gathers uploads that nobody can be answered with yet, and nothing else waits."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from hedgerow.deployment import desk as desks
from hedgerow.deployment import wire
from hedgerow.deployment.desk import Desk, Limits
from hedgerow.deployment.server import Wait
from support.waiting import PATIENCE

CLIENTS = 4
LONG = 2 * PATIENCE  # longer than a test

_NAMES: dict[str, Any] = {"clients": (), "helper_names": (), "helpers": {}}


class _Study:
    """A study with one exchange; it notes its batches."""

    def __init__(self) -> None:
        self.manifest = SimpleNamespace(
            roster=dict.fromkeys(range(CLIENTS)), closing="wait", **_NAMES
        )
        self.batches: list[bytes] = []  # the kinds of requests in each batch
        self.missing = CLIENTS
        self.stuck = self.trouble = None
        self.old, self.exchange, self.awaited = False, 0, ()

    def take(self, requests: list[bytes]) -> list[bytes | Wait]:
        self.batches.append(b"".join(data[:1] for data in requests))
        uploads = self.batches[-1].count(wire.Upload.kind)
        self.missing -= uploads
        return [Wait(1, 0) if data[:1] == wire.Upload.kind else data for data in requests]

    def news(self) -> list[object]:
        return []

    def sent(self, exchange: int) -> Any:
        answered = exchange == 1 and self.missing == 0
        return SimpleNamespace(reply=lambda client: b"answer") if answered else None

    def close(self) -> None:
        pass


def request(kind: type[wire.Message], client: int) -> bytes:
    return kind.kind + bytes(8) + client.to_bytes(4, "little") + bytes(80)


async def opened() -> tuple[Any, Desk]:
    study: Any = _Study()
    desk = Desk(lambda: study, Limits(body=1000, wait=4 * LONG))
    await desk.start()
    assert (await desk.manifest()).status == 200  # the desk has seen how many are missing
    study.batches.clear()
    return study, desk


async def asked(desk: Desk, *requests: bytes) -> list[asyncio.Task[desks.Reply]]:
    found = [asyncio.create_task(desk.ask("here", data)) for data in requests]
    await asyncio.sleep(0)
    return found


async def done(tasks: list[asyncio.Task[desks.Reply]]) -> list[bytes]:
    return [reply.data for reply in await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)]


def test_uploads_are_one_batch_and_the_last_one_is_not_delayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(desks, "GATHER", LONG)

    async def scene() -> tuple[list[bytes], list[bytes]]:
        study, desk = await opened()
        first = await asked(desk, *(request(wire.Upload, i) for i in range(CLIENTS - 1)))
        await asyncio.sleep(0.05)
        assert study.batches == []
        last = await asked(desk, request(wire.Upload, CLIENTS - 1))
        replies = await done(first + last)
        await desk.close()
        return study.batches, replies

    batches, replies = asyncio.run(scene())
    assert batches == [wire.Upload.kind * CLIENTS]
    assert replies == [b"answer"] * CLIENTS


@pytest.mark.parametrize("kind", [wire.Hello, wire.Ask, wire.Join, wire.Done])
def test_other_requests_are_taken_at_once_with_the_uploads(
    monkeypatch: pytest.MonkeyPatch, kind: type[wire.Message]
) -> None:
    monkeypatch.setattr(desks, "GATHER", LONG)

    async def scene() -> list[bytes]:
        study, desk = await opened()
        waiting = await asked(desk, request(wire.Upload, 0))
        await done(await asked(desk, request(kind, 1)))
        waiting += await asked(desk, request(wire.Upload, 2))  # gathered again
        await asyncio.sleep(0.05)
        assert len(study.batches) == 1
        desk.stop()  # takes what is queued, and lets nobody wait
        assert await done(waiting) == [b"", b""]
        await desk.close()
        return study.batches

    assert asyncio.run(scene()) == [wire.Upload.kind + kind.kind, wire.Upload.kind]


def test_uploads_do_not_wait_for_a_silent_client() -> None:
    async def scene() -> list[bytes]:
        study, desk = await opened()
        waiting = await asked(desk, request(wire.Upload, 0), request(wire.Upload, 1))
        while not study.batches:
            await asyncio.sleep(0.001)
        rest = await asked(desk, request(wire.Upload, 2), request(wire.Upload, 3))
        await done(waiting + rest)
        await desk.close()
        return study.batches

    assert asyncio.run(asyncio.wait_for(scene(), PATIENCE)) == [wire.Upload.kind * 2] * 2

"""Routes of the live page: the study, its certificate, and news as server-sent events.

Everything is made from `StudyServer.public` and from the manifest, so nothing can be shown that
PUBLIC and PEER do not see anyway.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any

from hedgerow.core.extras import needs
from hedgerow.deployment import wire
from hedgerow.deployment.desk import Desk
from hedgerow.deployment.manifest import Manifest, rebuild
from hedgerow.deployment.pages.certificate import certificate_page
from hedgerow.deployment.pages.html import SAFE, policy
from hedgerow.deployment.pages.study import parts, study_page

with needs("deploy"):
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse


STREAMS = 200  # open event streams
PAUSE, BEAT = 0.5, 3.0  # seconds between news, and between signs of life


def live_page(app: Starlette, desk: Desk) -> None:
    """Add the live page to an application, for `make_app(desk, live_page)`."""
    open_streams = 0

    async def study(request: Request) -> Response:
        return _html(study_page(await desk.public()))

    async def manifest(request: Request) -> Response:
        found = await _manifest(desk)
        if found is None:
            return Response(status_code=503, headers=SAFE)
        return Response(found, headers=SAFE, media_type="application/json")

    async def certificate(request: Request) -> Response:
        found = await _manifest(desk)
        if found is None:
            return Response(status_code=503, headers=SAFE)
        return _html(await asyncio.to_thread(_certificate, found))

    async def events(request: Request) -> Response:
        if open_streams >= STREAMS:
            return Response(status_code=503, headers={**SAFE, "Retry-After": "30"})
        return StreamingResponse(counted(), headers=SAFE, media_type="text/event-stream")

    async def counted() -> AsyncIterator[str]:
        nonlocal open_streams
        open_streams += 1
        try:
            async for text in news(desk):
                yield text
        finally:
            open_streams -= 1

    for path, answer in (
        ("/", study),
        ("/certificate", certificate),
        ("/manifest.json", manifest),
        ("/events", events),
    ):
        app.add_route(path, answer, methods=["GET"])


async def news(desk: Desk, pause: float = PAUSE, beat: float = BEAT) -> AsyncIterator[str]:
    """Parts of the page that have changed, as server-sent events, until the server stops."""
    sent: dict[str, Any] = {}
    while desk.ready:
        found = parts(await desk.public())
        changed = {name: text for name, text in found.items() if sent.get(name) != text}
        yield f"data: {json.dumps(changed)}\n\n" if changed else ": still here\n\n"
        sent = found
        if not desk.ready:
            return
        try:
            async with asyncio.timeout(beat):
                await desk.changed()
        except TimeoutError:
            continue
        await asyncio.sleep(pause)


async def _manifest(desk: Desk) -> bytes | None:
    """The manifest; its SHA-256 is the name of the study. None: the server is stopping or busy."""
    reply = await desk.manifest()
    return wire.read_manifest(reply.data)[1] if reply.status == 200 else None


@lru_cache(maxsize=8)
def _certificate(data: bytes) -> bytes:
    manifest = Manifest.read(data)
    return certificate_page(manifest, rebuild(manifest))


def _html(body: bytes) -> Response:
    headers = {**SAFE, "Content-Security-Policy": f"{policy()}; frame-ancestors 'none'"}
    return Response(body, headers=headers, media_type="text/html; charset=utf-8")

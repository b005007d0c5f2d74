"""Connections of the study server: HTTP/1.1 with limits, and a short way for messages."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from hedgerow.core.extras import needs
from hedgerow.deployment.desk import Desk, Reply
from hedgerow.deployment.http_client import MEDIA, MESSAGES

with needs("deploy"):
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS = 16384
"""The most bytes of the head of a request."""
LINGER = 0.5
"""Seconds that a connection stays after its last bytes."""
BUSY = -1.0
"""Since when a connection is idle on which a request is being answered."""
STATUS_LINE = {
    int(status): b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}
_RETRY, _TYPE = (b"retry-after", b"1"), (b"content-type", MEDIA.encode())
_USUAL = {
    *(b"host", b"accept", b"accept-encoding", b"user-agent"),
    *(b"content-type", b"content-length"),
}


def fields_of(reply: Reply) -> list[tuple[bytes, bytes]]:
    """The header fields of a reply to a message."""
    retry = [_RETRY] if reply.status in (429, 503) else []
    return [*retry, (b"content-length", b"%d" % len(reply.data)), _TYPE] if reply.data else retry


def _plain(data: bytes, desks: Mapping[bytes, Desk]) -> tuple[Desk, int] | None:
    """The desk and the length of the body, if this is one whole message with headers as usual."""
    end = data.find(b"\r\n\r\n", 0, 1024) + 4
    target, length = _usual(data[:end]) if end > 3 else (b"", 0)
    desk = desks.get(target)
    fits = desk is not None and length <= desk.limits.body and end + length == len(data)
    return (desk, length) if desk is not None and fits else None


@lru_cache(maxsize=1024)
def _usual(head: bytes) -> tuple[bytes, int]:
    """The target and the length that a head states; no target: it says something else as well.

    h11 reads each head, once: those of one client, and of clients alike, are equal byte by byte.
    """
    reader = h11.Connection(h11.SERVER, HEADERS)
    reader.receive_data(head)
    try:
        found = reader.next_event()
    except h11.RemoteProtocolError:
        return b"", 0
    if not isinstance(found, h11.Request) or reader.trailing_data[0]:
        return b"", 0
    fields, first = dict(found.headers), (found.method, found.http_version)
    usual = first == (b"POST", b"1.1") and fields.keys() <= _USUAL
    known = usual and b"content-length" in fields
    return (found.target, int(fields[b"content-length"])) if known else (b"", 0)


class _Joined(h11.Connection):
    """Writes the head of an answer together with its body: one packet, one wake at the client."""

    _head = b""

    def send(self, event: h11.Event) -> Any:
        data: bytes = super().send(event) or b""
        if isinstance(event, h11.Response):
            self._head = data
            return b""
        head, self._head = self._head, b""
        return head + data


def protocol(desks: Mapping[str, Desk]) -> type[H11Protocol]:
    """HTTP/1.1 for desks by prefix, with limits for slow headers and connections of one address.

    A message that comes whole, with the few headers that our clients send, is taken at once,
    without the events of h11, uvicorn and an application. That saved a third of the processor time
    of an upload when it was added (`hedgerow bench crowd`, 1,000 clients over TLS). uvicorn has no
    limits for slow headers and for the connections of one address.
    """
    of_address: Counter[str] = Counter()
    targets = {f"{prefix}{MESSAGES}".encode(): desk for prefix, desk in desks.items()}
    slow = max(desk.limits.slow for desk in desks.values())
    connections = sum(desk.limits.connections for desk in desks.values())

    class Patient(H11Protocol):
        timer: asyncio.TimerHandle | None = None
        address = ""
        ended = False
        parsing = False  # h11 has bytes of a request that is not answered yet
        idle_since = BUSY
        idle_timer: asyncio.TimerHandle | None = None
        answering: asyncio.Task[None] | None = None  # a message that was taken at once
        last = False  # close after the answer
        later = b""  # what came before it was answered

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.conn = _Joined(h11.SERVER, HEADERS)

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self.address = self.client[0] if self.client else ""
            of_address[self.address] += 1
            if of_address[self.address] > connections:
                transport.abort()
            else:
                self.expect_headers(True)

        def connection_lost(self, exc: Exception | None) -> None:
            self.expect_headers(False)
            self.ended = True
            if self.idle_timer is not None:
                self.idle_timer.cancel()
            if self.answering is not None:
                self.answering.cancel()
            of_address[self.address] -= 1
            if not of_address[self.address]:
                del of_address[self.address]
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            self.idle_since = BUSY
            if self.answering is not None:  # the next request follows before the answer
                self.later += data
                self.transport.pause_reading()
                return
            found = None if self.parsing else _plain(data, targets)
            if found is None:
                self.parsing = True
                super().data_received(data)
                self.expect_headers(self.conn.their_state is h11.IDLE)
                return
            self._unset_keepalive_if_required()
            self.expect_headers(False)
            desk, length = found
            message = data[len(data) - length :]
            self.answering = self.loop.create_task(self.answer(desk, message))
            self.tasks.add(self.answering)

        async def answer(self, desk: Desk, data: bytes) -> None:
            task, reply = self.answering, await desk.take(self.address, data)
            self.tasks.discard(task)
            fields = b"".join(b"%b: %b\r\n" % field for field in fields_of(reply))
            end = b"connection: close\r\n\r\n" if self.last else b"\r\n"
            self.transport.write(STATUS_LINE[reply.status] + fields + end + reply.data)
            self.answering, later, self.later = None, self.later, b""
            if self.last:
                self.transport.close()
                self.let_go()
                return
            self.server_state.total_requests += 1
            self.idle_since = self.loop.time()
            if self.idle_timer is None:
                self.idle_timer = self.loop.call_later(self.timeout_keep_alive, self.check_idle)
            if later:
                self.transport.resume_reading()
                self.data_received(later)

        def check_idle(self) -> None:
            """Close a connection on which nothing has come since the last answer.

            One timer serves all messages of a connection; uvicorn has another for its own requests.
            """
            left = self.idle_since + self.timeout_keep_alive - self.loop.time()
            self.idle_timer = None
            if self.ended or self.idle_since == BUSY:
                return
            if left <= 0:
                self.timeout_keep_alive_handler()
            else:
                self.idle_timer = self.loop.call_later(left, self.check_idle)

        def shutdown(self) -> None:
            if self.answering is not None:
                self.last = True
                return
            super().shutdown()
            self.let_go()

        def on_response_complete(self) -> None:
            self.parsing = bool(self.conn.trailing_data[0])
            super().on_response_complete()
            self.let_go()

        def let_go(self) -> None:
            """End a closing connection soon: an idle client does not confirm the end of TLS."""
            if self.transport.is_closing():
                self.loop.call_later(LINGER, self.end)

        def end(self) -> None:
            """End a closing connection, but not while a slow client still reads its answer."""
            if self.ended:  # then a transport of TLS cannot say what it still holds
                return
            if self.transport.get_write_buffer_size():
                self.let_go()
            else:
                self.transport.abort()

        def expect_headers(self, incomplete: bool) -> None:
            if incomplete and self.timer is None:
                self.timer = self.loop.call_later(slow, self.transport.abort)
            elif not incomplete and self.timer is not None:
                self.timer.cancel()
                self.timer = None

    return Patient

"""Answers of a server are read alike in the usual form and in all others."""

from __future__ import annotations

import http.client
import socket

import pytest

from hedgerow.deployment.http_client import MEDIA, _read_answer

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-hedgerow\r\n"
WHOLE = HEAD + b"content-length: 5\r\n\r\nhello"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
ONCE = HEAD + b"connection: close\r\ncontent-length: 5\r\n\r\nhello"


def read(*pieces: bytes) -> tuple[int, str | None, bytes, bool]:
    """What is read of an answer; the connection is closed after it."""
    here, there = socket.socketpair()
    with here, there:
        for piece in pieces:
            there.sendall(piece)
        there.shutdown(socket.SHUT_WR)
        found = _read_answer(here)
    return found.status, found.media, found.data, found.keep


@pytest.mark.parametrize(
    ("answer", "keep"),
    [
        (WHOLE, True),
        (WHOLE.replace(b"content-length", b"Content-Length"), True),
        (CHUNKED, True),
        (ONCE, False),
        (WHOLE + b"more", False),
    ],
)
def test_forms_of_an_answer(answer: bytes, keep: bool) -> None:
    assert read(answer) == (200, MEDIA, b"hello", keep)


def test_no_content_and_nothing_at_all() -> None:
    assert read(b"HTTP/1.1 204 No Content\r\n\r\n") == (204, None, b"", True)
    with pytest.raises(http.client.RemoteDisconnected):
        read(b"")


@pytest.mark.parametrize(
    "answer",
    [
        WHOLE[:-1],
        WHOLE.replace(b"HTTP/1.1", b"HTTQ/1.1"),
        WHOLE.replace(b"200", b"2000"),
    ],
)
def test_a_broken_answer_is_refused(answer: bytes) -> None:
    with pytest.raises(http.client.HTTPException):
        read(answer)

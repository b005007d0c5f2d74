"""The client's link to a study server: one long poll at a time over HTTP or HTTPS.

Clients call out and nobody calls in. The standard library's `http.client` suffices: a connection
is kept open, a proxy is passed with CONNECT, and TLS is checked against the authorities of the
machine or against a given file. A request is one write, and an answer in the form that our server
writes is read here; `http.client` reads all others, from the same bytes.
"""

from __future__ import annotations

import base64
import http.client
import io
import logging
import re
import secrets
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.text import one_line
from hedgerow.core.validate import positive
from hedgerow.deployment.logs import log
from hedgerow.deployment.loopback import is_loopback

MESSAGES = "/v1/messages"
MEDIA = "application/x-hedgerow"
LARGEST_ANSWER = 2**26
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 10.0
EXPIRED = 10  # what OpenSSL calls a certificate that has expired
OUTAGE = 5  # failures in a row, after one or two seconds, that are worth a line in the log
AGAIN = (408, 425, 429, 500, 502, 503, 504)  # what a server or a proxy says when it is busy
HEADERS = {"Content-Type": MEDIA}
CHUNK = 2**16  # bytes read at a time
_SIMPLE = re.compile(
    rb"HTTP/1\.1 ([2-5][0-9][0-9]) ([ -~]{0,80})\r\n"
    rb"((?:[a-z0-9-]+: [!-~](?:[ -~]{0,198}[!-~])?\r\n){0,20})\r\n"
)
PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")
_FIELD = re.compile(rb"([a-z0-9-]+): ([ -~]+)\r\n")


class Unreachable(HedgerowError):
    """The server did not answer for longer than the client is willing to wait."""


@dataclass(frozen=True)
class Route:
    """How a client reaches the server.

    Parameters
    ----------
    url
        The address of the server, `https://host:port`, or of one of its studies,
        `https://host:port/NAME`. `http://` is for one machine.
    ca
        A file with the certificate of the authority that signed the server's certificate.
        None: the authorities that this machine trusts.
    certificate, key
        The client's certificate and its key, where the server asks for one.
    proxy
        A proxy, `http://host:port`, that is passed with CONNECT. None: the one in `HTTPS_PROXY`,
        if any. Empty: none.
    wait
        Seconds until a call without an answer is given up and made again.
    unencrypted
        Whether `http://` may lead to another machine, through a network that encrypts by itself.
        Default False: uploads with central trust are exact sums.

    Examples
    --------
    >>> Route("https://study.example.org", wait=40.0).address
    ('study.example.org', 443)
    """

    url: str
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    proxy: str | None = None
    wait: float = 40.0
    unencrypted: bool = False

    def __post_init__(self) -> None:
        positive("wait", self.wait)
        parts = _split("url", self.url)
        if not PATH.fullmatch(parts.path) or parts.query or parts.fragment or parts.username:
            raise InvalidValue(
                f"Expected url={self.url!r} of the form https://host:port or "
                "https://host:port/NAME."
            )
        if parts.scheme == "http" and (self.ca or self.certificate):
            raise InvalidValue(f"Expected url={self.url!r} to begin with https:// to use TLS.")
        if not (self.secure or self.unencrypted or self.local):
            raise InvalidValue(
                f"{self.url} is not encrypted: everyone on the way to the server would see what "
                "the server sees. Use https://, or --unencrypted if the network encrypts by itself."
            )
        if self.key is not None and self.certificate is None:
            raise InvalidValue("A key of a certificate needs the certificate.")

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the server."""
        parts = _split("url", self.url)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def path(self) -> str:
        """Where messages go."""
        return _split("url", self.url).path.rstrip("/") + MESSAGES

    @property
    def secure(self) -> bool:
        """Whether the connection is encrypted."""
        return self.url.lower().startswith("https:")

    @property
    def local(self) -> bool:
        """Whether the server is on this machine."""
        return is_loopback(self.address[0])

    def through(self) -> SplitResult | None:
        """The proxy in use."""
        host, _ = self.address
        given = self.proxy
        if given is None:
            name = "https" if self.secure else "http"
            given = "" if proxy_bypass(host) else getproxies().get(name, "")
        if not given:
            return None
        parts = _split("proxy", given)
        if parts.scheme != "http":
            raise InvalidValue(f"Expected the proxy {parts.hostname!r} to begin with http://.")
        return parts

    def context(self) -> ssl.SSLContext | None:
        """How TLS is checked; None without TLS."""
        if not self.secure:
            return None
        for path in (self.ca, self.certificate, self.key):
            if path is not None and not path.is_file():
                raise InvalidValue(f"Cannot read the certificates: there is no file {path}.")
        try:
            context = ssl.create_default_context(cafile=self.ca and str(self.ca))
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidValue(f"Cannot read the certificates: {error}.") from error
        return context

    @property
    def host(self) -> str:
        """The server as the field `Host` of a request names it."""
        name, port = self.address
        plain = name if name.isascii() else name.encode("idna").decode("ascii")
        shown = f"[{plain}]" if ":" in plain else plain
        return shown if port == (443 if self.secure else 80) else f"{shown}:{port}"

    def connect(self, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
        """A connection that opens itself at the first call."""
        host, port = self.address
        proxy = self.through()
        first = (host, port) if proxy is None else (proxy.hostname or "", proxy.port or 8080)
        connection: http.client.HTTPConnection
        if context is None:
            connection = http.client.HTTPConnection(*first, timeout=self.wait)
        else:
            connection = http.client.HTTPSConnection(*first, timeout=self.wait, context=context)
        if proxy is not None:
            connection.set_tunnel(host, port, _credentials(proxy))
        return connection


def _split(name: str, url: str) -> SplitResult:
    """The parts of an address; the error does not quote it, because it may hold a password."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0:
            return parts
    except ValueError:
        pass
    raise InvalidValue(f"Expected {name} to be an address like https://host:port.")


def _credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


class _Head(NamedTuple):
    """What the head of an answer says."""

    status: int
    reason: str
    media: str | None
    pause: str | None  # the field Retry-After
    size: int


class _Answer(NamedTuple):
    """What came back; `keep` says whether the connection can be used again."""

    status: int
    reason: str
    media: str | None
    pause: str | None  # the field Retry-After
    data: bytes
    keep: bool


class _Replay(io.RawIOBase):
    """The bytes that were read from a socket, then those that it still has.

    `http.client` takes it for a socket.
    """

    def __init__(self, read: bytes, connected: socket.socket) -> None:
        self._read, self._socket = read, connected

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._read:
            return self._socket.recv_into(buffer)
        count = min(len(buffer), len(self._read))
        buffer[:count], self._read = self._read[:count], self._read[count:]
        return count


def _read_answer(connected: socket.socket) -> _Answer:
    """The answer to one request."""
    read = connected.recv(CHUNK)
    found = _simple(read, connected)
    if found is not None:
        return found
    answer = http.client.HTTPResponse(cast(socket.socket, _Replay(read, connected)), method="POST")
    try:
        answer.begin()
        data = answer.read(LARGEST_ANSWER + 1)
        if answer.length and len(data) <= LARGEST_ANSWER:
            raise http.client.IncompleteRead(data, answer.length)
        media, pause = answer.headers.get("Content-Type"), answer.headers.get("Retry-After")
        keep = not answer.will_close and len(data) <= LARGEST_ANSWER
        return _Answer(answer.status, answer.reason, media, pause, data, keep)
    finally:
        answer.close()


def _simple(read: bytes, connected: socket.socket) -> _Answer | None:
    """An answer whose head has come whole and whose length is plain; None: any other form."""
    start = read.find(b"\r\n\r\n") + 4
    head = _head(read[:start])
    if head is None:
        return None
    parts, missing = [read[start:]], head.size - (len(read) - start)
    while missing > 0:
        more = connected.recv(min(missing, CHUNK))
        if not more:
            raise http.client.IncompleteRead(b"".join(parts), missing)
        parts.append(more)
        missing -= len(more)
    data = b"".join(parts)[: head.size]
    keep = missing == 0  # otherwise there are bytes that nobody asked for
    return _Answer(head.status, head.reason, head.media, head.pause, data, keep)


@lru_cache(maxsize=16)
def _head(text: bytes) -> _Head | None:
    """What a head says; most answers have one that came before."""
    head = _SIMPLE.fullmatch(text)
    if head is None:
        return None
    pairs = _FIELD.findall(head[3])
    named = {name: value.decode("ascii") for name, value in pairs}
    length = named.get(b"content-length", "")
    if len(named) != len(pairs) or not length.isdecimal() or len(length) > 9:
        return None
    if b"transfer-encoding" in named or b"connection" in named or head[1] in (b"204", b"304"):
        return None
    size = int(length)
    if size > LARGEST_ANSWER:
        return None
    media, pause = named.get(b"content-type"), named.get(b"retry-after")
    return _Head(int(head[1]), head[2].decode("ascii"), media, pause, size)


class HttpLink:
    """Calls the server and says when to try again. It is used by one thread.

    Parameters
    ----------
    route
        How to reach the server.
    patience
        Seconds without any answer after which `Unreachable` is raised, at once if the server's
        certificate is not trusted. None: never.
    sleep, clock
        How to wait and how to read the time; tests give their own.

    Examples
    --------
    >>> link = HttpLink(Route("http://127.0.0.1:9", proxy=""), patience=0.0)
    >>> link.call(b"hello")
    Traceback (most recent call last):
    ...
    hedgerow.deployment.http_client.Unreachable: Cannot reach http://127.0.0.1:9: ...
    """

    def __init__(
        self,
        route: Route,
        patience: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.route, self.patience = route, patience
        self._sleep, self._clock = sleep, clock
        self._context = route.context()
        self._start = (
            f"POST {route.path} HTTP/1.1\r\nHost: {route.host}\r\nAccept-Encoding: identity\r\n"
            f"Content-Type: {MEDIA}\r\n"
        ).encode()
        self._connection: http.client.HTTPConnection | None = None
        self._failures = 0
        self._waits = False
        self._last_answer = clock()
        self.answered: float | None = None
        """When the server last answered, in seconds since 1970."""
        self.sent = self.received = 0

    def call(self, request: bytes) -> bytes | None:
        """Send a message and return the reply. None: there is none yet, so call again."""
        fresh = self._connection is None
        try:
            if self._connection is None:
                self._connection = self.route.connect(self._context)
            if self._connection.sock is None:
                self._connection.connect()
            connected = cast(socket.socket, self._connection.sock)
            connected.sendall(self._request(request))
            answer = _read_answer(connected)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if fresh or not isinstance(error, http.client.RemoteDisconnected | ConnectionError):
                self._pause(_reason(error, self.route), error)
            return None  # a kept connection may be closed at any time: call again at once
        self.sent += len(request)
        self.received += len(answer.data)
        if not answer.keep:
            self.close()
        if answer.status == 204:
            self._answered(waits=True)
            return None
        again = answer.status in AGAIN
        if answer.media == MEDIA and len(answer.data) <= LARGEST_ANSWER and not again:
            self._answered()
            return answer.data
        reason = f"{self.route.url} answered {answer.status} {one_line(answer.reason)[:80]}"
        if again:
            self._pause(reason, None, answer.pause)
            return None
        self.close()
        raise Unreachable(f"{reason}. Is this the address of a Hedgerow study?")

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _request(self, body: bytes) -> bytes:
        """A whole request, to be sent at once."""
        return self._start + f"Content-Length: {len(body)}\r\n\r\n".encode() + body

    def _answered(self, waits: bool = False) -> None:
        """Note an answer, and log what a person who waits for the client wants to know."""
        if self._failures >= OUTAGE:
            log("reached the server again", url=self.route.url)
        if waits and not self._waits:
            log("waiting for other clients")
        self._failures, self._waits = 0, waits
        self._last_answer, self.answered = self._clock(), time.time()

    def _pause(self, reason: str, error: Exception | None, least: str | None = None) -> None:
        """Wait before the next call: twice as long after each failure, and at random."""
        waited = self._clock() - self._last_answer
        hopeless = isinstance(error, ssl.SSLCertVerificationError)  # only a person can help
        if self.patience is not None and (hopeless or waited >= self.patience):
            raise Unreachable(f"{reason}. {_advice(error, self.route)}") from error
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._failures, 20))
        self._failures += 1
        if self._failures == OUTAGE:
            kind = "busy" if error is None else type(error).__name__
            log("cannot reach the server", logging.WARNING, url=self.route.url, error=kind)
        seconds = longest * (0.5 + secrets.randbelow(1000) / 2000)
        if least is not None and least.isdecimal():
            seconds += min(float(least), LONGEST_PAUSE)
        self._sleep(seconds)


def _reason(error: Exception, route: Route) -> str:
    """What went wrong, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        expired = error.verify_code == EXPIRED
        how = "has expired, or the clock here is wrong" if expired else "is not trusted"
        return f"The certificate of {route.url} {how}: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS with {route.url} failed: {error.reason or 'the connection was closed'}"
    if isinstance(error, TimeoutError):
        return f"Cannot reach {route.url}: no answer within {route.wait:g} s"
    if isinstance(error, OSError) and str(error).startswith("Tunnel connection failed"):
        return f"The proxy refused to connect to {route.url}: {one_line(str(error))[26:120]}"
    if isinstance(error, OSError) and error.strerror:
        return f"Cannot reach {route.url}: {error.strerror.lower()}"
    return f"Cannot reach {route.url}: {type(error).__name__}"


def _advice(error: Exception | None, route: Route) -> str:
    """What to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code == EXPIRED:
        return "Ask the operator of the server to renew it; start again then."
    if isinstance(error, ssl.SSLCertVerificationError):
        return "Give the certificate of its authority with --ca FILE."
    if isinstance(error, OSError) and str(error).startswith("Tunnel connection failed"):
        return "Ask for permission to reach this host, or give another --proxy."
    if route.through() is not None:
        return "The call went through a proxy: check it, the address, and the server."
    hung_up = isinstance(error, ssl.SSLError | ConnectionResetError | BrokenPipeError)
    if hung_up and route.url.startswith("https:") and route.certificate is None:
        return "The server may ask for a client certificate: give --certificate FILE."
    return "Check the address, and that `hedgerow serve` runs there."

"""The study server behind HTTP: messages, limits, health, metrics and an orderly end.

Limits hold before a body is read. What a message says is checked by the study; here it is bytes.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
import ssl
import threading
from asyncio import sslproto
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM
from typing import Any

from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import needs
from hedgerow.deployment import metrics
from hedgerow.deployment.database import FATAL
from hedgerow.deployment.desk import Desk, Limits, refused
from hedgerow.deployment.http_client import MESSAGES
from hedgerow.deployment.http_connection import fields_of, protocol
from hedgerow.deployment.logs import log, log_error
from hedgerow.deployment.pages.html import SAFE
from hedgerow.deployment.wire import Code

with needs("deploy"):
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

PLAIN = "text/plain; charset=utf-8"
CLOSE = (b"connection", b"close")
TLS_BUFFER = 2**14
"""Bytes that a TLS connection may read at once; a record of TLS has as many."""
WARNED = 14
"""Days before the end of a certificate when warnings begin."""
QUIET: dict[str, Any] = {
    "ws": "none",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "date_header": False,
}
"""Options of uvicorn."""
Part = Callable[[Starlette, Desk], None]
"""Adds routes to the application, for example the live page."""


class _Cut(Exception):
    """A request whose body is not read to the end."""

    def __init__(self, code: Code, text: str, status: int | None = None) -> None:
        super().__init__(text)
        found = refused(code, text)
        self.reply = found if status is None else found._replace(status=status)


async def _body(scope: Any, receive: Any, limits: Limits) -> bytes:
    """The body of a request, or a refusal: too large, too slow, cut off."""
    large = _Cut(Code.SIZE, f"A message has at most {limits.body} bytes.")
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"0")
    if b"content-length" in headers and b"transfer-encoding" in headers:
        raise _Cut(Code.FORM, "A message states its length or comes in chunks, not both.")
    if not length.isdigit() or int(length) > limits.body:
        raise large
    found = b""
    try:
        async with asyncio.timeout(limits.slow):
            while True:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise _Cut(Code.FORM, "The message was cut off.")
                found += event.get("body", b"")
                if len(found) > limits.body:
                    raise large
                if not event.get("more_body", False):
                    return found
    except TimeoutError:
        text = f"A message must arrive within {limits.slow:g} seconds."
        raise _Cut(Code.BUSY, text, 408) from None


class _Messages:
    """Takes messages that came in parts or with other headers, before the application does."""

    def __init__(self, app: Any, desks: Mapping[str, Desk]) -> None:
        self._app = app
        self._desks = {f"{prefix}{MESSAGES}": desk for prefix, desk in desks.items()}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        desk = self._desks.get(scope["path"]) if scope["type"] == "http" else None
        if desk is None or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        headers = list[tuple[bytes, bytes]]()
        try:
            data = await _body(scope, receive, desk.limits)
            reply = await desk.take(scope["client"][0] if scope["client"] else "", data)
        except _Cut as cut:
            reply, headers = desk.counted(cut.reply), [CLOSE]
        headers += fields_of(reply)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.data})


def by_prefix(desks: Desk | Mapping[str, Desk]) -> Mapping[str, Desk]:
    """The desks of a process by what the paths of their studies begin with; one alone has none."""
    return {"": desks} if isinstance(desks, Desk) else desks


def make_app(desks: Desk | Mapping[str, Desk], *parts: Part) -> Starlette:
    """The application around desks. Each part adds routes, for example the live page.

    Parameters
    ----------
    desks
        A desk, not started yet: the application starts and closes it. Or several by prefix, such as
        "/wards".
    parts
        Functions that add routes.

    Examples
    --------
    >>> from hedgerow.deployment.server import StudyServer
    >>> app = make_app(Desk(lambda: StudyServer("study"), Limits(body=4096)))
    >>> [route.path for route in app.routes]
    ['/v1/messages', '/healthz', '/readyz', '/metrics']
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        for desk in by_prefix(desks).values():
            await desk.start()
        yield
        for desk in by_prefix(desks).values():
            await desk.close()

    async def only_post(request: Request) -> Response:
        return _text(405, "messages are sent with POST")

    def messages(app: Starlette, desk: Desk) -> None:
        app.add_route(MESSAGES, only_post, methods=["GET"])

    app = Starlette(lifespan=lifespan)
    _add(app, by_prefix(desks), messages, for_operators, *parts)
    return app


def _add(app: Starlette, desks: Mapping[str, Desk], *parts: Part) -> None:
    """Add parts for every desk, below its prefix; with several, the health of all at the root."""
    for prefix, desk in desks.items():
        below = Starlette() if prefix else app
        for part in parts:
            part(below, desk)
        if prefix:
            app.mount(prefix, below)
    if "" not in desks:
        _health_of(app, desks)


def _health_of(app: Starlette, desks: Mapping[str, Desk]) -> None:
    """Add /healthz and /readyz: what the worst desk says, and the text of each."""

    def of_all(found: list[tuple[int, str]]) -> Response:
        named = zip(desks, found, strict=True)
        texts = [f"{prefix.strip('/')}: {text}" if prefix else text for prefix, (_, text) in named]
        return _text(max(status for status, _ in found), "\n".join(texts))

    async def health(request: Request) -> Response:
        ended = [desk.fatal is not None or desk.old for desk in desks.values()]
        return of_all([(503, "the study cannot go on") if end else (200, "ok") for end in ended])

    async def ready(request: Request) -> Response:
        return of_all([_ready(desk) for desk in desks.values()])

    app.add_route("/healthz", health, methods=["GET"])
    app.add_route("/readyz", ready, methods=["GET"])


def _ready(desk: Desk) -> tuple[int, str]:
    if not desk.ready or desk.old:
        return 503, "not ready" if desk.stuck is None else f"not ready: {desk.stuck}"
    return 200, "ready" if desk.stuck is None else f"ready, but {desk.stuck}"


def for_operators(app: Starlette, desk: Desk) -> None:
    """Add /healthz, /readyz and /metrics."""

    async def numbers(request: Request) -> Response:
        return _text(200, await metrics.of_server(desk), metrics.MEDIA)

    _health_of(app, {"": desk})
    app.add_route("/metrics", numbers, methods=["GET"])


def _text(status: int, text: str, media: str = PLAIN) -> Response:
    return Response(text + "\n", status, SAFE, media)


class _Beside(uvicorn.Server):
    """A server in the loop of another one, which handles the signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class OrderlyServer(uvicorn.Server):
    """A server that answers waiting clients before it waits for connections to close.

    `operations` listens for operators: health and metrics, without TLS. None: nothing does.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        desks: Mapping[str, Desk],
        tls: Tls | None = None,
        operations: socket.socket | None = None,
    ) -> None:
        super().__init__(config)
        self._desks = desks
        self._operations, self._beside = operations, None
        self._tls = tls
        for desk in desks.values():
            desk.on_fatal = self._end_if_all_failed
        self._expires()

    def renew(self, *_: Any) -> None:
        """Read the certificate again; connections from now on show it. A wrong one is not taken."""
        if self._tls is None:
            return
        try:
            self._tls.check()
            assert self.config.ssl is not None
            self.config.ssl.load_cert_chain(self._tls.certificate, self._tls.key)
        except (InvalidValue, OSError) as error:
            log_error("the certificate was not renewed", error, do="check the files; see --check")
            return
        log("the certificate was renewed", expires=self._expires())

    def _expires(self) -> str | None:
        """Note when the certificate expires."""
        found = None if self._tls is None else self._tls.expires()
        for desk in self._desks.values():
            desk.expires = found
        return None if found is None else found.isoformat()

    async def _watch(self) -> None:
        """Warn of the end of the certificate, once a day and when it comes."""
        one, day = next(iter(self._desks.values())), 24 * 3600
        while one.expires is not None:
            left = one.expires - datetime.now(UTC)
            if left.days < 0:
                log("the certificate has expired", logging.ERROR, expires=one.expires.isoformat())
            elif left.days < WARNED:
                log("the certificate expires soon", logging.WARNING, days=left.days)
            await asyncio.sleep(min(day, left.total_seconds() + 1) if left.days >= 0 else day)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._watching = asyncio.create_task(self._watch())
        if self._operations is not None:
            app = Starlette()
            _add(app, self._desks, for_operators)
            config = uvicorn.Config(app, lifespan="off", timeout_graceful_shutdown=1, **QUIET)
            server = _Beside(config)
            task = asyncio.create_task(server.serve([self._operations]))
            self._beside = server, task

    def end(self) -> None:
        self.should_exit = True

    def _end_if_all_failed(self) -> None:
        """End once no study can go on: the disk of one does not end the others."""
        if all(desk.fatal is not None for desk in self._desks.values()):
            self.end()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End in order on SIGTERM and Ctrl-C, which uvicorn would raise again; renew on SIGHUP."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {SIGINT: self.handle_exit, SIGTERM: self.handle_exit, SIGHUP: self.renew}
        before = {one: signal.signal(one, handler) for one, handler in handlers.items()}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log("stopping")
        for desk in self._desks.values():
            desk.stop()
        self._watching.cancel()
        await super().shutdown(sockets)
        if self._beside is not None:
            server, task = self._beside
            server.should_exit = True
            await task
        log("stopped")


@dataclass(frozen=True)
class Tls:
    """The server's certificate.

    Parameters
    ----------
    certificate, key
        Files in PEM format.
    client_ca
        The authority of client certificates. None: clients need none; they are known by the
        signatures inside their messages in any case.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def check(self) -> None:
        """Raise `InvalidValue` if a file is missing or unusable, before anybody is invited."""
        for path in (self.certificate, self.key, self.client_ca):
            if path is not None and not path.is_file():
                raise InvalidValue(f"There is no file {path}. Check the paths in [server].")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "reason", None) or error.strerror
            raise InvalidValue(
                f"Cannot use the certificate {self.certificate} with the key {self.key}: {reason}."
            ) from error
        try:
            context.load_verify_locations(self.client_ca or self.certificate)
        except (OSError, ssl.SSLError) as error:
            raise InvalidValue(f"Cannot read certificates in {self.client_ca}.") from error
        if self.expires() <= datetime.now(UTC):
            raise InvalidValue(
                f"The certificate {self.certificate} expired on {self.expires():%Y-%m-%d %H:%M} "
                "UTC: no client would accept it. Renew it first."
            )

    def expires(self) -> datetime:
        """When the first certificate of the file expires; the others are its authorities."""
        from cryptography.x509 import load_pem_x509_certificate

        return load_pem_x509_certificate(self.certificate.read_bytes()).not_valid_after_utc

    def options(self) -> dict[str, Any]:
        """What uvicorn needs."""
        found: dict[str, Any] = {
            "ssl_certfile": str(self.certificate),
            "ssl_keyfile": str(self.key),
        }
        if self.client_ca is not None:
            found |= {"ssl_ca_certs": str(self.client_ca), "ssl_cert_reqs": ssl.CERT_REQUIRED}
        return found


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Small packets leave at once: otherwise the system holds the second part of an answer until the
    client has acknowledged the first, which takes 40 ms.
    """
    try:
        listening = socket.create_server((host, port), backlog=512)
    except OSError as error:
        reason = (error.strerror or str(error)).lower().partition(" (")[0]
        raise InvalidValue(
            f"Cannot listen on {host}:{port}: {reason}. Choose another with --host or --port."
        ) from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
    return listening


def allow_connections(count: int) -> None:
    """Let this process open as many files as the connections need, if the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def make_server(
    app: Starlette,
    desks: Desk | Mapping[str, Desk],
    tls: Tls | None = None,
    operations: socket.socket | None = None,
) -> OrderlyServer:
    """A server for messages and the application, not running yet."""
    known = by_prefix(desks)
    # asyncio would keep 256 KiB for each connection. Measured with 300 connections: 297 KB of
    # memory for each with that, 52 KB with this, and the same processor time.
    sslproto.SSLProtocol.max_size = TLS_BUFFER
    try:
        config = uvicorn.Config(
            _Messages(app, known),
            http=protocol(known),
            lifespan="on",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=5,
            **QUIET,
            **({} if tls is None else tls.options()),
        )
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InvalidValue(f"Cannot read the certificate or its key: {error}.") from error
    return OrderlyServer(config, known, tls, operations)


def serve(
    app: Starlette,
    desks: Desk | Mapping[str, Desk],
    listening: socket.socket,
    tls: Tls | None = None,
    operations: socket.socket | None = None,
) -> int:
    """Serve until SIGTERM or Ctrl-C, then end in order. Returns the exit code."""
    known = by_prefix(desks).values()
    allow_connections(2 * sum(desk.limits.connections for desk in known))
    make_server(app, desks, tls, operations).run([listening])
    return 0 if all(desk.fatal is None for desk in known) else FATAL

"""How an application talks to its client: JSON lines on pipes, or a port on this machine.

The requests are the same in both forms, and each gets one reply:

    {"do": "predict"}                                  GET  /predict
    {"do": "observe", "round": 0, "losses": [0.2, 1]}  POST /observe
    {"do": "status"}                                   GET  /status

`predict` gives the play of the current round. It waits while an exchange waits for other clients.
`observe` may be sent again after a crash: the losses of a round are counted once. Errors show no
loss. Where forecasts are public and targets secret, "about" names the target. "reporting" says
which clients report in this round, and "side" what is public about this client, where the study has
that.

Every user of the machine, and every page in a browser, can reach the port. So each request needs
the token of the port, as `Authorization: Bearer TOKEN`. A browser gets it once, with the address of
the page (`Port.page`), and keeps it in a cookie.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import parse_qs, urlsplit

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.validate import nearest
from hedgerow.deployment.client import Distrusted
from hedgerow.deployment.database import LedgerFailed
from hedgerow.deployment.learner import ClientLearner
from hedgerow.deployment.logs import log_error
from hedgerow.deployment.pages.html import SAFE
from hedgerow.deployment.wire import Refused

LARGEST = 2**24  # bytes of one request
LONGEST = 20  # digits of its length
SHORT = 2**16  # bytes of a request that is refused
REQUESTS = ("predict", "observe", "status")
HOSTS = ("127.0.0.1", "localhost", "[::1]")
TOKEN = "port.token"
"""The file with the token of a client's port, in the folder of the study."""
SHORTEST = 16  # characters of a token
Answer = Callable[[Any], dict[str, Any]]


class Application:
    """Answers the requests of an application, one at a time.

    Parameters
    ----------
    learner
        The client of a study.

    Examples
    --------
    >>> import tempfile
    >>> from hedgerow.deployment.simulated import small_study
    >>> study = small_study(tempfile.mkdtemp(), clients=1, experts=3, horizon=4)
    >>> application = Application(study.learner(0))
    >>> application({"do": "predict"})
    {'round': 0, 'play': 0, 'over': False}
    >>> application({"do": "observe", "round": 0, "losses": [1.0, 0.0, 0.5]})
    {'round': 1, 'over': False}
    >>> study.close()
    """

    def __init__(self, learner: ClientLearner) -> None:
        self.learner = learner
        self._lock = threading.Lock()

    def __call__(self, request: Any) -> dict[str, Any]:
        """Do what is asked for; raises `HedgerowError` with a text that shows no loss."""
        if not isinstance(request, Mapping):
            raise InvalidValue('Expected an object such as {"do": "predict"}.')
        what = request.get("do", "observe" if "round" in request else "predict")
        if what == "status":
            client = self.learner.client
            known = {"client": client.name, "experts": client.algorithm.setting.experts}
            return known | self.learner.status.to_dict()
        if what not in REQUESTS:
            word = str(what)[:40]
            raise InvalidValue(f"Unknown request {word!r}; {nearest(word, REQUESTS)}")
        with self._lock:
            if what == "predict":
                public = {key: request.get(key) for key in ("awake", "reporting")}
                play = self.learner.predict(**public).tolist()
                return {"round": self.learner.round, "play": play, "over": self.learner.over}
            return self._observe(request)

    def _observe(self, request: Mapping[str, Any]) -> dict[str, Any]:
        number, absent = request.get("round"), request.get("absent") is True
        if not isinstance(number, int) or isinstance(number, bool):
            raise InvalidValue('"observe" needs "round", a whole number.')
        if absent is ("losses" in request):
            raise InvalidValue('"observe" needs either "losses" or "absent": true.')
        losses = None if absent else request["losses"]
        public = {key: request.get(key) for key in ("about", "side", "people")}
        self.learner.observe(number, losses, **public)
        if self.learner.over:
            self.learner.finish()
        return {"round": self.learner.round, "over": self.learner.over}


def answer_lines(answer: Answer, requests: Iterable[str], replies: TextIO) -> None:
    """Answer every line with one line, until there are no more.

    A request that cannot be done is answered with an `error`, and the next one is read. If the
    ledger cannot be written, this raises.
    """
    for line in requests:
        if line.strip():
            replies.write(json.dumps(replied(answer, line)[1]) + "\n")
            replies.flush()


def replied(answer: Answer, text: str | bytes) -> tuple[int, dict[str, Any]]:
    """An HTTP status and the reply to a request in JSON."""
    try:
        return 200, answer(json.loads(text))
    except LedgerFailed:
        raise
    except (ValueError, RecursionError) as error:
        if isinstance(error, HedgerowError):
            return 422, {"error": str(error)}
        return 400, {"error": "Expected one JSON object in one line."}
    except HedgerowError as error:
        if isinstance(error, Distrusted | Refused):
            log_error("nothing more is released", error)
        return 409, {"error": str(error)}


class _Handler(BaseHTTPRequestHandler):
    """One request of the application on this machine."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "hedgerow", ""
    timeout = 60

    @property
    def _port(self) -> Port:
        assert isinstance(self.server, Port)
        return self.server

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/healthz":
            self._reply(200, {"ok": True})
        elif path in ("/predict", "/status"):
            if self._is_allowed():
                self._answer(json.dumps({"do": path[1:]}))
        elif (page := self._port.pages.get(path)) is not None:
            if "token=" in self.path:
                self._enter(path)
            elif self._is_allowed():
                media, body = page()
                self._send(200, body, media)
        else:
            paths = "/predict, /observe, /status and /healthz"
            self._reply(404, {"error": f"There is no such path. There are {paths}."})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        ending, self.close_connection = self.close_connection, True  # unless the body is read
        if urlsplit(self.path).path not in ("/predict", "/observe"):
            self._reply(404, {"error": "There is no such path. POST goes to /predict or /observe."})
        elif not length.isdecimal() or len(length) > LONGEST or int(length) > LARGEST:
            self._reply(413, {"error": f"A request has at most {LARGEST} bytes."})
        elif self._is_allowed():  # first: nobody else makes this process read and keep a body
            self.close_connection = ending
            self._answer(self.rfile.read(int(length)))
        else:
            self.rfile.read(min(int(length), SHORT))  # so that a sender reads why

    def _is_local(self) -> bool:
        """Whether the request comes from this machine, and not from a foreign page in a browser.

        A browser names the page in `Origin` or `Sec-Fetch-Site`; a page in a sandbox is "null".
        """
        host, port = self.headers.get("Host", ""), self._port.server_port
        own = [f"{name}:{port}" for name in HOSTS]
        origin = self.headers.get("Origin")
        fetched = self.headers.get("Sec-Fetch-Site", "none")
        if (
            host not in own
            or origin not in (None, *(f"http://{name}" for name in own))
            or fetched not in ("none", "same-origin")
        ):
            self._reply(403, {"error": "This port is for applications on this machine."})
            return False
        return True

    def _is_allowed(self) -> bool:
        """Whether the request is local and has the token of this port."""
        if not self._is_local():
            return False
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer":
            try:
                found = SimpleCookie(self.headers.get("Cookie", "")).get(self._port.cookie)
            except CookieError:
                found = None
            given = "" if found is None else found.value
        if self._port.admits(given):
            return True
        self._reply(401, {"error": "Send the token of this port: Authorization: Bearer TOKEN."})
        return False

    def _enter(self, path: str) -> None:
        """Take the token from the address of a page, and keep it in a cookie instead."""
        if not self._is_local():
            return
        (given, *_) = parse_qs(urlsplit(self.path).query).get("token", [""])
        if not self._port.admits(given):
            self._reply(401, {"error": "This is not the token of this port."})
            return
        self.send_response_only(303)
        self.send_header("Location", path)
        kept = f"{self._port.cookie}={given}; Path=/; HttpOnly; SameSite=Strict"
        self.send_header("Set-Cookie", kept)
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, text: str | bytes) -> None:
        """Answer a request that is allowed."""
        try:
            found = replied(self._port.answer, text)
        except BaseException as error:
            self._port.fail(error)
            raise
        try:
            self._reply(*found)
        except OSError:  # the application has hung up; it may ask again
            self.close_connection = True

    def _reply(self, status: int, document: dict[str, Any]) -> None:
        self._send(status, json.dumps(document).encode() + b"\n", "application/json")

    def _send(self, status: int, body: bytes, media: str) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        for name, value in SAFE.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a request holds losses."""


class Port(ThreadingHTTPServer):
    """A port on this machine for the application; `pages` adds pages such as the client's own.

    Every user of this machine can reach it, so requests need the token. None: a new one.
    """

    daemon_threads = True

    def __init__(self, answer: Answer, port: int, token: str | None = None) -> None:
        self.token = secrets.token_urlsafe(24) if token is None else _checked(token)
        try:
            super().__init__((HOSTS[0], port), _Handler)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InvalidValue(
                f"Cannot listen on {HOSTS[0]}:{port}: {reason}. Choose another --port."
            ) from error
        self.answer = answer
        self.pages: dict[str, Callable[[], tuple[str, bytes]]] = {}
        self.failure: BaseException | None = None
        self._ended = False

    @property
    def cookie(self) -> str:
        """The name of the cookie; cookies of one machine are shared by all its ports."""
        return f"hedgerow-{self.server_port}"

    @property
    def page(self) -> str:
        """The address of the page, with the token."""
        return f"http://127.0.0.1:{self.server_port}/?token={self.token}"

    def admits(self, token: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def fail(self, error: BaseException) -> None:
        """End the server: the client cannot go on. After Ctrl-C it has ended already."""
        if self._ended:
            return
        log_error("the client cannot go on", error)
        self.failure = error
        threading.Thread(target=self.shutdown, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a request that failed: it holds losses."""

    def serve(self) -> None:
        """Serve until `fail` or Ctrl-C; raises what made the client fail."""
        with self:
            try:
                self.serve_forever(poll_interval=0.2)
            finally:
                self._ended = True  # a request that still waits finds its ledger closed
        if self.failure is not None:
            raise self.failure


def _checked(token: str) -> str:
    """A token that fits into a header and a cookie, and is hard to guess."""
    known = token.isascii() and token.replace("-", "").replace("_", "").isalnum()
    if not known or len(token) < SHORTEST:
        raise InvalidValue(
            f"Expected the token to have at least {SHORTEST} letters, digits, '-' and '_'."
        )
    return token


def kept_token(folder: Path) -> str:
    """The token in a folder, for its owner only; made if there is none.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> kept_token(folder) == kept_token(folder)
    True
    """
    file = folder / TOKEN
    if not file.exists():
        part = file.with_name(f".{TOKEN}.{os.getpid()}")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(secrets.token_urlsafe(24) + "\n")
        part.replace(file)
    return file.read_text(encoding="ascii").strip()

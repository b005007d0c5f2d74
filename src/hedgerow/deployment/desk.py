"""The desk of a study server: requests queue in lanes, one writer takes them in batches.

A lane is one client at one address, so a client that floods fills its own lane and is refused
there. Each batch takes one request from each lane. It is worked on in a thread that owns the
database: the event loop goes on answering while a commit waits for the disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from hedgerow.core.validate import at_least, positive
from hedgerow.deployment.closing import rule_of
from hedgerow.deployment.database import LedgerFailed
from hedgerow.deployment.logs import Fact, log, log_error
from hedgerow.deployment.metrics import Histogram
from hedgerow.deployment.server import HELPING, Sent, StudyServer, Wait
from hedgerow.deployment.server_ledger import FILE
from hedgerow.deployment.wire import (
    MANIFEST,
    REFUSAL,
    REQUESTS,
    TAG,
    TRY_AGAIN,
    Code,
    Fetch,
    Part,
    Refused,
    Upload,
    pack_refusal,
    read_refusal,
)

LARGEST_BATCH = 512
GATHER = 0.02  # seconds that an upload may wait for those of the other clients
FRESH = 0.2  # seconds for which what is public is not looked up again
REMEMBERED = 10.0  # seconds after which it is looked up before a batch, which may fail
ANYBODY = -1  # the lane of requests that name no client
STATUS = {
    Code.FORM: 400,
    Code.STUDY: 404,
    Code.SIGNATURE: 403,
    Code.NOT_JOINED: 403,
    Code.HELLO: 409,
    Code.OLD_CLIENT: 409,
    Code.OLD_SERVER: 409,
    Code.FORK: 409,
    Code.EXCHANGE: 409,
    Code.VALUE: 422,
    Code.SIZE: 413,
    Code.BUSY: 429,
    Code.STOPPED: 503,
    Code.OUT: 403,
}
"""The HTTP status of a refusal."""
EVERY = 60.0  # seconds between equal refusals in the log
ASKED = (Code.HELLO, Code.NOT_JOINED)  # what every client is asked that joins, or comes back
SILENT = 30.0  # seconds that a helper may take for its sum before the study counts as stuck
News = list[tuple[str, dict[str, Any]]]
"""Events of a study with their facts, for the log."""
State = tuple[str | None, str | None, bool]
"""What keeps a study from answering, its trouble, and whether its ledger is an old copy."""
_KINDS = frozenset(kind.kind for kind in REQUESTS)
_HELPING = frozenset({Fetch.kind, Part.kind})


@dataclass(frozen=True)
class Limits:
    """What is accepted before the study looks at a message.

    Parameters
    ----------
    body
        Largest message, in bytes.
    wait
        Seconds until a request that must wait for an exchange is answered with 204.
    slow
        Seconds that a client may take for its headers, and again for its body.
    lane
        Requests of one client at one address that may be queued.
    queue
        Requests of all clients that may be queued.
    connections
        Open connections of one address.
    close_after
        Seconds after the first upload of an exchange until it is closed without the uploads that
        are missing, where the closing rule of the study allows it. 0: never.

    Examples
    --------
    >>> Limits(body=1000).lane
    8
    """

    body: int
    wait: float = 20.0
    slow: float = 10.0
    lane: int = 8
    queue: int = 4096
    connections: int = 256
    close_after: float = 0.0

    def __post_init__(self) -> None:
        for name in ("body", "lane", "queue", "connections"):
            at_least(name, getattr(self, name), 1)
        for name in ("wait", "slow"):
            positive(name, getattr(self, name))


class Reply(NamedTuple):
    """What a request is answered with: an HTTP status, and a message unless it is 204."""

    status: int
    data: bytes = b""


def refused(code: Code, text: str) -> Reply:
    """A refusal with its status."""
    return Reply(STATUS[code], pack_refusal(code, text))


Settled = Reply | Sent
"""What a request was waiting for. The bytes for a client are made when they leave."""
AGAIN = Reply(204)
TOO_MANY = refused(Code.BUSY, "This client has too many requests under way.")
STOPPING = refused(Code.STOPPED, "The server is stopping or busy.")
STOPPED = "this study has stopped: see the log for the reason, then start the server again"


class _Request(NamedTuple):
    data: bytes
    client: int
    reply: asyncio.Future[Settled]


@dataclass
class Counts:
    """What the desk has done, for `/metrics`."""

    replies: Counter[int] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    batch_seconds: Histogram = field(default_factory=Histogram)


class Desk:
    """Queues requests, lets the study take them in batches, and wakes those that wait.

    Parameters
    ----------
    open_study
        Opens the study. It is called in the thread that then owns the database.
    limits
        What is accepted.
    path
        Where the study is, if this process has several; every line of the log then names it.

    Examples
    --------
    >>> from hedgerow.deployment.server import StudyServer
    >>> desk = Desk(lambda: StudyServer("study"), Limits(body=4096))
    >>> desk.ready
    False
    """

    def __init__(
        self, open_study: Callable[[], StudyServer], limits: Limits, path: str = ""
    ) -> None:
        self.limits, self.counts = limits, Counts()
        self.fatal: BaseException | None = None
        self.on_fatal: Callable[[], None] = lambda: None
        self._open_study = open_study
        self._facts: dict[str, Fact] = {"path": path} if path else {}
        self._study: StudyServer | None = None
        self._clients, self._names = 0, tuple[str, ...]()
        self._stuck: str | None = None
        self._asked = -1, 0.0  # the exchange after which helpers were asked, and when
        self.trouble: str | None = None
        """What an operator should know: a fork or an old ledger."""
        self.exchanged: float | None = None
        """When this process last answered an exchange, in seconds since 1970."""
        self.expires: datetime | None = None
        """When the server's certificate expires, if it has one."""
        self._logged: dict[tuple[str, int], float] = {}
        self.old = False
        """Whether the ledger is an old copy, with which the study cannot go on."""
        self._lanes: OrderedDict[tuple[str, int], deque[_Request]] = OrderedDict()
        self._queued: Counter[str] = Counter()  # by address
        self.queued = 0
        """How many requests wait to be taken."""
        self._due = asyncio.Event()  # what is queued is taken now
        self._later: asyncio.TimerHandle | None = None
        self._due_replies = deque[tuple[float, asyncio.Future[Settled]]]()
        self._overdue: asyncio.TimerHandle | None = None
        self._missing = 0  # uploads that the open exchange still needs
        self._urgent = False  # something is queued that is no upload
        self._waiting: dict[int, dict[int, asyncio.Future[Settled]]] = {}
        self._changed = asyncio.Event()
        self._snapshot: tuple[float, dict[str, Any]] = (-REMEMBERED, {})
        self._stopping = False
        self._thread = ThreadPoolExecutor(1, "hedgerow-writer")
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether requests are taken."""
        return self._study is not None and self.fatal is None and not self._stopping

    @property
    def waiting(self) -> int:
        """How many requests wait for an exchange."""
        return sum(len(clients) for clients in self._waiting.values())

    async def start(self) -> None:
        """Open the study and begin to take requests."""
        self._study = study = await self._in_thread(self._open_study)
        self._clients = len(study.manifest.roster)
        self._names = (*study.manifest.clients, *study.manifest.helper_names)
        self._note(*await self._in_thread(self._state, study))
        self._task = asyncio.create_task(self._work())
        if self.limits.close_after and rule_of(study.manifest.closing).may_close:
            self._timer = asyncio.create_task(self._close_late())

    @property
    def stuck(self) -> str | None:
        """What keeps the study from answering any exchange, in words; None: nothing."""
        return self._stuck if self.fatal is None else STOPPED

    def _note(self, stuck: str | None, trouble: str | None, old: bool) -> None:
        """Log what keeps the study from going on, and what an operator should know."""
        if trouble not in (None, self.trouble):
            self._log("trouble", logging.WARNING, what=trouble)
        if stuck is None and self._stuck is not None:
            self._log("the study can go on")
        elif stuck is not None and (self._stuck is None or old is not self.old):
            self._log("no exchange is answered", logging.WARNING, because=stuck)
        self._stuck, self.trouble, self.old = stuck, trouble, old

    @property
    def ledger(self) -> tuple[Path, str]:
        """The folder and the name of the ledger."""
        assert self._study is not None, "the desk is not started"
        return self._study.folder, FILE

    def _log(self, event: str, level: int = logging.INFO, **facts: Fact) -> None:
        log(event, level, **self._facts, **facts)

    def _log_refusal(self, refusal: Refused, client: int) -> None:
        """Log a refusal; the same one of the same client at most once a minute.

        The client is the one that the message names, without proof unless it was signed.
        """
        kind, now = (refusal.code.name.lower(), client), time.monotonic()
        if now - self._logged.get(kind, -EVERY) < EVERY or self._study is None:
            return
        self._logged[kind] = now
        name = None if client == ANYBODY else self._names[client]
        level = logging.INFO if refusal.code in TRY_AGAIN else logging.WARNING
        self._log("refused", level, code=kind[0], because=refusal.text, client=name)

    async def ask(self, address: str, data: bytes) -> Reply:
        """Queue a request and wait for its reply, at most `limits.wait` seconds."""
        if not self.ready:
            return STOPPING
        client = self._claimed(data)
        lane = self._lanes.get((address, client))
        if lane is not None and len(lane) >= self.limits.lane:
            return TOO_MANY
        if 2 * self._queued[address] >= self.limits.queue:  # the other half is for the others
            return TOO_MANY
        if self.queued >= self.limits.queue:
            return STOPPING
        if lane is None:
            lane = self._lanes[address, client] = deque()
        reply = self._reply_in_time()
        lane.append(_Request(data, client, reply))
        self._queued[address] += 1
        self.queued += 1
        self._urgent |= client == ANYBODY or data[:1] != Upload.kind
        self._take_soon()
        found = await reply
        return found if isinstance(found, Reply) else Reply(200, found.reply(client))

    def _reply_in_time(self) -> asyncio.Future[Settled]:
        """A reply that is settled with 204 after `limits.wait` seconds: one timer for all of them.

        All wait equally long, so they are due in order.
        """
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Settled] = loop.create_future()
        while self._due_replies and self._due_replies[0][1].done():
            self._due_replies.popleft()
        self._due_replies.append((loop.time() + self.limits.wait, reply))
        if self._overdue is None:
            self._overdue = loop.call_later(self.limits.wait, self._settle_overdue)
        return reply

    def _settle_overdue(self) -> None:
        loop = asyncio.get_running_loop()
        waiting, now, self._overdue = self._due_replies, loop.time(), None
        while waiting and (waiting[0][0] <= now or waiting[0][1].done()):
            _settle(waiting.popleft()[1], AGAIN)
        if waiting:
            self._overdue = loop.call_at(waiting[0][0], self._settle_overdue)

    async def take(self, address: str, data: bytes) -> Reply:
        """`ask`, counted for `/metrics`."""
        self.counts.bytes_in += len(data)
        return self.counted(await self.ask(address, data))

    def counted(self, reply: Reply) -> Reply:
        """A reply that leaves now."""
        self.counts.replies[reply.status] += 1
        self.counts.bytes_out += len(reply.data)
        return reply

    async def manifest(self) -> Reply:
        """The signed manifest."""
        return await self.ask("", MANIFEST)

    async def public(self) -> dict[str, Any]:
        """What everybody may know about the study; after a failed commit, what was known before."""
        assert self._study is not None, "the desk is not started"
        taken, found = self._snapshot
        if time.monotonic() - taken > FRESH:
            with suppress(LedgerFailed):
                found = await self._in_thread(self._study.public)
                self._snapshot = time.monotonic(), found
        return found if self.fatal is None else {**found, "stuck": self.stuck}

    async def changed(self) -> None:
        """Wait until something public may have changed."""
        await self._changed.wait()

    def stop(self) -> None:
        """Take nothing more, and answer all that wait with 204."""
        self._stopping = True
        self._due.set()
        for clients in self._waiting.values():
            for reply in clients.values():
                _settle(reply, AGAIN)
        self._waiting.clear()
        self._change()

    async def close(self) -> None:
        """Finish what is queued, then close the study."""
        self.stop()
        for timer in (self._timer, self._overdue):
            if timer is not None:
                timer.cancel()
        if self._task is not None:
            await self._task
        study, self._study = self._study, None
        if study is not None:
            await self._in_thread(study.close)
        self._thread.shutdown()

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _batch(self) -> list[_Request]:
        """One request from each lane; the lanes that were not served come first next time."""
        found: list[_Request] = []
        for name in list(self._lanes)[:LARGEST_BATCH]:
            lane, address = self._lanes[name], name[0]
            found.append(lane.popleft())
            self._queued[address] -= 1
            self.queued -= 1
            if not self._queued[address]:
                del self._queued[address]
            if lane:
                self._lanes.move_to_end(name)
            else:
                del self._lanes[name]
        return found

    def _claimed(self, data: bytes) -> int:
        """The client that a request names, so far without proof; helpers come after clients."""
        at, helps = 1 + TAG, data[:1] in _HELPING
        number = int.from_bytes(data[at : at + 4], "little")
        count = len(self._names) - self._clients if helps else self._clients
        known = data[:1] in _KINDS and len(data) >= at + 4 and number < count
        return number + (self._clients if helps else 0) if known else ANYBODY

    def _take_soon(self) -> None:
        """Let the writer take what is queued: at once, unless nobody could be answered yet.

        Uploads that do not complete the open exchange are gathered: one commit for all of them.
        """
        if self._urgent or self._stopping or self.queued >= self._missing:
            self._due.set()
        elif self._later is None:
            pause = min(GATHER, self.limits.wait / 4)  # a client that is answered 204 comes again
            self._later = asyncio.get_running_loop().call_later(pause, self._due.set)

    async def _work(self) -> None:
        while self._lanes or not self._stopping:
            await self._due.wait()
            self._due.clear()
            if self._later is not None:
                self._later.cancel()
                self._later = None
            batch = self._batch()
            if not batch:
                continue
            try:
                await self._serve(batch)
            except BaseException as error:
                self._fail(error, batch)
                return
            self._urgent = self._urgent and bool(self._lanes)
            if self._lanes:
                self._take_soon()

    async def _close_late(self) -> None:
        """Close every exchange that has been open for too long."""
        seen, since = -1, time.monotonic()
        while self.ready:
            await asyncio.sleep(min(1.0, self.limits.close_after / 4))
            exchange, late = await self._in_thread(self._open_exchange)
            if not late or exchange != seen:
                seen, since = exchange if late else -1, time.monotonic()
            elif time.monotonic() - since >= self.limits.close_after:
                assert self._study is not None
                try:
                    closed = await self._in_thread(self._study.close_exchange)
                    await self._serve([])
                except BaseException as error:
                    self._fail(error, [])
                    return
                if closed:
                    self._log("closed without late clients", exchange=seen + 1, late=late)

    def _open_exchange(self) -> tuple[int, int]:
        """In the writer's thread: the last exchange, and how many are late for the next one."""
        assert self._study is not None
        return self._study.exchange, self._study.late

    async def _serve(self, batch: list[_Request]) -> None:
        """Let the study take a batch; settle what is answered and keep what must wait."""
        if time.monotonic() - self._snapshot[0] > REMEMBERED:
            with suppress(Exception):  # a page never stops a study
                found = await self.public()
                self._snapshot = time.monotonic() - FRESH, found  # a page looks again after it
        requests, exchanges = [request.data for request in batch], tuple(self._waiting)
        replies, answers, helped, self._missing, state, news = await self._in_thread(
            self._take, requests, exchanges
        )
        for event, facts in news:
            self._log(event, **facts)
            if event == "exchange":
                self.exchanged = time.time()
        self._note(*state)
        for request, reply in zip(batch, replies, strict=True):
            if isinstance(reply, Wait):
                self._keep(reply.exchange, request)
            else:
                _settle(request.reply, self._reply(reply, request.client))
        for exchange, answer in answers.items():
            for reply in self._waiting.pop(exchange, {}).values():
                _settle(reply, answer)
        for helper, task in enumerate(helped):
            if task is not None:
                reply = self._waiting.get(HELPING, {}).pop(self._clients + helper, None)
                _settle(reply, Reply(200, task))
        self._change()

    def _take(
        self, requests: list[bytes], exchanges: tuple[int, ...]
    ) -> tuple[list[bytes | Wait], dict[int, Sent], list[bytes | None], int, State, News]:
        """In the writer's thread: take a batch, and find the answers that somebody waits for.

        The third value is the task of each helper, the fourth the number of uploads that the open
        exchange still needs, then what `_note` takes, and what to log.
        """
        study, began, moment = self._study, time.thread_time(), time.monotonic()
        assert study is not None
        replies = study.take(requests)
        asked = {*exchanges, *(reply.exchange for reply in replies if isinstance(reply, Wait))}
        found = {exchange: study.sent(exchange) for exchange in asked - {HELPING}}
        helped = [study.task(n) for n in range(len(study.manifest.helpers))]
        self.counts.batches += 1
        self.counts.requests += len(requests)
        self.counts.seconds += time.thread_time() - began
        if requests:
            self.counts.batch_seconds.add(time.monotonic() - moment)
        answers = {e: sent for e, sent in found.items() if sent is not None}
        return replies, answers, helped, study.missing, self._state(study), study.news()

    def _state(self, study: StudyServer) -> State:
        stuck, awaited, now = study.stuck, study.awaited, time.monotonic()
        if awaited and self._asked[0] != study.exchange:
            self._asked = study.exchange, now
        if stuck is None and awaited and now - self._asked[1] >= SILENT:
            stuck = f"all clients have uploaded, and a sum is awaited from {', '.join(awaited)}"
        return stuck, study.trouble, study.old

    def _keep(self, exchange: int, request: _Request) -> None:
        """Let a request wait, unless the server stops: then it is answered with 204.

        A client waits once: its older request is answered with 204.
        """
        if self._stopping:
            _settle(request.reply, AGAIN)
            return
        clients = self._waiting.setdefault(exchange, {})
        if (older := clients.get(request.client)) is not None:
            _settle(older, AGAIN)
        clients[request.client] = request.reply

    def _reply(self, data: bytes, client: int) -> Reply:
        if data[:1] != REFUSAL:
            return Reply(200, data)
        refusal = read_refusal(data)
        code = refusal.code
        if code not in ASKED:
            self._log_refusal(refusal, client)
            self.counts.refusals[code.name.lower()] += 1
        return Reply(STATUS[code], data)

    def _fail(self, error: BaseException, batch: list[_Request]) -> None:
        """A batch could not be taken: nothing is known to be written, so take nothing more."""
        self.fatal = error
        log_error("the study cannot go on; start the server again", error, **self._facts)
        rest = [request for lane in self._lanes.values() for request in lane]
        self._lanes.clear()
        self._queued.clear()
        self.queued = 0
        for request in [*batch, *rest]:
            _settle(request.reply, STOPPING)
        self.stop()
        self.on_fatal()


def _settle(reply: asyncio.Future[Settled] | None, value: Settled) -> None:
    if reply is not None and not reply.done():
        reply.set_result(value)

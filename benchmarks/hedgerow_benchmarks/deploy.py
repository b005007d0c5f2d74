"""Benchmarks of a deployment on one machine: exchanges over HTTP, durable on both sides.

The other side of each ratio is a bare uvicorn server that echoes the same number of bytes, called
with the standard `http.client`, in the same run, without TLS on either side. The echo writes
nothing; a deployment writes to disk on both sides. Calls of the echo begin as far apart as
exchanges do on an idle machine (`PACES`): after a wait, as for the disk, a processor has forgotten
what a process needs, and the same work takes longer. An echo without pauses is measured beside it.
Processor times are those of whole processes, all threads and the system's work for them included.
Other programs can change them, so measure on a quiet machine. Ledgers are in the folder for
temporary files; if that is in memory, writing costs less.
"""

from __future__ import annotations

import http.client
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hedgerow.core.block import Block, check
from hedgerow.deployment.account import Account
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.config import ServeConfig, ServerOptions, SettingTable
from hedgerow.deployment.desk import Desk
from hedgerow.deployment.http_client import HEADERS, MEDIA, MESSAGES, HttpLink, Route
from hedgerow.deployment.keys import load_or_make, public_hex
from hedgerow.deployment.launching import Launch
from hedgerow.deployment.learner import ClientLearner
from hedgerow.deployment.manifest import rebuild
from hedgerow.deployment.server import KEY, StudyServer
from hedgerow.deployment.serving import limits_of
from hedgerow.deployment.simulated import small_study
from hedgerow.engines.loop import Engine
from hedgerow.privacy.secure import SecureNoise
from hedgerow_benchmarks.benchmark import Benchmark, Row
from hedgerow_benchmarks.measure import peak_mebibytes

EXPERTS = 20
SIZES = {1: 300, 10: 100, 100: 20}  # exchanges by number of clients
PACES = {1: 0.002, 10: 0.01, 100: 0.07}  # seconds from one exchange to the next on an idle machine
TOGETHER = 10  # clients in one process, where there are more than ten
WARM_UP = 10  # exchanges before the measurement
AT_SERVER, AT_CLIENT, MEGABYTES = 4.0, 3.0, 80.0
ECHO, HURRIED = "echo of the same bytes", "echo without pauses"
STUDY: dict[str, Any] = {"algorithm": "tree_leader", "experts": EXPERTS}  # exchanges every round
SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Use:
    """One exchange: processor time at the server and at a client, wall time, bytes of a client.

    The bytes are those of messages, without the headers of HTTP.
    """

    server: float
    client: float
    seconds: float
    sent: int
    received: int


def deploy_rows(sizes: dict[int, int] | None = None, repeats: int = 3) -> Iterator[Row]:
    """Exchanges with 1, 10 and 100 clients against an echo, and the memory of a client."""
    for clients, exchanges in (SIZES if sizes is None else sizes).items():
        pairs: list[tuple[Use, Use]] = []
        hurried: list[tuple[Use, Use]] = []
        for _ in range(repeats):
            ours = deployed(clients, exchanges)
            size = clients, exchanges, ours.sent, ours.received
            pairs.append((ours, echoed(*size, PACES[clients])))
            hurried.append((ours, echoed(*size, 0.0)))
        at = f"deploy/m={clients}/d={EXPERTS}"
        for side, limit in (("server", AT_SERVER), ("client", AT_CLIENT)):
            value = 1e3 * median(getattr(a, side) for a, _ in pairs)
            bound: dict[str, Any] = {"op": "<=", "limit": limit} if clients == 10 else {}
            for name, against, found, more in (
                (f"{at}/{side}", ECHO, pairs, bound),
                (f"{at}/{side}/hurried", HURRIED, hurried, {}),
            ):
                ratios = [getattr(a, side) / getattr(b, side) for a, b in found]
                yield Row(
                    name,
                    median(ratios),
                    against,
                    value,
                    "ms per exchange",
                    **more,
                    spread=_spread(ratios),
                )
        taken, alone = median(a.seconds for a, _ in pairs), _in_process(clients)
        yield Row(f"{at}/rate", taken / alone, "in_process", 1 / taken, "exchanges per second")
        ours = pairs[0][0]
        yield Row(f"{at}/sent", None, None, ours.sent, "bytes per client and exchange")
        yield Row(f"{at}/received", None, None, ours.received, "bytes per client and exchange")
    yield from memory_rows()


def _spread(ratios: list[float]) -> float | None:
    """The distance between the quartiles; None for a single ratio."""
    if len(ratios) < 2:
        return None
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return high - low


def quick_deploy() -> Iterator[Row]:
    """Ten clients, measured once, and the memory of a client."""
    return deploy_rows({10: 50}, 1)


def memory_rows() -> Iterator[Row]:
    """Peak memory of a process `hedgerow client run` that has played some rounds.

    Building `tree_leader` imports more of SciPy, so it has no limit.
    """
    for algorithm, limited in (("sparse_vector", True), (STUDY["algorithm"], False)):
        peak = _remembered(algorithm) * 2**20 / 1e6
        bound: dict[str, Any] = {"op": "<=", "limit": 1.0} if limited else {}
        name = f"deploy/memory/{algorithm}/client"
        yield Row(name, peak / MEGABYTES, f"{MEGABYTES:g} MB", peak, "MB", **bound)


def _remembered(algorithm: str) -> float:
    name, rounds = "client-001", 10
    game = SettingTable(EXPERTS, rounds + 1)
    config = ServeConfig("Memory", algorithm, {}, game, {name: "1" * 64})
    with TemporaryDirectory() as folder:
        whole = Launch(Path(folder), config, None)
        try:
            whole.start()
            for at in range(rounds):
                whole.ask({name: {"do": "predict"}})
                whole.ask({name: {"do": "observe", "round": at, "losses": [0.0] * EXPERTS}})
            return peak_mebibytes(whole.pid(name))
        finally:
            whole.stop()


def deployed(clients: int, exchanges: int) -> Use:
    """Exchanges of a study with secure noise; every upload and answer is on disk on both sides."""
    with TemporaryDirectory() as folder:
        _study(Path(folder), clients, WARM_UP + exchanges + 2)
        return _measured((_serve, folder), (_play, folder), clients, exchanges)


def echoed(clients: int, exchanges: int, sent: int, received: int, pace: float) -> Use:
    """The same number of calls with the same number of bytes, `pace` seconds apart."""
    return _measured((_echo, received), (_call, sent, pace), clients, exchanges)


def _measured(serve: tuple[Any, ...], play: tuple[Any, ...], clients: int, exchanges: int) -> Use:
    """Start a server and clients in processes, warm up, and measure."""
    size = 1 if clients <= TOGETHER else TOGETHER
    groups = [tuple(range(first, first + size)) for first in range(0, clients, size)]
    with _process(*serve) as server, _processes(play, groups, exchanges) as callers:
        address = server.recv()
        for caller in callers:
            caller.send(address)
        for caller in callers:
            caller.recv()  # it has warmed up
        server.send(True)
        before = server.recv()
        for caller in callers:
            caller.send(True)
        found = [caller.recv() for caller in callers]
        server.send(True)
        at_server = server.recv() - before
    used = sum(one[0] for one in found) / clients
    wall = max(one[1] for one in found)
    sent, received = found[0][2], found[0][3]
    return Use(at_server / exchanges, used / exchanges, wall / exchanges, sent, received)


@contextmanager
def _process(target: Callable[..., None], *arguments: Any) -> Iterator[Any]:
    """A process that talks over a pipe; it ends when the pipe is closed."""
    pipe, other = SPAWN.Pipe()
    process = SPAWN.Process(target=target, args=(*arguments, other), daemon=True)
    process.start()
    other.close()
    try:
        yield pipe
    finally:
        pipe.close()
        process.join(30)


@contextmanager
def _processes(
    play: tuple[Any, ...], groups: Sequence[tuple[int, ...]], exchanges: int
) -> Iterator[list[Any]]:
    if not groups:
        yield []
        return
    with (
        _process(*play, groups[0], exchanges) as first,
        _processes(play, groups[1:], exchanges) as others,
    ):
        yield [first, *others]


# -- servers ---------------------------------------------------------------------------------------


def _serve(folder: str, pipe: Connection) -> None:
    """The server of the study in a folder."""
    from hedgerow.deployment.http_server import make_app, make_server

    study = StudyServer(Path(folder) / "server")
    desk = Desk(lambda: study, limits_of(study, ServerOptions()))
    _run(make_server(make_app(desk), desk), pipe)


def _echo(size: int, pipe: Connection) -> None:
    """A bare server that reads a body and answers with a number of bytes."""
    import uvicorn

    answer = bytes(size)
    head = [(b"content-type", MEDIA.encode()), (b"content-length", str(size).encode())]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body", False):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": answer})

    config = uvicorn.Config(
        app,
        http="h11",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
    )
    _run(uvicorn.Server(config), pipe)


def _run(server: Any, pipe: Connection) -> None:
    """Serve in a thread, and answer every message with the processor time so far."""
    from hedgerow.deployment.http_server import listen

    listening = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    pipe.send(f"http://127.0.0.1:{listening.getsockname()[1]}")
    try:
        while pipe.recv():
            pipe.send(time.process_time())
    except EOFError:
        server.should_exit = True
        thread.join(20)


# -- clients ---------------------------------------------------------------------------------------


def _play(folder: str, clients: tuple[int, ...], exchanges: int, pipe: Connection) -> None:
    """Clients of the study in a folder, each in a thread; every round needs an exchange."""
    root, url = Path(folder), pipe.recv()
    key = public_hex(load_or_make(root / "server" / KEY))
    links = [HttpLink(Route(url, proxy="")) for _ in clients]
    losses = np.zeros(EXPERTS)

    def joined(index: int, link: HttpLink) -> ClientLearner:
        name = f"client-{index:03d}"
        account = Account(root / f"data-{name}")
        return ClientLearner(StudyClient.join(account, link, server_key=key))

    learners = [joined(index, link) for index, link in zip(clients, links, strict=True)]

    def rounds(at: int, count: int) -> None:
        learner = learners[at]
        for _ in range(count):
            learner.predict()
            learner.observe(learner.round, losses)

    def moved() -> tuple[int, int]:
        return sum(link.sent for link in links), sum(link.received for link in links)

    _timed(rounds, moved, len(clients), exchanges, pipe)
    if any(learner.client.exchange < WARM_UP + exchanges for learner in learners):
        raise ArithmeticError("There were fewer exchanges than rounds.")
    for learner, link in zip(learners, links, strict=True):
        learner.close()
        link.close()


def _call(
    size: int, pace: float, clients: tuple[int, ...], exchanges: int, pipe: Connection
) -> None:
    """As many calls as clients make, and as often, with `http.client` alone."""
    host = pipe.recv().removeprefix("http://")
    connections = [http.client.HTTPConnection(host) for _ in clients]
    body = bytes(size)

    def calls(at: int, count: int) -> None:
        connection, began = connections[at], time.monotonic()
        for made in range(count):
            time.sleep(max(0.0, began + made * pace - time.monotonic()))
            connection.request("POST", MESSAGES, body, HEADERS)
            connection.getresponse().read()

    _timed(calls, lambda: (0, 0), len(clients), exchanges, pipe)
    for connection in connections:
        connection.close()


def _timed(
    work: Callable[[int, int], None],
    moved: Callable[[], tuple[int, int]],
    clients: int,
    exchanges: int,
    pipe: Connection,
) -> None:
    """Warm up, wait for the others, work; send processor time, wall time and bytes."""

    def together(count: int) -> None:
        if clients == 1:
            work(0, count)
            return
        threads = [threading.Thread(target=work, args=(at, count)) for at in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    together(WARM_UP + 1)  # the first round needs no exchange
    sent, received = moved()
    pipe.send(True)
    pipe.recv()
    began, used = time.perf_counter(), time.process_time()
    together(exchanges)
    used, taken = time.process_time() - used, time.perf_counter() - began
    more, back = moved()
    each = clients * exchanges
    pipe.send((used, taken, (more - sent) // each, (back - received) // each))


def _study(root: Path, clients: int, rounds: int) -> None:
    """A study with an exchange in every round and secure noise."""
    small_study(
        root,
        clients=clients,
        horizon=rounds,
        seed=None,
        **STUDY,
    ).running_server().close()


def _in_process(clients: int, rounds: int = 50) -> float:
    """Seconds of one exchange in the engine with all clients in one process, and secure noise."""
    with TemporaryDirectory() as folder:
        study = small_study(folder, clients=clients, horizon=rounds, **STUDY)
        algorithm = rebuild(study.manifest)
    block = check(Block.of(np.zeros((rounds, clients, EXPERTS))), algorithm.setting, 0, rounds)

    def play() -> None:
        engine = Engine.in_process(algorithm, SecureNoise())
        engine.advance(engine.start(), block, [])

    play()
    began = time.perf_counter()
    play()
    return (time.perf_counter() - began) / (rounds - 1)


DEPLOY = Benchmark(deploy_rows, quick_deploy)

"""The study server and its clients over HTTP: TLS, proxies, long polls, limits, operations."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment import http_client, http_connection, wire
from hedgerow.deployment.account import Account
from hedgerow.deployment.config import ServerOptions
from hedgerow.deployment.database import LedgerFailed, hooked
from hedgerow.deployment.desk import Desk
from hedgerow.deployment.http_client import MEDIA, MESSAGES, HttpLink, Route, Unreachable
from hedgerow.deployment.http_connection import LINGER, protocol
from hedgerow.deployment.http_server import Limits, Tls, listen, make_app, make_server
from hedgerow.deployment.learner import NoReply
from hedgerow.deployment.pages.live import live_page
from hedgerow.deployment.server import StudyServer
from hedgerow.deployment.serving import limits_of
from support.proxy import connect_proxy, make_certificates
from support.served import Served, play, served
from support.simulated import small_study
from support.waiting import PATIENCE, until

LOSSES = np.random.default_rng(0).integers(0, 2**20, (6, 2, 3)) / 2**20


def test_a_study_over_https_with_client_certificates_and_a_proxy(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    tls = Tls(files["server"], files["server_key"], files["ca"])
    own: dict[str, Any] = {"certificate": files["client"], "key": files["client_key"]}
    with (
        served(tmp_path / "a", tls) as one,
        connect_proxy(expect="Basic " + base64.b64encode(b"u:p").decode()) as (proxy, asked),
    ):
        url = f"https://{one.host}"
        through = proxy.replace("//", "//u:p@")
        links = [
            one.link(url=url, ca=files["ca"], **own),
            one.link(url=url, ca=files["ca"], proxy=through, **own),
        ]
        learners = [one.learner(i, link) for i, link in enumerate(links)]
        play(learners, LOSSES)
        assert one.study.over
        assert asked
        assert set(asked) == {f"CONNECT {one.host}"}
        with pytest.raises(Unreachable, match=r"not trusted.*--ca FILE"):
            HttpLink(Route(url, proxy=""), 600.0).call(b"M")  # at once: waiting does not help
        with pytest.raises(Unreachable, match=r"(Cannot reach|TLS with).* give --certificate FILE"):
            HttpLink(Route(url, files["ca"], proxy=""), 0.0).call(b"M")
        with pytest.raises(Unreachable, match=r"407.*--proxy"):
            HttpLink(Route(url, files["ca"], proxy=proxy, **own), 0.0).call(b"M")


@pytest.fixture
def several(tmp_path: Path) -> Iterator[tuple[dict[str, Served], int]]:
    """Two studies in one process by prefix, and the operations port."""
    studies = {
        f"/{name}": small_study(tmp_path / name, clients=2, experts=3, horizon=6).running_server()
        for name in ("wards", "labs")
    }
    desks = {
        prefix: Desk(lambda study=study: study, limits_of(study, ServerOptions()), prefix)
        for prefix, study in studies.items()
    }
    beside = listen("127.0.0.1", 0)
    server = make_server(make_app(desks, live_page), desks, None, beside)
    listening, operations = listen("127.0.0.1", 0), beside.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    ones = {
        prefix: Served(
            tmp_path / prefix.strip("/"), listening.getsockname()[1], desks[prefix], server, study,
            thread,
        )
        for prefix, study in studies.items()
    }  # fmt: skip
    until(lambda: server.started, "the server")
    yield ones, operations
    for one in ones.values():
        one.stop()


def test_several_studies_in_one_process(
    several: tuple[dict[str, Served], int], caplog: pytest.LogCaptureFixture
) -> None:
    """Each below its prefix, with its own page and metrics; the health of all is at the root."""
    caplog.set_level(logging.INFO, "hedgerow.deployment")
    ones, operations = several
    studies = {prefix: one.study for prefix, one in ones.items()}
    for prefix, one in ones.items():
        url = f"http://{one.host}{prefix}"
        play([one.learner(0, one.link(url=url)), one.learner(1, one.link(url=f"{url}/"))], LOSSES)
        assert one.study.over
        assert [study.over for study in studies.values()] == [True, prefix == "/labs"]
    wards, labs = ones.values()
    facts = [vars(record)["facts"] for record in caplog.records if record.msg == "exchange"]
    assert {one["path"] for one in facts} == set(studies)
    chunked = b"POST /labs/v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", labs.port), PATIENCE) as connection:
        connection.sendall(chunked + b"1\r\nM\r\n0\r\n\r\n")
        assert labs.study.manifest.server.encode() in connection.recv(2**16)
    with pytest.raises(Unreachable, match="404"):
        wards.link().call(wire.MANIFEST)
    message = wire.pack(wire.Join(0), wards.study.study, wards.study.key)
    refusal = wire.read_refusal(labs.ask("POST", f"/labs{MESSAGES}", message)[2])
    assert refusal.code is wire.Code.STUDY
    assert b"A simulated study" in wards.ask("GET", "/wards/")[2]
    for port in (wards.port, operations):
        assert b"hedgerow_over 1" in wards.ask("GET", "/labs/metrics", port=port)[2]
        assert wards.ask("GET", "/healthz", port=port)[2] == b"wards: ok\nlabs: ok\n"
        assert wards.ask("GET", "/readyz", port=port)[:1] == (200,)
        labs.desk.old = True
        assert wards.ask("GET", "/healthz", port=port)[0] == 503
        assert wards.ask("GET", "/wards/healthz", port=port)[0] == 200
        labs.desk.old = False


def test_a_failed_commit_of_one_study_does_not_end_the_others(
    several: tuple[dict[str, Served], int], caplog: pytest.LogCaptureFixture
) -> None:
    ones, operations = several
    wards, labs = ones.values()

    def full(name: str) -> None:
        if name == "server take written" and wards.study._database._begun:
            raise sqlite3.OperationalError("database or disk is full")

    account = Account(wards.root / f"data-{wards.study.manifest.clients[0]}")
    join = wire.pack(wire.Join(0), wards.study.study, account.key)
    with hooked(full):  # nobody has looked at the page before
        assert wards.ask("POST", f"/wards{MESSAGES}", join)[0] == 503
    url = f"http://{labs.host}/labs"
    play([labs.learner(client, labs.link(url=url)) for client in (0, 1)], LOSSES)
    assert labs.study.over
    because = "this study has stopped: see the log for the reason, then start the server again"
    for port in (wards.port, operations):
        status, _, text = labs.ask("GET", "/healthz", port=port)
        assert (status, text) == (503, b"wards: the study cannot go on\nlabs: ok\n")
        status, _, text = labs.ask("GET", "/wards/readyz", port=port)
        assert (status, text) == (503, f"not ready: {because}\n".encode())
        assert labs.ask("GET", "/labs/readyz", port=port)[0] == 200
        found = labs.ask("GET", "/wards/metrics", port=port)[2]
        assert b"hedgerow_ready 0\n" in found
        assert b"hedgerow_stuck 1\n" in found
    assert because.encode() in wards.ask("GET", "/wards/")[2]
    assert wards.ask("GET", "/wards/manifest.json")[0] == 503
    wards.study.close()
    again = StudyServer(wards.study.folder)  # nobody holds its ledger
    assert not again.joined
    again.close()
    assert [r.msg for r in caplog.records if r.levelno >= logging.ERROR] == [
        "the study cannot go on; start the server again"
    ]
    labs.desk._fail(LedgerFailed("the other one, too"), [])


def test_a_proxy_that_refuses_is_named(tmp_path: Path) -> None:
    with connect_proxy(refuse=True) as (proxy, _):
        link = HttpLink(Route("http://127.0.0.1:9", proxy=proxy), 0.0)
        with pytest.raises(Unreachable, match=r"The proxy refused .* 403 Forbidden"):
            link.call(b"M")


def test_a_route_is_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for url in (
        "ftp://a",
        "https://",
        "https://a:x",
        "https://a/pa th",
        "https://a/b?c",
        "https://u:p@a",
    ):
        with pytest.raises(InvalidValue) as error:
            Route(url)
        assert ":p@" not in str(error.value) or "of the form" in str(error.value)
    with pytest.raises(InvalidValue, match="begin with https"):
        Route("http://a", ca=tmp_path, unencrypted=True)
    with pytest.raises(InvalidValue, match=r"is not encrypted: .* --unencrypted"):
        Route("http://a:8420")
    assert not Route("http://a:8420", unencrypted=True).secure
    assert Route("http://[::1]:8420").local
    assert Route("HTTPS://a").secure
    monkeypatch.setenv("https_proxy", "http://user:secret@proxy:3128")
    monkeypatch.setenv("no_proxy", "inside.example.org")
    assert Route("https://inside.example.org").through() is None
    found = Route("https://outside.example.org").through()
    assert found is not None
    assert (found.hostname, found.port) == ("proxy", 3128)
    with pytest.raises(InvalidValue) as error:
        Route("https://a", proxy="https://user:secret@proxy").through()
    assert "secret" not in str(error.value)
    with pytest.raises(InvalidValue, match="Cannot read the certificates"):
        HttpLink(Route("https://a", ca=tmp_path / "nothing"))


def test_pauses_grow_and_end() -> None:
    slept: list[float] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    link = HttpLink(Route("http://127.0.0.1:9", proxy=""), 60.0, sleep, lambda: now[0])

    def call() -> None:
        while True:
            assert link.call(b"M") is None

    with pytest.raises(Unreachable, match=r"refused\. Check the address"):
        call()
    assert slept[0] <= 0.05
    assert max(slept) > 5
    assert all(seconds <= 10 for seconds in slept)
    assert 60 <= now[0] < 71
    assert len({round(seconds / 0.05 / 2**n, 6) for n, seconds in enumerate(slept[:6])}) > 3


def test_a_client_that_waits_says_for_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, Any]] = []

    def log(event: str, level: int = 0, **facts: Any) -> None:
        said.append((event, facts.get("error")))

    monkeypatch.setattr(http_client, "log", log)
    with served(tmp_path) as one:
        usual, first, second = one.desk.limits, one.learner(0), one.learner(1)
        for learner in (first, second):
            learner.predict()
            learner.observe(0, [0.5, 0.5, 0.5])
        assert said == []
        one.desk.limits = replace(usual, wait=0.05)
        for _ in range(2):
            with pytest.raises(NoReply):
                first.predict(tries=3)
        one.desk.limits = usual
        assert said == [("waiting for other clients", None)]
        url, link = f"http://{one.host}", HttpLink(Route("http://127.0.0.1:9", proxy=""), None)
        monkeypatch.setattr(link, "_sleep", lambda seconds: None)
        said.clear()
        for _ in range(8):
            assert link.call(b"M") is None
        assert said == [("cannot reach the server", "ConnectionRefusedError")]
        link.route = Route(url, proxy="")
        assert link.call(wire.MANIFEST) is not None
        link.close()
        assert said[1:] == [("reached the server again", None)]


def test_a_waiting_client_is_woken_or_sent_home(tmp_path: Path) -> None:
    with served(tmp_path) as one:
        first, second = one.learner(0), one.learner(1)
        for learner in (first, second):
            learner.predict()
            learner.observe(0, [0.5, 0.5, 0.5])
        one.desk.limits = replace(one.desk.limits, wait=0.2)
        began, before = time.monotonic(), one.desk.counts.replies[204]
        assert not first.client.advance()  # 204 after 0.2 s: the other one is silent
        assert time.monotonic() - began >= 0.2
        assert one.desk.counts.replies[204] == before + 1
        answered = threading.Thread(target=first.predict, daemon=True)
        answered.start()
        second.predict()
        answered.join(PATIENCE)
        assert not answered.is_alive()
        assert first.client.exchange == second.client.exchange == 1


def test_a_client_that_calls_twice_waits_once(tmp_path: Path) -> None:
    with served(tmp_path, limits={"wait": 10 * PATIENCE}) as one:
        learner = one.learner(0)
        learner.predict()
        learner.observe(0, [0.5, 0.5, 0.5])
        waiting = wire.pack(wire.Ask(0, 1), one.study.study, learner.client.account.key)
        threads = [
            threading.Thread(target=one.ask, args=("POST", MESSAGES, waiting)) for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        until(lambda: sum(thread.is_alive() for thread in threads) == 1, "the end of all but one")
        assert one.desk.waiting == 1
        one.stop()  # and the last one is sent home at the end
        for thread in threads:
            thread.join(PATIENCE)
        assert one.desk.counts.replies[204] == 6


def test_bodies_that_are_too_large_too_slow_or_cut_off(tmp_path: Path) -> None:
    def raw(data: bytes) -> bytes:
        """What comes back until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", one.port), PATIENCE) as connection:
            connection.sendall(data)
            found = b""
            with suppress(ConnectionError):
                while more := connection.recv(4096):
                    found += more
            return found

    head = b"POST " + MESSAGES.encode() + b" HTTP/1.1\r\nHost: a\r\n"
    with served(tmp_path / "a", limits={"body": 1000, "slow": PATIENCE}) as one:
        status, _, text = one.ask("POST", MESSAGES, b"x" * 1001)
        assert (status, wire.read_refusal(text).code) == (413, wire.Code.SIZE)
        assert b" 413 " in raw(head + b"Content-Length: 99999999999\r\n\r\n")
        assert b" 413 " in raw(
            head + b"Transfer-Encoding: chunked\r\n\r\n" + 3 * (b"200\r\n" + 512 * b"y" + b"\r\n")
        )
        assert b" 400 " in raw(head + b"Content-Length: -5\r\n\r\n")
        assert raw(b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")
        assert one.ask("GET", "/nothing")[0] == 404
        assert one.ask("GET", MESSAGES)[0] == 405
        assert one.study.exchange == 0
    with served(tmp_path / "b", limits={"slow": 1.0}) as one:
        assert b" 408 " in raw(head + b"Content-Length: 10\r\n\r\nabc")
        began = time.monotonic()
        assert raw(b"POST / HTTP/1.1\r\nHost: ") == b""  # slow headers are cut off
        assert time.monotonic() - began > 0.9


def test_connections_of_one_address_are_limited(tmp_path: Path) -> None:
    with served(tmp_path, limits={"connections": 3}) as one:
        held = [socket.create_connection(("127.0.0.1", one.port)) for _ in range(3)]
        with pytest.raises(OSError):
            one.ask("GET", "/healthz")
        held[0].close()

        def answers() -> bool:
            with suppress(OSError):
                return one.ask("GET", "/healthz")[0] == 200
            return False

        until(answers, "the end of a connection at the server")
        for connection in held:
            connection.close()


def test_metrics_show_no_fine_times(tmp_path: Path) -> None:
    with served(tmp_path) as one:
        one.desk.counts.seconds = 0.123456
        _, _, text = one.ask("GET", "/metrics")
        assert b"hedgerow_writer_seconds_total 0.1\n" in text
        found = re.search(rb"hedgerow_cpu_seconds_total ([0-9.]+)\n", text)
        assert found is not None
        assert re.fullmatch(rb"[0-9]+(\.[0-9])?", found[1])


def test_health_and_metrics(tmp_path: Path) -> None:
    with served(tmp_path) as one:
        assert one.ask("GET", "/healthz")[2] == b"ok\n"
        assert one.ask("GET", "/readyz")[0] == 200
        assert one.ask("POST", MESSAGES, b"what?")[0] == 400
        status, headers, text = one.ask("GET", "/metrics")
        assert (status, headers["Content-Type"][:10]) == (200, "text/plain")
        lines = text.decode().splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        assert values["hedgerow_exchange"] == "0"
        assert values['hedgerow_clients{state="expected"}'] == "2"
        assert values['hedgerow_refusals_total{code="form"}'] == "1"
        assert all(
            re.fullmatch(r'hedgerow_\w+(\{(,?\w+="[\w.+]+")+\})? [0-9.e+-]+', f"{k} {v}")
            for k, v in values.items()
        )
        assert one.ask("POST", MESSAGES, wire.MANIFEST)[2][:1] == wire.MANIFEST
    assert not one.desk.ready


def test_a_failed_commit_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path) as one:

        def fail(requests: object) -> None:
            raise LedgerFailed("secret 0.7351")

        monkeypatch.setattr(one.study, "take", fail)
        status, headers, text = one.ask("POST", MESSAGES, b"M")
        assert (status, headers["Content-Type"]) == (503, MEDIA)
        assert b"0.7351" not in text
        one.thread.join(PATIENCE)
        assert not one.thread.is_alive()
    assert isinstance(one.desk.fatal, LedgerFailed)


def test_a_port_in_use_is_named() -> None:
    with (
        listen("127.0.0.1", 0) as taken,
        pytest.raises(InvalidValue, match=r"already in use\. Choose another"),
    ):
        listen("127.0.0.1", taken.getsockname()[1])


def test_a_timer_closes_an_exchange_without_late_clients(tmp_path: Path) -> None:
    """The other client has said hello, because the opening broadcast counts all."""
    choices = {"epsilon": "1", "every": 2, "early": False}
    with served(
        tmp_path,
        limits={"wait": 0.5, "close_after": 0.1},
        algorithm="private_hedge",
        choices=choices,
        closing="fold",
    ) as one:
        first, second = one.learner(0), one.learner(1)
        assert second.predict() is not None
        assert one.study.late == 0
        for at in range(3):  # the exchange before the third round closes without the second client
            first.predict()
            first.observe(at, [0.0, 0.5, 1.0])
        assert one.study.exchange == 1
        first.close()
        second.close()


def test_an_answer_is_one_packet_that_does_not_wait(tmp_path: Path) -> None:
    """Two packets wake the client twice; the second waits 40 ms if the system holds it back."""
    with served(tmp_path) as one:
        request = f"POST {MESSAGES} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n".encode()
        host, port = one.host.split(":")
        with socket.create_connection((host, int(port))) as connection:
            for _ in range(20):
                connection.sendall(request + wire.MANIFEST)
                answer = connection.recv(2**16)
                assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
                assert answer.partition(b"\r\n\r\n")[2][:1] == wire.MANIFEST
    with listen("127.0.0.1", 0) as listening:
        address = listening.getsockname()
        with socket.create_connection(address), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_idle_clients_do_not_delay_the_end(tmp_path: Path) -> None:
    """A client that waits for its application does not confirm the end of TLS."""
    files = make_certificates(tmp_path)
    with served(tmp_path / "a", Tls(files["server"], files["server_key"])) as one:
        link = one.link(url=f"https://{one.host}", ca=files["ca"])
        learner = one.learner(0, link)
        learner.predict()
        one.links.clear()  # it stays connected
        one.server.config.timeout_graceful_shutdown = 10 * int(PATIENCE)
        one.stop()  # within less
        learner.close()
        link.close()


def test_a_slow_client_gets_its_whole_last_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Also where the connection is closed after it, as old proxies ask for."""
    size = 2**24  # more than the system keeps

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(size)})

    options: dict[str, Any] = {"log_level": "error", "lifespan": "off"}
    quiet = Desk(lambda: pytest.fail("no study is opened"), Limits(2**20))
    server = uvicorn.Server(uvicorn.Config(answer, http=protocol({"": quiet}), **options))
    with listen("127.0.0.1", 0) as listening:
        serving = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        serving.start()
        with socket.create_connection(listening.getsockname()) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            time.sleep(2 * LINGER)
            read = sum(map(len, iter(lambda: connection.recv(2**20), b"")))
        time.sleep(2 * LINGER)
        server.should_exit = True
        serving.join()
    assert read > size
    assert not caplog.records


def test_a_server_that_waits_for_a_hello_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log, at /readyz and on the page, until the hello has come."""
    caplog.set_level("INFO", "hedgerow.deployment")
    with served(tmp_path, parts=(live_page,)) as one:
        assert one.ask("GET", "/readyz")[2] == b"ready\n"
        one.study._proven = False  # as after a start with a ledger that has answers
        assert one.ask("GET", "/manifest.json")[0] == 200  # a batch
        awaited = b"a hello is awaited from client-000, client-001"
        assert awaited in one.ask("GET", "/readyz")[2]
        assert awaited in one.ask("GET", "/")[2]
        assert [record.message for record in caplog.records] == ["no exchange is answered"]
        play([one.learner(0), one.learner(1)], LOSSES)
        assert one.ask("GET", "/readyz")[2] == b"ready\n"
        assert "the study can go on" in [record.message for record in caplog.records]
        assert one.ask("GET", "/healthz")[0] == 200


def test_the_health_check_of_an_old_copy_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A client has shown an answer that this ledger does not have, so the study cannot go on."""
    caplog.set_level("INFO", "hedgerow.deployment")
    with served(tmp_path, parts=(live_page,)) as one:
        one.study._proven = False
        assert one.ask("GET", "/manifest.json")[0] == 200  # a batch
        one.study.old = True
        assert one.ask("GET", "/manifest.json")[0] == 200
        assert one.ask("GET", "/healthz")[0] == 503
        assert b"this ledger is an old copy" in one.ask("GET", "/readyz")[2]
    said = [getattr(record, "facts", {}).get("because") for record in caplog.records]
    assert [text for text in said if text and "old copy" in text]


BODY = b"what?"
USUAL = b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n" + BODY
WAYS = {
    "whole": [USUAL],
    "in parts": [USUAL[:30], USUAL[30:60], USUAL[60:]],
    "two in one packet": [USUAL + USUAL],
    "one and a half": [USUAL + USUAL[:40], USUAL[40:]],
    "with another header": [USUAL.replace(b"Host", b"X-Other: b\r\nHost")],
    "another header and then as usual": [USUAL.replace(b"Host", b"Cookie: b\r\nHost"), USUAL],
    "in chunks": [
        b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhat?\r\n0\r\n\r\n"
    ],
    "closed after it": [USUAL.replace(b"Host", b"Connection: close\r\nHost")],
}
WRONG = {
    "two lengths": USUAL.replace(b"Host", b"Content-Length: 4\r\nHost"),
    "an empty length and another": USUAL.replace(b"Host", b"Content-Length: \r\nHost"),
    "an empty host and another": USUAL.replace(b"Host", b"Host: \r\nHost"),
    "a length and chunks": USUAL.replace(b"Host", b"Transfer-Encoding: chunked\r\nHost"),
    "a space before the colon": USUAL.replace(b"Host:", b"Host :"),
    "no host": USUAL.replace(b"Host: a\r\n", b""),
    "a negative length": USUAL.replace(b": 5", b": -5"),
}


def test_every_way_to_write_a_message_is_read_alike(tmp_path: Path) -> None:
    """The short way for usual messages takes nothing that the parser of HTTP would refuse."""
    refusal = wire.pack_refusal(
        wire.Code.FORM, "These bytes are not a message that is expected here."
    )
    head = USUAL[: -len(BODY)]
    assert http_connection._usual(head) == (MESSAGES.encode(), len(BODY))
    for wrong in (head.replace(b"POST", b"post"), head.replace(b"HTTP", b"http")):
        assert http_connection._usual(wrong) == (b"", 0)  # the longer way decides
    with served(tmp_path) as one:
        for name, packets in WAYS.items():
            wanted = b"".join(packets).count(BODY)
            with socket.create_connection(("127.0.0.1", one.port), PATIENCE) as connection:
                got = b""
                for packet in packets:
                    connection.sendall(packet)
                    time.sleep(0.02)
                while got.count(refusal) < wanted:
                    found = connection.recv(4096)
                    assert found, (name, got)
                    got += found
                assert got.count(b"HTTP/1.1 400") == wanted, name
        for name, packet in WRONG.items():
            with socket.create_connection(("127.0.0.1", one.port), PATIENCE) as connection:
                connection.sendall(packet)
                got = b"".join(iter(lambda: connection.recv(4096), b""))
                assert got.startswith(b"HTTP/1.1 4"), name
                assert refusal not in got, name
        assert one.ask("GET", "/healthz")[0] == 200

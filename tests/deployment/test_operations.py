"""What an operator sees: the log, health, the operations port, metrics, alarms and the dashboard."""

from __future__ import annotations

import http.client
import json
import logging
import re
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import promql_parser
import pytest
import yaml

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment import desk, wire
from hedgerow.deployment.database import LedgerFailed, open_database
from hedgerow.deployment.http_client import MESSAGES, HttpLink, Route, Unreachable
from hedgerow.deployment.http_server import Tls
from hedgerow.deployment.logs import place_of
from hedgerow.deployment.metrics import of_client
from hedgerow.deployment.pages.live import live_page
from support.paths import ROOT
from support.proxy import make_certificates
from support.served import play, served
from support.waiting import PATIENCE, until

DEPLOY = ROOT / "deploy"
LOSSES = np.random.default_rng(0).integers(0, 2**20, (6, 2, 3)) / 2**20


def events(log: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    return [(r.getMessage(), getattr(r, "facts", {})) for r in log.records if hasattr(r, "facts")]


def test_the_log_of_a_study(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hedgerow.deployment")
    with served(tmp_path) as one:
        play([one.learner(i) for i in (0, 1)], LOSSES)
        for _ in range(3):
            one.ask("POST", MESSAGES, b"what?")
    found = events(caplog)
    names = [name for name, _ in found]
    assert names.count("joined") == names.count("done") == 2
    assert names.count("hello") >= 2
    exchanges = [facts["exchange"] for name, facts in found if name == "exchange"]
    assert exchanges == list(range(1, one.study.exchange + 1))
    refused = [facts for name, facts in found if name == "refused" and facts["code"] == "form"]
    (first,) = refused  # three times the same within a minute
    assert first == {
        "code": "form",
        "because": "These bytes are not a message that is expected here.",
        "client": None,
    }
    codes = {facts["code"] for name, facts in found if name == "refused"}
    assert codes == {"form"}, "clients that join are not refused"
    assert {*one.desk.counts.refusals} == codes
    assert names[-2:] == ["stopping", "stopped"]
    assert not re.search(r"0\.\d{4}", caplog.text)  # no loss


def test_a_full_disk_is_named_without_its_text(tmp_path: Path) -> None:
    ledger = open_database(tmp_path / "x.db", "CREATE TABLE IF NOT EXISTS t(a BLOB);")
    ledger.execute("PRAGMA max_page_count = 3")
    with pytest.raises(LedgerFailed) as caught, ledger.transaction("test"):
        ledger.execute("INSERT INTO t VALUES(zeroblob(100000))")
    assert place_of(caught.value)["because"] == "SQLITE_FULL"


def test_a_wrong_key_of_a_certificate_is_named(tmp_path: Path) -> None:
    """OpenSSL numbers its errors itself; this one looked like a stale file handle."""
    files = make_certificates(tmp_path)
    with pytest.raises(InvalidValue, match="KEY_VALUES_MISMATCH") as caught:
        Tls(files["server"], files["renewed_key"]).check()
    assert place_of(caught.value)["because"] == "KEY_VALUES_MISMATCH"


def test_an_old_ledger_is_neither_healthy_nor_ready(tmp_path: Path) -> None:
    with served(tmp_path) as one:
        assert one.ask("GET", "/readyz")[0] == one.ask("GET", "/healthz")[0] == 200
        one.study.old = True  # as after the hello of a client that has seen more
        one.ask("POST", MESSAGES, wire.MANIFEST)
        assert one.ask("GET", "/healthz")[0] == 503
        status, _, text = one.ask("GET", "/readyz")
        assert status == 503
        assert b"old copy" in text
        assert b"hedgerow_old_ledger 1\n" in one.ask("GET", "/metrics")[2]


def test_a_silent_helper_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All clients have uploaded, and nothing can be answered without the sum of h1."""
    caplog.set_level(logging.INFO, "hedgerow.deployment")
    secure: dict[str, Any] = {"algorithm": "walk_leader", "choices": {"trust": "distributed"}}
    secure |= {"clients": 3, "helpers": 2, "colluding": 1, "seed": None, "budget": "100"}
    with served(tmp_path, limits={"wait": 0.1}, parts=(live_page,), **secure) as one:
        learners = [one.learner(client) for client in range(3)]
        while one.study.missing:
            for learner in learners:
                if learner.round == 0 and learner.client.advance():
                    learner.predict()
                    learner.observe(0, np.zeros(3))
                else:
                    learner.client.advance()
        slow, silent = one.helper("h0"), one.helper("h1")
        while "h0" in one.study.awaited:
            slow.advance()
        assert one.ask("GET", "/readyz")[2] == b"ready\n"  # h1 has had no time yet
        monkeypatch.setattr(desk, "SILENT", 0.0)
        learners[0].client.advance()  # clients that wait call again
        because = "all clients have uploaded, and a sum is awaited from h1"
        until(lambda: one.ask("GET", "/readyz")[2] != b"ready\n", "the note")
        assert one.ask("GET", "/readyz")[::2] == (200, f"ready, but {because}\n".encode())
        assert one.ask("GET", "/healthz")[0] == 200
        found = values(one.ask("GET", "/metrics")[2].decode())
        assert [found[f'hedgerow_helper_awaited{{helper="h{n}"}}'] for n in (0, 1)] == [0, 1]
        assert found["hedgerow_stuck"] == 1
        assert b"exchange 1 needs the helper h1." in one.ask("GET", "/")[2]
        while one.study.awaited:
            silent.advance()
        assert one.study.exchange == 1
        until(lambda: one.ask("GET", "/readyz")[2] == b"ready\n", "the note")
        for helper in (slow, silent):
            helper.close()
        for learner in learners:
            learner.close()
    said = [(name, facts.get("because")) for name, facts in events(caplog)]
    assert said.index(("no exchange is answered", because)) < said.index(
        ("the study can go on", None)
    )


def values(text: str) -> dict[str, float]:
    rows = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in rows}


def test_the_operations_port_needs_no_certificate(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    tls = Tls(files["server"], files["server_key"], files["ca"])
    with served(tmp_path / "a", tls, operations=True) as one:
        for path in ("/healthz", "/readyz"):
            assert one.ask("GET", path, port=one.operations)[0] == 200
        found = values(one.ask("GET", "/metrics", port=one.operations)[2].decode())
        assert found["hedgerow_ready"] == 1
        assert found["hedgerow_certificate_expiry_timestamp_seconds"] > time.time()
        assert found["hedgerow_ledger_bytes"] > 4096
        for path in ("/", MESSAGES, "/manifest.json"):  # nothing else is there
            assert one.ask("GET", path, port=one.operations)[0] == 404
        assert one.ask("POST", MESSAGES, b"M", port=one.operations)[0] in (404, 405)
    with pytest.raises(OSError, match="refused"):
        one.ask("GET", "/healthz", port=one.operations)


def test_a_histogram_and_the_last_exchange(tmp_path: Path) -> None:
    with served(tmp_path) as one:
        before = values(one.ask("GET", "/metrics")[2].decode())
        assert "hedgerow_last_exchange_timestamp_seconds" not in before
        play([one.learner(i) for i in (0, 1)], LOSSES)
        time.sleep(0.3)
        found = values(one.ask("GET", "/metrics")[2].decode())
    assert abs(found["hedgerow_last_exchange_timestamp_seconds"] - time.time()) < 60
    buckets = [v for k, v in found.items() if k.startswith("hedgerow_batch_seconds_bucket")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == found["hedgerow_batch_seconds_count"] == found["hedgerow_batches_total"]


def used(expression: str) -> set[str]:
    """The metrics of an expression, which must be valid."""
    promql_parser.parse(expression)
    return set(re.findall(r"hedgerow_\w+", expression))


def test_alarms_and_dashboard_use_metrics_that_exist(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    with served(tmp_path / "a", Tls(files["server"], files["server_key"]), operations=True) as one:
        links = [one.link(url=f"https://{one.host}", ca=files["ca"]) for _ in (0, 1)]
        learners = [one.learner(i, link) for i, link in enumerate(links)]
        one.ask("POST", MESSAGES, b"what?", port=one.operations)
        links[0].call(b"what?")
        play(learners, LOSSES)
        time.sleep(0.3)
        text = one.ask("GET", "/metrics", port=one.operations)[2].decode()
        text += of_client(learners[0])
    known = {re.match(r"\w+", name)[0] for name in values(text)}  # type: ignore[index]
    (group,) = yaml.safe_load((DEPLOY / "alarms.yml").read_text())["groups"]
    wanted = {name for rule in group["rules"] for name in used(rule["expr"])}
    for rule in group["rules"]:
        needed = {"alert", "expr", "labels", "annotations"}
        assert needed <= set(rule) <= {*needed, "for"}
        assert rule["annotations"]["summary"]
    panels = json.loads((DEPLOY / "dashboard.json").read_text())["panels"]
    shown = {name for panel in panels for row in panel["targets"] for name in used(row["expr"])}
    assert wanted | shown <= known
    assert len(wanted) >= 12
    with pytest.raises(ValueError, match="inside brackets"):
        promql_parser.parse("rate(hedgerow_requests_total[5m")


def test_a_closed_connection_over_tls_logs_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = make_certificates(tmp_path)
    context = ssl.create_default_context(cafile=str(files["ca"]))
    with served(tmp_path / "a", Tls(files["server"], files["server_key"])) as one:
        for _ in range(2):
            connection = http.client.HTTPSConnection("localhost", one.port, context=context)
            connection.request("GET", "/healthz", headers={"Connection": "close"})
            assert connection.getresponse().status == 200
            time.sleep(0.8)  # longer than LINGER
            connection.close()
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


# Certificates


def test_an_expired_certificate_is_refused_at_the_start_and_named_at_a_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = make_certificates(tmp_path)
    tls = Tls(files["expired"], files["expired_key"])
    with pytest.raises(InvalidValue, match=r"expired on 20.* no client would accept it\. Renew"):
        tls.check()
    with served(tmp_path / "a", tls) as one:  # as if it had expired while the server ran
        link = HttpLink(Route(f"https://{one.host}", files["ca"], proxy=""), 600.0)
        with pytest.raises(Unreachable, match=r"has expired, or the clock.* Ask the operator"):
            link.call(b"M")
    said = [name for name, _ in events(caplog)]
    assert "the certificate has expired" in said
    assert "the certificate expires soon" not in said


def test_a_renewed_certificate_is_taken_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = make_certificates(tmp_path)
    caplog.set_level(logging.INFO, "hedgerow.deployment")

    def shown(port: int) -> str:
        return ssl.get_server_certificate(("127.0.0.1", port))

    with served(tmp_path / "a", Tls(files["server"], files["server_key"])) as one:
        link = one.link(url=f"https://{one.host}", ca=files["ca"])
        assert link.call(b"M")  # stays connected
        first = shown(one.port)
        for new, taken in (("expired", False), ("renewed", True)):
            for end in ("", "_key"):
                files[f"server{end}"].write_bytes(files[f"{new}{end}"].read_bytes())
            one.server.renew()  # as SIGHUP does
            assert (shown(one.port) != first) is taken
        assert shown(one.port) == files["renewed"].read_text()
        assert link.call(b"M")
    said = [name for name, _ in events(caplog)]
    assert said.count("the certificate was not renewed") == 1
    assert said.count("the certificate was renewed") == 1
    assert "the certificate expires soon" in said  # those of tests are valid for a day


def test_sighup_renews_and_sigterm_ends(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    text = """
[algorithm]
name = "sparse_vector"
[setting]
experts = 3
horizon = 9
[clients]
north = "{}"
[server]
port = 0
certificate = "server.pem"
certificate_key = "server.key"
""".format(64 * "a")
    (tmp_path / "study.toml").write_text(text)
    command = [sys.executable, "-m", "hedgerow", "serve", tmp_path / "study.toml"]
    command += ["--folder", tmp_path / "server"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any('"the certificate expires soon"' in line for line in lines)  # it runs
        files["server"].write_bytes(files["renewed"].read_bytes())
        files["server_key"].write_bytes(files["renewed_key"].read_bytes())
        process.send_signal(signal.SIGHUP)
        assert any('"the certificate was renewed"' in line for line in lines)
        process.terminate()
        assert process.wait(PATIENCE) == 0

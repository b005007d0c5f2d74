"""How applications and operators use a deployment: lines, a local port, configuration, commands."""

from __future__ import annotations

import http.client
import io
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hedgerow as hr
from hedgerow.cli import client as client_command
from hedgerow.cli import serve as serve_command
from hedgerow.core.errors import Interrupted, InvalidValue
from hedgerow.deployment import application, launching, logs
from hedgerow.deployment.account import Account, study_folder
from hedgerow.deployment.application import Application, Port, answer_lines, replied
from hedgerow.deployment.client import Distrusted, StudyClient
from hedgerow.deployment.config import from_table, server_options
from hedgerow.deployment.database import LedgerFailed
from hedgerow.deployment.home import Home, keep_route
from hedgerow.deployment.http_client import Route
from hedgerow.deployment.http_server import listen
from hedgerow.deployment.serving import open_study
from support.command import Command
from support.paths import ROOT
from support.served import served
from support.simulated import small_study
from support.waiting import PATIENCE

TABLE: dict[str, Any] = {
    "title": "Two wards",
    "algorithm": {"name": "sparse_vector", "epsilon": 1.0},
    "setting": {"experts": 3, "horizon": 6},
    "clients": {"north": "1" * 64, "south": "2" * 64},
}


def test_every_line_gets_one_line(tmp_path: Path) -> None:
    study = small_study(tmp_path, clients=1, experts=3, horizon=2)
    lines = [
        '{"do": "predict"}',
        "",
        '{"do": "observe", "round": 0, "losses": [0, 0.5, 1]}',
        "not json",
        '{"do": "forget"}',
        '{"do": "status"}',
        '{"round": 1, "losses": [0, 0.5, 1]}',
        "{}",
    ]
    out = io.StringIO()
    answer_lines(Application(study.learner(0)), lines, out)
    replies = [json.loads(line) for line in out.getvalue().splitlines()]
    assert replies[0] == {"round": 0, "play": 0, "over": False}
    assert replies[1] == {"round": 1, "over": False}
    assert replies[2] == {"error": "Expected one JSON object in one line."}
    assert replies[3]["error"].startswith("Unknown request 'forget'")
    assert (replies[4]["round"], replies[4]["client"]) == (1, "client-000")
    assert replies[4]["experts"] == 3
    assert replies[5] == {"round": 2, "over": True}
    last = int(study.learner(0).client.plays()[-1])
    assert replies[6] == {"round": 2, "play": last, "over": True}  # the last play goes on
    assert study.running_server().over
    study.close()


def test_the_end_of_a_client_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """By its type: an application may hide the error from its operator."""

    def distrusting(request: Any) -> dict[str, Any]:
        raise Distrusted("The server lies.")

    assert replied(distrusting, "{}") == (409, {"error": "The server lies."})
    said = [(record.message, vars(record)["facts"]["error"]) for record in caplog.records]
    assert said == [("nothing more is released", "Distrusted")]


def test_a_port_for_applications_on_this_machine(tmp_path: Path) -> None:
    study = small_study(tmp_path, clients=1, experts=3, horizon=3)
    port = Port(Application(study.learner(0)), 0)
    thread = threading.Thread(target=port.serve, daemon=True)
    thread.start()

    def ask(method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port.server_port, timeout=PATIENCE)
        sent = {"Authorization": f"Bearer {port.token}", **headers}
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        answer = connection.getresponse()
        found = answer.status, json.loads(answer.read())
        connection.close()
        return found

    assert ask("GET", "/predict") == (200, {"round": 0, "play": 0, "over": False})
    losses = {"round": 0, "losses": [0, 0.5, 1]}
    assert ask("POST", "/observe", losses) == (200, {"round": 1, "over": False})
    assert ask("POST", "/observe", losses) == (200, {"round": 1, "over": False})
    assert ask("POST", "/observe", {"round": 1, "losses": [0, 0.5, 9]})[0] == 422
    assert ask("GET", "/status")[1]["round"] == 1
    assert ask("GET", "/healthz") == (200, {"ok": True})
    assert ask("GET", "/other")[0] == 404
    assert ask("POST", "/status")[0] == 404
    assert ask("GET", "/predict", Host="evil.example.org")[0] == 403  # a rebound name
    assert ask("POST", "/observe", losses, Origin="https://evil.example.org")[0] == 403
    assert ask("GET", "/predict", Origin=f"http://localhost:{port.server_port}")[0] == 200
    for foreign in (
        {"Origin": "null"},  # a page in a sandbox
        {"Origin": f"http://localhost:{port.server_port + 1}"},
        {"Sec-Fetch-Site": "cross-site"},  # an image has no origin
        {"Host": f"evil.example.org:{port.server_port}"},
    ):
        assert ask("POST", "/observe", losses, **foreign)[0] == 403
        assert ask("GET", "/predict", **foreign)[0] == 403
    for stranger in ("", "Bearer", f"Bearer {port.token}x", f"Basic {port.token}"):
        assert ask("GET", "/predict", Authorization=stranger)[0] == 401
        assert ask("POST", "/observe", losses, Authorization=stranger)[0] == 401
    with pytest.raises(InvalidValue, match="at least 16 letters"):
        Port(lambda request: {}, 0, token="short")
    with pytest.raises(InvalidValue, match=r"already in use\. Choose another --port"):
        Port(lambda request: {}, port.server_port)
    port.shutdown()
    thread.join(PATIENCE)
    study.close()


def test_no_body_is_read_before_the_token_is_checked() -> None:
    """A stranger who announces 16 MiB is refused at once, and sends none of it."""
    port = Port(lambda request: {}, 0)
    thread = threading.Thread(target=port.serve, daemon=True)
    thread.start()
    for token, length, expected in (
        ("x" * 16, str(2**24), b"HTTP/1.1 401 "),
        (port.token, "9" * 5000, b"HTTP/1.1 413 "),
    ):
        head = f"POST /observe HTTP/1.1\r\nHost: 127.0.0.1:{port.server_port}\r\n"
        head += f"Authorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n"
        with socket.create_connection(
            ("127.0.0.1", port.server_port), timeout=PATIENCE
        ) as stranger:
            stranger.sendall(head.encode())
            assert stranger.recv(2**16).startswith(expected)
    port.shutdown()
    thread.join(PATIENCE)


def test_a_client_that_cannot_write_ends() -> None:
    def fail(request: Any) -> dict[str, Any]:
        raise LedgerFailed("the disk is full")

    with pytest.raises(LedgerFailed):
        answer_lines(fail, ['{"do": "predict"}'], io.StringIO())
    port = Port(fail, 0)
    ended: list[BaseException] = []

    def serve() -> None:
        try:
            port.serve()
        except LedgerFailed as error:
            ended.append(error)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    connection = http.client.HTTPConnection("127.0.0.1", port.server_port, timeout=PATIENCE)
    connection.request("GET", "/predict", headers={"Authorization": f"Bearer {port.token}"})
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        connection.getresponse()
    connection.close()
    thread.join(PATIENCE)
    assert len(ended) == 1


def opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A home with one study, whose client does nothing."""
    joined = SimpleNamespace(route=lambda: Route("https://a"), folder=Path())
    learner = SimpleNamespace(round=0, close=lambda: None, client=None)
    monkeypatch.setattr(logs, "start_logs", lambda level: None)
    monkeypatch.setattr(Home, "one", lambda *given: joined)
    monkeypatch.setattr(Home, "open", lambda *given: learner)


def test_an_application_that_hangs_up_may_ask_again() -> None:
    """`predict` can wait for other clients for longer than an application does."""
    asked, gone = threading.Event(), threading.Event()

    def slow(request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "predict":
            asked.set()
            assert gone.wait(PATIENCE)
        return request

    port = Port(slow, 0)
    serving = threading.Thread(target=port.serve)
    serving.start()
    text = f"Host: 127.0.0.1:{port.server_port}\r\nAuthorization: Bearer {port.token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port.server_port)) as waiting:
        waiting.sendall(f"GET /predict HTTP/1.1\r\n{text}".encode())
        assert asked.wait(PATIENCE)
        waiting.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.set()  # the reply goes to nobody
    for _ in range(3):
        connection = http.client.HTTPConnection("127.0.0.1", port.server_port, timeout=PATIENCE)
        connection.request("GET", "/status", headers={"Authorization": f"Bearer {port.token}"})
        assert connection.getresponse().read() == b'{"do": "status"}\n'
        connection.close()
        time.sleep(0.05)
    assert port.failure is None
    port.shutdown()
    serving.join(PATIENCE)


def test_a_failed_ledger_is_worth_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is that of the server; code 2 means that an operator must act."""

    def fail(*given: Any) -> None:
        raise LedgerFailed("the disk is full")

    opened(monkeypatch)
    monkeypatch.setattr(application, "answer_lines", fail)
    assert client_command.run() == 70
    monkeypatch.setattr(Home, "open", fail)  # the disk is still full when it starts again
    assert client_command.run() == 70
    monkeypatch.setattr(serve_command, "_opened", fail)
    config = from_table(TABLE, environ={})
    served = {"": replace(config, options=replace(config.options, port=0))}
    assert serve_command._serve(served, vouch=False, json=True) == 70
    for unit in ("client", "helper", "server"):
        text = (ROOT / "deploy" / f"hedgerow-{unit}.service").read_text()
        assert "\nRestart=on-failure\nRestartPreventExitStatus=2\n" in text


def test_a_client_that_is_stopped_at_its_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    opened(monkeypatch)
    monkeypatch.setattr(Home, "open", _interrupt)
    with pytest.raises(Interrupted, match="Stopped before the first request"):
        client_command.run()


def test_a_request_that_waits_at_the_end_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(application, "log_error", lambda event, error: said.append(event))
    port = Port(lambda request: {}, 0)
    monkeypatch.setattr(port, "serve_forever", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        port.serve()
    port.fail(LedgerFailed("the ledger was closed"))
    assert (said, port.failure) == ([], None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithms": []}, "A file with the key algorithms is a study to simulate"),
        ({"titel": ""}, "Unknown key titel; did you mean 'title'"),
        ({"algorithm": {"epsilon": 1.0}}, r"Expected \[algorithm\] to have a name"),
        ({"setting": {"experts": 3}}, "setting.horizon is missing"),
        ({"setting": {"experts": 3.5, "horizon": 6}}, "Expected setting.experts=3.5"),
        ({"clients": {}}, r"Expected a table \[clients\]"),
        ({"title": 5}, "Expected title=5 to be text"),
        ({"features": "absent clients"}, "Expected features='absent clients' to be a list"),
        ({"server": {"prot": 1}}, "Unknown key server.prot; did you mean 'port'"),
        ({"server": {"port": 70000}}, "Expected port=70000"),
        ({"server": {"certificate": "a.pem"}}, "Give both certificate and certificate_key"),
        ({"server": {"close_after": 600}}, "closing = 'wait' never closes an exchange early"),
    ],
)
def test_a_wrong_configuration_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        from_table({**TABLE, **change}, environ={})


def test_variables_replace_values_of_the_file(tmp_path: Path) -> None:
    table = {"port": 1, "folder": "here", "wait": 3}
    found = server_options(table, tmp_path, {"HEDGEROW_SERVER_PORT": "8443", "OTHER": "x"})
    assert (found.port, found.folder, found.wait) == (8443, str(tmp_path / "here"), 3.0)
    with pytest.raises(InvalidValue, match="Expected HEDGEROW_SERVER_PORT='x' to be a number"):
        server_options({}, tmp_path, {"HEDGEROW_SERVER_PORT": "x"})
    with pytest.raises(InvalidValue, match="did you mean 'HEDGEROW_SERVER_PORT'"):
        server_options({}, tmp_path, {"HEDGEROW_SERVER_PROT": "1"})


def test_a_study_cannot_be_changed_once_it_has_begun(tmp_path: Path) -> None:
    config = from_table(TABLE, folder=tmp_path, environ={})
    options = server_options({"folder": "server"}, tmp_path, {})
    first = open_study(config, options)
    first.close()
    again = open_study(config, options)
    assert again.study == first.study
    again.close()
    other = from_table({**TABLE, "setting": {"experts": 3, "horizon": 7}}, environ={})
    with pytest.raises(InvalidValue, match=r"was begun with setting.horizon = 6, now 7"):
        open_study(other, options)


def test_plain_http_for_other_machines_needs_a_word() -> None:
    options = server_options({"host": "0.0.0.0"}, environ={})
    with pytest.raises(InvalidValue, match="without encryption"):
        options.check_encrypted()
    server_options({"host": "localhost"}, environ={}).check_encrypted()
    told = {"HEDGEROW_SERVER_UNENCRYPTED": "true"}
    server_options({"host": "0.0.0.0"}, environ=told).check_encrypted()
    with pytest.raises(InvalidValue, match="to be true or false"):
        server_options({}, environ={"HEDGEROW_SERVER_UNENCRYPTED": "yes"})


def test_a_port_in_use_makes_no_study(tmp_path: Path) -> None:
    """The file can still be changed afterwards."""
    config = from_table({**TABLE, "server": {"folder": "server"}}, "", tmp_path, environ={})
    with closing(listen("127.0.0.1", 0)) as busy:
        options = replace(config.options, port=busy.getsockname()[1])
        with pytest.raises(InvalidValue, match="Cannot listen"):
            serve_command._serve({"": replace(config, options=options)}, vouch=False, json=True)
    assert not (tmp_path / "server").exists()


def test_routes_are_kept_beside_ledgers(tmp_path: Path) -> None:
    home, digest = Home(tmp_path), bytes(32)
    folder = study_folder(home.place("ward"), digest)
    folder.mkdir(parents=True)
    plain = Route("http://a:1", unencrypted=True)
    keep_route(folder, plain)
    assert home.one().route() == plain
    route = Route("https://a:1", ca=tmp_path / "ca.pem", proxy="http://u:p@proxy:3128")
    keep_route(folder, route)
    assert home.one().route() == route
    assert (folder / "route.json").stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidValue, match="other has not joined a study"):
        home.one("other")
    keep_route(_made(study_folder(home.place("wing"), digest)), route)
    with pytest.raises(InvalidValue, match="Several studies were joined"):
        home.one()
    with pytest.raises(InvalidValue, match="to be a name"):
        home.place("../up")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def test_commands_of_a_client(
    hedgerow: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEDGEROW_CLIENT_HOME", str(tmp_path / "home"))
    assert "no accounts" in hedgerow("client", "ledger").out
    made = hedgerow(
        "client", "init", "--data", "client-000", "--budget", "2.0", "--unit", "event", "--json"
    )
    assert made.document()["budget"] == {"epsilon": "2.0"}
    again = hedgerow("client", "init", "--data", "client-000", "--budget", "3", "--unit", "event")
    assert (again.code, "already holds an account" in again.err) == (2, True)
    assert (
        "Expected 'x' to be a decimal"
        in hedgerow("client", "init", "--data", "b", "--budget", "x").err
    )
    silent = hedgerow("client", "init", "--data", "b", "--budget", "2")  # there is nobody to ask
    assert (silent.code, "Say whose secret the budget is for: --unit event" in silent.err) == (
        2,
        True,
    )
    assert "No data set has joined a study" in hedgerow("client", "run").err
    with served(tmp_path / "study", clients=1, seed=None) as one:
        url, key = f"http://{one.host}", one.study.manifest.server
        join = ("client", "join", url, "--data", "client-000", "--server-key")
        wrong = hedgerow(*join, "0" * 64)
        assert f"The manifest is from the server {key}" in wrong.err
        stranger = hedgerow(*join, key, "--yes")
        assert "is not listed in the study" in stranger.err
        known = tmp_path / "study" / "data-client-000"
        known.rename(tmp_path / "home" / "known")
        asked = hedgerow(*join[:4], "known", "--server-key", key)
        assert "join with --yes" in asked.err
        joined = hedgerow(*join[:4], "known", "--server-key", key, "--yes", "--json")
        assert joined.document()["client"] == "client-000"
        lines = '{"do": "predict"}\n{"round": 0, "losses": [0, 0.5, 1]}\n'
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        played = hedgerow("client", "run", "--data", "known")
        assert [json.loads(line)["round"] for line in played.out.splitlines()] == [0, 1]
        learner = hr.open_client("known")
        assert int(learner.predict()) in range(3)
        learner.observe(1, [0, 0.5, 1])
        assert learner.round == 2
        learner.close()
    listed = hedgerow("client", "ledger", "known").out
    assert "epsilon = 1 of 10" in listed
    assert hedgerow("client", "verify").code == 0
    (route,) = (tmp_path / "home").glob("*/studies/*/route.json")
    gone = {**json.loads(route.read_text()), "url": "https://[::1]:9", "ca": "gone.pem"}
    route.write_text(json.dumps(gone))  # a ledger is checked without a way to the server
    assert hedgerow("client", "verify").code == 0
    (tmp_path / "log").write_text(hedgerow("client", "ledger", "known", "--export").out)
    assert "ok, head" in hedgerow("client", "verify", str(tmp_path / "log")).out
    changed = (tmp_path / "log").read_text().replace('"kind": "charge"', '"kind": "gift"')
    (tmp_path / "log").write_text(changed)
    damaged = hedgerow("client", "verify", str(tmp_path / "log"))
    assert (damaged.code, "The log was changed" in damaged.out) == (1, True)


def _interrupt(*given: Any, **more: Any) -> Any:
    raise KeyboardInterrupt


def test_an_interrupted_join_says_what_was_charged(
    hedgerow: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEDGEROW_CLIENT_HOME", str(tmp_path / "home"))
    with served(tmp_path / "study", clients=1, seed=None) as one:
        (tmp_path / "home").mkdir()
        (tmp_path / "study" / "data-client-000").rename(tmp_path / "home" / "known")
        key = one.study.manifest.server
        join = ("client", "join", f"http://{one.host}", "--data", "known", "--server-key", key)
        with monkeypatch.context() as patch:
            patch.setattr(Account, "charge", _interrupt)
            early = hedgerow(*join, "--yes")
        assert (early.code, "Nothing was charged" in early.err) == (130, True)
        with monkeypatch.context() as patch:
            patch.setattr(StudyClient, "advance", _interrupt)
            late = hedgerow(*join, "--yes")
        assert late.code == 130
        assert "but charged: epsilon = 1 of 10" in late.err
        assert "written" not in late.err
        again = hedgerow(*join, "--yes")
        assert "epsilon = 1 of 10" in again.out
        home = Home(tmp_path / "home")
        keep_route(_made(study_folder(home.place("known"), bytes(32))), Route("https://a:1"))
        digest = one.study.manifest.digest.hex()[:16]
        assert f"run --data known --study {digest}" in hedgerow(*join, "--yes").out


def test_a_study_of_records_is_joined_for_people_at_its_price(
    hedgerow: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --convert its price is said and nothing is charged; with it this is charged, once."""
    monkeypatch.setenv("HEDGEROW_CLIENT_HOME", str(tmp_path / "home"))
    with served(tmp_path / "study", clients=1, seed=None) as one:
        (tmp_path / "home" / "known").mkdir(parents=True)
        key = tmp_path / "study" / "data-client-000" / "key.pem"
        key.rename(tmp_path / "home" / "known" / "key.pem")
        unit = ("--budget", "10", "--unit", "person:3")
        assert hedgerow("client", "init", "--data", "known", *unit).code == 0
        given = ("--data", "known", "--server-key", one.study.manifest.server, "--yes")
        join = ("client", "join", f"http://{one.host}", *given)
        refused = hedgerow(*join)
        assert refused.code == 2
        said = " ".join(refused.err.split())
        assert "For that unit the study costs epsilon = 3" in said
        assert "Nothing was charged" in said
        assert "join with --convert, which charges this" in said
        joined, again = (hedgerow(*join, "--convert") for _ in range(2))
        assert "joining charges epsilon = 3" in " ".join(joined.err.split())
        assert "epsilon = 3 of 10" in joined.out
        assert again.out == joined.out
        shown = hedgerow("client", "ledger", "known").out
        assert "converted: 3 times what the study protects" in " ".join(shown.split())


def test_an_interrupted_launch_says_what_is_kept(
    hedgerow: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "launch", _interrupt)
    kept = hedgerow("launch", "study.toml", "--folder", str(tmp_path / "kept"))
    assert (kept.code, f"logs are in {tmp_path / 'kept'}" in kept.err) == (130, True)
    assert "Nothing was kept" in hedgerow("launch", "study.toml").err


def test_a_missing_certificate_is_named_before_the_study_begins(
    hedgerow: Command, tmp_path: Path
) -> None:
    import tomli_w

    (tmp_path / "key.pem").write_text("no key")
    table = {"certificate": "chain.pem", "certificate_key": "key.pem", "port": 0}
    file = tmp_path / "serve.toml"
    file.write_text(tomli_w.dumps({**TABLE, "server": table}))
    missing = hedgerow("serve", str(file))
    assert f"There is no file {tmp_path / 'chain.pem'}" in missing.err
    (tmp_path / "chain.pem").write_text("no certificate")
    wrong = hedgerow("serve", str(file))
    assert f"Cannot use the certificate {tmp_path / 'chain.pem'} with the key" in wrong.err
    assert (missing.out, wrong.out) == ("", "")
    assert not (tmp_path / "server").exists()


def test_two_clients_with_one_key_are_refused(hedgerow: Command, tmp_path: Path) -> None:
    import tomli_w

    file = tmp_path / "serve.toml"
    file.write_text(tomli_w.dumps({**TABLE, "clients": {"north": "1" * 64, "south": "1" * 64}}))
    assert "Two parties have the same key" in hedgerow("serve", str(file), "--check").err


def test_studies_that_cannot_share_a_process_are_refused(hedgerow: Command, tmp_path: Path) -> None:
    import tomli_w

    def written(name: str, **server: Any) -> str:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(tomli_w.dumps({**TABLE, "server": {"port": 0, **server}}))
        return str(file)

    first, alike = written("a.toml"), written("b.toml")
    assert "have the same folder" in hedgerow("serve", first, alike).err
    other = written("c.toml", folder="c", port=8001)
    assert "have the same port, and here it is 0 and 8001" in hedgerow("serve", first, other).err
    for name in ("more/a.toml", "a b.toml"):
        again = written(name, folder="d")
        assert "Give each file another name" in hedgerow("serve", first, again).err
    assert "are for one study" in hedgerow("serve", first, alike, "--vouch").err
    assert not (tmp_path / "server").exists()


def test_nobody_vouches_where_all_clients_say_hello(hedgerow: Command, tmp_path: Path) -> None:
    key = json.dumps("ab" * 32)
    (tmp_path / "study.toml").write_text(
        '[algorithm]\nname = "sparse_vector"\n[setting]\nexperts = 2\nhorizon = 4\n'
        f"[clients]\na = {key}\n[server]\nport = 0\n"
    )
    answer = hedgerow("serve", "study.toml", "--vouch")
    assert (answer.code, "their hellos are proof enough" in answer.err) == (2, True)


def test_an_anchor_that_cannot_be_written_is_named(hedgerow: Command, tmp_path: Path) -> None:
    """With the exit code of a disk that failed, after which systemd starts the server again."""
    (tmp_path / "study.toml").write_text(
        'closing = "drop"\n[algorithm]\nname = "sparse_vector"\n[setting]\nexperts = 2\n'
        f"horizon = 4\n[clients]\na = {json.dumps('ab' * 32)}\n[server]\nport = 0\n"
    )
    (tmp_path / ".server.anchor.part").mkdir()  # so that no anchor can be written
    answer = hedgerow("serve", "study.toml")
    assert (answer.code, "server.anchor could not be written" in answer.err) == (70, True)


def test_a_study_is_checked_before_it_is_served(hedgerow: Command, tmp_path: Path) -> None:
    import tomli_w

    file = tmp_path / "serve.toml"
    file.write_text(tomli_w.dumps(TABLE))
    shown = hedgerow("serve", str(file), "--check", "--json").document()
    assert (shown["clients"], shown["private"]) == (["north", "south"], True)
    named = {"certificate": "none.pem", "certificate_key": "none.key"}
    file.write_text(tomli_w.dumps({**TABLE, "server": named}))
    refused = hedgerow("serve", str(file), "--check")
    assert (refused.code, "none.pem" in refused.err) == (2, True)
    file.write_text(tomli_w.dumps({**TABLE, "algorithm": {"name": "hedge"}}))
    assert "hedge protects nobody" in hedgerow("serve", str(file), "--check").err
    assert "Use `hedgerow launch`" in hedgerow("serve", str(tmp_path / "study.toml")).err


def test_launch_refuses_what_cannot_be_deployed(hedgerow: Command) -> None:
    assert "hedge" in hedgerow("launch", "study.toml", "--algorithm", "hedge").err
    unknown = hedgerow("launch", "study.toml", "--algorithm", "nothing").err
    assert "There is no algorithm 'nothing'; known: 'private', 'hedge'" in unknown


@pytest.mark.long
def test_launch_plays_as_the_simulation(tmp_path: Path) -> None:
    from support.command import STUDY

    (tmp_path / "study.toml").write_text(STUDY)
    command = ["launch", "study.toml", "--clients", "3", "--seed", "5", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "hedgerow", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["same"] is True
    assert set(found["heads"]) == {"server", "client-001", "client-002", "client-003"}


def test_a_client_needs_no_large_library() -> None:
    """Each takes 5 to 40 MB; sampling and guarantees of a pure budget do without them."""
    script = """
import sys, tempfile
from hedgerow.deployment.simulated import small_study
study = small_study(tempfile.mkdtemp(), clients=1, experts=3, horizon=4, seed=None)
study.learner(0).predict()
study.close()
large = {"scipy.special", "scipy.optimize", "mpmath", "pydantic", "pyarrow", "numpy.random"}
sys.exit(str(large & set(sys.modules)) if large & set(sys.modules) else 0)
"""
    subprocess.run([sys.executable, "-c", script], check=True)

"""A server believes nobody: bad bytes, wrong signatures, false uploads, strangers, floods."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.messages import encode
from hedgerow.deployment import veil, wire
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.database import Database, LedgerFailed, hooked
from hedgerow.deployment.keys import load_or_make, signed_by
from hedgerow.deployment.server import StudyServer, Wait
from hedgerow.deployment.wire import Code
from support.simulated import SimulatedStudy, small_study

LOSSES = np.round(np.random.default_rng(3).random((8, 2, 3)) * 2**20) / 2**20


def started(place: Path, **changes: Any) -> SimulatedStudy:
    """Two clients that have played two rounds; an exchange is due."""
    game = {"clients": 2, "experts": 3, "horizon": 8, "choices": {"every": 1}, **changes}
    study = small_study(place, **game)
    for _ in range(10):
        for client in (0, 1):
            learner = study.learner(client)
            if learner.round < 2 and learner.client.advance():
                learner.predict()
                learner.observe(learner.round, LOSSES[learner.round, client])
    return study


@pytest.fixture
def study(place: Path, built_once: None) -> SimulatedStudy:
    return started(place)


def state(server: StudyServer) -> Any:
    """Everything that a refused request must not change."""
    tables = [name for (name,) in server._database.execute("SELECT name FROM sqlite_master")]
    kept = {
        name: server._database.execute(f"SELECT * FROM {name}").fetchall()
        for name in tables
        if not name.startswith(("log_", "sqlite", "late"))
    }
    return kept, server.exchange, dict(server._open), server.chain.head


def refused(server: StudyServer, data: bytes) -> Code:
    (reply,) = server.take([data])
    assert isinstance(reply, bytes)
    return wire.read_refusal(reply).code if reply[:1] == wire.REFUSAL else Code(99)


def upload(client: StudyClient, **changes: Any) -> bytes:
    """An upload as the client would send it, with changes, and signed by it."""
    message, _ = client.algorithm.client.upload(client._game.state, client._mine)
    values = {
        "client": client.index,
        "exchange": client.exchange + 1,
        "seen": client._seen,
        "count": client.chain.count,
        "head": client.chain.head,
        "salt": bytes(16),
        "seals": 0,
        "payload": encode(message),
        **changes,
    }
    session = veil.Session(client.manifest.sealing["server"], client.study, client.index)
    values["payload"] = values.pop("sealed", None) or session.seal(
        values["exchange"], values["payload"]
    )
    return client._pack(wire.Upload(**values))


def test_mutated_requests_change_nothing(study: SimulatedStudy) -> None:
    """Flipped, cut, longer, swapped: refused with a code, and the ledger stays as it is."""
    server, client = study.running_server(), study.learner(0).client
    before, rng = state(server), np.random.default_rng(0)
    real = [
        upload(client),
        client._pack(wire.Ask(0, 0)),
        client._pack(wire.Done(0, 8, client.chain.count, client.chain.head)),
        client._pack(wire.Hello(0, 0, bytes(32), 0, bytes(32), bytes(16), server._boot)),
    ]
    codes = set()
    for _ in range(600):
        data = bytearray(real[rng.integers(len(real))])
        kind, at = rng.integers(4), rng.integers(len(data))
        if kind == 0:
            data[at] ^= 1 << rng.integers(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = rng.bytes(int(rng.integers(1, 40)))
        else:
            data[at:] = rng.bytes(len(data) - int(at))
        codes.add(refused(server, bytes(data)))
    assert state(server) == before
    assert {Code.FORM, Code.STUDY, Code.SIGNATURE} <= codes
    assert Code(1) in codes


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", Code.FORM),
        (b"X" * 200, Code.FORM),
        (b"E\x01text", Code.FORM),
        (b"MM", Code.FORM),
        (b"U" + bytes(wire.LONGEST), Code.SIZE),
        (b"U" + bytes(300), Code.STUDY),
        (b"W" + bytes(300), Code.FORM),
    ],
)
def test_bytes_that_are_no_request(study: SimulatedStudy, data: bytes, code: Code) -> None:
    server = study.running_server()
    before = state(server)
    assert refused(server, data) is code
    assert state(server) == before


def test_strangers_and_wrong_keys(study: SimulatedStudy, place: Path) -> None:
    server, client = study.running_server(), study.learner(0).client
    stranger = load_or_make(place / "stranger.pem")
    before = state(server)
    for message in (wire.Ask(0, 0), wire.Join(0), wire.Ask(7, 0), wire.Ask(2**32 - 1, 0)):
        data = wire.pack(message, study.manifest.digest, stranger)
        assert refused(server, data) is Code.SIGNATURE
    # the key of one client does not sign for another
    assert refused(server, client._pack(wire.Ask(1, 0))) is Code.SIGNATURE
    # a signature for another study is none
    other = wire.pack(wire.Ask(0, 0), bytes(32), client.account.key)
    assert refused(server, study.manifest.digest[:0] + other) is Code.STUDY
    tagged = other[:1] + study.manifest.digest[: wire.TAG] + other[1 + wire.TAG :]
    assert refused(server, tagged) is Code.SIGNATURE
    assert state(server) == before


def test_a_hello_with_an_older_log_is_refused(study: SimulatedStudy) -> None:
    """The server says so itself: it does not rely on the client's software."""
    server, client = study.running_server(), study.learner(0).client
    server.greeted.clear()
    known = server._database.one("SELECT count, head FROM head WHERE client = 0")
    assert known is not None
    before = state(server)

    def hello(**changes: Any) -> bytes:
        values = {
            "client": 0,
            "exchange": client.exchange,
            "seal": client._seal,
            "count": client.chain.count,
            "head": client.chain.head,
            "nonce": bytes(16),
            "boot": server._boot,
            **changes,
        }
        return client._pack(wire.Hello(**values))

    older = client.chain.head_at(known[0] - 1)
    assert refused(server, hello(count=known[0] - 1, head=older)) is Code.OLD_CLIENT
    assert refused(server, hello(count=known[0], head=bytes(32))) is Code.OLD_CLIENT
    assert refused(server, hello(exchange=client.exchange + 1)) is Code.SIGNATURE
    assert refused(server, hello(seal=wire.UNSEALED)) is Code.SIGNATURE
    assert refused(server, hello(exchange=-1)) is Code.FORM
    assert refused(server, hello(boot=wire.UNKNOWN)) is Code.HELLO
    assert state(server) == before
    assert server.greeted == set()
    assert refused(server, upload(client)) is Code.HELLO
    (reply,) = server.take([hello()])
    assert isinstance(reply, bytes)
    assert server.greeted == {0}


def test_the_study_is_signed_by_everyone(study: SimulatedStudy) -> None:
    server, manifest = study.running_server(), study.manifest
    assert signed_by(manifest.server, server.signature, manifest.signed_text)
    assert set(server.signatures()) == set(manifest.clients)
    for name, message in server.signatures().items():
        assert wire.signed(message, manifest.digest, manifest.roster[name])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"exchange": 0}, Code.EXCHANGE),
        ({"exchange": -5}, Code.EXCHANGE),
        ({"exchange": 9}, Code.HELLO),
        ({"seen": bytes(32)}, Code.HELLO),
        ({"count": 2**63}, Code.FORM),
        ({"payload": b""}, Code.VALUE),
        ({"payload": b"HR" + bytes(100)}, Code.VALUE),
        ({"sealed": b"HR" + bytes(2000)}, Code.VALUE),
        ({"sealed": b"HR"}, Code.VALUE),
    ],
)
def test_signed_nonsense_changes_nothing(
    study: SimulatedStudy, changes: dict[str, Any], code: Code
) -> None:
    server, client = study.running_server(), study.learner(0).client
    before = state(server)
    assert refused(server, upload(client, **changes)) is code
    assert state(server) == before


def test_a_payload_of_the_wrong_size_is_refused_without_its_values(study: SimulatedStudy) -> None:
    server, client = study.running_server(), study.learner(0).client
    wide = LossSums(np.array([7_390_851, 1, 2, 3]))
    (reply,) = server.take([upload(client, payload=encode(wide))])
    assert isinstance(reply, bytes)
    assert wire.read_refusal(reply).code is Code.VALUE
    assert b"739" not in reply


@pytest.mark.parametrize("false", [[2**62] * 3, [-(2**62)] * 3, [0, 2**63 - 1, -(2**63)]])
def test_a_false_upload_does_not_end_the_game(
    place: Path, built_once: None, false: list[int]
) -> None:
    """It is moved into the range of honest ones; the others go on."""
    study = started(place, seed=None)
    server, liar, honest = study.running_server(), study.learner(0).client, study.learner(1).client
    exchange = server.exchange + 1
    wrong = LossSums(np.array(false))
    (reply,) = server.take([upload(liar, payload=encode(wrong))])
    assert reply == Wait(exchange, 0)
    kept = server._open[0].upload.losses
    assert ((kept >= 0) & (kept <= 2**20)).all()  # one round
    while honest.exchange < exchange:
        honest.advance()
    assert server.exchange == exchange
    # also after a restart in between
    study.kill("server")
    assert study.running_server().exchange == exchange


def test_an_error_of_the_algorithm_shows_no_sum(
    study: SimulatedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = study.running_server()
    uploads = [study.learner(c).client._release(server.exchange + 1).message for c in (0, 1)]

    class Failing:
        state = server.algorithm.server.state

        def aggregate(self, state: Any, uploads: Any, noise: Any) -> Any:
            raise ValueError(f"the sum is {uploads.losses}")

    object.__setattr__(server.algorithm, "server", Failing())
    with pytest.raises(Exception, match="cannot be combined") as error:
        server.take(uploads)
    assert "sum is" not in str(error.value)
    assert error.value.__suppress_context__
    monkeypatch.undo()


def test_central_sums_are_not_kept(place: Path, built_once: None) -> None:
    """After an exchange the exact sums of a client are gone from the server's file."""
    study = started(place)
    server = study.running_server()
    marks = [study.watch.payloads[client, 1][-24:] for client in (0, 1)]  # three whole numbers
    marks += [study.watch.sealed[client, 1][-24:] for client in (0, 1)]
    assert server.uploads()[0, 1][1] == server.uploads()[1, 1][1] == 1  # both are counted
    assert server._database.execute("SELECT * FROM payload").fetchall() == []
    kept = b"".join(file.read_bytes() for file in study.place("server").glob("server.db*"))
    assert not any(mark in kept for mark in marks)
    server.close()
    study.server = None
    # an upload that waits is there, or a crash would lose it
    client = study.learner(0).client
    for _ in range(4):
        client.advance()
    place_ = 0, client.exchange + 1
    study.running_server().close()
    kept = (study.place("server") / "server.db").read_bytes()
    assert study.watch.sealed[place_][-24:] in kept
    assert study.watch.payloads[place_][-24:] not in kept  # it waits as it came


def test_clients_forget_what_was_answered(place: Path, built_once: None) -> None:
    """The exact sums of an upload leave the client's file once the server has them."""
    study = started(place)
    client = study.learner(0).client
    marks = [study.watch.payloads[0, k][-24:] for k in range(1, client.exchange + 1)]
    assert marks
    waiting = client._release(client.exchange + 1).message
    client.close()
    kept = (study.place(0) / "study.db").read_bytes()
    assert waiting in kept  # not answered yet: it may be sent again
    assert not any(mark in kept for mark in marks)


def test_local_reports_are_kept_for_checks(place: Path, built_once: None) -> None:
    study = small_study(
        place, clients=2, experts=3, horizon=8, algorithm="phased_selection",
        choices={"trust": "local"},
    )  # fmt: skip
    study.play(LOSSES)
    server = study.running_server()
    rows = server._database.execute("SELECT client, exchange FROM payload").fetchall()
    assert sorted(rows) == sorted(server.uploads())


def test_public_shows_no_secret(place: Path, built_once: None) -> None:
    """Only what peers and the public see: no upload, sum, threshold or loss."""
    study = started(place, seed=None)
    server = study.running_server()
    shown = json.dumps(server.public())
    table = json.loads(shown)
    assert set(table) == {
        *("title", "study", "algorithm", "private", "closing", "clients", "exchange", "round"),
        *("horizon", "next_upload_after_rounds", "play", "switches_left", "over", "trouble"),
        *("stuck", "helpers", "entries", "head", "certificate", "weights", "followed"),
    }
    secret = server._state
    for name in secret.__dataclass_fields__:
        value = np.ravel(np.asarray(getattr(secret, name), object))
        for each in value:
            if isinstance(each, float | int) and abs(each) > 100:
                assert str(each) not in shown, name
    assert [client["late"] for client in table["clients"]] == [False, False]
    study.learner(0).client.advance()
    assert [client["late"] for client in server.public()["clients"]] == [False, True]


def test_after_the_last_exchange_no_other_is_announced(place: Path, built_once: None) -> None:
    study = started(place)
    assert study.running_server().public()["next_upload_after_rounds"] is not None
    study.play(LOSSES)
    assert study.running_server().public()["next_upload_after_rounds"] is None


def test_a_batch_is_one_transaction(study: SimulatedStudy, monkeypatch: Any) -> None:
    monkeypatch.setattr(Database, "forget", lambda self, name: None)  # the log is looked at below
    server, exchange = study.running_server(), study.running_server().exchange + 1
    uploads = [study.learner(client).client._release(exchange).message for client in (0, 1)]
    count = server._database.execute("SELECT count(*) FROM log").fetchone()[0]
    file = study.place("server") / "server.db-wal"
    size = file.stat().st_size
    replies = server.take([b"M", uploads[0], b"bad", uploads[1], uploads[0]])
    assert file.stat().st_size > size
    answer = [server.reply(Wait(exchange, client)) for client in (0, 1)]
    assert [replies[at] for at in (1, 3, 4)] == [answer[0], answer[1], answer[0]]
    refusal = replies[2]
    assert isinstance(refusal, bytes)
    assert wire.read_refusal(refusal).code is Code.FORM
    assert server._database.execute("SELECT count(*) FROM log").fetchone()[0] == count + 3
    assert server.take([uploads[0]]) == answer[:1]  # asked again, the same bytes
    assert sqlite3.sqlite_version_info > (3, 24)


def test_exact_sizes_of_messages() -> None:
    """Fixed fields have fixed places, so that other implementations can be written."""
    sizes = {kind.__name__: kind.form.size for kind in wire.KINDS.values()}
    assert sizes == {
        "Join": 4,
        "Hello": 180,
        "Welcome": 108,
        "Ask": 12,
        "Upload": 102,
        "Answer": 12,
        "Done": 52,
        "Farewell": 44,
        "Fetch": 12,
        "Task": 16,
        "Part": 48,
        "Over": 8,
    }


def test_an_exchange_that_was_not_committed_is_not_shown(study: SimulatedStudy) -> None:
    """It would be drawn again after a start: a page that is made meanwhile has to wait."""

    def full(name: str) -> None:
        if name == "server take written":
            raise sqlite3.OperationalError("database or disk is full")

    server = study.running_server()
    before = server.public()["exchange"]
    with hooked(full), pytest.raises(LedgerFailed):
        server.take([upload(study.learner(client).client) for client in (0, 1)])
    assert server.exchange == before + 1
    with pytest.raises(LedgerFailed):
        server.public()
    server.close()
    study.server = None
    assert study.running_server().public()["exchange"] == before

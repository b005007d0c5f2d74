"""Ledgers on bad days: torn logs, full disks, clocks that jump, a second process."""

from __future__ import annotations

import datetime
import json
import multiprocessing
import resource
import shutil
import sqlite3
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow.deployment.account
import hedgerow.deployment.client
import hedgerow.deployment.client_ledger
import hedgerow.deployment.server
import hedgerow.deployment.server_ledger
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.deployment import chain as chains
from hedgerow.deployment import wire
from hedgerow.deployment.account import study_folder
from hedgerow.deployment.chain import Chain, Entry, check_entries, check_lines
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.database import (
    NETWORK,
    Database,
    LedgerFailed,
    LedgerInUse,
    file_system,
    hooked,
    open_database,
)
from hedgerow.deployment.server import StudyServer
from support.deployed import play_until
from support.simulated import SimulatedStudy, small_study
from support.waiting import PATIENCE

NO_LINK: Any = None  # a ledger is only read
LOSSES = np.linspace(0, 1, 12 * 2 * 3).reshape(12, 2, 3)


@pytest.fixture
def study(place: Path, built_once: None) -> SimulatedStudy:
    return small_study(
        place, clients=2, experts=3, horizon=12, choices={"epsilon": "1", "every": 2}, seed=None
    )


# Torn write-ahead logs


def written(log: Path) -> int:
    """How much of a write-ahead log is written; the rest is reserved, and zeros."""
    frames = len(log.read_bytes().rstrip(b"\0")) - 32
    return 32 + 4120 * -(-frames // 4120)  # a header, then pages with a header each


def torn(source: Path, target: Path, file: str, size: int) -> None:
    """A copy of a folder whose write-ahead log was cut."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    with open(target / f"{file}-wal", "r+b") as log:
        log.truncate(size)


def cut_everywhere(
    study: SimulatedStudy,
    who: str | int,
    place: Path,
    step: int,
    first: int,
    look: Callable[[Path], tuple[int, ...]],
) -> list[tuple[int, ...]]:
    """What a ledger shows when its log is cut at every `step` bytes, from the shortest on."""
    file = "server.db" if isinstance(who, str) else "study.db"
    whole = written(study.place(who) / f"{file}-wal")
    image, found = place / "image", []
    shutil.copytree(study.place(who), image)
    for size in [*range(first, whole, step), whole]:
        torn(image, place / "torn", file, size)
        found.append(look(place / "torn"))
    return found


def client_state(account: Path, digest: bytes) -> Callable[[Path], tuple[int, ...]]:
    """What the ledger of a client shows, with a copy of its account from before."""

    def look(folder: Path) -> tuple[int, ...]:
        data = folder.parent / "data"
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(account, data)
        shutil.rmtree(study_folder(data, digest))
        shutil.copytree(folder, study_folder(data, digest))
        try:
            client = StudyClient(study_folder(data, digest), NO_LINK)
        except HedgerowError:
            return ()  # cut before the study was joined
        client.check()
        releases = client.releases()
        assert len(client.plays()) == client.round
        state = (client.chain.count, len(releases), client.exchange, client.round)
        assert sum(done for _, done in releases.values()) == max(0, client.exchange)
        client.close()
        return state

    return look


def server_state(folder: Path) -> tuple[int, ...]:
    try:
        server = StudyServer(folder)
    except HedgerowError:
        return ()
    server.check()
    counted = [at for _, at in server.uploads().values() if at is not None]
    assert len(counted) == 2 * server.exchange
    state = (server.chain.count, len(server.uploads()), server.exchange)
    server.close()
    return state


def never_back(states: list[tuple[int, ...]]) -> bool:
    """Longer logs show later states, one committed state after the other."""
    return all(a <= b for a, b in pairwise(states))


def test_a_torn_release_did_not_happen(study: SimulatedStudy, place: Path) -> None:
    """Cut inside the last transaction: the release is not there; with the last byte it is."""
    play_until(study, LOSSES, 3)
    learner = study.learner(0)
    learner.predict()
    log = study.place(0) / "study.db-wal"
    before = written(log)
    exchange = learner.client.exchange + 1
    before_it = Path(shutil.copytree(study.account(0).folder, place / "before"))
    learner.observe(3, LOSSES[3, 0])  # the last round before an exchange makes the release
    look = client_state(before_it, study.manifest.digest)
    states = cut_everywhere(study, 0, place, 293, before, look)
    assert len(states) > 20
    assert {state[1] for state in states[:-1]} == {exchange - 1}
    assert states[-1][1] == exchange
    assert [state[3] for state in states] == [3] * (len(states) - 1) + [4]  # report and release


def test_a_torn_answer_did_not_happen(
    study: SimulatedStudy, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_until(study, LOSSES, 4)
    server = study.running_server()
    exchange = server.exchange + 1
    server.take([study.learner(0).client._release(exchange).message])
    before = (study.place("server") / "server.db-wal").stat().st_size
    with monkeypatch.context() as patch:  # the power fails before the log is emptied
        patch.setattr(Database, "forget", lambda self, name: None)
        server.take([study.learner(1).client._release(exchange).message])
    states = cut_everywhere(study, "server", place, 397, before, server_state)
    assert len(states) > 20
    assert {state[2] for state in states[:-1]} == {exchange - 1}
    assert states[-1][2] == exchange


def seen_in(file: Path) -> tuple[int, ...]:
    """What a ledger holds, read without the classes of the engine: its log, and its tables."""
    ledger = sqlite3.connect(file)
    try:
        rows = ledger.execute("SELECT n, kind, body, hash FROM log ORDER BY n").fetchall()
        exchange = ledger.execute("SELECT exchange FROM game").fetchone()
        table = "outbox" if file.name == "study.db" else "upload"
        (held,) = ledger.execute(f"SELECT count(*) FROM {table}").fetchone()
    except sqlite3.OperationalError:  # cut before the tables were made
        return ()
    finally:
        ledger.close()
    check_entries(iter([Entry(*row) for row in rows]))
    kinds = [kind for _, kind, _, _ in rows]
    assert held == kinds.count("release" if table == "outbox" else "upload")
    if exchange is not None:
        assert exchange[0] == kinds.count("answer") - 1
    return len(rows), held


@pytest.mark.long
@pytest.mark.parametrize("who", ["server", 0])
def test_logs_torn_at_every_byte(
    study: SimulatedStudy, place: Path, who: str | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every prefix of a log is a state that was committed, and longer ones are later ones."""
    monkeypatch.setattr(StudyServer, "_forget", lambda *_: None)  # it would empty the log
    play_until(study, LOSSES, 6)  # a client commits about once per exchange
    name = "server.db" if isinstance(who, str) else "study.db"
    image = study.place(who)
    file, log = place / "torn" / name, image / f"{name}-wal"
    content = log.read_bytes()[: written(log)]
    file.parent.mkdir()
    main, states = (image / name).read_bytes(), []
    for size in range(len(content) + 1):
        file.write_bytes(main)
        file.with_name(f"{name}-wal").write_bytes(content[:size])
        states.append(seen_in(file))
    assert never_back(states)
    assert len(set(states)) > 5
    assert len(states) > 20_000


# Full disks and failed commits


def with_little_room(folder: Path, file: str, act: Callable[[], Any]) -> None:
    """Act while files cannot grow beyond the size of the log."""
    room = written(folder / f"{file}-wal") + 100
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        act()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_stops_a_client_and_nothing_is_sent(study: SimulatedStudy) -> None:
    play_until(study, LOSSES, 3)
    learner, sent = study.learner(0), study.watch.sent
    client = learner.client
    learner.predict()

    def act() -> None:
        with pytest.raises(LedgerFailed, match="Nothing was sent"):
            learner.observe(3, LOSSES[3, 0])

    with_little_room(study.place(0), "study.db", act)
    assert study.watch.sent == sent
    with pytest.raises(LedgerFailed, match="Open it again"):
        client.advance()
    study.kill(0)
    assert study.learner(0).round == 3
    play_until(study, LOSSES, 12)
    for client_number in (0, 1):
        study.learner(client_number).finish()
    assert study.violations(LOSSES) == []


def test_a_full_disk_stops_a_server_and_nothing_is_answered(study: SimulatedStudy) -> None:
    play_until(study, LOSSES, 4)
    server, exchange = study.running_server(), study.running_server().exchange + 1
    uploads = [study.learner(client).client._release(exchange).message for client in (0, 1)]

    def act() -> None:
        with pytest.raises(LedgerFailed):
            server.take(uploads)

    with_little_room(study.place("server"), "server.db", act)
    with pytest.raises(LedgerFailed):
        server.answer(exchange)  # it was computed, but it is not on disk
    (reply,) = server.take(uploads[:1])
    assert isinstance(reply, bytes)
    assert wire.read_refusal(reply).code is wire.Code.STOPPED
    study.kill("server")
    play_until(study, LOSSES, 12)
    for client in (0, 1):
        study.learner(client).finish()
    assert study.watch.answers[exchange] == {
        wire.hash_of(study.running_server().answer(exchange) or b"")
    }


def test_an_error_inside_a_transaction_is_the_end(place: Path) -> None:
    ledger = open_database(place / "x.db", "CREATE TABLE IF NOT EXISTS kept(n INTEGER)")

    def fails() -> None:
        with ledger.transaction("example"):
            ledger.execute("INSERT INTO kept VALUES(1)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert ledger.failed
    with pytest.raises(LedgerFailed):
        ledger.one("SELECT n FROM kept")
    again = open_database(place / "x.db", "")
    assert again.one("SELECT n FROM kept") is None
    again.close()


def test_a_ledger_that_is_closed_in_the_middle_of_its_rows_is_free(place: Path) -> None:
    ledger = open_database(place / "x.db", "CREATE TABLE IF NOT EXISTS kept(n INTEGER)")
    with ledger.transaction("example"):
        for n in range(3):
            ledger.execute("INSERT INTO kept VALUES(?)", (n,))
    rows = ledger.execute("SELECT n FROM kept")
    assert next(rows) == (0,)
    ledger.close()
    open_database(place / "x.db", "").close()


# Clocks


def test_no_decision_depends_on_a_clock(
    study: SimulatedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every clock of Python fails during the game; dates of charges run backwards."""

    class Backwards(datetime.datetime):
        year_now = 2100

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            cls.year_now -= 50
            return datetime.datetime(cls.year_now, 1, 1, tzinfo=tz)

    def broken(*_: Any) -> Any:
        raise AssertionError("the engine looked at a clock")

    monkeypatch.setattr(hedgerow.deployment.account, "datetime", Backwards)
    for name in ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "sleep"):
        monkeypatch.setattr(time, name, broken)
    study.play(LOSSES)
    assert study.violations(LOSSES) == []
    dates = [study.account(client).charges()[0].time[:4] for client in (0, 1)]
    assert dates == ["2050", "2000"]


# A second process


def opened(kind: str, folder: str, answers: Any) -> None:
    try:
        if kind == "server":
            StudyServer(folder)
        else:
            open_database(f"{folder}/study.db", "")
        answers.put("opened")
    except LedgerInUse as error:
        answers.put(str(error))


def test_a_second_process_is_refused(study: SimulatedStudy) -> None:
    play_until(study, LOSSES, 2)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    for kind, who in (("server", "server"), ("client", 0)):
        arguments = (kind, str(study.place(who)), answers)
        process = context.Process(target=opened, args=arguments)
        process.start()
        assert "in use by another process" in answers.get(timeout=PATIENCE)
        process.join()
    with pytest.raises(LedgerInUse):
        StudyServer(study.place("server"))


def forked(learner: Any, answers: Any) -> None:
    try:
        learner.predict()
        answers.put("predicted")
    except HedgerowError as error:
        answers.put(str(error))


def test_a_forked_copy_is_refused(study: SimulatedStudy) -> None:
    play_until(study, LOSSES, 2)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=forked, args=(study.learner(0), answers))
    process.start()
    assert "made in another process" in answers.get(timeout=PATIENCE)
    process.join()


# Files


def test_network_file_systems_are_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = place / "mounts"
    mounts.write_text(f"disk / ext4 rw 0 0\nhost:/x {place} nfs4 rw 0 0\n")
    assert file_system(place / "deep" / "folder", mounts) == "nfs4"
    assert file_system(Path("/"), mounts) == "ext4"
    assert "nfs4" in NETWORK
    monkeypatch.setattr(
        "hedgerow.deployment.database.file_system", lambda folder: file_system(folder, mounts)
    )
    with pytest.raises(HedgerowError, match="network file system"):
        open_database(place / "x.db", "")


def test_a_file_that_is_no_ledger(place: Path) -> None:
    (place / "x.db").write_bytes(b"not a database, but long enough to look like one" * 50)
    with pytest.raises(LedgerFailed, match="damaged"):
        open_database(place / "x.db", "")


def test_ledgers_are_for_their_owner(study: SimulatedStudy) -> None:
    play_until(study, LOSSES, 1)
    for file in (study.place("server") / "server.db", study.place(0) / "study.db"):
        assert file.stat().st_mode & 0o077 == 0


# The hash chain


def test_the_log_is_append_only_and_changes_are_found(study: SimulatedStudy) -> None:
    play_until(study, LOSSES, 6)
    client, file = study.learner(0).client, study.place(0) / "study.db"
    lines = list(client.chain.export())
    assert check_lines(iter(lines)) == client.check() == client.chain.head
    for number in range(len(lines)):
        row = json.loads(lines[number])
        row["body"] = ("00" if row["body"][:2] != "00" else "01") + row["body"][2:]
        changed = [*lines[:number], json.dumps(row), *lines[number + 1 :]]
        with pytest.raises(InvalidValue, match=f"entry {number}"):
            check_lines(iter(changed))
    with pytest.raises(InvalidValue):
        check_lines(iter([*lines[:2], *lines[3:]]))
    with pytest.raises(InvalidValue, match="Line 1"):
        check_lines(iter(["{}"]))
    study.kill(0)
    raw = sqlite3.connect(study.place(0) / file.name)
    for statement in ("UPDATE log SET body = x'00'", "DELETE FROM log WHERE n = 1"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            raw.execute(statement)
    # somebody who removes the triggers is still found out
    raw.execute("DROP TRIGGER log_stays")
    raw.execute("UPDATE log SET body = x'00' WHERE n = 3")
    raw.commit()
    raw.close()
    with pytest.raises(InvalidValue, match="entry 3"):
        study.learner(0).client.check()


def test_a_shorter_log_is_found_by_the_other_side(study: SimulatedStudy) -> None:
    """A chain alone does not show that its end is missing; the server remembers the head."""
    play_until(study, LOSSES, 6)
    server = study.running_server()
    row = server._database.one("SELECT count, head FROM head WHERE client = 0")
    assert row is not None
    assert study.learner(0).client.chain.head_at(row[0]) == bytes(row[1])


def test_tables_that_disagree_with_the_log(study: SimulatedStudy) -> None:
    play_until(study, LOSSES, 6)
    study.kill(0)
    raw = sqlite3.connect(study.place(0) / "study.db")
    raw.execute("DELETE FROM outbox WHERE exchange = 1")
    raw.commit()
    raw.close()
    with pytest.raises(InvalidValue, match="do not agree with the log"):
        study.learner(0).client.check()


def test_kinds_and_bodies_cannot_be_shifted(place: Path) -> None:
    """Lengths are part of the hash: 'ab' + 'c' is not 'a' + 'bc'."""
    assert chains.after(chains.START, 0, "ab", b"c") != chains.after(chains.START, 0, "a", b"bc")
    ledger = open_database(place / "x.db", chains.SCHEMA)
    chain = Chain(ledger)
    assert chain.check() == chains.START
    assert chain.head_at(5) is None
    ledger.close()


def durable_points(study: SimulatedStudy, play: Callable[[], None]) -> dict[str, set[int]]:
    """How every transaction of a study is written: 2 is synchronous, 1 is not."""
    opened: list[Database] = []
    modes: dict[str, set[int]] = {}

    def noted(path: str | Path, schema: str, wait_s: float = 0.2) -> Database:
        opened.append(open_database(path, schema, wait_s))
        return opened[-1]

    def note(name: str) -> None:
        if not name.endswith(" written"):
            return
        (now,) = (d for d in opened if not d.failed and d._use().in_transaction)
        row, journal = now.one("PRAGMA synchronous"), now.one("PRAGMA journal_mode")
        assert row is not None
        assert journal == ("wal",)
        modes.setdefault(name.removesuffix(" written"), set()).add(row[0])

    with pytest.MonkeyPatch.context() as patch, hooked(note):
        for module in (
            hedgerow.deployment.account,
            hedgerow.deployment.client,
            hedgerow.deployment.client_ledger,
            hedgerow.deployment.server,
            hedgerow.deployment.server_ledger,
        ):
            patch.setattr(module, "open_database", noted)
        play()
    study.close()
    return modes


def test_what_leaves_a_party_is_synchronous(place: Path, built_once: None) -> None:
    """It is on disk before it leaves, also if the power fails. Reports follow with the next one,
    but one that commits an answer is synchronous.
    """
    drawing = small_study(
        place / "a", clients=1, experts=3, horizon=4, algorithm="tree_hedge", seed=None
    )
    closing = small_study(
        place / "b", clients=2, experts=3, horizon=12, closing="drop", seed=5,
        algorithm="private_hedge", choices={"epsilon": "1", "every": 2, "early": False},
    )  # fmt: skip

    def leave_one_behind() -> None:
        while closing.learner(1).round < 2:
            closing._step(1, LOSSES, None, None)
        while closing.running_server().exchange < 2:
            closing._step(0, LOSSES, None, None)
            closing.running_server().close_exchange()
        for _ in range(12):
            closing._step(1, LOSSES, None, None)
        first = closing.learner(0).client
        while not first._database.held:  # a hello commits an answer before it leaves
            closing._step(0, LOSSES, None, None)
            closing.running_server().close_exchange()
        first.greeting(bytes(16))

    def play_all() -> None:
        while not drawing._step(0, LOSSES, None, None):
            pass

    modes = durable_points(drawing, play_all)
    for name, found in durable_points(closing, leave_one_behind).items():
        modes.setdefault(name, set()).update(found)
    assert modes.pop("client observation") == {1, 2}  # 2 where it commits an answer as well
    assert set(modes) == {
        *("server create", "server opening", "server take", "server close"),
        *("account charge", "client ledger", "client join", "client start"),
        *("client release", "client play", "client flush", "client return"),
    }
    assert all(found == {2} for found in modes.values()), modes

"""Ledgers restored from a copy are refused before they release; forks are kept as evidence."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment import releases, wire
from hedgerow.deployment.account import Account
from hedgerow.deployment.client import Distrusted, StudyClient
from hedgerow.deployment.database import LedgerFailed
from hedgerow.deployment.learner import ClientLearner, NoReply
from hedgerow.deployment.releases import Releases
from hedgerow.deployment.server import Wait
from hedgerow.deployment.simulated import SimulatedLink
from hedgerow.deployment.wire import Code, Refused
from support.deployed import play_until
from support.simulated import SimulatedStudy, small_study

LOSSES = np.linspace(0, 1, 8 * 2 * 3).reshape(8, 2, 3)


@pytest.fixture
def study(place: Path, built_once: None) -> SimulatedStudy:
    """Two clients, an exchange before every round, secure noise."""
    return small_study(
        place, clients=2, experts=3, horizon=8, choices={"epsilon": "1", "every": 1}, seed=None
    )


def copy(study: SimulatedStudy, who: str | int, to: Path, whole: bool = False) -> Path:
    """A copy of a ledger, as a backup makes it; `whole`: of a client's account, with its ledgers."""
    place = study.account(who).folder if whole and isinstance(who, int) else study.place(who)
    return Path(shutil.copytree(place, to))


OLD = (Refused, Distrusted, InvalidValue)
WHO_KNOWS = pytest.mark.parametrize(
    ("whole", "who"), [(False, "the account knows of it"), (True, "the server has seen of it")]
)
"""Without its account a copy is refused by the account; with it, by the server."""


def sent(study: SimulatedStudy) -> dict[tuple[int, int], set[bytes]]:
    return {place: set(hashes) for place, hashes in study.watch.uploads.items()}


def in_third_round(study: SimulatedStudy) -> ClientLearner:
    """The first client has played its third round, and its next release does not exist yet."""
    play_until(study, LOSSES, 2)
    study.learner(1).client.advance()
    study.learner(0).predict()
    study.learner(1).predict()
    return study.learner(0)


@WHO_KNOWS
def test_restored_client_is_refused_before_it_releases(
    study: SimulatedStudy, place: Path, whole: bool, who: str
) -> None:
    play_until(study, LOSSES, 3)
    backup = copy(study, 0, place / "backup", whole)
    play_until(study, LOSSES, 5)
    before = sent(study)
    study.restore(0, backup, whole)
    with pytest.raises(OLD, match=f"older than what {who}"):
        study.learner(0).predict()
    assert sent(study) == before


@WHO_KNOWS
def test_restored_client_is_refused_after_any_contact(
    study: SimulatedStudy, place: Path, whole: bool, who: str
) -> None:
    """A copy from just before the last upload, too."""
    learner = in_third_round(study)
    backup = copy(study, 0, place / "backup", whole)
    learner.observe(2, LOSSES[2, 0])
    assert not learner.client.advance()  # one more release; its answer does not exist yet
    before = sent(study)
    study.restore(0, backup, whole)
    with pytest.raises(OLD, match=f"older than what {who}"):
        study.learner(0).predict(tries=5)
    assert sent(study) == before


@WHO_KNOWS
def test_restored_client_is_refused_after_a_hello(
    place: Path, built_once: None, whole: bool, who: str
) -> None:
    """Plays that draw noise are in the log, and a hello shows the log."""
    study = small_study(
        place, clients=1, experts=8, horizon=40, algorithm="uniform", choices={}, seed=None
    )
    study.learner(0).predict()
    study.learner(0).observe(0, np.zeros(8))
    backup = copy(study, 0, place / "backup", whole)
    for at in range(1, 6):
        study.learner(0).predict()
        study.learner(0).observe(at, np.zeros(8))
    study.kill(0)
    study.learner(0).predict()  # a new process has said hello
    study.restore(0, backup, whole)
    with pytest.raises(OLD, match=f"older than what {who}"):
        study.learner(0).predict()


def test_study_and_server_restored_together_release_nothing(
    study: SimulatedStudy, place: Path
) -> None:
    """Both copies agree with each other. It was one more release of the same record each time."""
    play_until(study, LOSSES, 3)
    backups = {who: copy(study, who, place / f"backup {who}") for who in ("server", 0, 1)}
    play_until(study, LOSSES, 5)
    before = sent(study)
    assert max(map(len, before.values())) == 1
    for _ in range(3):
        for who, backup in backups.items():
            study.restore(who, backup)
        for client in (0, 1):
            with pytest.raises(InvalidValue, match="older than what the account knows of it"):
                study.learner(client)
        assert sent(study) == before


def test_plays_restored_with_the_server_are_not_drawn_again(place: Path, built_once: None) -> None:
    """No message is sent between these plays, so the server cannot know of them."""
    study = small_study(
        place, clients=1, experts=8, horizon=40, algorithm="uniform", choices={}, seed=None
    )
    study.learner(0).predict()
    study.learner(0).observe(0, np.zeros(8))
    backups = {who: copy(study, who, place / f"backup {who}") for who in ("server", 0)}
    study.learner(0).predict()
    for who, backup in backups.items():
        study.restore(who, backup)
    with pytest.raises(InvalidValue, match="older than what the account knows of it"):
        study.learner(0)


def test_a_counter_that_is_older_than_its_study_catches_up(
    study: SimulatedStudy, place: Path
) -> None:
    """The account was restored from a backup and has every charge; the study's ledger is new."""
    play_until(study, LOSSES, 3)
    study.kill(0)
    backup = counter(study).read_bytes()
    play_until(study, LOSSES, 5)
    newest = copy(study, 0, place / "newest")
    study.kill(0)
    counter(study).write_bytes(backup)
    study.learner(0)  # it is brought up to date
    play_until(study, LOSSES, 6)
    study.restore(0, newest)
    with pytest.raises(InvalidValue, match="older than what the account knows of it"):
        study.learner(0)


def counter(study: SimulatedStudy) -> Path:
    (file,) = (study.account(0).folder / "releases").iterdir()
    return file


def test_a_torn_count_is_the_one_before_it(study: SimulatedStudy, place: Path) -> None:
    """Power fails while a release is counted: it was not sent, and the client goes on."""
    learner = in_third_round(study)
    before = copy(study, 0, place / "before")
    old = counter(study).read_bytes()
    learner.observe(2, LOSSES[2, 0])
    study.kill(0)
    after, new = copy(study, 0, place / "after"), counter(study).read_bytes()
    assert [old[:512] == new[:512], old[512:] == new[512:]].count(True) == 1
    at = next(i for i in range(1024) if old[i] != new[i])
    for torn in (new[: at + 3] + old[at + 3 :], old):
        counter(study).write_bytes(torn)
        for ledger in (before, after):
            study.restore(0, ledger)
            study.learner(0)
            study.kill(0)
            counter(study).write_bytes(torn)
    counter(study).write_bytes(new)
    study.restore(0, before)
    with pytest.raises(InvalidValue, match="older than what the account knows of it"):
        study.learner(0)
    study.restore(0, after)
    play_until(study, LOSSES, 8)


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_study_without_its_counter_is_refused(study: SimulatedStudy, how: str) -> None:
    play_until(study, LOSSES, 3)
    study.kill(0)
    if how == "missing":
        counter(study).unlink()
    else:
        counter(study).write_bytes(bytes(1024))
    with pytest.raises(InvalidValue, match=f"{how}.* Put it back, or join a new study"):
        study.learner(0)


def test_a_count_that_cannot_be_written_sends_nothing(
    study: SimulatedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = in_third_round(study)
    before = sent(study)

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(releases, "_sync", full)
        with pytest.raises(LedgerFailed, match=r"could not be written: .* Nothing was sent"):
            learner.observe(2, LOSSES[2, 0])
        with pytest.raises(LedgerFailed):  # it is closed for good
            learner.client.advance()
    assert sent(study) == before
    study.kill(0)
    play_until(study, LOSSES, 8)
    assert study.learner(0).over


def test_what_leaves_a_client_is_counted_on_disk_before(
    study: SimulatedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    left: set[tuple[int, int]] = set()
    real, carry = releases._sync, study.carry

    def noted(file: int) -> None:
        real(file)
        synced.append(file)

    def carried(request: bytes) -> bytes | None:
        if request[:1] == wire.Upload.kind:
            message = wire.unpack(request, study.manifest.digest, wire.Upload)
            left.add((message.client, message.exchange))
            assert len(synced) >= len(left)
            account = study.account(message.client).folder
            assert Releases(account, study.manifest.digest).count > message.count
        return carry(request)

    monkeypatch.setattr(releases, "_sync", noted)
    study.carry = carried
    play_until(study, LOSSES, 5)
    assert len(left) >= 8


def test_a_second_copy_of_a_ledger_in_the_same_account(study: SimulatedStudy) -> None:
    play_until(study, LOSSES, 3)
    folder = study.place(0)
    clone = shutil.copytree(folder, folder.with_name("clone"))
    with pytest.raises(InvalidValue, match="Two copies would release twice"):
        StudyClient(clone, SimulatedLink(study))
    play_until(study, LOSSES, 5)


def test_copy_that_is_not_older_goes_on(study: SimulatedStudy, place: Path) -> None:
    """Moving a ledger to another disk is no crime."""
    play_until(study, LOSSES, 3)
    study.restore(0, copy(study, 0, place / "moved"))
    study.restore("server", copy(study, "server", place / "moved server"))
    play_until(study, LOSSES, 8)
    assert study.learner(0).over


def test_restored_server_never_answers_again(study: SimulatedStudy, place: Path) -> None:
    play_until(study, LOSSES, 3)
    backup = copy(study, "server", place / "backup")
    play_until(study, LOSSES, 5)
    answers = dict(study.watch.answers)
    study.restore("server", backup)
    for client in (0, 1):
        with pytest.raises((Refused, Distrusted), match="server's ledger is older"):
            study.learner(client).predict()
    assert study.watch.answers == answers
    assert "has shown an answer" in str(study.running_server().trouble)


def test_old_messages_shown_to_a_restored_server_draw_nothing(
    study: SimulatedStudy, place: Path
) -> None:
    """Somebody in between has kept every request since the copy was made."""
    play_until(study, LOSSES, 3)
    backup = copy(study, "server", place / "backup")
    study.restore("server", backup)
    kept, carry = [], study.carry

    def carried(request: bytes) -> bytes | None:
        kept.append(request)
        return carry(request)

    study.carry = carried
    play_until(study, LOSSES, 5)
    assert {request[:1] for request in kept} >= {b"H", b"U"}
    study.restore("server", backup)
    server = study.running_server()
    before = server.exchange
    replies = [reply for reply in server.take(kept) if isinstance(reply, bytes)]
    assert len(replies) == len(kept)
    assert server.exchange == before
    assert server.trouble is None
    assert {wire.read_refusal(reply).code for reply in replies} == {Code.HELLO}


def test_a_server_that_refuses_every_hello_is_not_asked_for_ever(study: SimulatedStudy) -> None:
    play_until(study, LOSSES, 3)
    study.kill(0)
    learner = study.learner(0)

    class Refusing:
        def call(self, request: bytes) -> bytes | None:
            return wire.pack_refusal(Code.HELLO, "Say hello first.", bytes([7] * wire.BOOT))

    learner.client.link = Refusing()
    with pytest.raises(Distrusted, match="refuses the hello that it asked for"):
        learner.predict()


def test_restored_server_waits_for_every_hello(study: SimulatedStudy, place: Path) -> None:
    """One client has seen the answer, the other has not and sends its upload again.

    Without the hello of the first client the server would draw the answer a second time.
    """
    play_until(study, LOSSES, 3)
    first, second = study.learner(0), study.learner(1)
    assert not first.client.advance()  # its upload waits
    backup = copy(study, "server", place / "backup")
    study.faults = type(study.faults)(lose=0.0)
    due = second.client._release(second.client.exchange + 1)  # made, and counted, but the
    assert isinstance(study.running_server().take([due.message])[0], bytes)  # answer is lost
    assert first.client.advance()  # the first client has it
    answers = dict(study.watch.answers)
    study.restore("server", backup)
    with pytest.raises(NoReply):
        second.predict(tries=20)
    assert study.watch.answers == answers
    first.observe(3, LOSSES[3, 0])
    with pytest.raises((Refused, Distrusted), match="server's ledger is older"):
        first.predict()


def test_two_messages_for_one_release_are_evidence(study: SimulatedStudy, place: Path) -> None:
    learner = in_third_round(study)
    clone = Path(shutil.copytree(study.account(0).folder, place / "clone"))  # the whole machine
    learner.observe(2, LOSSES[2, 0])
    learner.client.advance()
    exchange = learner.client.exchange + 1
    study.kill(0)
    original = study.account(0).folder
    study._places[study.manifest.clients[0]] = clone
    twin = study.learner(0)
    twin.client._greeted = True  # software that does not ask first
    twin.observe(2, LOSSES[2, 0])
    second = twin.client._release(exchange).message
    with pytest.raises(Refused) as refusal:
        twin.client.advance()
    assert refusal.value.code is Code.FORK
    server = study.running_server()
    ((name, at, found),) = server.evidence()
    assert (name, at) == (study.manifest.clients[0], exchange)
    assert found == wire.hash_of(second)
    kept = b"".join(file.read_bytes() for file in study.place("server").glob("server.db*"))
    assert found in kept
    assert second[-wire.SIGNATURE :] not in kept  # the message may hold exact sums
    assert server.public()["clients"][0]["forked"]
    # it is refused from now on, also in its first copy and after a restart of the server
    study.kill(0)
    study._places[name] = original
    study.kill("server")
    with pytest.raises((Refused, Distrusted)):
        study.learner(0).predict(tries=5)
    study.running_server().check()


def test_an_old_welcome_does_not_help(study: SimulatedStudy, place: Path) -> None:
    """Somebody between client and server shows a recorded welcome again."""
    play_until(study, LOSSES, 3)
    backup = copy(study, 0, place / "backup", whole=True)
    study.restore(0, backup, whole=True)
    client = study.learner(0).client
    recorded: list[bytes | None] = []
    real = client.link

    class Recording:
        def call(self, request: bytes) -> bytes | None:
            recorded.append(real.call(request))
            return recorded[-1]

    client.link = Recording()
    while not client.greeted:
        client.advance()
    assert isinstance(recorded[-1], bytes)
    welcome = recorded[-1]
    play_until(study, LOSSES, 5)
    study.restore(0, backup, whole=True)

    class Replaying:
        def call(self, request: bytes) -> bytes | None:
            return welcome

    again = study.learner(0)
    again.client.link = Replaying()
    with pytest.raises(Distrusted, match="another hello"):
        again.predict()


def test_answers_of_others_are_refused(study: SimulatedStudy) -> None:
    """A reply that the server did not sign, or that counts another upload, changes nothing."""
    play_until(study, LOSSES, 2)
    client = study.learner(0).client
    study.learner(1).client.advance()
    server = study.running_server()
    data = client._release(client.exchange + 1).message
    reply = server.take([data])[0]
    assert isinstance(reply, bytes)
    head = client.chain.head
    for at in (0, 40, len(reply) - 70, len(reply) - 1):
        wrong = bytearray(reply)
        wrong[at] ^= 1
        with pytest.raises((Refused, Distrusted)):
            client._receive(client.exchange + 1, bytes(wrong), wire.hash_of(data))
    with pytest.raises(Distrusted, match="counts another upload"):
        client._receive(client.exchange + 1, reply, bytes(32))
    with pytest.raises(Distrusted, match="another exchange"):
        client._receive(client.exchange + 2, reply, wire.hash_of(data))
    assert client.chain.head == head
    client._receive(client.exchange + 1, reply, wire.hash_of(data))
    assert client.chain.head != head


def test_waiting_is_no_reply(study: SimulatedStudy) -> None:
    """The reply comes when the exchange is complete, to all who wait for it."""
    play_until(study, LOSSES, 2)
    first, second = (study.learner(client).client for client in (0, 1))
    server, exchange = study.running_server(), study.running_server().exchange + 1
    (reply,) = server.take([first._release(exchange).message])
    assert reply == Wait(exchange, first.index)
    assert server.answer(exchange) is None
    (reply,) = server.take([second._release(exchange).message])
    assert isinstance(reply, bytes)
    assert wire.Answered.read(reply).answers[0][0] == server.answer(exchange)


def test_a_learner_cannot_be_copied(study: SimulatedStudy) -> None:
    import copy as copying
    import pickle

    learner: ClientLearner = study.learner(0)
    for attempt in (copying.copy, copying.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            attempt(learner)


def test_a_second_ledger_of_a_copied_account_is_refused(place: Path, study: SimulatedStudy) -> None:
    """An account was copied before it joined; both copies join, each with a ledger."""
    account = study.account(0)
    copied = Account(shutil.copytree(account.folder, place / "copied"))
    learner = study.learner(0)
    for _ in range(3):
        learner.client.advance()
    assert learner.client.greeted
    second = StudyClient.join(copied, SimulatedLink(study), server_key=study.manifest.server)
    second.advance()  # it learns to which process of the server it speaks
    with pytest.raises((Refused, Distrusted), match="older than what the server has seen"):
        second.advance()
    second.close()
    study.close()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"exchange": -1}, "server's ledger is older"),
        ({"head": bytes(32)}, "older than what the server has seen"),
        ({"count": 10**6}, "older than what the server has seen"),
        ({"hash": bytes(32)}, "older than what the server has seen"),
        ({"uploaded": 10**6}, "older than what the server has seen"),
    ],
)
def test_a_client_compares_every_part_of_a_welcome(
    study: SimulatedStudy, changes: dict[str, Any], text: str
) -> None:
    """It does not rely on the server to notice that one of the two ledgers is old."""
    play_until(study, LOSSES, 3)
    study.kill(0)
    client, server = study.learner(0).client, study.running_server()
    own = wire.unpack(server._welcome(0, bytes(16)), server.study, wire.Welcome)
    lies = dict(changes)

    class Lying:
        def call(self, request: bytes) -> bytes | None:
            hello = wire.unpack(request, server.study, wire.Hello)
            reply = replace(own, nonce=hello.nonce, **lies)
            return wire.pack(reply, server.study, server.key)

    client.link = Lying()
    with pytest.raises(Distrusted, match=text):
        client.advance()
    assert not client.greeted
    lies.clear()  # the true welcome is accepted
    client.advance()
    assert client.greeted

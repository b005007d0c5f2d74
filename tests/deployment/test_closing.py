"""Exchanges that close before all clients have answered: late uploads, missed broadcasts, a client
that never comes back.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.certificate import PUBLIC_ANSWERS
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import to_units
from hedgerow.core.messages import decode
from hedgerow.deployment import wire
from hedgerow.deployment.anchor import Anchor, AnchorFailed, OldLedger
from hedgerow.deployment.client import Distrusted
from hedgerow.deployment.closing import ClosingRule
from hedgerow.deployment.record import read_deployment
from hedgerow.deployment.server import DROPPED, StudyServer
from hedgerow.deployment.wire import Refused
from hedgerow_papers.agarwal2017.tree_leader import TreeLeader
from hedgerow_papers.asi2023.proven_sparse_vector import ProvenSparseVector
from hedgerow_papers.gao2024.certified_frank_wolfe import FrankWolfe
from support.command import Command
from support.simulated import Faults, SimulatedStudy, small_study

ROUNDS, CLIENTS, EXPERTS = 24, 3, 4
ROUGH = Faults(lose=0.1, repeat=0.1, delay=0.1, crash=0.04, close=0.4)


def drawn(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.round(rng.random((ROUNDS, CLIENTS, EXPERTS)) * 2**20) / 2**20


def made(place: Path, rule: str, faults: Faults, chance: int = 0, **more: Any) -> SimulatedStudy:
    choices = {"epsilon": "1", "every": 2, "early": False, **more.pop("choices", {})}
    return small_study(
        place,
        clients=CLIENTS,
        experts=EXPERTS,
        horizon=ROUNDS,
        algorithm=more.pop("algorithm", "private_hedge"),
        choices=choices,
        closing=rule,
        seed=5,
        chance=np.random.default_rng(chance),
        faults=faults,
        **more,
    )


def test_losses_of_a_round_that_was_missed_are_not_taken_for_another(
    place: Path, built_once: None
) -> None:
    """The application reports round 2 while its client finds out that round 4 is played now."""
    study = made(place, "fold", Faults())
    losses, server = drawn(), study.running_server()
    first, *others = (study.learner(client) for client in range(CLIENTS))
    for learner in (first, *others):
        for at in (0, 1):
            learner.predict()
            learner.observe(at, losses[at, 0])
    for exchange in (1, 2):
        for learner in others:
            learner.client.advance()
        if exchange == 1:
            assert server.close_exchange()
            for learner in others:
                for at in (2, 3):
                    learner.predict()
                    learner.observe(at, losses[at, 0])
    with pytest.raises(InvalidValue, match=r"Round 2 was missed.*Go on with round 4"):
        first.observe(2, losses[2, 0], tries=10)
    assert (first.round, first.client.known(4)) == (4, None)
    study.close()


def test_an_old_server_that_a_client_finds_out_closes_nothing(
    place: Path, built_once: None
) -> None:
    """Client 0 has not seen the answer that the restored server has lost, and goes on with it.

    The anchor was restored as well, so only client 1 can find it out.
    """
    study, losses = made(place, "fold", Faults()), drawn()

    def play(client: int, rounds: range) -> None:
        for at in rounds:
            study.learner(client).predict()
            study.learner(client).observe(at, losses[at, client])
        for _ in range(4):  # hello, upload, and what is already answered
            study.learner(client).client.advance()

    for client in range(CLIENTS):
        study.learner(client).predict()
    play(0, range(2))
    assert study.running_server().close_exchange()
    study.learner(0).client.advance()
    study.kill("server")
    backup = Path(shutil.copytree(study.place("server"), place / "backup"))
    anchor = study.anchor.read_bytes()
    play(1, range(2))  # late: it enters exchange 2
    study.kill(0)
    for _ in range(3):  # says hello, and takes the answer that it had not committed
        study.learner(0).client.advance()
    assert study.running_server().close_exchange()
    study.learner(1).client.advance()
    assert (study.learner(0).client.exchange, study.learner(1).client.exchange) == (1, 2)
    at = study.learner(1).client.round
    study.learner(1).observe(at, losses[at, 1])  # commits the answer as well
    study.restore("server", backup)
    with pytest.raises(OldLedger, match="names an answer of exchange 2 that is not in it"):
        study.running_server()
    study.anchor.write_bytes(anchor)
    play(0, range(2, 4))
    assert study.running_server()._open.keys() == {0}
    study.kill(1)
    study.learner(1).client.advance()  # it learns to which process of the server it speaks
    with pytest.raises(Refused, match="older than what this client has seen"):
        study.learner(1).client.advance()
    assert not study.running_server().close_exchange()
    study.kill("server")  # the proof is in the ledger
    assert "old copy" in str(study.running_server().stuck)
    for client in (0, 2):
        study.learner(client).client.advance()
        study.learner(client).client.advance()
    assert not study.running_server().close_exchange()
    study.close()


def sums(study: SimulatedStudy, places: list[tuple[int, int]]) -> np.ndarray:
    """The sum of some uploads, by client and exchange."""
    kind: Any = study.running_server().algorithm.uploads.kind
    found = [decode(kind, study.watch.payloads[place]).losses for place in places]
    return np.sum(found, axis=0) if found else np.zeros(EXPERTS, np.int64)


def observed(study: SimulatedStudy, losses: np.ndarray, client: int) -> np.ndarray:
    """The losses that a client observed before its last upload."""
    party = study.learner(client).client
    ends = [
        int.from_bytes(e.body[8:16], "little") for e in party.chain.entries() if e.kind == "release"
    ]
    last = max(ends)
    rounds = [t for t in range(last) if party.known(t) is not None]
    return to_units(losses[rounds, client].sum(axis=0))


@pytest.mark.parametrize("chance", range(2))
@pytest.mark.parametrize("rule", ["fold", "drop"])
def test_each_loss_enters_one_exchange(
    place: Path, built_once: None, rule: str, chance: int
) -> None:
    losses = drawn(chance)
    study = made(place, rule, ROUGH, chance)
    study.play(losses, most_steps=20_000)
    assert study.violations(losses) == []
    server: Any = study.running_server()
    found = server.uploads()
    late = [where for where, (_, at) in found.items() if at != where[1]]
    assert len(late) >= 5
    counted = [where for where, (_, at) in found.items() if at != DROPPED]
    assert np.array_equal(server._state.totals, sums(study, counted))
    for client in range(CLIENTS):
        own = [where for where in found if where[0] == client]
        assert np.array_equal(sums(study, own), observed(study, losses, client))
    if rule == "fold":  # only what arrived after the last exchange is not counted
        lost = [client for client, exchange in late if found[client, exchange][1] == DROPPED]
        assert len(set(lost)) == len(lost) < len(late)
    study.close()


@pytest.mark.parametrize("rule", ["fold", "drop"])
def test_a_client_that_never_returns(place: Path, built_once: None, rule: str) -> None:
    """The others play to the end, also after the server has died."""
    losses = drawn()
    study = made(place, rule, Faults())
    while study.learner(2).round < 4:
        for client in range(CLIENTS):
            study._step(client, losses, None, None)
    study.kill(2)
    restarts = 0
    while not all(study.learner(client).over for client in (0, 1)):
        for client in (0, 1):
            if not study.learner(client).over:
                study._step(client, losses, None, None)
        server = study.running_server()
        if {0, 1} <= server._open.keys() and server.close_exchange():
            restarts += 1
            study.kill("server")
    server = study.running_server()
    assert server.exchange == ROUNDS // 2 - 1 == restarts + 1
    assert {where[1] for where in server.uploads() if where[0] == 2} == {1}
    assert [c["name"] for c in server.public()["clients"] if not c["present"]] == ["client-002"]
    study.close()


def behind(place: Path, rule: str, **more: Any) -> tuple[SimulatedStudy, np.ndarray]:
    """A study in which client 2 has missed three exchanges, with its first upload in its ledger."""
    losses = drawn()
    study = made(place, rule, Faults(), **more)
    while study.learner(2).round < 2:
        study._step(2, losses, None, None)
    while study.running_server().exchange < 3:
        for client in (0, 1):
            study._step(client, losses, None, None)
        if len(study.running_server()._open) == 2:
            study.running_server().close_exchange()
    return study, losses


@pytest.mark.parametrize(("rule", "round_after", "counted"), [("fold", 8, 4), ("drop", 6, DROPPED)])
def test_a_client_that_misses_broadcasts_catches_up(
    place: Path, built_once: None, rule: str, round_after: int, counted: int
) -> None:
    study, losses = behind(place, rule)
    for _ in range(8):
        study.learner(2).client.advance()
    assert study.running_server().uploads()[2, 1][1] == (None if rule == "fold" else DROPPED)
    study.kill(2)  # where it stands is in its ledger
    for _ in range(8):
        for client in (0, 1):
            study._step(client, losses, None, None)
        study.learner(2).client.advance()
    late = study.learner(2)
    assert study.running_server().uploads()[2, 1][1] == counted
    assert late.round == round_after
    expected = study.running_server().public()["play"]
    assert int(late.predict()) == expected or rule == "drop"
    with pytest.raises(hr.InvalidValue, match=f"Round 3 was missed.*Go on with round {late.round}"):
        late.observe(3, losses[3, 2])
    late.observe(late.round, losses[late.round, 2])
    study.close()


@pytest.mark.parametrize(("rule", "seen"), [("fold", 3), ("drop", 3)])
def test_a_late_client_catches_up_in_one_round_trip(
    place: Path, built_once: None, rule: str, seen: int
) -> None:
    """The reply to its upload has all answers that it has missed, each with a path of its own."""
    study, _ = behind(place, rule)
    late, kinds = study.learner(2).client, list[bytes]()
    carry = late.link.call

    class Counting:
        def call(self, request: bytes) -> bytes | None:
            kinds.append(request[:1])
            return carry(request)

    late.link = Counting()
    assert late.exchange == 0
    late.advance()
    assert (late.exchange, study.running_server().exchange) == (seen, seen)
    assert kinds == [wire.Upload.kind]
    late.advance()  # with "fold" it asks for the answer that counts its upload, which is open
    assert late.ready is (rule == "drop")
    study.close()


class Forgiving(StudyServer):
    """A mutant that folds late uploads in although the study drops them."""

    def _load(self) -> None:
        super()._load()
        self._rule = ClosingRule("fold")


def test_a_client_notices_a_server_with_another_rule(place: Path, built_once: None) -> None:
    study, losses = behind(place, "drop", server_kind=Forgiving)
    late = study.learner(2).client

    def play() -> None:
        for _ in range(20):
            late.advance()
            for client in (0, 1):
                study._step(client, losses, None, None)
            late._newest += 1  # as if it had not caught up yet

    with pytest.raises(Distrusted, match="counts an upload that was too late"):
        play()
    study.close()


def test_waiting_exchanges_close_for_nobody(place: Path, built_once: None) -> None:
    study = made(place, "wait", Faults())
    with pytest.raises(hr.Unsupported, match="waits for all clients"):
        study.running_server().close_exchange()
    study.close()


def test_an_exchange_without_uploads_stays_open(place: Path, built_once: None) -> None:
    study = made(place, "drop", Faults())
    assert not study.running_server().close_exchange()
    study.close()


@pytest.mark.parametrize(
    ("algorithm", "choices"),
    [
        ("running_leader", {"trust": "local"}),
        ("tree_leader", {"unit": "part:1.0"}),
        ("frank_wolfe", {"every": None}),
    ],
)
def test_only_declared_rules(place: Path, algorithm: str, choices: dict[str, Any]) -> None:
    given = {name: value for name, value in {"every": 1, **choices}.items() if value is not None}
    spec = {"running_leader": hr.RunningLeader, "tree_leader": TreeLeader}
    kind: Any = spec.get(algorithm, FrankWolfe)
    built = kind(**given).build(hr.Setting(CLIENTS, EXPERTS, ROUNDS))
    for rule in ("fold", "drop"):
        with pytest.raises(hr.Unsupported, match=f"{algorithm} does not support closing='{rule}'"):
            built.closed_by(rule)
    assert built.closed_by("wait") is built


@pytest.mark.parametrize("unit", ["person:2/6", "window:2", "example:2/6"])
@pytest.mark.parametrize("name", ["running_leader", "window_leader", "noisy_ftrl", "online_sgd"])
def test_records_that_are_kept_apart_are_waited_for(name: str, unit: str) -> None:
    """A late record would be next to one that came six rounds after it, which costs more."""
    spec: Any = ALGORITHMS[name](trust="central")
    setting = hr.Setting(
        CLIENTS, EXPERTS, ROUNDS, family=spec.traits.family or spec.traits.families[0]()
    )
    assert spec.build(setting).uploads.closing == {"wait", "fold", "drop"}
    built = replace(spec, unit=unit).build(setting)
    for rule in ("fold", "drop"):
        with pytest.raises(hr.Unsupported, match=f"{name} does not support closing='{rule}'"):
            built.closed_by(rule)


@pytest.mark.parametrize("name", ["phased_selection", "walk_leader", "walk_meta"])
def test_late_shares_enter_no_other_exchange(name: str) -> None:
    """A helper opens seeds for one exchange each, and does not remember which uploads it opened."""
    built = ALGORITHMS[name](trust="distributed", delta=1e-6).build(
        hr.Setting(CLIENTS, EXPERTS, ROUNDS)
    )
    assert built.uploads.closing == {"wait", "drop"}


def test_the_certificate_says_that_answers_are_public() -> None:
    plain = ProvenSparseVector().build(hr.Setting(CLIENTS, EXPERTS, ROUNDS))
    closed = plain.closed_by("fold")
    assert plain.claims.regret_bound is not None
    assert closed.claims.regret_bound is None
    assert PUBLIC_ANSWERS in closed.certificate.peer.assumes
    assert closed.certificate.peer.adjacency.endswith("how late, stays the same")
    assert closed.certificate.peer.curve == plain.certificate.peer.curve
    assert closed.certificate.server.assumes == plain.certificate.server.assumes
    assert closed.fingerprint() != plain.fingerprint()


def lost(place: Path, rule: str) -> tuple[SimulatedStudy, np.ndarray]:
    """A study in which the last exchange counts client 2, which is lost; the server has died."""
    losses = drawn()
    study = made(place, rule, Faults())
    while study.running_server().exchange < 2:
        for client in range(CLIENTS):
            study._step(client, losses, None, None)
    study.kill(2)
    study.kill("server")
    return study, losses


def go_on(study: SimulatedStudy, losses: np.ndarray, steps: int = 40) -> int:
    """Let clients 0 and 1 play; a timer closes exchanges. Returns the last exchange."""
    for _ in range(steps):
        for client in (0, 1):
            if not study.learner(client).over:
                study._step(client, losses, None, None)
        server = study.running_server()
        if {0, 1} <= server._open.keys():
            server.close_exchange()
    return study.running_server().exchange


@pytest.mark.parametrize("rule", ["fold", "drop"])
def test_a_lost_client_and_a_new_start_do_not_end_the_study(
    place: Path, built_once: None, rule: str
) -> None:
    """The last exchange counts the lost client; the anchor says that the ledger is the latest."""
    study, losses = lost(place, rule)
    server = study.running_server()
    assert server.anchored
    assert (server.unheard, server.stuck) == ({0, 1, 2}, None)
    assert go_on(study, losses) == ROUNDS // 2 - 1
    assert study.running_server().vouched() == []
    study.close()


def test_a_client_that_is_lost_after_its_upload(place: Path, built_once: None) -> None:
    """The open exchange has all uploads, but after a new start not all hellos: a timer closes it."""
    losses, study = drawn(), made(place, "drop", Faults())
    while study.running_server().exchange < 2:
        for client in range(CLIENTS):
            study._step(client, losses, None, None)
    while study.running_server().missing > 1 or 2 not in study.running_server()._open:
        for client in (1, 2):
            study._step(client, losses, None, None)
    study.kill(2)
    study.kill("server")
    assert not study.running_server().close_exchange()  # nobody is here yet
    while study.running_server().missing:
        study._step(0, losses, None, None)
    server = study.running_server()
    assert (server.exchange, server.late) == (2, 2)
    assert "client-001, client-002" in str(server.stuck)
    assert server.close_exchange()
    assert (server.exchange, server.stuck) == (3, None)
    study.close()


def test_without_an_anchor_the_server_says_what_it_waits_for(
    place: Path, built_once: None, hedgerow: Command
) -> None:
    """Until the operator vouches: signed, logged, and in the statement."""
    study, losses = lost(place, "drop")
    study.anchor.unlink()
    assert go_on(study, losses) == 2
    server = study.running_server()
    expected = (
        "the anchor is missing or old, and since the start of the server, a hello is awaited from "
        "client-002"
    )
    assert server.stuck == server.public()["stuck"] == expected
    assert server.lost_anchor == study.anchor
    assert server.vouch()
    assert not server.vouch()  # said once
    assert (server.stuck, server.lost_anchor) == (None, None)
    study.kill("server")
    assert study.running_server().anchored  # there is an anchor again, before the next answer
    assert go_on(study, losses) == ROUNDS // 2 - 1
    server = study.running_server()
    assert server.vouched() == [2]
    server.check()
    study.kill("server")
    assert study.running_server().anchored  # there is an anchor again
    study.close()
    found = read_deployment(study.place("server")).ledger
    assert found.vouched == [2]
    stated = " ".join(hedgerow("statement", str(study.place("server"))).out.split())
    assert "THE OPERATOR HAS VOUCHED that the server's ledger was the latest" in stated
    assert "This was after exchange 2." in stated


def test_a_word_of_somebody_else_is_refused(place: Path, built_once: None) -> None:
    study, _ = lost(place, "fold")
    server = study.running_server()
    with server._database.transaction("server vouch"):
        server.chain.add("vouch", bytes(8) + bytes(64))
    with pytest.raises(InvalidValue, match="not the operator's"):
        server.check()
    study.close()


def test_a_hello_of_all_is_proof_enough(place: Path, built_once: None) -> None:
    """No anchor, but the lost client comes back."""
    study, losses = lost(place, "fold")
    study.anchor.unlink()
    assert go_on(study, losses) == 2
    for _ in range(3):
        study.learner(2).client.advance()
    assert study.running_server().stuck is None
    assert go_on(study, losses) == ROUNDS // 2 - 1
    study.close()


@pytest.mark.parametrize("behind_by", [1, 2])
def test_an_anchor_may_be_one_answer_behind(place: Path, built_once: None, behind_by: int) -> None:
    """A server that dies before it writes the anchor has not sent the answer; two is an old one."""
    losses, study = drawn(), made(place, "fold", Faults())
    anchors = {0: study.running_server() and study.anchor.read_bytes()}
    while study.running_server().exchange < 3:
        for client in range(CLIENTS):
            study._step(client, losses, None, None)
        anchors[study.running_server().exchange] = study.anchor.read_bytes()
    study.kill("server")
    study.anchor.write_bytes(anchors[3 - behind_by])
    assert study.running_server().anchored == (behind_by == 1)
    study.close()


def test_an_answer_of_a_server_that_died_leaves_after_its_anchor(
    place: Path, built_once: None
) -> None:
    """The next process sends it; so an older ledger must be refused from then on."""
    losses, study = drawn(), made(place, "fold", Faults())

    def until(exchange: int) -> None:
        for client in list(range(CLIENTS)) * 20:
            if study.running_server().exchange < exchange:
                study._step(client, losses, None, None)
        assert study.running_server().exchange == exchange

    until(1)
    study.kill("server")
    kept = study.anchor.read_bytes()
    backup = Path(shutil.copytree(study.place("server"), place / "backup"))
    until(2)
    study.kill("server")
    study.anchor.write_bytes(kept)  # it died after the commit, before it wrote the anchor
    assert study.running_server().answer(2) is not None
    study.restore("server", backup)
    with pytest.raises(OldLedger, match="names an answer of exchange 2 that is not in it"):
        study.running_server()
    study.close()


def test_an_answer_leaves_after_its_anchor(place: Path, built_once: None) -> None:
    """If the anchor cannot be written, the answer stays here, and the next start sends it."""
    losses, study = drawn(), made(place, "fold", Faults())
    while study.running_server().exchange < 1:
        for client in range(CLIENTS):
            study._step(client, losses, None, None)
    kept = study.anchor.read_bytes()
    study.anchor.unlink()
    study.anchor.mkdir()
    with pytest.raises(AnchorFailed, match=r"anchor .* could not be written"):
        go_on(study, losses, 10)
    assert 2 not in study.watch.answers
    study.server = None
    study.anchor.rmdir()
    study.anchor.write_bytes(kept)
    part = study.anchor.with_name(".server.anchor.part")
    part.unlink()
    part.mkdir()  # so that a new anchor cannot be written
    with pytest.raises(AnchorFailed, match=r"anchor .* could not be written"):
        study.running_server()  # nor does it leave now
    part.rmdir()
    server = study.running_server()
    assert (server.exchange, server.anchored) == (2, True)
    assert Anchor(study.anchor, server.study).read() == (2, wire.hash_of(server.answer(2) or b""))
    study.close()


def test_an_old_copy_cannot_be_vouched_for(place: Path, built_once: None) -> None:
    """A client has shown a later answer: no word, no statement, and the health check says so."""
    study, losses = lost(place, "drop")
    backup = Path(shutil.copytree(study.place("server"), place / "backup"))
    assert go_on(study, losses, 10) > 2
    study.restore("server", backup)
    study.anchor.unlink()
    with pytest.raises(Refused, match="Tell the operator of the server"):
        go_on(study, losses)
    server = study.running_server()
    assert "is an old copy: bring back the latest one" in str(server.stuck)
    with pytest.raises(OldLedger, match="is an old copy"):
        server.vouch()
    assert server.vouched() == []
    study.close()
    with pytest.raises(InvalidValue, match="Write the statement from the latest ledger"):
        read_deployment(study.place("server"))


def test_a_new_study_needs_no_word(place: Path, built_once: None) -> None:
    study = made(place, "drop", Faults())
    assert not study.running_server().vouch()
    assert study.running_server().vouched() == []
    study.close()


def test_an_anchor_of_another_study_is_refused(place: Path, built_once: None) -> None:
    study, _ = lost(place, "fold")
    for text, match in ((b"{}", "Cannot read the anchor"), (b"\xff", "Cannot read the anchor")):
        study.anchor.write_bytes(text)
        with pytest.raises(InvalidValue, match=match):
            study.running_server()
    Anchor(study.anchor, bytes(32)).write(2, bytes(32))
    with pytest.raises(InvalidValue, match="belongs to another study"):
        study.running_server()
    study.close()


@pytest.mark.parametrize("rule", ["wait", "fold", "drop"])
def test_a_false_hello_stops_nobody_else(place: Path, built_once: None, rule: str) -> None:
    """It names an answer that the server has never signed, or signed for another exchange."""
    losses, study = drawn(), made(place, rule, Faults())
    while study.running_server().exchange < 2:
        for client in range(CLIENTS):
            study._step(client, losses, None, None)
    server, liar = study.running_server(), study.learner(2).client
    real = liar._seal
    for exchange, seal in ((9, bytes(96)), (9, real), (1, real), (server.exchange, bytes(96))):
        fields = (2, exchange, seal, liar.chain.count, liar.chain.head, bytes(16), server._boot)
        (reply,) = server.take([liar._pack(wire.Hello(*fields))])
        assert isinstance(reply, bytes)
        assert wire.read_refusal(reply).code is wire.Code.SIGNATURE
    fields = (2, 9, liar._seen, liar.chain.count, liar.chain.head, bytes(16), 0, b"")
    (reply,) = server.take([liar._pack(wire.Upload(*fields))])
    assert isinstance(reply, bytes)
    assert wire.read_refusal(reply).code is wire.Code.HELLO
    assert (server.trouble, server.stuck) == (None, None)
    if rule == "wait":
        study.learner(2).client.advance()  # the true hello
        study.play(losses)
        assert study.running_server().over
    else:
        study.kill(2)
        assert go_on(study, losses) == ROUNDS // 2 - 1
    study.close()


def test_a_client_that_says_done_too_early_stops_nobody_else(place: Path, built_once: None) -> None:
    """The timer asks whether somebody is late: a client that is done but has not uploaded is."""
    losses, study = drawn(), made(place, "drop", Faults())
    while study.running_server().exchange < 2:
        for client in range(CLIENTS):
            study._step(client, losses, None, None)
    server, liar = study.running_server(), study.learner(2).client
    server.take([liar._pack(wire.Done(2, 4, liar.chain.count, liar.chain.head))])
    for _ in range(20):
        for client in (0, 1):
            study._step(client, losses, None, None)
    assert server._open.keys() == {0, 1}
    assert server.late == 1
    study.close()


def test_a_fork_of_the_server_is_found_by_an_upload(place: Path, built_once: None) -> None:
    """Two processes with copies of one ledger: a client that has an answer of the other shows it.

    Its upload is refused, so it says hello, and its hello has the signature of the server.
    """
    losses, study = drawn(), made(place, "drop", Faults())
    while study.running_server().exchange < 1:
        for client in range(CLIENTS):
            study._step(client, losses, None, None)
    copy = shutil.copytree(study.place("server"), place / "other")
    other = StudyServer(copy, place / "other.anchor")
    for client in range(CLIENTS):
        party = study.learner(client).client
        party.boot = other._boot
        other.take([party.greeting(bytes(16))])
    while study.running_server().exchange < 2:
        for client in range(CLIENTS):
            study._step(client, losses, None, None)
    party = study.learner(0).client
    while party.exchange < 2 or party.remaining:
        study._step(0, losses, None, None)
    (reply,) = other.take([party._release(3).message])
    assert wire.read_refusal(bytes(reply)).code is wire.Code.HELLO  # type: ignore[arg-type]
    (reply,) = other.take([party.greeting(bytes(16))])
    assert wire.read_refusal(bytes(reply)).code is wire.Code.OLD_SERVER  # type: ignore[arg-type]
    assert "old copy" in str(other.stuck)
    assert not other.close_exchange()
    other.close()
    study.close()

"""Clients that come and clients that are taken out while a study goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.core.errors import HedgerowError, InvalidValue, Unsupported
from hedgerow.core.messages import decode
from hedgerow.deployment import wire
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.config import from_table
from hedgerow.deployment.manifest import ManifestRefused
from hedgerow.deployment.record import read_deployment
from hedgerow.deployment.roster import OUT, Change, Roster
from hedgerow.deployment.server import DROPPED, StudyServer
from hedgerow.deployment.wire import Refused
from support.masked import World
from support.simulated import Crash, Faults, SimulatedStudy, small_study

ROUNDS, CLIENTS, EXPERTS = 24, 4, 3
LEAVER, NEW = 0, 3  # the client that is taken out, and the open seat
ROUGH = Faults(lose=0.1, repeat=0.1, delay=0.1, crash=0.04, close=0.1)
PRIVATE_HEDGE = {"epsilon": "1", "every": 2, "early": False}


class Changing(SimulatedStudy):
    """A study that gives its open seat after exchange 3, and takes a client out after 6."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.refused: list[tuple[int, wire.Code]] = []
        self.asked = 0  # calls that ask for an answer

    def carry(self, request: bytes) -> bytes | None:
        if request[:1] == wire.Ask.kind:
            self.asked += 1
        return super().carry(request)

    def change(self, who: int, key: str) -> None:
        """Start the server again with a change, as an operator does."""
        self.kill("server")
        self.alive({self.manifest.clients[who]: key})

    def alive(self, wanted: Mapping[str, str] | None = None) -> StudyServer:
        """The server, opened and changed as often as it dies meanwhile."""
        while True:
            try:
                server = self.running_server()
                if wanted is not None:
                    server.amend(wanted)
                return server
            except Crash:
                self.kill("server")

    def _step(self, client: int, losses: np.ndarray, *game: Any, **more: Any) -> bool:
        server = self.alive()
        if client == NEW and not server.roster.keys[NEW]:
            if server.exchange < 3:
                return False
            self.change(NEW, self.account(NEW).public_key)
        if client == LEAVER and server.exchange >= 6 and LEAVER not in server.roster.out:
            self.change(LEAVER, OUT)
        try:
            return super()._step(client, losses, *game, **more)
        except Refused as refusal:
            self.refused.append((client, refusal.code))
            return True


def made(place: Path, rule: str = "drop", faults: Faults = ROUGH, **more: Any) -> Changing:
    given = {"algorithm": "private_hedge", "choices": PRIVATE_HEDGE, "seed": None, **more}
    found = small_study(
        place,
        clients=CLIENTS,
        experts=EXPERTS,
        horizon=ROUNDS,
        closing=rule,
        seats=1,
        kind=Changing,
        chance=np.random.default_rng(given.pop("chance", 0)),
        faults=faults,
        **given,
    )
    assert isinstance(found, Changing)
    return found


def drawn() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 2**20, (ROUNDS, CLIENTS, EXPERTS)) / 2**20


@pytest.mark.parametrize("chance", range(3))
@pytest.mark.parametrize("rule", ["fold", "drop"])
def test_a_client_comes_and_another_is_taken_out(
    place: Path, built_once: None, rule: str, chance: int
) -> None:
    """Nothing is released twice, lost or counted twice, although everybody dies now and then."""
    losses, study = drawn(), made(place, rule, chance=chance)
    study.play(losses, most_steps=20_000)
    assert study.violations(losses) == []
    assert set(study.refused) == {(LEAVER, wire.Code.OUT)}
    server: Any = study.running_server()
    found, new = server.uploads(), study.learner(NEW).client
    assert (server.exchange, server.over) == (ROUNDS // 2 - 1, True)
    exchange = {change.seat: change.exchange for change in server.roster.changes}
    assert exchange[NEW] >= 3
    assert exchange[LEAVER] >= 6
    assert min(at for client, at in found if client == NEW) > exchange[NEW]
    assert all(at <= exchange[LEAVER] + 1 for client, at in found if client == LEAVER)
    assert new.known(0) is None  # it did not play the rounds before it came
    assert new.known(ROUNDS - 1) is not None
    kind = server.algorithm.uploads.kind
    counted = [where for where, (_, at) in found.items() if at != DROPPED]
    sums = [decode(kind, study.watch.payloads[where]).losses for where in counted]
    assert np.array_equal(server._state.totals, np.sum(sums, axis=0))
    server.check()
    study.close()
    stated = read_deployment(study.place("server")).ledger
    assert stated.roster == server.roster.words()
    assert [text.split(" was ")[1][:5] for text in stated.roster] == ["given", "empti"]
    assert "client-003" in stated.signed
    assert read_deployment(study.place(NEW)).ledger.roster == server.roster.words()[:1]


ALGORITHMS: dict[str, dict[str, Any]] = {
    "sparse_vector": {"epsilon": "1", "every": 2},
    "phased_selection": {"epsilon": "1", "trust": "local"},
    "random_prefix": {"epsilon": "1"},
    "walk_leader": {"epsilon": "1", "trust": "local"},
    "running_leader": {"epsilon": "1", "delta": "1e-4"},
    "watched_selection": {"epsilon": "1"},
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_that_closes_early_takes_a_new_client(place: Path, name: str) -> None:
    study = made(place, "drop", Faults(), algorithm=name, choices=ALGORITHMS[name], seed=3)
    study.play(drawn(), most_steps=20_000)
    assert study.running_server().over
    new = study.learner(NEW).client
    assert (new.known(0), new.known(ROUNDS - 1) is None) == (None, False)
    study.close()


def test_an_exchange_needs_those_who_take_part(place: Path, built_once: None) -> None:
    """No timer closes it: an open seat and one that was emptied are not waited for.

    And the client that comes gets all answers at once.
    """
    losses, study = drawn(), made(place, faults=Faults())
    study.play(losses, most_steps=20_000)
    server = study.running_server()
    assert all(at != DROPPED for _, at in server.uploads().values())
    names = [client["name"] for client in server.public()["clients"] if client["out"]]
    assert names == ["client-000"]
    assert study.asked == CLIENTS
    study.close()


def restored_behind(
    study: Changing, witness: int, between: Callable[[], Any] = lambda: None
) -> None:
    """Restore the server's ledger and anchor of two exchanges after the witness has seen three."""
    losses = drawn()
    while study.running_server().exchange < 2:
        for client in (0, 1, 2):
            study._step(client, losses)
    study.kill("server")
    backup, anchor = study._imaged("server"), study.anchor.read_bytes()
    between()
    while study.running_server().exchange < 3 or study.learner(witness).client.exchange < 3:
        for client in dict.fromkeys((0, 1, 2, witness)):
            study._step(client, losses)
    study.learner(witness).client._flush()
    study.restore("server", backup)
    study.anchor.write_bytes(anchor)


def test_a_client_that_was_taken_out_may_show_that_the_server_is_old(
    place: Path, built_once: None
) -> None:
    """It alone has seen the last answer that a restored server lacks, ledger and anchor alike."""
    study = made(place, faults=Faults())
    restored_behind(study, LEAVER)
    study.change(LEAVER, OUT)
    study.kill(LEAVER)
    study.learner(LEAVER).client.advance()  # it learns to which process of the server it speaks
    with pytest.raises(Refused, match="older than what this client has seen"):
        study.learner(LEAVER).client.advance()
    assert study.running_server().old
    study.close()


def test_a_client_may_show_that_the_server_is_older_than_its_seat(
    place: Path, built_once: None
) -> None:
    """The restored server does not know its key; the seal that it shows is the server's own."""
    study = made(place, faults=Faults())
    restored_behind(study, NEW, lambda: study.change(NEW, study.account(NEW).public_key))
    assert not study.running_server().old
    study.kill(NEW)
    with pytest.raises(Refused, match="older than what this client has seen"):
        study.learner(NEW).client.advance()
    assert study.running_server().old
    study.close()


def test_what_may_not_change(place: Path, built_once: None) -> None:
    study = made(place, faults=Faults())
    server, manifest = study.running_server(), study.manifest
    own, new = study.account(1).public_key, study.account(NEW).public_key
    for wanted, text in (
        ({"stranger": OUT}, "has no seat 'stranger'"),
        ({"client-003": OUT}, "has no client that can be taken out"),
        ({"client-001": new}, "client-001 has a client"),
        ({"client-003": own}, "the same key"),
        ({"client-003": "12"}, "64 hex digits"),
        ({"client-003": "00" * 32}, "not all 0"),
    ):
        with pytest.raises(InvalidValue, match=text):
            server.amend(wanted)
    with pytest.raises(ManifestRefused, match="open seat of this one"):
        study.learner(NEW)
    assert server.amend({"client-003": new, "client-001": OUT, "client-000": OUT}) == [
        f"after exchange 0 the seat client-003 was given to the key {new}",
        "after exchange 0 the seat client-001 was emptied for good",
        "after exchange 0 the seat client-000 was emptied for good",
    ]
    assert server.amend({"client-001": OUT}) == []  # the file stays as it is
    with pytest.raises(InvalidValue, match="come in its place"):
        server.amend({"client-001": new})
    with pytest.raises(ManifestRefused, match="is not listed"):
        study.learner(1)
    change = server.roster.changes[0]
    for forged in (
        Change(change.seat, change.exchange, "11" * 32, change.signature),
        Change(2, change.exchange, change.key, change.signature),
        Change(change.seat, 1, change.key, change.signature),
    ):
        with pytest.raises(InvalidValue, match="not signed by the server"):
            Roster(manifest, [forged])
    with pytest.raises(InvalidValue, match="wrong length"):
        Change.read_all(change.to_bytes()[1:])
    study.close()


def test_where_all_are_waited_for_nobody_comes_or_goes(place: Path, built_once: None) -> None:
    study = small_study(place / "a", clients=2, experts=EXPERTS, horizon=4)
    with pytest.raises(Unsupported, match="waits for all clients"):
        study.running_server().amend({"client-000": OUT})
    study.close()
    with pytest.raises(InvalidValue, match="empty: an open seat"):
        small_study(place / "b", clients=2, experts=EXPERTS, horizon=4, seats=1)
    world = World(place / "c", clients=4, closing="drop", least=3)
    with pytest.raises(Unsupported, match="Helpers know the clients"):
        Roster(world.manifest).check(Change(0, 0, ""))


def test_a_seat_is_proven_by_the_server_alone(place: Path, built_once: None) -> None:
    """A ledger of a client that was not given its seat is not opened."""
    study = made(place, faults=Faults())
    study.running_server().amend({"client-003": study.account(NEW).public_key})
    client = study.learner(NEW).client
    client._database.execute("UPDATE kv SET value = zeroblob(length(value)) WHERE name = 'seat'")
    client.close()
    with pytest.raises(HedgerowError, match="not signed by the server"):
        StudyClient(study.place(NEW), client.link)
    study.close()
    shutil.rmtree(place)


def test_the_study_file_says_who_comes() -> None:
    table = {
        "algorithm": {"name": "sparse_vector"},
        "setting": {"experts": 3, "horizon": 9},
        "clients": {"north": 64 * "a", "spare": ""},
        "closing": "drop",
        "roster": {"spare": 64 * "b", "north": "out"},
    }
    found = from_table(table, environ={})
    assert found.roster == {"spare": 64 * "b", "north": "out"}
    with pytest.raises(InvalidValue, match=r"table \[roster\]"):
        from_table({**table, "roster": 3}, environ={})

"""Every release exists once, whatever dies when: messages, answers, charges, losses."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.lattice import to_units
from hedgerow.core.messages import decode
from hedgerow.deployment.client import Distrusted, Release, StudyClient
from hedgerow.deployment.database import point
from hedgerow.deployment.server import StudyServer, Wait
from hedgerow.deployment.wire import Refused, pack_refusal
from support.simulated import Crash, Faults, SimulatedStudy, small_study

ROUGH = Faults(lose=0.1, repeat=0.1, delay=0.1, crash=0.06)
GAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "sparse vector": ("sparse_vector", {"epsilon": "8", "every": 2}),
    "central phases": ("phased_selection", {"epsilon": "1"}),
    "local phases": ("phased_selection", {"epsilon": "1", "trust": "local", "report": "laplace"}),
    "dartboard": ("shrinking_dartboard", {"epsilon": "2"}),
}
POINTS = {
    *("account charge written", "account charge committed"),
    *("client ledger written", "client ledger committed"),
    *("client join written", "client join committed"),
    *("client start written", "client start committed"),
    *("client counter made",),
    *("client release written", "client release committed"),
    *("client counting", "client counted"),
    *("client called",),
    *("client answer held",),
    *("client observation written", "client observation committed"),
    *("server create written", "server create committed"),
    *("server opening written", "server opening committed"),
    *("server take written", "server take committed", "server take forgotten"),
    *("server start forgotten",),
}


def drawn(rounds: int, clients: int, experts: int, seed: int = 0) -> np.ndarray:
    """Losses on the lattice, with an expert that is best for half of the game."""
    rng = np.random.default_rng(seed)
    losses = 0.4 + 0.6 * rng.random((rounds, clients, experts))
    losses[: rounds // 2, :, 1] -= 0.4
    losses[rounds // 2 :, :, 2] -= 0.4
    return np.round(losses * 2**20) / 2**20


def played(
    place: Path,
    game: str,
    losses: np.ndarray,
    seed: int | None,
    faults: Faults,
    chance: int,
    **more: Any,
) -> SimulatedStudy:
    """A study that was played to its end."""
    rounds, clients, experts = losses.shape
    algorithm, choices = GAMES[game]
    study = small_study(
        place,
        clients=clients,
        experts=experts,
        horizon=rounds,
        algorithm=algorithm,
        choices=choices,
        seed=seed,
        chance=np.random.default_rng(chance),
        faults=faults,
        budget="1000",
        **more,
    )
    study.play(losses, most_steps=20_000)
    return study


@pytest.mark.parametrize("game", GAMES)
def test_same_transcript_as_in_one_process(place: Path, built_once: None, game: str) -> None:
    losses = drawn(24, 3, 4)
    study = played(place, game, losses, 5, ROUGH, 1)
    assert study.violations(losses) == []
    assert sum(study.watch.deaths.values()) >= 10
    assert study.running_server().over
    study.close()


@pytest.mark.parametrize("name", sorted(POINTS))
def test_crash_at_every_point(place: Path, built_once: None, name: str) -> None:
    """A process that comes to a point dies there every second time."""
    losses = drawn(8, 2, 3)
    seed = None if name.startswith("account") else 5
    study = played(place, "dartboard", losses, seed, Faults(crash=0.5, only=name), 3)
    assert set(study.watch.deaths) == {name}
    assert study.violations(losses) == []
    study.close()


def test_points_are_all_there(place: Path, built_once: None) -> None:
    """The list of points above is complete for an algorithm whose plays need no noise."""
    seen: set[str] = set()

    class Noted(SimulatedStudy):
        def _at_point(self, name: str) -> None:
            seen.add(name)

    losses = drawn(8, 2, 3)
    study = small_study(place, clients=2, experts=3, horizon=8, seed=None)
    noted = Noted.__new__(Noted)
    noted.__dict__.update(study.__dict__)
    noted.play(losses)
    assert seen == POINTS
    noted.close()


@pytest.mark.parametrize("game", ["sparse vector", "local phases"])
def test_secure_noise_under_crashes(place: Path, built_once: None, game: str) -> None:
    """What can be computed again is: exact sums, plays, and the noise of local reports."""
    losses = drawn(24, 3, 4)
    study = played(place, game, losses, None, ROUGH, 2)
    assert study.violations(losses) == []
    algorithm: Any = study.learner(0).client.algorithm
    broadcasts = [
        decode(algorithm.broadcasts.kind, study.watch.broadcasts[k])
        for k in sorted(study.watch.broadcasts)
    ]
    start, noise = 0, []
    for number, broadcast in enumerate(broadcasts):
        stop = 24 if broadcast.rounds is None else min(24, start + broadcast.rounds)
        assert (study.plays()[start:stop] == broadcast.expert).all()
        for client in range(3):
            if (client, number + 1) not in study.watch.payloads:
                continue
            sent = decode(algorithm.uploads.kind, study.watch.payloads[client, number + 1]).losses
            exact = losses[start:stop, client].sum(axis=0)
            if game == "sparse vector":  # every loss is in exactly one upload
                assert (sent == to_units(exact)).all()
            else:
                noise += list(sent - exact)
        start = stop
    if game == "local phases":
        assert len(set(noise)) == len(noise) > 20  # drawn once each, never used twice
        deviation = algorithm.parameters["report_deviation"]
        assert 0.5 < np.std(noise) / deviation < 2
    study.close()


@pytest.mark.parametrize("game", ["sparse vector", "local phases"])
def test_a_loss_of_power(place: Path, built_once: None, game: str) -> None:
    """Nothing but the last durable transaction is left, again and again; the answer comes again."""
    losses, kept = drawn(24, 2, 4), list[Path]()

    class Power(SimulatedStudy):
        """After a durable commit of the first client its files are copied."""

        def _at_point(self, name: str) -> None:
            durable = ("client start", "client release", "client flush", "client observation")
            if self._stepping == 0 and name.endswith("committed") and name.startswith(durable):
                kept.append(place / f"image-{len(kept)}")
                shutil.copytree(self.place(0), kept[-1])

        def _step(self, client: int, *game: Any, **more: Any) -> bool:
            done = super()._step(client, *game, **more)
            if self._happens(0.2):
                self.kill("server")  # it wants a hello from all, in the middle of a block
            if client == 0 and kept and self._happens(0.3):
                self.restore(0, kept[-1])
                self.watch.deaths["power"] += 1
                return False
            return done

    algorithm, choices = GAMES[game]
    study = small_study(
        place / "study",
        clients=2,
        experts=4,
        horizon=24,
        algorithm=algorithm,
        choices=choices,
        seed=5,
        chance=np.random.default_rng(7),
    )
    power = Power.__new__(Power)
    power.__dict__.update(study.__dict__)
    power.play(losses, most_steps=20_000)
    assert power.violations(losses) == []
    assert power.watch.deaths["power"] >= 10
    power.close()


def test_thousands_of_messages_on_a_bad_network(place: Path, built_once: None) -> None:
    """Lost, repeated, late and out of order; nobody dies."""
    losses = drawn(24, 3, 4)
    faults = Faults(lose=0.4, repeat=0.3, delay=0.4)
    study = played(place, "sparse vector", losses, 5, faults, 4)
    assert study.violations(losses) == []
    assert study.watch.sent > 400
    study.close()


@pytest.mark.long
@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("seed", [5, None])
def test_thousands_of_crashes(place: Path, built_once: None, game: str, seed: int | None) -> None:
    """At least 200 in each of eight ways to play."""
    losses, deaths, run = drawn(48, 4, 5), 0, 0
    while deaths < 200:
        run += 1
        study = played(place / str(run), game, losses, seed, ROUGH, run)
        assert study.violations(losses) == []
        deaths += sum(study.watch.deaths.values())
        study.close()


# Mutants: the same checks must notice them.


class SendsFirst(StudyClient):
    """Sends a release before it is on disk."""

    def _made(self, exchange: int) -> Release:
        made = super()._made(exchange)
        self.link.call(made.message)
        point("client sent too early")
        return made


class CountsFirst(StudyClient):
    """Lets the account count a release before it is on disk."""

    def _made(self, exchange: int) -> Release:
        made = super()._made(exchange)
        self._counter.note(self.chain)
        point("client counted too early")
        return made


class AnswersFirst(StudyServer):
    """Returns replies before they are on disk; the next request commits them."""

    held: Any = None

    def take(self, requests: Sequence[bytes]) -> list[bytes | Wait]:
        if self.held is not None:
            held, self.held = self.held, None
            held.__exit__(None, None, None)
        self.held = self._database.batch("server take")
        self.held.__enter__()
        replies: list[bytes | Wait] = []
        for data in requests:
            try:
                replies.append(self._handle(data))
            except Refused as refusal:
                replies.append(pack_refusal(refusal.code, refusal.text, self._boot))
        self._published = self.exchange
        return [self._ready(reply) for reply in replies]


def noticed(place: Path, seed: int | None, faults: Faults, **mutant: Any) -> str:
    """What the checks of a study say, or what stops it."""
    losses = drawn(16, 2, 3)
    try:
        study = played(place, "sparse vector", losses, seed, faults, 6, **mutant)
    except (Refused, Distrusted, InvalidValue) as error:
        return str(error)
    found = study.violations(losses)
    study.close()
    return "; ".join(found)


@pytest.mark.parametrize("seed", [5, None])
def test_sending_before_recording_is_noticed(
    place: Path, built_once: None, seed: int | None
) -> None:
    faults = Faults(crash=0.3, only="client sent too early")
    assert "older than what the server" in noticed(place, seed, faults, client_kind=SendsFirst)


@pytest.mark.parametrize("seed", [5, None])
def test_counting_before_recording_is_noticed(
    place: Path, built_once: None, seed: int | None
) -> None:
    """It stops an honest client, whose ledger then looks like an old copy."""
    faults = Faults(crash=0.3, only="client counted too early")
    assert "older than what the account" in noticed(place, seed, faults, client_kind=CountsFirst)


@pytest.mark.parametrize("seed", [5, None])
def test_answering_before_committing_is_noticed(
    place: Path, built_once: None, seed: int | None
) -> None:
    faults = Faults(crash=0.2, only="server take written")
    text = noticed(place, seed, faults, server_kind=AnswersFirst)
    assert "server's ledger is older" in text


def test_mutants_without_crashes_pass(place: Path, built_once: None) -> None:
    """So it is the crashes that show them."""
    assert noticed(place / "a", 5, Faults(), client_kind=SendsFirst) == ""
    assert noticed(place / "b", 5, Faults(), server_kind=AnswersFirst) == ""
    assert noticed(place / "c", 5, Faults(), client_kind=CountsFirst) == ""


def test_a_crash_is_not_an_error() -> None:
    """Code that catches errors does not catch the death of its process."""
    assert not issubclass(Crash, Exception)
    assert issubclass(Distrusted, HedgerowError)

"""What an application sees: rounds by number, absent rounds, sleeping experts, the end."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.core.errors import HedgerowError, InvalidValue, Unsupported
from hedgerow.deployment.client_ledger import array_bytes
from hedgerow.deployment.learner import ClientLearner, NoReply
from support.simulated import Faults, SimulatedStudy, small_study

MARK = 0.7390851332151607  # a loss that must never be shown


def losses(rounds: int, clients: int = 2, experts: int = 3) -> np.ndarray:
    drawn = np.random.default_rng(8).random((rounds, clients, experts))
    return np.round(drawn * 2**20) / 2**20


def alone(place: Path, **changes: Any) -> tuple[SimulatedStudy, ClientLearner]:
    """A study with one client, which never has to wait."""
    study = small_study(
        place, **{"clients": 1, "experts": 3, "horizon": 6, "choices": {"every": 2}, **changes}
    )
    return study, study.learner(0)


def test_rounds_come_once(place: Path) -> None:
    _, learner = alone(place)
    first = learner.predict()
    assert first == learner.predict()
    learner.observe(0, [0.5, 0.25, 1.0])
    state = learner.client._game.state
    learner.observe(0, [0.5, 0.25, 1.0])
    learner.observe(0, np.array([0.5, 0.25, 1.0], np.float32))  # the same numbers
    assert learner.client._game.state is state
    for wrong in ([0.5, 0.25, 0.75], [0.5, 0.25], None):
        with pytest.raises(HedgerowError, match=r"Round 0 was observed before|numbers"):
            learner.observe(0, wrong)
    with pytest.raises(InvalidValue, match="Expected the losses of round 1, got those of round 2"):
        learner.observe(2, [0.5, 0.25, 1.0])
    with pytest.raises(InvalidValue):
        learner.observe(-1, [0.5, 0.25, 1.0])
    assert learner.round == 1
    learner.observe(1, [0, 0, 1])  # without a prediction: the play is made now
    assert learner.round == 2


def test_what_was_observed_is_known_after_a_crash(place: Path) -> None:
    study, learner = alone(place)
    learner.predict()
    learner.observe(0, [0.5, 0.25, 1.0])
    study.kill(0)
    again = study.learner(0)
    assert again.round == 1
    again.observe(0, [0.5, 0.25, 1.0])
    with pytest.raises(InvalidValue, match="other losses"):
        again.observe(0, [0.5, 0.25, 0.5])


def test_a_play_that_draws_noise_is_stored_before_it_is_shown(
    place: Path, built_once: None
) -> None:
    """Otherwise a crash would show the same round twice, with other noise."""
    rounds = 8
    data = losses(rounds, 2)
    study = small_study(
        place, clients=2, experts=3, horizon=rounds, algorithm="tree_hedge", seed=None,
        chance=np.random.default_rng(5),
    )  # fmt: skip
    shown: dict[tuple[int, int], set[int]] = {}
    for _ in range(40):
        for client in (0, 1):
            learner = study.learner(client)
            if learner.over or not learner.client.advance():
                continue
            at = learner.round
            for _ in range(3):
                shown.setdefault((client, at), set()).add(int(learner.predict()))
                study.kill(client)
                learner = study.learner(client)
                while not learner.client.played and not learner.client.advance():
                    pass
            learner.observe(at, data[at, client])
    assert len(shown) == 2 * rounds
    assert all(len(plays) == 1 for plays in shown.values())
    assert len({play for plays in shown.values() for play in plays}) > 1  # the plays vary
    plays = [entry for entry in study.learner(0).client.chain.entries() if entry.kind == "play"]
    assert len(plays) == rounds


def test_crashes_around_plays_that_draw(place: Path, built_once: None) -> None:
    data = losses(8)
    study = small_study(
        place, clients=2, experts=3, horizon=8, algorithm="tree_hedge", seed=4,
        chance=np.random.default_rng(5), faults=Faults(crash=0.4, only="client play"),
    )  # fmt: skip
    study.play(data)
    assert set(study.watch.deaths) == {"client play written", "client play committed"}
    assert study.violations(data) == []


def test_absent_rounds(place: Path, built_once: None) -> None:
    data, present = losses(12), np.random.default_rng(1).random((12, 2)) < 0.6
    study = small_study(
        place, clients=2, experts=3, horizon=12, choices={"every": 2}, seed=4,
        features=("absent clients",), chance=np.random.default_rng(2),
        faults=Faults(lose=0.1, crash=0.05),
    )  # fmt: skip
    study.play(data, present=present)
    assert study.violations(data, present=present) == []
    assert study.violations(data) != []  # the comparison has power


def test_absence_must_be_declared(place: Path) -> None:
    _, learner = alone(place)
    learner.predict()
    with pytest.raises(Unsupported, match="no client may be absent"):
        learner.observe(0, None)
    assert learner.round == 0


def test_sleeping_experts(place: Path, built_once: None) -> None:
    data, rng = losses(12), np.random.default_rng(1)
    awake = rng.random((12, 2, 3)) < 0.6
    awake[..., 0] |= ~awake.any(axis=-1)
    study = small_study(
        place, clients=2, experts=3, horizon=12, choices={"every": 2}, seed=4,
        features=("sleeping experts",), chance=np.random.default_rng(2),
        faults=Faults(lose=0.1, crash=0.05),
    )  # fmt: skip
    study.play(data, awake=awake)
    assert study.violations(data, awake=awake) == []
    played = np.take_along_axis(awake, study.plays()[..., None], axis=-1)
    assert played.all()


def test_sleep_is_remembered(place: Path) -> None:
    """The losses of sleeping experts are not read, and the mask survives a crash."""
    study, learner = alone(place, features=("sleeping experts",))
    mask = [False, True, True]
    assert learner.predict(mask) in (1, 2)
    with pytest.raises(InvalidValue, match="other public information"):
        learner.predict([True, True, True])
    study.kill(0)
    again = study.learner(0)
    again.observe(0, [np.nan, 0.5, 1.0])
    assert again.round == 1
    with pytest.raises(InvalidValue, match="at least once True"):
        again.predict([False] * 3)
    _, plain = alone(place / "plain")
    with pytest.raises(Unsupported, match="no sleeping experts"):
        plain.predict(mask)


def test_after_the_horizon_the_last_play_goes_on(place: Path) -> None:
    study, learner = alone(place)
    with pytest.raises(InvalidValue, match="still to be played"):
        learner.finish()
    last = None
    for at in range(6):
        last = learner.predict()
        learner.observe(at, [1.0, 0.0, 0.5])
    assert learner.over
    head = learner.client.chain.head
    for at in range(6, 9):
        assert learner.predict() == last
        learner.observe(at, [0.0, 1.0, 1.0])
    assert learner.client.chain.head == head
    assert learner.status.over
    learner.finish()
    assert study.running_server().over
    study.kill(0)
    again = study.learner(0)
    assert again.predict() == last
    again.finish()  # can be repeated


def test_points_are_played_to_the_last_bit(place: Path, built_once: None) -> None:
    data = losses(10)
    study = small_study(
        place, clients=2, experts=3, horizon=10, algorithm="frank_wolfe", seed=4,
        choices={"trust": "local"}, chance=np.random.default_rng(2), faults=Faults(crash=0.05),
    )  # fmt: skip
    study.play(data)
    assert study.plays().shape == (10, 2, 3)
    assert study.violations(data) == []
    assert study.running_server().public()["play"] == "a point"


@pytest.mark.parametrize(
    "wrong",
    [
        [MARK, 2.0, 0.0],
        [MARK, -1e-9, 0.0],
        [MARK, np.nan, 0.0],
        [MARK, np.inf, 0.0],
        [MARK, 0.0],
        [[MARK, 0.0, 0.0]],
        [MARK, "x", 0.0],
        [MARK, 1j, 0.0],
        np.ma.masked_array([MARK, 0.0, 0.0], [True, False, False]),
        MARK,
    ],
)
def test_errors_show_no_loss(place: Path, wrong: Any) -> None:
    _, learner = alone(place)
    learner.predict()
    with pytest.raises(InvalidValue) as error:
        learner.observe(0, wrong)
    assert "739" not in str(error.value)
    assert error.value.__cause__ is None
    assert learner.round == 0
    learner.observe(0, [MARK, 0.5, 0.5])  # nothing was spoiled
    with pytest.raises(InvalidValue) as error:
        learner.observe(0, [MARK, 0.5, 0.25])
    assert "739" not in str(error.value)


def test_waiting_can_be_limited(place: Path) -> None:
    study = small_study(place, clients=2, experts=3, horizon=4, choices={"every": 1})
    learner = study.learner(0)
    learner.predict()
    learner.observe(0, [0.0, 0.5, 1.0])
    with pytest.raises(NoReply):  # the other client has not played yet
        learner.predict(tries=5)
    assert learner.status.exchanges == 0
    assert learner.status.next_exchange == 0


def test_status_shows_where_the_study_stands(place: Path) -> None:
    _, learner = alone(place, seed=None)
    learner.predict()
    learner.observe(0, [0.0, 0.5, 1.0])
    status = learner.status
    assert (status.round, status.horizon, status.over, status.private) == (1, 6, False, True)
    assert status.epsilon == 1.0


@pytest.mark.long
def test_every_deployable_algorithm_is_the_same_as_in_one_process(
    place: Path, built_once: None
) -> None:
    """All registered algorithms in all their forms, with crashes."""
    from hedgerow.algorithms.registry import ALGORITHMS

    data, played = losses(24, 3, 4), 0
    for name, kind in ALGORITHMS.items():
        for number, choices in enumerate(({}, *kind.traits.forms.values())):
            try:
                study = small_study(
                    place / f"{name}-{number}", clients=3, experts=4, horizon=24, algorithm=name,
                    choices=choices, seed=3, chance=np.random.default_rng(1),
                    faults=Faults(lose=0.1, repeat=0.1, delay=0.1, crash=0.03),
                )  # fmt: skip
            except HedgerowError:
                continue
            study.play(data)
            assert study.violations(data) == [], (name, choices)
            study.close()
            played += 1
    assert played > 40


def test_losses_cannot_be_guessed_from_a_ledger(place: Path) -> None:
    """Losses of 0 and 1 are few: with a plain hash a reader of `study.db` would try them all."""
    _, learner = alone(place)
    learner.predict()
    learner.observe(0, [1.0, 0.0, 1.0])
    kept = learner.client.known(0)
    text = b"round 0\n" + np.array([1.0, 0.0, 1.0]).astype("<f8").tobytes()
    assert kept != hashlib.sha256(text).digest()
    _, other = alone(place / "other")
    assert other.client.fingerprint_of(0, np.array([1.0, 0.0, 1.0])) != kept


def test_a_ledger_names_what_it_cannot_keep() -> None:
    with pytest.raises(InvalidValue, match="at most one axis, not of 2"):
        array_bytes(np.zeros((2, 3)))

"""Targets are answered once: retries, renamed rounds, revised values, other studies, and crashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.mixture.games import FAMILY, SETTING, stream
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.messages import decode
from hedgerow.deployment.application import Application
from hedgerow.deployment.client import StudyClient
from hedgerow.privacy.odometer import BudgetSpent
from support.simulated import Faults, SimulatedStudy, small_study


def _study(place: Path, clients: int = 1, **choices: Any) -> SimulatedStudy:
    given = {"experts": 4, "horizon": 12, "algorithm": "private_mixture", "seed": None}
    given["unit"] = "event,public=forecasts"  # of the accounts
    return small_study(place, clients=clients, family=repr(FAMILY), **{**given, **choices})


RECORD = [0.5, 1.0, 2.0, 0.25, 1.5]
OTHER = [0.5, 1.0, 2.0, 0.25, -1.5]


def test_a_study_is_the_same_as_in_one_process(tmp_path: Path) -> None:
    records = stream(np.random.default_rng(3), SETTING)
    faults = Faults(lose=0.1, repeat=0.1, delay=0.1, crash=0.03)
    study = _study(tmp_path, clients=3, seed=5, chance=np.random.default_rng(1), faults=faults)
    study.play(records)
    assert study.violations(records) == []
    study.close()


@pytest.mark.parametrize("closing", ["wait", "fold", "drop"])
def test_secure_noise_crashes_and_closing(tmp_path: Path, closing: str) -> None:
    records = stream(np.random.default_rng(4), SETTING)
    faults = Faults(lose=0.1, repeat=0.1, crash=0.03, close=0.0 if closing == "wait" else 0.05)
    study = _study(
        tmp_path, clients=3, closing=closing, chance=np.random.default_rng(2), faults=faults
    )
    study.play(records)
    assert study.violations(records) == []
    study.close()


def test_a_target_is_answered_once_by_its_name(tmp_path: Path) -> None:
    study = _study(tmp_path)
    learner = study.learner(0)
    learner.predict()
    with pytest.raises(InvalidValue, match="Name the target"):
        learner.observe(0, RECORD)
    learner.observe(0, RECORD, about="Ohio, 2026-01-03")
    sent = learner.client.released(1)
    learner.observe(0, RECORD, about="Ohio, 2026-01-03")  # a retry
    assert learner.client.released(1) == sent
    with pytest.raises(InvalidValue, match="other losses"):  # a revised value
        learner.observe(0, OTHER, about="Ohio, 2026-01-03")
    with pytest.raises(InvalidValue, match="other losses"):  # the same round, another name
        learner.observe(0, RECORD, about="Iowa, 2026-01-03")
    learner.predict()
    for record in (RECORD, OTHER):  # a renamed round, with the same and a revised value
        for name in ("Ohio, 2026-01-03", "  Ohio,  2026-01-03 "):
            with pytest.raises(InvalidValue, match="answered in round 0") as refused:
                learner.observe(1, record, about=name)
            assert "1.5" not in str(refused.value)
    assert learner.round == 1
    assert learner.client.released(1) == sent
    learner.observe(1, OTHER, about="Ohio, 2026-01-10")
    study.kill(0)  # and after a crash the ledger still knows
    learner = study.learner(0)
    learner.predict()
    with pytest.raises(InvalidValue, match="answered in round 1"):
        learner.observe(2, OTHER, about="Ohio, 2026-01-10")
    learner.observe(2, OTHER, about="Ohio, 2026-01-17")
    study.close()


def test_names_of_targets_are_refused_where_there_are_none(tmp_path: Path) -> None:
    study = small_study(tmp_path, clients=1, experts=3, horizon=4)
    learner = study.learner(0)
    learner.predict()
    with pytest.raises(InvalidValue, match="have none"):
        learner.observe(0, [0.0, 1.0, 0.5], about="Ohio")
    study.close()


@pytest.mark.parametrize("about", ["", "  ", 7])
def test_a_name_says_something(tmp_path: Path, about: Any) -> None:
    study = _study(tmp_path)
    learner = study.learner(0)
    learner.predict()
    with pytest.raises(InvalidValue, match="name the target"):
        learner.observe(0, RECORD, about=about)
    study.close()


def test_applications_name_targets(tmp_path: Path) -> None:
    study = _study(tmp_path)
    application = Application(study.learner(0))
    play = application({"do": "predict"})["play"]
    assert play == pytest.approx([0.25] * 4)
    request = {"do": "observe", "round": 0, "losses": RECORD, "about": "Ohio, 2026-01-03"}
    assert application(request) == {"round": 1, "over": False}
    assert application(request) == {"round": 1, "over": False}
    application({"do": "predict"})
    with pytest.raises(InvalidValue, match="answered in round 0"):
        application({**request, "round": 1})
    study.close()


def test_another_study_on_the_same_targets_is_charged(tmp_path: Path) -> None:
    """The account adds up what studies cost; the budget of 1.5 has room for one of epsilon 1."""
    study = _study(tmp_path, budget="1.5")
    study.learner(0).predict()
    account = study.account(0)
    assert account.filter.odometer.units > 0
    manifest = study.manifest
    second = type(manifest).make(
        title="Another study",
        algorithm="private_mixture",
        choices=None,
        experts=4,
        horizon=12,
        family=repr(FAMILY),
        server=manifest.server,
        sealing=manifest.sealing["server"],
        roster=dict(manifest.roster),
    )
    with pytest.raises(BudgetSpent, match="Nothing was charged"):
        account.charge(second, study.learner(0).client.algorithm, b"1" * 16)
    study.close()


class TossesAgain(StudyClient):
    """The bug: what is sent again is made again, with a fresh coin."""

    def _release(self, exchange: int) -> Any:
        super()._release(exchange)
        game = self._game
        state = self.algorithm.client.observe(game.state, self.__dict__["given"], self._mine)
        with self._database.transaction("client release"):
            self._game = game._replace(state=state)
            self._database.execute("DELETE FROM outbox WHERE exchange = ?", (exchange,))
            self._due = None
            return self._made(exchange)

    def observe(self, reports: np.ndarray, *rest: Any, **more: Any) -> None:
        self.__dict__["given"] = reports
        super().observe(reports, *rest, **more)


def test_a_fresh_coin_on_retry_is_caught(tmp_path: Path) -> None:
    records = stream(np.random.default_rng(3), SETTING)[:, :1]
    faults = Faults(lose=0.5)
    study = _study(
        tmp_path, seed=5, chance=np.random.default_rng(1), faults=faults, client_kind=TossesAgain
    )
    try:
        study.play(records, most_steps=400)
        broken = study.violations(records)
    except HedgerowError:
        broken = [f"{len(h)} messages" for h in study.watch.uploads.values() if len(h) > 1]
    assert broken
    study.close()


def test_a_retry_sends_the_stored_sign_whatever_the_server_sends(tmp_path: Path) -> None:
    records = stream(np.random.default_rng(3), SETTING)[:, :1]
    faults = Faults(lose=0.5, repeat=0.2)
    study = _study(tmp_path, seed=5, chance=np.random.default_rng(1), faults=faults)
    study.play(records)
    assert all(len(hashes) == 1 for hashes in study.watch.uploads.values())
    upload: Any = study.learner(0).client.algorithm.uploads.kind
    signs = [decode(upload, data).sign for data in study.watch.payloads.values()]
    assert {*map(float, signs)} <= {-1.0, 1.0}
    study.close()

"""Combining in deployments: study files, a client's own CSV file, names of targets and of models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.core.errors import InvalidValue
from hedgerow.deployment.account import Account
from hedgerow.deployment.flower import Place, Target, answer_turn, take_turn
from hedgerow.deployment.launching import launch
from hedgerow.deployment.manifest import Manifest
from hedgerow.deployment.pages.study import study_page
from hedgerow.deployment.server import StudyServer
from hedgerow.deployment.server_ledger import public_keys
from hedgerow.studies.config import load_study, study_from_table
from hedgerow.studies.run import run_study
from support.keys import NOBODY
from support.paths import ROOT
from support.simulated import SimulatedStudy, small_study

EXAMPLE = ROOT / "src/hedgerow/examples/combining.toml"
ROWS = """date,place,north,south,seen
2026-01-03,Ohio,1,3,2.5
2026-01-03,Iowa,4,5,5.5
2026-01-10,Ohio,2,3,3.5
2026-01-17,Ohio,2,6,1
2026-01-17,Iowa,2,1,1
"""
COLUMNS: dict[str, Any] = {"round": "date", "client": "place", "target": "seen"}


def _file(folder: Path, text: str = ROWS) -> Path:
    path = folder / "forecasts.csv"
    path.write_text(text, encoding="utf-8")
    return path


def _study(place: Path, game: hr.Combining, **choices: Any) -> SimulatedStudy:
    setting = game.setting
    return small_study(
        place,
        clients=choices.pop("clients", setting.clients),
        experts=setting.experts,
        horizon=setting.rounds,
        algorithm="private_mixture",
        family=repr(setting.family),
        unit="event,public=forecasts",
        **choices,
    )


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDGEROW_DATA", str(EXAMPLE.parent))
    study = run_study(load_study(EXAMPLE, ["seeds=1"]), workers=1)
    losses = {label: float(study.of(label)[0].loss[-1]) for label in study}
    assert losses["not private"] < losses["not private, alone"]
    assert study.config.environment.expert_names == ("north", "south")


def test_a_launched_study_names_its_targets(tmp_path: Path) -> None:
    """Iowa is absent once; the plays are those of the simulation all the same."""
    environment = {"name": "combined_forecasts", "path": str(_file(tmp_path)), **COLUMNS}
    study = study_from_table(
        {"environment": environment, "algorithms": [{"name": "private_mixture"}], "seeds": 1}
    )
    names: list[Any] = []

    def started(whole: Any) -> None:
        names.append(whole.manifest.setting["names"])

    (tmp_path / "launched").mkdir()
    done = launch(tmp_path / "launched", study, None, 3, 0, lambda *_: None, started)
    assert (done.same, done.rounds, len(done.heads)) == (True, 3, 3)
    assert names == [["north", "south"]]


def test_a_client_answers_from_its_own_file(tmp_path: Path) -> None:
    own = "".join(line for line in ROWS.splitlines(True) if "Iowa" not in line)
    table = hr.ForecastTable.read(_file(tmp_path, own), **COLUMNS)
    game = hr.Combining(table)
    study = _study(tmp_path / "study", game, seed=None)
    learner = study.learner(0)
    for t in range(len(table.rounds)):
        learner.predict()
        learner.observe(t, game.records[t, 0], about=table.name_of(t, 0))
    assert table.name_of(1, 0) == "Ohio, 2026-01-10"
    assert learner.over
    study.close()


@pytest.mark.parametrize("named", [True, False])
def test_a_target_is_named_under_flower(tmp_path: Path, named: bool) -> None:
    own = "".join(line for line in ROWS.splitlines(True) if "Iowa" not in line)
    table = hr.ForecastTable.read(_file(tmp_path, own), **COLUMNS)
    game, account = (
        hr.Combining(table),
        Account.make(tmp_path / "a", name="a", unit="event,public=forecasts", epsilon="2"),
    )
    manifest = Manifest.make(
        title="Under Flower",
        algorithm="private_mixture",
        experts=2,
        horizon=3,
        family=repr(game.setting.family),
        **public_keys(tmp_path / "server"),
        roster={"a": account.public_key},
        seed=5,
    )
    StudyServer.create(tmp_path / "server", manifest).close()
    place = Place(tmp_path / "a", manifest.server, manifest.digest.hex(), seeded=True)

    def answer(t: int, play: np.ndarray) -> Any:
        return Target(game.records[t, 0], table.name_of(t, 0)) if named else game.records[t, 0]

    def play() -> bool:
        server, replies, challenge = StudyServer(tmp_path / "server"), dict[bytes, bytes](), b""
        try:
            for _ in range(20):
                turn = take_turn(place, replies, challenge, answer)
                challenge = turn.challenge
                replies = answer_turn(server, {0: turn.requests})[0]
            return server.over
        finally:
            server.close()

    if named:
        assert play()
        return
    with pytest.raises(InvalidValue, match="Name the target"):
        play()


def test_the_page_shows_weights_by_name(tmp_path: Path) -> None:
    table = hr.ForecastTable.read(_file(tmp_path), **COLUMNS)
    study = _study(tmp_path / "study", hr.Combining(table), features=("absent clients",))
    shown = study.running_server().public()
    assert shown["weights"] == {"0": 0.5, "1": 0.5}
    named = {**shown, "weights": {"north<b>": 0.25, "south": 0.75}}
    page = study_page(named).decode()
    assert page.index("south") < page.index("north&lt;b&gt;")
    assert "75.0 %" in page
    assert "Weights of the forecasts" not in study_page({**shown, "weights": None}).decode()
    study.close()
    plain = small_study(tmp_path / "plain", clients=1, experts=3, horizon=4)
    assert plain.running_server().public()["weights"] is None
    plain.close()


@pytest.mark.parametrize(
    "names", [["a"], ["a", "a"], ["a", ""], ["a", "b\n"], ["a", 81 * "b"], ["a", 1]]
)
def test_names_of_experts_fit_or_are_refused(names: list[Any]) -> None:
    given: dict[str, Any] = {"title": "t", "algorithm": "sparse_vector", "experts": 2, "horizon": 9}
    given |= {**NOBODY, "roster": {"a": "11" * 32}}
    good = Manifest.make(**given, names=["a", "b"])
    assert Manifest.read(good.to_bytes()).setting["names"] == ["a", "b"]
    with pytest.raises(InvalidValue, match="names"):
        Manifest.make(**given, names=names)

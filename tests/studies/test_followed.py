"""Who followed what: names, shares and each client's result, against counts by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import hedgerow as hr
from hedgerow.core.block import ABSENT
from hedgerow.core.transcript import Everything
from hedgerow.engines.simulate import simulate
from hedgerow.evaluation.following import Following
from support.command import Command
from support.paths import EXAMPLES

ROUNDS, NAMES, WARDS = 40, ("calm", "wild", "wise"), ("north", "south")


def _losses(gaps: bool) -> np.ndarray:
    losses = np.random.default_rng(0).random((ROUNDS, 2, 3))
    losses[..., 2] /= 4
    if gaps:
        losses[5:9, 1] = np.nan
    return losses


def _game(gaps: bool) -> hr.RecordedArray:
    missing = "absent" if gaps else None
    return hr.RecordedArray(_losses(gaps), missing, experts=NAMES, clients=WARDS)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("alone", [False, True])
def test_shares_and_losses_are_those_of_the_plays(gaps: bool, alone: bool) -> None:
    from hedgerow.studies.config import Entry, StudyConfig
    from hedgerow.studies.run import run_study

    game = _game(gaps)
    entry = Entry("leader", hr.FollowTheLeader(), alone=alone)
    study = run_study(StudyConfig("x", game, (entry,), seeds=1), keep=True)
    plays, losses = study.kept[0].plays, np.nan_to_num(_losses(gaps))
    there = plays != ABSENT
    counts = np.bincount(plays[there], minlength=3)
    followed = study["leader"].followed
    assert followed is not None
    assert followed.best == "wise"
    assert [followed.share[name] for name in NAMES] == pytest.approx(counts / counts.sum())
    last = [plays[there[:, i], i][-1] for i in range(2)]
    assert followed.at_end["wise"] == np.mean(np.array(last) == 2)
    paid = np.take_along_axis(losses, np.maximum(plays, 0)[..., None], 2)[..., 0] * there
    for i, client in enumerate(study["leader"].clients):
        assert (client.client, client.follows) == (WARDS[i], NAMES[last[i]])
        assert client.rounds == there[:, i].sum()
        assert client.loss == pytest.approx(paid[:, i].sum() / client.rounds, abs=1e-5)
        assert client.best_loss == pytest.approx(
            losses[:, i].sum(0).min() / client.rounds, abs=1e-5
        )


def test_weights_have_names_and_gains_are_over_alone() -> None:
    games = {"mixture": hr.PrivateMixture(epsilon=50.0)}
    path = str(EXAMPLES / "stations.csv")
    columns = {"target": "measured", "round": "date", "client": "station"}
    combined = hr.CombinedForecasts(path, scale=50.0, **columns)  # type: ignore[arg-type]
    followed = hr.run(combined, games, seeds=1)["mixture"].followed
    assert followed is not None
    assert set(followed.share) == {"persistence", "weekly", "smooth", "north", "south"}
    assert sum(followed.share.values()) == pytest.approx(1)
    assert followed.found is None
    losses = hr.run(_game(False), {"a": hr.FollowTheLeader()}, seeds=1, alone=True)
    for together, alone in zip(losses["a"].clients, losses["a, alone"].clients, strict=True):
        assert together.gain == pytest.approx(alone.loss - together.loss)
        assert np.isnan(alone.gain)


def test_rivals_of_forecasts_are_the_average_and_the_median() -> None:
    path = str(EXAMPLES / "stations.csv")
    columns = {"target": "measured", "round": "date", "client": "station"}
    game = hr.Forecasts(path, largest_error=50.0, missing="absent", **columns)  # type: ignore[arg-type]
    table = hr.ForecastTable.read(path, **columns)
    there = table.present
    for name, forecast in (("plain average", table.average), ("median", table.median)):
        error = np.minimum(np.abs(forecast - table.targets) / 50, 1)
        assert game.rivals()[name] == pytest.approx(np.where(there, error, 0.0))
    study = hr.run(game, {"a": hr.FollowTheLeader()}, seeds=1)
    assert study.results[0].comparators["median"] == game.rivals()["median"].sum() / 12
    mean = study["a"].clients[0].loss  # in degrees
    assert 2 < mean < 10


def test_new_data_in_every_seed_have_no_expert_to_name() -> None:
    study = hr.run(hr.Realizable(clients=2, experts=3, horizon=30), {"a": hr.Hedge()}, seeds=2)
    assert study["a"].followed is not None
    assert study["a"].followed.best is None
    assert "the best one" in str(study)
    assert {one.follows for one in study["a"].clients} == {""}


def test_a_run_folder_and_kept_plays_have_names(hedgerow: Command, tmp_path: Path) -> None:
    study = EXAMPLES / "stations.toml"
    found = hedgerow("run", str(study), "--set", "seeds=1", "--keep", "--out", str(tmp_path / "x"))
    assert "north" in found.out
    written = json.loads((tmp_path / "x" / "summary.json").read_text())["followed"]["not private"]
    assert written["best"] == "north"
    assert written["clients"][0]["client"] == "Ash"
    plays = pq.read_table(tmp_path / "x" / "plays.parquet").to_pydict()
    assert set(plays["client name"]) == {row["client"] for row in written["clients"]}
    assert set(plays["expert"]) <= {"", "persistence", "weekly", "smooth", "north", "south"}


def test_following_is_equal_by_its_arrays() -> None:
    one = Following(np.array([1.0]), np.array([1.0]), best=0)
    assert one == Following(np.array([1.0]), np.array([1.0]), best=0)
    assert one != Following(np.array([0.5]), np.array([1.0]), best=0)


def test_a_model_has_weights_by_feature(tmp_path: Path) -> None:
    """The last weights of the clients, in tables, JSON and the page; read again from the folder."""
    rng = np.random.default_rng(0)
    rows = [
        f"{t},{c},{a:.4f},{d:.4f},{1 if 2 * a > d else -1}"
        for t in range(30)
        for c in ("north", "south")
        for a, d in [rng.uniform(-0.5, 0.5, 2)]
    ]
    file = tmp_path / "examples.csv"
    file.write_text("\n".join(["round,client,age,dose,label", *rows]), encoding="utf-8")
    game, spec = hr.RecordedExamples(str(file)), hr.OnlineSGD(epsilon=50.0)
    out = tmp_path / "run"
    study = hr.run(game, {"private": spec}, seeds=1, out=str(out))
    found = study["private"].followed
    assert found is not None
    assert found.weights
    algorithm, seen = spec.build(game.setting), Everything(wants_messages=False)
    simulate(algorithm, game, study.config.first_seed, sinks=[seen])
    last = np.asarray(seen.all_plays())[-1].mean(axis=0)
    assert found.at_end == pytest.approx({"age": last[0], "dose": last[1]})
    assert list(found.at_end) == ["age", "dose"]
    assert found.cells()[0] == f"age {last[0]:+.3g}, dose {last[1]:+.3g}"
    assert last[0] > 0 > last[1]
    written = json.loads((out / "summary.json").read_text(encoding="utf-8"))["followed"]
    assert written["private"]["at_end"] == pytest.approx(found.at_end)
    shown = f'<th>age</th><td data-head="private">{last[0]:+.4g}</td>'
    assert shown in study._repr_html_()
    assert game.client_names == ("north", "south")

"""Flu forecasts as a game: the table in the package, losses by hand, nothing secret in a scale,
models that sleep, states that play alone, and every broken table is named.
"""

from __future__ import annotations

import gzip
import os
import pickle
import runpy
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hedgerow as hr
from hedgerow.core.block import check
from hedgerow.core.environment import Feature
from hedgerow.core.errors import HedgerowError, InvalidValue, MissingData, Unsupported
from hedgerow.core.lattice import round_to_lattice, to_units
from hedgerow.environments.recorded.flusight import NO_FORECAST, TABLE, load
from hedgerow.studies.config import study_from_table
from hedgerow.studies.run import run_study
from support.paths import EXAMPLES, PACKAGE, ROOT
from support.played import seen_in

SHIPPED = EXAMPLES / TABLE
REAL = Path(os.environ.get("HEDGEROW_DATA", "../shared/data")) / "flusight"
TOOL = runpy.run_path(str(ROOT / "tools" / "flusight_table.py"))


def _table(folder: Path, **changes: Any) -> str:
    """A small table of 4 weeks, 3 locations and 3 models; the third model comes in week 2."""
    rng = np.random.default_rng(5)
    forecasts = rng.integers(100, 900, (4, 3, 3)).astype(np.uint16)
    forecasts[:2, :, 2] = NO_FORECAST
    arrays = {
        "weeks": np.array(["2022-01-15", "2022-01-22", "2022-01-29", "2022-02-05"]),
        "locations": np.array(["Alaska", "Ohio", "Utah"]),
        "models": np.array(["a", "b", "c"]),
        "forecasts": forecasts,
        "truth": rng.integers(0, 90, (4, 3)).astype(np.uint16),
    } | changes
    np.savez(folder / "table.npz", **{k: v for k, v in arrays.items() if v is not None})
    return str(folder / "table.npz")


# The table in the package


def test_the_table_names_its_source_and_every_licence() -> None:
    with np.load(SHIPPED, allow_pickle=False) as table:
        about, licences, models = str(table["about"]), table["licences"], table["models"]
        assert str(table["mit"]).startswith("Copyright (c) 2020 The Johns Hopkins University")
    assert SHIPPED.stat().st_size <= 400_000
    for words in ("CDC FluSight", "github.com/cdcepi/Flusight-forecast-data", "CC BY 4.0"):
        assert words in about
    assert len(licences) == len(models) == 42
    assert set(licences) == {"CC BY 4.0", "MIT"}
    assert set(models[licences == "MIT"]) == set(TOOL["MIT"])
    assert not set(models) & set(TOOL["NOT_FREE"])
    for document in ("README.md", "docs/flusight.md"):
        text = " ".join((ROOT / document).read_text(encoding="utf-8").split())
        assert "CC BY 4.0" in text
        assert "CDC FluSight" in text


def test_the_table_is_part_of_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["hedgerow"]
    assert any(fnmatch(str(SHIPPED.relative_to(PACKAGE)), pattern) for pattern in patterns)


def test_it_works_without_any_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDGEROW_DATA", "/nowhere")
    assert hr.FluSight().setting == hr.Setting(clients=53, experts=12, horizon=56)


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no {REAL}")
def test_the_table_can_be_made_again() -> None:
    made = TOOL["table"](REAL)
    with np.load(SHIPPED, allow_pickle=False) as table:
        assert set(table) == set(made)
        for name in table:
            assert np.array_equal(table[name], made[name]), name


def test_the_tool_keeps_states_one_week_ahead_and_free_models(tmp_path: Path) -> None:
    day, week = np.datetime64("2022-01-10", "us"), np.timedelta64(7, "D")
    rows = [
        ("b", 1, day, "39", 12.34),
        ("a", 1, day, "02", 0.0),
        ("a", 1, day + week, "39", 5.06),
        ("a", 2, day, "39", 99.0),
        ("a", 1, day, "US", 99.0),
        ("MOBS-GLEAM_FLUH", 1, day, "39", 99.0),
    ]
    names = ("model", "horizon", "target_end_date", "location", "value")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "median_forecasts.parquet")
    truth = ["date,location,location_name,value"]
    truth += [
        f"{d},{code},{name},{n}"
        for n, (d, (code, name)) in enumerate(
            (d, place)
            for d in ("2022-01-10", "2022-01-17", "2023-01-01")
            for place in (("39", "Ohio"), ("02", "Alaska"), ("US", "US"))
        )
    ]
    (tmp_path / "truth_weekly.csv.gz").write_bytes(gzip.compress("\n".join(truth).encode()))
    made = TOOL["table"](tmp_path)
    assert made["locations"].tolist() == ["Alaska", "Ohio"]
    assert made["models"].tolist() == ["a", "b"]
    assert made["weeks"].tolist() == ["2022-01-10", "2022-01-17"]
    gap = NO_FORECAST
    assert made["forecasts"].tolist() == [[[0, gap], [gap, 123]], [[gap, gap], [51, gap]]]
    assert made["truth"].tolist() == [[1, 0], [4, 3]]


# Losses


@pytest.mark.parametrize("scale", ["peak", "week"])
def test_losses_are_what_a_hand_computes(scale: Any) -> None:
    game, rng = hr.FluSight(scale=scale), np.random.default_rng(0)
    with np.load(SHIPPED, allow_pickle=False) as table:
        forecasts, truth = table["forecasts"].tolist(), table["truth"].tolist()
        columns = [list(table["models"]).index(name) for name in game.models]
    for week, place, model in rng.integers(0, (56, 53, 12), (60, 3)).tolist():
        medians = [
            median(f / 10 for f in forecasts[w][place] if f != NO_FORECAST) for w in range(week + 1)
        ]
        own = forecasts[week][place][columns[model]]
        value = medians[-1] if own == NO_FORECAST else own / 10
        divisor = max(10.0, max(medians) if scale == "peak" else medians[-1])
        loss = min(1.0, abs(value - truth[week][place]) / divisor)
        assert game.losses[week, place, model] == pytest.approx(loss, abs=2**-20)
    assert game.clipped == {"peak": 801, "week": 2255}[scale]  # the documents state the first
    assert game.clipped <= (game.losses == 1).sum()


def test_a_reported_number_enters_one_loss_vector_only(tmp_path: Path) -> None:
    """So what the certificate protects, one loss vector, is one week's report of one state."""
    before = hr.FluSight(path=str(SHIPPED)).losses
    with np.load(SHIPPED, allow_pickle=False) as table:
        arrays = dict(table)
    arrays["truth"] = arrays["truth"].copy()
    arrays["truth"][20, 7] += 3000  # larger than all before
    np.savez(tmp_path / "other.npz", **arrays)
    for scale in ("peak", "week"):
        before = hr.FluSight(scale=scale).losses
        after = hr.FluSight(scale=scale, path=str(tmp_path / "other.npz")).losses
        changed = {(week, place) for week, place, _ in np.argwhere(before != after).tolist()}
        assert changed == {(20, 7)}


def test_a_scale_uses_no_later_forecast(tmp_path: Path) -> None:
    table, rng = load(None), np.random.default_rng(1)
    path = _table(tmp_path)
    early = load(path).scale("peak")[:2]
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays["forecasts"][2:] = rng.integers(5000, 60000, (2, 3, 3))
    np.savez(tmp_path / "later.npz", **arrays)
    assert np.array_equal(load(str(tmp_path / "later.npz")).scale("peak")[:2], early)
    assert table.scale("peak").min() == table.scale("week").min() == 10.0
    assert (np.diff(table.scale("peak"), axis=0) >= 0).all()


def test_the_plain_average_is_that_of_the_models_in_the_game(tmp_path: Path) -> None:
    path = _table(tmp_path)
    table = load(path)
    cases: tuple[tuple[Any, np.ndarray], ...] = (
        ("sleep", np.nanmean(table.forecasts, axis=2)),
        ("fill", np.where(np.isnan(f := table.forecasts), table.consensus[..., None], f).mean(2)),
    )
    for missing, values in cases:
        game = hr.FluSight(path=path, missing=missing, coverage=0.0)
        errors = np.minimum(np.abs(values - table.truth) / table.scale("peak"), 1)
        assert game.rivals()["plain average"] == pytest.approx(errors)
    truth = np.full((4, 3), 2000, np.uint16)
    assert hr.FluSight(path=_table(tmp_path, truth=truth)).clipped == 4 * 3 * 2  # two models


# Blocks, masks, states alone


@pytest.mark.parametrize("missing", ["fill", "sleep"])
def test_blocks_are_slices_of_the_whole(missing: Any) -> None:
    game = hr.FluSight(missing=missing, coverage=0.0)
    whole, _ = game.block(game.start(0), 56, None)
    check(whole, game.setting, 0, 56)
    state, first = game.start(3), 0
    for rounds in (1, 20, 35):
        again = [game.block(state, rounds, None)[0] for _ in range(2)]
        part, state = game.block(state, rounds, None)
        assert np.array_equal(part.losses, whole.losses[first : first + rounds])
        assert np.array_equal(again[0].losses, part.losses)
        if missing == "sleep":
            assert part.awake is not None
            assert whole.awake is not None
            assert np.array_equal(part.awake, whole.awake[first : first + rounds])
        first += rounds


def test_seeds_play_the_states_in_turn() -> None:
    together, alone = hr.FluSight(), hr.FluSight(location="each")
    assert alone.setting == hr.Setting(clients=1, experts=12, horizon=56)
    for seed, name in ((0, "Alabama"), (35, "Ohio"), (53 + 35, "Ohio")):
        block, _ = alone.block(alone.start(seed), 56, None)
        own = hr.FluSight(location=name)
        at = together.locations.index(name)
        assert np.array_equal(block.losses, together.losses[:, at : at + 1])
        assert np.array_equal(block.losses, own.losses)
        assert own.models == together.models
        sums, after = alone.sums(alone.start(seed), 10)
        assert np.array_equal(sums, to_units(own.losses[:10].sum(axis=(0, 1))))
        assert after == (seed % 53, 10)
    assert len({game.fingerprint() for game in (together, alone, hr.FluSight(scale="week"))}) == 3


def test_models_that_sleep_are_not_followed() -> None:
    game = hr.FluSight(missing="sleep", coverage=0.0)
    assert game.setting.experts == 42
    assert game.traits.features == {Feature.SLEEPING_EXPERTS}
    block, _ = game.block(game.start(0), 56, None)
    assert block.awake is not None
    with np.load(SHIPPED, allow_pickle=False) as table:
        assert np.array_equal(block.awake, table["forecasts"] != NO_FORECAST)
    kept = seen_in(hr.FollowTheLeader(), game)
    plays = kept.all_plays()
    assert np.take_along_axis(block.awake, plays[..., None], axis=2).all()
    with pytest.raises(Unsupported, match="running_leader does not support sleeping experts"):
        hr.run(game, {"private": hr.RunningLeader()}, seeds=1)


def test_a_missing_forecast_is_replaced_by_the_median_of_the_others(tmp_path: Path) -> None:
    path = _table(tmp_path)
    game, table = hr.FluSight(path=path, coverage=0.5), load(path)
    assert game.models == ("a", "b", "c")
    errors = np.abs(np.nanmedian(table.forecasts, axis=2) - table.truth) / table.scale("peak")
    expected = round_to_lattice(np.minimum(errors, 1.0))[:2]
    assert np.array_equal(game.losses[:2, :, 2], expected)
    assert hr.FluSight(path=path, coverage=0.51).models == ("a", "b")


def test_a_model_without_any_forecast_is_left_out(tmp_path: Path) -> None:
    forecasts = np.full((4, 3, 3), 50, np.uint16)
    forecasts[..., 1] = NO_FORECAST
    path = _table(tmp_path, forecasts=forecasts)
    assert hr.FluSight(path=path, coverage=0.0, missing="sleep").models == ("a", "c")


def test_it_travels_light_and_runs_from_a_study_file() -> None:
    game = hr.FluSight(location="Ohio")
    _ = game.losses
    sent = pickle.dumps(game)
    assert len(sent) < 500
    assert pickle.loads(sent) == game
    assert np.array_equal(pickle.loads(sent).losses, game.losses)
    config = study_from_table(
        {
            "seeds": 1,
            "environment": {"name": "flusight", "location": "Ohio"},
            "algorithms": [{"name": "follow_the_leader"}],
        }
    )
    assert config.environment == game
    assert run_study(config, workers=1).results[0].loss[-1] > 0


# Errors


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"location": "Ohia"}, r"Unknown location 'Ohia'; did you mean 'Ohio'\?"),
        ({"missing": "drop"}, r"Expected missing='drop' in \('fill', 'sleep'\)"),
        ({"scale": "year"}, r"Expected scale='year' in \('peak', 'week'\)"),
        ({"coverage": 1.5}, r"Expected coverage=1\.5 in \[0, 1\]"),
        ({"coverage": float("nan")}, r"Expected coverage=nan in \[0, 1\]"),
    ],
)
def test_a_bad_choice_is_named(choices: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        _ = hr.FluSight(**choices).setting


def _gap(*where: int) -> np.ndarray:
    forecasts = np.full((4, 3, 3), 50, np.uint16)
    forecasts[where] = NO_FORECAST
    return forecasts


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"truth": None}, HedgerowError, r"Cannot read .*truth"),
        ({"truth": np.zeros((4, 2), int)}, InvalidValue, r"truth .* shape \(4, 3\).*\(4, 2\)"),
        ({"truth": np.zeros((4, 3))}, InvalidValue, "whole numbers .* got float64"),
        ({"truth": np.full((4, 3), -1)}, InvalidValue, "truth .* at least 0, got -1"),
        ({"weeks": np.array([], str)}, InvalidValue, r"forecasts .* shape \(0, 3, 3\)"),
        ({"forecasts": _gap(2, 1)}, InvalidValue, "No model has a forecast for Ohio in the week"),
    ],
)
def test_a_broken_table_is_named(
    tmp_path: Path, changes: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        _ = hr.FluSight(path=_table(tmp_path, **changes)).setting


def test_a_file_that_is_no_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no table")
    with pytest.raises(HedgerowError, match=r"Cannot read .*text\.npz"):
        _ = hr.FluSight(path=str(tmp_path / "text.npz")).setting
    with pytest.raises(MissingData, match=r"'nothing\.npz' not found"):
        _ = hr.FluSight(path="nothing.npz").setting


def test_a_coverage_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    forecasts = np.full((4, 3, 3), 50, np.uint16)
    for model in range(3):
        forecasts[model, :, model] = NO_FORECAST
    path = _table(tmp_path, forecasts=forecasts)
    with pytest.raises(InvalidValue, match=r"share coverage=1\.0 of all weeks .* smaller coverage"):
        _ = hr.FluSight(path=path, coverage=1.0).setting
    forecasts[:, :, 1:] = NO_FORECAST
    forecasts[0, :, 1] = 50
    path = _table(tmp_path, forecasts=forecasts)
    with pytest.raises(InvalidValue, match=r"coverage=0\.5 has a forecast for Alaska in the week"):
        _ = hr.FluSight(path=path, coverage=0.5, missing="sleep").setting

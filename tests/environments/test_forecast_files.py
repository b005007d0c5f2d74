"""Losses from forecasts: their formulas, counted clipping, dates, names, gaps, and bad files."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hedgerow as hr
from hedgerow.core.environment import Feature
from hedgerow.core.lattice import round_to_lattice
from hedgerow.environments.recorded.table import is_missing
from hedgerow.studies.config import study_from_table, study_table

GOOD = (
    "day,site,came,a,b\n"
    "2026-02-01,x,10,12,30\n2026-01-31,y,5,5,1\n2026-02-01,y,8,7,8\n2026-01-31,x,0,4,-4\n"
)  # days and sites in no order
COLUMNS: dict[str, Any] = {"target": "came", "round": "day", "client": "site"}


def _by_hand(loss: str, came: float, said: float, most: float, q: float) -> float:
    error = min(max(came - said, -most), most)
    if loss == "absolute":
        return abs(error) / most
    if loss == "squared":
        return error**2 / most**2
    return (q * error if error >= 0 else (q - 1) * error) / (most * max(q, 1 - q))


@pytest.mark.parametrize("loss", ["absolute", "squared", "pinball"])
def test_losses_are_those_of_the_definition_and_clipped_errors_are_counted(loss: Any) -> None:
    rng = np.random.default_rng(0)
    came, said = rng.normal(0, 5, (6, 3)), rng.normal(0, 5, (6, 3, 4))
    losses, clipped = hr.forecast_losses(said, came, loss=loss, largest_error=7.0, quantile=0.9)
    expected = np.zeros((6, 3, 4))
    for at in np.ndindex(6, 3, 4):
        expected[at] = _by_hand(loss, float(came[at[:2]]), float(said[at]), 7.0, 0.9)
    assert losses == pytest.approx(expected)
    assert losses.min() >= 0
    assert losses.max() <= 1.0
    assert clipped == (np.abs(came[..., None] - said) > 7.0).sum() > 0


def test_the_largest_loss_is_reached_on_one_side_of_a_quantile() -> None:
    for quantile, error in ((0.9, 3.0), (0.1, -3.0)):
        losses, _ = hr.forecast_losses(
            [[0.0]], [error], loss="pinball", largest_error=3.0, quantile=quantile
        )
        assert losses.tolist() == [[1.0]]


def test_masked_forecasts_and_targets_are_missing() -> None:
    hidden = [[True, False], [False, False], [False, False]]
    said = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], mask=hidden)
    came = np.ma.masked_array([1.0, 1.0, 1.0], mask=[False, False, True])
    losses, clipped = hr.forecast_losses(said, came, largest_error=4.0)
    expected = [[np.nan, 0.25], [0.5, 0.75], [np.nan, np.nan]]
    assert np.array_equal(losses, expected, equal_nan=True)
    assert clipped == 0  # 5 lies under a mask
    words = np.ma.masked_array([["a", "b"], ["a", "a"], ["b", "b"]], mask=hidden)
    for target in (np.ma.masked_array(["a", "a", "b"], mask=came.mask), ["a", "a", np.ma.masked]):
        wrong, _ = hr.forecast_losses(words, target, loss="zero_one")
        assert np.array_equal(wrong, [[np.nan, 1], [0, 0], [np.nan, np.nan]], equal_nan=True)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_gap_is_a_gap_in_every_precision(kind: Any) -> None:
    gap = np.array([1.0, np.nan], kind)
    assert (
        is_missing(gap).tolist() == is_missing(np.array([*gap], object)).tolist() == [False, True]
    )
    losses, _ = hr.forecast_losses([[*gap]], [kind(1.0)], loss="zero_one")
    assert np.isnan(losses).tolist() == [[False, True]]


def test_zero_one_takes_texts_numbers_and_gaps() -> None:
    losses, clipped = hr.forecast_losses(
        [["rain", "sun"], ["sun", None], ["rain", "rain"]], ["rain", "sun", None], loss="zero_one"
    )
    assert np.array_equal(losses, [[0, 1], [0, np.nan], [np.nan, np.nan]], equal_nan=True)
    assert clipped == 0
    assert hr.forecast_losses([[1, 2]], [2], loss="zero_one")[0].tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("kind", ["csv", "parquet", "numbers", "times"])
def test_dates_are_rounds_and_names_are_clients_in_any_order_of_rows(
    tmp_path: Path, kind: str
) -> None:
    text = GOOD
    if kind == "numbers":  # years, say: any whole numbers in order
        text = GOOD.replace("2026-02-01", "2026").replace("2026-01-31", "2019")
    if kind == "times":
        text = GOOD.replace("2026-02-01", "2026-01-31 12:00:00").replace("31,", "31 09:30:00,")
    path = tmp_path / "a.csv"
    path.write_text(text)
    if kind == "parquet":
        day = datetime.date.fromisoformat
        table = {
            "day": [day("2026-02-01"), day("2026-01-31"), day("2026-02-01"), day("2026-01-31")],
            "site": ["x", "y", "y", "x"],
            "came": [10, 5, 8, 0],
            "a": [12.0, 5.0, 7.0, 4.0],
            "b": [30.0, 1.0, 8.0, -4.0],
        }
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table(table), path)
    game = hr.Forecasts(str(path), largest_error=8.0, **COLUMNS)
    expected = np.array([[[0.5, 0.5], [0.0, 0.5]], [[0.25, 1.0], [0.125, 0.0]]])
    assert np.array_equal(game.losses, round_to_lattice(expected))
    assert game.expert_names == ("a", "b")
    assert game.clipped == 1
    assert game.notes() == ("1 of 8 forecast errors is larger than 8 and counts as 8",)
    assert pickle.loads(pickle.dumps(game)) == game
    one = hr.Forecasts(str(path), largest_error=8.0, experts=("b",), **COLUMNS)
    assert np.array_equal(one.losses, game.losses[..., 1:])


def test_gaps_are_absent_clients_and_sleeping_experts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "day,site,came,a,b\n2026-02-01,x,10,12,\n2026-01-31,y,,5,1\n"
        "2026-02-01,y,8,7,8\n2026-01-31,x,0,4,-4\n"
    )
    game = hr.Forecasts(str(tmp_path / "a.csv"), largest_error=8.0, missing="absent", **COLUMNS)
    assert game.traits.features == {Feature.ABSENT_CLIENTS, Feature.SLEEPING_EXPERTS}
    assert game.gaps.present is not None
    assert game.gaps.awake is not None
    assert game.gaps.present.tolist() == [[True, False], [True, True]]
    assert game.gaps.awake[1, 0].tolist() == [True, False]


BAD = {
    "role": (GOOD, {"target": "day"}, "Expected column='day' to have one role"),
    "column": (GOOD, {"target": "measured"}, "Expected a column 'measured' in"),
    "expert": (GOOD, {"experts": ("c",)}, "Expected a column 'c' in"),
    "two roles": (GOOD, {"experts": ("a", "came")}, "Expected experts='came' to have no other"),
    "no experts": ("day,site,came\n2026-01-01,x,1\n", {}, "at least one column of forecasts"),
    "no rows": ("day,site,came,a\n", {}, "at least one row"),
    "rounds": (GOOD.replace("2026-", "week "), {}, "Expected dates such as 2026-01-31, or whole"),
    "twice": (
        GOOD.replace("y,8", "x,8"),
        {},
        "Line 4 of .* repeats the round and the client of line 2",
    ),
    "missing row": (
        GOOD.replace("2026-02-01,y,8,7,8\n", ""),
        {},
        r"The client of line 3 of .* has no row for the round of line 2.*declare missing = \"absent\"",
    ),
    "no forecast": (
        GOOD.replace("7,8\n", ",8\n"),
        {},
        r"Line 4 of .* has no value in column 'a'\. For gaps, declare",
    ),
    "no target": (GOOD.replace("y,8", "y,"), {}, "Line 4 of .* has no value in column 'came'"),
    "text": (GOOD.replace("7,8", "much,8"), {}, "Expected numbers in column 'a'"),
    "infinite": (GOOD.replace("7,8", "inf,8"), {}, r"Expected finite numbers \(line 4, 'a'"),
    "no range": (GOOD, {"largest_error": None}, "largest_error is missing.*without looking at"),
    "range": (GOOD, {"largest_error": -1.0}, "Expected largest_error=-1.0 to be a finite number"),
    "needless": (GOOD, {"loss": "zero_one"}, "largest_error=8.0 only with numbers"),
    "loss": (GOOD, {"loss": "log"}, "Expected loss='log' in"),
    "quantile": (GOOD, {"loss": "pinball", "quantile": 1.0}, r"quantile=1\.0 in \(0, 1\)"),
}


@pytest.mark.parametrize(("text", "changes", "message"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_named_in_one_line(
    tmp_path: Path, text: str, changes: dict[str, Any], message: str
) -> None:
    (tmp_path / "a.csv").write_text(text)
    choices = {"largest_error": 8.0, **COLUMNS, **changes}
    with pytest.raises(hr.HedgerowError, match=message) as caught:
        _ = hr.Forecasts(str(tmp_path / "a.csv"), **choices).losses
    assert "\n" not in str(caught.value)


def test_a_study_file_of_forecasts_says_what_was_clipped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(GOOD)
    table = {
        "environment": {
            "name": "forecasts",
            "path": str(tmp_path / "a.csv"),
            "largest_error": 8.0,
            "experts": ["a", "b"],
            **COLUMNS,
        },
        "algorithms": [{"name": "follow_the_leader"}],
    }
    config = study_from_table(table)
    assert study_from_table(study_table(config)) == config
    study = hr.run(config.environment, {"a": hr.FollowTheLeader()}, seeds=1)
    note = "1 of 8 forecast errors is larger than 8 and counts as 8"
    assert study.data_notes() == [note]
    assert f"\nnote: {note}\n" in str(study)

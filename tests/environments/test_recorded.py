"""Recorded losses: array, CSV and Parquet agree, every bad file is refused by name, data
directories are honoured.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from hedgerow.core.errors import HedgerowError, InvalidValue, MissingData
from hedgerow.core.lattice import round_to_lattice
from hedgerow.environments.recorded.data import find
from hedgerow.environments.recorded.forecasts import Forecasts
from hedgerow.environments.recorded.losses import Recorded, RecordedArray, read_losses

GOOD = "round,client,a,b\n0,x,0.5,1\n0,y,0.25,0\n1,x,0,0.125\n1,y,1,1\n"
EXPECTED = np.array([[[0.5, 1], [0.25, 0]], [[0, 0.125], [1, 1]]])


def _write(path: Path, losses: np.ndarray, shuffle: bool = True) -> None:
    rounds, clients, experts = losses.shape
    order = (
        np.random.default_rng(0).permutation(rounds * clients)
        if shuffle
        else np.arange(rounds * clients)
    )
    columns: dict[str, Any] = {
        "round": np.repeat(np.arange(rounds), clients)[order],
        "client": np.tile(np.arange(clients), rounds)[order],
    }
    wide = losses.reshape(rounds * clients, experts)[order]
    columns |= {f"expert{i}": wide[:, i] for i in range(experts)}
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
        return
    lines = [",".join(columns), *(",".join(map(repr, map(float, row))) for row in wide)]
    rows = [
        f"{r},{c},{line}"
        for r, c, line in zip(columns["round"], columns["client"], lines[1:], strict=True)
    ]
    path.write_text("\n".join([lines[0], *rows]) + "\n")


@pytest.mark.parametrize("clients", [1, 3, 12])
def test_array_csv_and_parquet_agree(tmp_path: Path, clients: int) -> None:
    losses = np.random.default_rng(1).random((9, clients, 4))
    array = RecordedArray(losses)
    assert np.array_equal(array.losses, round_to_lattice(losses))
    for name in ("a.csv", "a.parquet"):
        _write(tmp_path / name, losses)
        recorded = Recorded(path=str(tmp_path / name))
        assert recorded.setting == array.setting
        assert np.array_equal(recorded.losses, array.losses)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    assert np.array_equal(Recorded(path=str(tmp_path / "b.csv.gz")).losses, array.losses)


def test_blocks_are_consecutive_views(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(GOOD)
    for environment in (Recorded(path=str(tmp_path / "a.csv")), RecordedArray(EXPECTED)):
        block, state = environment.block(environment.start(9), 1, None)
        assert np.array_equal(block.losses, EXPECTED[:1])
        assert np.array_equal(environment.block(state, 1, None)[0].losses, EXPECTED[1:])
    assert read_losses(tmp_path / "a.csv")[1] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            GOOD.replace("round", "time"),
            "Expected a column 'round' in .*, found 'time', 'client', 'a', 'b'",
        ),
        (GOOD.replace("client", "site"), "Expected a column 'client'"),
        ("round,client\n0,x\n", "at least one expert column"),
        ("round,client,a\n", "at least one row"),
        (GOOD.replace("1,x", "1.5,x"), "whole round numbers 0, 1, 2, ... in .*, got"),
        (GOOD.replace("1,x", "first,x"), "whole round numbers .*, got text in line 4"),
        (
            "round,client,a\n2026-01-31,x,1\n31.1.2026,x,1\n",
            "Expected dates such as 2026-01-31, .*, got text in line 3",
        ),
        (
            GOOD.replace("1,y,1,1\n", ""),
            r"The client of line 3 of .* has no row for the round of line 4",
        ),
        (
            GOOD.replace("0,x", "5,x"),
            r"The client of line 2 of .* has no row for the round of line 3",
        ),
        (GOOD.replace("0,x", "-1,x"), "numbered from 0 in column 'round'"),
        (
            GOOD.replace("1,y", "1,x"),
            "Line 5 of .* repeats the round and the client of line .. Keep one row",
        ),
        (GOOD.replace("0.25", "nan"), "Line 3 of .* has no value in column 'a'. For gaps, declare"),
        (GOOD.replace("0.25", ""), "Line 3 of .* has no value in column 'a'. For gaps, declare"),
        (GOOD.replace("0.25", "25"), r"every loss in .* Divide all losses by a public bound"),
        (GOOD.replace("0,y", ",y"), "got an empty cell in line 3"),
        (GOOD.replace("round", "day"), 'found .* Rename a column, or name it with round = "..."'),
        (GOOD.replace("0.25", "1.0000001"), r"every loss in \[0, 1\] \(line 3, column 'a'"),
        (GOOD.replace("0.25", "-0.5"), r"every loss in \[0, 1\]"),
        (GOOD.replace("0.25", "inf"), r"every loss in \[0, 1\]"),
        (GOOD.replace("0.25", "low"), "numbers in column 'a' of .*, got text in line 3"),
        (GOOD.replace("0,y", "0,"), "Line 3 of .* does not name its client"),
        (GOOD.replace("x", "1").replace("y", ""), "Line 3 of .* does not name its client"),
        (GOOD.replace("client,a,b", "client,a,a"), "Columns 3 and 4 of .* have the same name"),
        ("", "Cannot read .*a.csv"),
        (
            "round,client,a\n0,x,0.5,0.7\n",
            r"Cannot read .*a.csv: Line 2 has 4 cells, but the heading has 3. Columns are separated",
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(HedgerowError, match=message) as caught:
        read_losses(tmp_path / "a.csv")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_dates_are_rounds_and_columns_have_any_name(tmp_path: Path, kind: str) -> None:
    """The losses of GOOD, with rows in another order."""
    text = "ward,b,day,a\ny,1,2026-02-01,1\nx,1,2026-01-31,0.5\nx,0.125,2026-02-01,0\ny,0,2026-01-31,0.25\n"
    path = tmp_path / "a.csv"
    path.write_text(text)
    if kind == "parquet":
        path = tmp_path / "a.parquet"
        pq.write_table(csv.read_csv(tmp_path / "a.csv"), path)
    game = Recorded(str(path), round="day", client="ward")
    assert game.expert_names == ("b", "a")
    assert np.array_equal(game.losses, EXPECTED[..., ::-1])
    (tmp_path / "b.csv").write_text(text.replace("y,0,2026-01-31,0.25\n", ""))
    gap = str(tmp_path / "b.csv")
    with pytest.raises(
        InvalidValue, match=r"The client of line 2 of .* has no row for the round of line 3"
    ):
        _ = Recorded(gap, round="day", client="ward").losses
    present = Recorded(gap, missing="absent", round="day", client="ward").gaps.present
    assert present is not None
    assert present.tolist() == [[True, False], [True, True]]
    with pytest.raises(InvalidValue, match="Expected column='day' to have one role only"):
        _ = Recorded(gap, round="day", client="day").losses


def test_data_without_any_value_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"array of shape \(2, 1, 3\) are NaN or masked"):
        RecordedArray(np.full((2, 1, 3), np.nan), missing="absent")
    (tmp_path / "a.csv").write_text("round,client,a,b\n0,x,,\n1,x,,\n")
    with pytest.raises(InvalidValue, match=r"No row of .*a.csv has a loss in .*, 'a', 'b'. Check"):
        _ = Recorded(str(tmp_path / "a.csv"), missing="absent").losses
    (tmp_path / "f.csv").write_text("round,client,target,a\n0,x,,3\n1,x,2,\n")
    forecasts = Forecasts(str(tmp_path / "f.csv"), largest_error=1.0, missing="absent")
    with pytest.raises(InvalidValue, match=r"f.csv has both a target in column 'target' and a for"):
        _ = forecasts.losses


def test_an_expert_without_any_loss_always_sleeps(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("round,client,a,b\n0,x,0.5,\n1,x,0.25,\n")
    game = Recorded(str(tmp_path / "a.csv"), missing="absent")
    assert game.gaps.awake is not None
    assert game.gaps.awake.tolist() == [[[True, False]], [[True, False]]]


@pytest.mark.parametrize(
    ("name", "data"), [("a.parquet", b"not parquet"), ("a.csv.gz", b"not gzip"), ("a.parquet", b"")]
)
def test_a_broken_file_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(HedgerowError, match=f"Cannot read .*{name}") as caught:
        read_losses(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_text(GOOD)
    with pytest.raises(
        InvalidValue, match=r"Expected a \.csv, \.csv\.gz or \.parquet file, got .*a\.xlsx"
    ):
        read_losses(tmp_path / "a.xlsx")


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, np.bool_])
def test_zero_one_losses_of_any_number_type_are_read(tmp_path: Path, dtype: Any) -> None:
    losses = np.random.default_rng(2).integers(0, 2, (4, 2, 3)).astype(dtype)
    _write(tmp_path / "a.parquet", losses)
    assert np.array_equal(Recorded(path=str(tmp_path / "a.parquet")).losses, losses)
    assert np.array_equal(RecordedArray(losses).losses, losses)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros((2, 3)), r"shape \(rounds, clients, experts\), got float64 of shape \(2, 3\)"),
        (np.zeros((2, 3, 1), complex), "numbers of shape"),
        (np.zeros((0, 3, 1)), "at least one round"),
        (np.zeros((2, 3, 0)), "at least one round, client and expert"),
        (np.full((2, 3, 1), np.nan), r"every loss in \[0, 1\] \(round 0, client 0, expert 0\)"),
        (np.full((2, 3, 1), 2), r"every loss in \[0, 1\]"),
    ],
)
def test_a_bad_array_is_refused(bad: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        RecordedArray(bad)


# Where files are looked for


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The working folder, HEDGEROW_DATA and the user's data folder, all empty."""
    folders = {name: tmp_path / name for name in ("here", "variable", "home")}
    for folder in folders.values():
        folder.mkdir()
    (folders["home"] / "hedgerow").mkdir()
    monkeypatch.chdir(folders["here"])
    monkeypatch.setenv("HEDGEROW_DATA", str(folders["variable"]))
    monkeypatch.setattr(
        "hedgerow.environments.recorded.data.user_data_path", lambda name: folders["home"] / name
    )
    return {**folders, "home": folders["home"] / "hedgerow"}


def test_files_are_found_here_then_by_variable_then_at_home(places: dict[str, Path]) -> None:
    for n, name in enumerate(("home", "variable", "here"), start=1):  # each hides the one before
        _write(places[name] / "a.csv", np.full((n, 1, 1), 0.5))
        assert Recorded(path="a.csv").setting.horizon == n


def test_a_named_data_file_is_found_by_variable_then_at_home(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("home", "variable"):
        (places[name] / "a.csv").write_text("x")
        assert find("a.csv", "somewhere") == places[name] / "a.csv"
    monkeypatch.delenv("HEDGEROW_DATA")
    assert find("a.csv", "somewhere") == places["home"] / "a.csv"


def test_a_missing_file_says_where_to_get_it_and_where_to_put_it(places: dict[str, Path]) -> None:
    with pytest.raises(MissingData) as caught:
        find("a.csv", "https://example.org")
    for part in (
        "a.csv",
        "https://example.org",
        str(places["variable"]),
        str(places["home"]),
        "--data DIR",
    ):
        assert part in str(caught.value)
    with pytest.raises(MissingData, match=r"'b\.csv' not found") as other:
        _ = Recorded(path="b.csv").setting
    assert str(places["variable"] / "b.csv") in str(other.value)
    assert str(places["home"] / "b.csv") in str(other.value)

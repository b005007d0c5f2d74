"""No error about recorded data shows a cell: it names the file, the row, the column, the problem."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import hedgerow as hr

MARKS = ("739184", "SMITH", "1971")  # in cells only: a number, a name, a year of birth
GOOD = "round,client,a,b\n0,x,0.5,1\n0,y,0.25,0\n1,x,0,0.125\n1,y,1,1\n"
LABELLED = "round,client,age,label\n0,x,0.5,1\n0,y,0.25,-1\n1,x,0,1\n1,y,1,1\n"


def losses(path: Path) -> Any:
    return hr.Recorded(str(path)).setting


def forecasts(path: Path) -> Any:
    return hr.Forecasts(str(path), target="b", largest_error=1.0).setting


def words(path: Path) -> Any:
    return hr.Forecasts(str(path), target="b", loss="zero_one").setting


def examples(path: Path) -> Any:
    return hr.RecordedExamples(str(path)).setting, hr.RecordedExamples(str(path)).records


def squared(path: Path) -> Any:
    return hr.RecordedExamples(str(path), loss="squared", target=1.0).records


CASES: dict[str, tuple[Callable[[Path], Any], str | bytes]] = {
    "more cells": (losses, GOOD.replace("1,x,0", "1,x,0.739184,SMITH")),
    "fewer cells": (losses, GOOD.replace("1,x,0,0.125", "1,0.739184")),
    "no heading": (losses, "1971-01-01,SMITH,0.739184\n1971-01-02,SMITH,0.5\n"),
    "no heading, numbers": (losses, "0,SMITH,0.739184,0.739184\n1,SMITH,0.5,0.5\n"),
    "semicolons": (losses, GOOD.replace(",", ";").replace("0.25", "0.739184")),
    "too large": (losses, GOOD.replace("0.25", "1.739184")),
    "negative": (losses, GOOD.replace("0.25", "-0.739184")),
    "text": (losses, GOOD.replace("0.25", "SMITH")),
    "a text for a round": (losses, GOOD.replace("1,x", "SMITH,x")),
    "a number for a round": (losses, GOOD.replace("1,x", "0.739184,x")),
    "rounds from 1971": (losses, GOOD.replace("\n0", "\n1971").replace("\n1,", "\n1972,")),
    "twice": (losses, GOOD.replace("1,y", "1,SMITH").replace("1,x", "1,SMITH")),
    "a gap": (losses, GOOD.replace("1,y", "1,SMITH")),
    "a gap in dates": (losses, "round,client,a\n1971-01-01,SMITH,1\n1971-01-02,x,1\n"),
    "an empty cell": (losses, GOOD.replace("0.25", "").replace("0.125", "0.739184")),
    "wrong bytes": (losses, GOOD.replace("0.25", "SMITH").encode() + b"1,SMITH\xff,0.739184,1\n"),
    "wrong bytes above": (losses, b"round,client,SMITH\xff\n0,x,0.739184\n"),
    "not a Parquet file": (losses, "PARQUET"),
    "forecasts: text": (forecasts, GOOD.replace("0.25", "SMITH")),
    "forecasts: infinite": (forecasts, GOOD.replace("0.25", "inf").replace("0.125", "0.739184")),
    "forecasts: more cells": (forecasts, GOOD.replace("1,x,0", "1,x,0.739184,SMITH")),
    "forecasts: a round": (forecasts, GOOD.replace("1,x", "SMITH,x")),
    "classes: twice": (words, GOOD.replace("1,y,1", "1,x,SMITH")),
    "examples: no heading": (examples, "0,SMITH,0.739184,1\n"),
    "examples: text": (examples, LABELLED.replace("0.25", "SMITH")),
    "examples: a label": (examples, LABELLED.replace("0.25,-1", "0.25,0.739184")),
    "examples: far": (examples, LABELLED.replace("0.25", "1.739184")),
    "examples: NaN": (examples, LABELLED.replace("0.25", "").replace("0.5", "0.739184")),
    "examples: a round": (examples, LABELLED.replace("0,y", "-1971,y")),
    "examples: too few": (examples, LABELLED.replace("1,y", "1,SMITH")),
    "examples: a target": (squared, LABELLED.replace("0.25,-1", "0.25,1.739184")),
}


def shown(cause: Callable[[], Any]) -> str:
    """All that an error shows: its text, its notes, and those of the errors that led to it."""
    try:
        cause()
    except hr.HedgerowError:
        return traceback.format_exc()
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("name", CASES)
def test_no_error_shows_a_cell(tmp_path: Path, name: str) -> None:
    read, text = CASES[name]
    path = tmp_path / ("a.parquet" if text == "PARQUET" else "a.csv")
    path.write_bytes(text if isinstance(text, bytes) else text.replace("PARQUET", "1971").encode())
    found = shown(lambda: read(path))
    assert not [mark for mark in MARKS if mark in found], found


@pytest.mark.parametrize(
    "column",
    [["SMITH", "x"], [1.739184, 0.5], [["SMITH"], ["x"]], [b"SMITH", b"x"], [{"SMITH": 1}, None]],
    ids=["text", "too large", "lists", "bytes", "objects"],
)
def test_no_error_shows_a_cell_of_a_parquet_file(tmp_path: Path, column: list[Any]) -> None:
    table = pa.table({"round": [0, 1], "client": ["x", "x"], "a": column})
    parquet.write_table(table, tmp_path / "a.parquet")
    found = shown(lambda: losses(tmp_path / "a.parquet"))
    assert not [mark for mark in MARKS if mark in found], found


def test_no_error_shows_a_number_of_an_array() -> None:
    far = np.full((2, 1, 2), 1.739184)
    pair = [(np.array([[1.739184]]), np.array([1.0]))]
    for cause in (
        lambda: hr.RecordedArray(far),
        lambda: hr.run(far, {"a": hr.Hedge()}, seeds=1),
        lambda: hr.Gains().check("gain", far),
        lambda: hr.Logistic().check("record", far),
        lambda: hr.Huber().check("record", far),
        lambda: hr.ClientData(pair, hr.Logistic()),
    ):
        found = shown(cause)
        assert not [mark for mark in MARKS if mark in found], found


def test_a_row_with_other_cells_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CASES["more cells"][1])  # type: ignore[arg-type]
    with pytest.raises(hr.HedgerowError, match=r"Line 4 has 5 cells, but the heading has 4\."):
        losses(tmp_path / "a.csv")

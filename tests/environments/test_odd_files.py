"""Files that people have: other separators and encodings, codes for gaps, filled-in losses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.core.errors import InvalidValue

ROWS = "round,client,target,a,b\n" + "".join(f"{t},{c},5,4,{t}\n" for t in range(9) for c in "xy")


def _forecasts(path: Path, **more: object) -> hr.Forecasts:
    return hr.Forecasts(str(path), largest_error=9.0, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "encoding", "hint"),
    [
        (ROWS.replace(",", ";"), "utf-8", "separates columns by semicolons"),
        (ROWS, "utf-16", "is UTF-16 text. Save it as UTF-8."),
        (ROWS.replace(",a,", ",words,").replace(",4,", ",secret,"), "utf-8", r"experts = \['b'\]"),
    ],
)
def test_a_hint_says_what_to_do_and_shows_no_value(
    tmp_path: Path, text: str, encoding: str, hint: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(InvalidValue, match=hint) as error:
        _ = _forecasts(path).setting
    assert "secret" not in str(error.value)


def test_a_code_for_a_gap_is_questioned(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(ROWS.replace("3,x,5", "3,x,-999").replace("4,y,5", "4,y,-999"))
    assert any("2 targets are -999" in note for note in _forecasts(path).notes())
    path.write_text(ROWS)
    assert _forecasts(path).notes() == ()


def test_losses_of_the_followed_expert_only_are_refused_or_questioned() -> None:
    rng = np.random.default_rng(0)
    followed = rng.integers(3, size=(40, 2, 1))
    paid = rng.random((40, 2, 1))
    alone = np.full((40, 2, 3), np.nan)
    np.put_along_axis(alone, followed, paid, axis=2)
    with pytest.raises(InvalidValue, match="the loss of one expert only"):
        hr.RecordedArray(alone, missing="absent")
    filled = np.nan_to_num(alone, nan=0.5)
    assert "filled in" in hr.RecordedArray(filled).notes()[0]
    assert hr.RecordedArray(rng.random((40, 2, 3))).notes() == ()
    assert hr.RecordedArray(np.zeros((40, 2, 3))).notes() == ()

"""One description of columns: printed studies, the command line and JSON agree."""

from __future__ import annotations

import json
import re
from math import nan
from pathlib import Path

import pytest

import hedgerow as hr
from hedgerow.evaluation.statistics import Estimate
from hedgerow.evaluation.summary import (
    COLUMNS,
    SummaryRow,
    estimate_json,
    summary_json,
    summary_text,
)
from support.command import Command

ONE, MANY = Estimate(3.0, nan, 1), Estimate(1234567.8, 12.5, 20)


def _row(label: str, bound: float | None, estimate: Estimate = MANY) -> SummaryRow:
    a, b, c, d, e, f = [estimate] * 6
    return SummaryRow(label, estimate, bound, a, b, c, d, e, f)


def _headings(text: str) -> str:
    """The headings of a plain table, each put together again from its lines."""
    lines = text.splitlines()
    above = lines[: next(i for i, line in enumerate(lines) if line.startswith("x"))]
    ends = sorted({match.end() for line in above for match in re.finditer(r"\S+(?: \S+)*", line)})
    words = (
        (
            line[:end][slice(max((e for e in ends if e < end), default=0), None)].strip()
            for line in above
        )
        for end in ends
    )
    return ", ".join(" ".join(filter(None, parts)) for parts in words)


def test_a_printed_study_has_every_column_in_order() -> None:
    plain = "regret, own-best regret, switches, exchanges, numbers sent, bytes sent"
    assert _headings(summary_text([_row("x", None), _row("y", None)])) == plain
    assert _headings(summary_text([_row("x", None, ONE), _row("y", 7.0, ONE)])) == plain.replace(
        "regret, own", "regret, bound, own"
    )


def test_a_printed_study_fits_into_100_columns() -> None:
    study = hr.run(
        hr.Bernoulli(clients=100, experts=100, horizon=1000),
        {"private": hr.ShrinkingDartboard(), "hedge": hr.Hedge()},
        seeds=2,
    )
    assert "bound" in str(study)
    assert all(len(line) <= 100 for line in summary_text(study.summary()).splitlines())
    wide = [_row("not private", 123456.0, Estimate(1234.56, 123.45, 20))]
    assert all(len(line) <= 100 for line in summary_text(wide).splitlines())


def test_json_has_the_names_of_the_columns_and_reasons_for_what_is_missing() -> None:
    (line,) = summary_json([_row("x", None, ONE)])
    assert list(line) == ["label", *(column.name for column in COLUMNS)]
    assert line["regret_bound"] is None
    assert line["regret"] == {
        "mean": 3.0,
        "half_width": None,
        "seeds": 1,
        "reason": "one seed gives no confidence interval",
    }
    assert "no finite set of comparators" in estimate_json(Estimate(nan, nan, 3))["reason"]
    assert "reason" not in estimate_json(MANY)
    assert all(column.meaning for column in COLUMNS)


@pytest.mark.parametrize("name", ["follow_the_leader", "hedge"])
def test_the_command_line_prints_what_a_printed_study_does(
    hedgerow: Command, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "study.toml"
    file.write_text(file.read_text().replace('"hedge"', f'"{name}"'))
    out = hedgerow("run", "study.toml", "--out", "results").out
    heading = next(line for line in out.splitlines() if "regret" in line)
    shown = [cell.strip() for cell in heading.split("┃")[2:-1]]
    summary = json.loads((tmp_path / "results" / "summary.json").read_text())["summary"]
    proven = any(row["regret_bound"] is not None for row in summary)
    assert proven == (name == "hedge")
    hidden = {"regret_error", *(() if proven else ("regret_bound",))}
    expected = [c.heading for c in COLUMNS if c.printed and c.name not in hidden]
    assert shown == expected
    assert set(summary[0]) == {"label", *(column.name for column in COLUMNS)}

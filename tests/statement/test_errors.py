"""Bad input to a statement is named: details, folders that are no runs, arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hedgerow.core.errors import InvalidValue
from hedgerow.statement.statement import Details, read_details
from support.command import Command
from support.statements import EXAMPLE, TODAY, refused


def test_the_example_leaves_nothing_open() -> None:
    assert read_details(EXAMPLE, TODAY).open == ()
    assert {"data_curators", "data_product_region", "intended_use", "expires"} <= set(
        Details().open
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'name = "x"\nintended_us = "y"\n',
            "line 2: Unknown key details.intended_us; did you mean 'intended_use'?",
        ),
        (
            'name = "x"\n\nrecords_per_client = "many"\n',
            "line 3: Expected details.records_per_client='many' to fit",
        ),
        (
            "records_per_client = 0\n",
            "line 1: Expected records_per_client=0 to be a whole number >= 1",
        ),
        ('data_curators = [{ name = "x" }]\n', "line 1: Expected details.data_curators"),
        ('name = "x"\nexpires = \n', "line 2"),
        (
            "expires = 2020-01-01\n",
            "line 1: Expected expires=2020-01-01 to lie after today, 2026-11-15",
        ),
        (
            "expires = 2030-01-01\npublication_date = 2030-01-01\n",
            "line 1: Expected expires='2030-01-01' to lie after publication_date",
        ),
        ("expires = 'soon'\n", "line 1: Expected details.expires='soon' to fit"),
    ],
)
def test_broken_details_are_named_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "details.toml"
    file.write_text(text)
    with pytest.raises(InvalidValue, match=re.escape(message)):
        read_details(file, TODAY)


def _spoil(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    file = tmp_path / "results" / "privacy.json"
    table = json.loads(file.read_text())
    change(table)
    file.write_text(json.dumps(table))


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "no certificate": (
        lambda p: (p / "results" / "privacy.json").unlink(),
        "There is no certificate at results/privacy.json",
    ),
    "no run": (
        lambda p: [f.unlink() for f in (p / "results").iterdir()],
        "results is not a run folder: it has no privacy.json. "
        "Give a folder that `hedgerow run` or `record_deployment` wrote.",
    ),
    "runs inside": (
        lambda p: (
            (p / "results").rename(p / "r"),
            (p / "results").mkdir(),
            (p / "r").rename(p / "results" / "study"),
        ),
        "Choose one of the runs in it: results/study.",
    ),
    "no json": (
        lambda p: (p / "results" / "privacy.json").write_text("{"),
        "results/privacy.json is not as `hedgerow run` writes it",
    ),
    "other format": (lambda p: _spoil(p, lambda t: t.update(format="x")), "Expected format='x'"),
    "missing key": (lambda p: _spoil(p, lambda t: t.pop("noise")), "noise: Field required"),
    "not stamped": (lambda p: _spoil(p, lambda t: t.update(stamp=None)), "Expected the stamp"),
    "called secure": (
        lambda p: _spoil(p, lambda t: t["noise"].update(secure=True)),
        "to agree with the source",
    ),
    "called a deployment": (
        lambda p: _spoil(
            p,
            lambda t: t.update(
                stamp=None, noise={"source": "operating system", "secure": True, "words": ""}
            ),
        ),
        "Expected secure noise only for real data",
    ),
    "nobody": (
        lambda p: _spoil(p, lambda t: t["algorithms"][0].update(guarantees=[])),
        "results/privacy.json has no certificate for 'private'",
    ),
    "no algorithm": (
        lambda p: _spoil(p, lambda t: t.update(algorithms=[])),
        "it names no algorithm",
    ),
}


@pytest.mark.parametrize("case", list(SPOILT))
def test_a_folder_that_is_not_a_run_is_refused(made: Command, tmp_path: Path, case: str) -> None:
    spoil, message = SPOILT[case]
    spoil(tmp_path)
    answer = made("statement", "results")
    refused(answer, message)
    assert not answer.err.rstrip().endswith("..")
    assert not (tmp_path / "results" / "statement").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["results/privacy.json"],
            "results/privacy.json is a file, not a run folder. Give the folder results.",
        ),
        (["absent"], "There is no run folder at absent. Check the path."),
        (
            ["results", "--algorithm", "privat"],
            "Unknown algorithm 'privat' in results; did you mean 'private'?",
        ),
        (
            ["results", "--details", "absent.toml"],
            "--details absent.toml does not exist. "
            "Give a TOML file such as examples/statement_details.toml.",
        ),
        (
            ["results", "--audit-file", "absent.json"],
            "absent.json does not exist. "
            "Write an audit with `hedgerow audit NAME --json > absent.json`.",
        ),
        (
            ["results", "--audit-file", "study.toml"],
            "Write one with `hedgerow audit NAME --json`.",
        ),
        (["results", "--audit-file", "study.toml"], "study.toml is not an audit ("),
        (
            ["results", "--audit", "--audit-file", "x"],
            "--audit and --audit-file exclude each other. Give one of them.",
        ),
        (["results", "--out", "study.toml"], "--out study.toml is a file. Choose a folder."),
    ],
)
def test_bad_arguments_are_named(
    made: Command, tmp_path: Path, arguments: list[str], message: str
) -> None:
    refused(made("statement", *arguments), message)
    assert not (tmp_path / "results" / "statement").exists()

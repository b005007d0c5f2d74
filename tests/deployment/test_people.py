"""A person column: several rows of a round, ids that stay at the client, and who was there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment.account import Account
from hedgerow.deployment.application import Application, replied
from hedgerow.deployment.own_file import FileForm, OwnFile, play_file
from support.command import Command
from support.simulated import SimulatedStudy, small_study

FORM = FileForm("week", "1", person="patient")
ROWS = ("1,Zarathustra,1,0", "1,Brünhilde,0,0", "2,Zarathustra,1,1", "4,Zarathustra,0,1")
HEAD = "week,patient,north,south"
SECRET = "Zarathustra"


def file_of(place: Path, rows: Sequence[str] = ROWS, head: str = HEAD) -> Path:
    path = place / "own.csv"
    path.write_text("\n".join([head, *rows, ""]), encoding="utf-8")
    return path


def study_of(place: Path, unit: str, account: str = "event", **more: Any) -> SimulatedStudy:
    given: dict[str, Any] = {"clients": 1, "experts": 2, "horizon": 4, "names": ("north", "south")}
    choices = {"epsilon": "0.5", "unit": unit}
    return small_study(
        place / "study",
        file=FORM,
        algorithm="phased_selection",
        choices=choices,
        unit=account,
        seed=None,
        **{**given, **more},
    )


def play(study: SimulatedStudy, path: Path, through: str | None = "4", **more: Any) -> bool:
    learner = study.learner(0)
    file = OwnFile(path, learner.client.manifest, through)
    return play_file(learner, file, lambda _: None, **more)


def everything(place: Path) -> bytes:
    """All that is on disk, of the account, the client's ledger and the server."""
    return b"".join(one.read_bytes() for one in place.rglob("*") if one.is_file())


def test_a_round_is_the_mean_of_its_rows_and_an_empty_one_does_not_show(tmp_path: Path) -> None:
    study = study_of(tmp_path, "person:3")
    file = OwnFile(file_of(tmp_path), study.manifest, "4")
    rows = [file.row(number) for number in range(4)]
    assert [None if row is None or row.record is None else row.record.tolist() for row in rows] == [
        [0.5, 0.0],
        [1.0, 1.0],
        [0.0, 0.0],  # nobody was there
        [0.0, 1.0],
    ]
    assert play(study, file_of(tmp_path))
    study.close()
    kept = everything(tmp_path / "study")
    for form in (SECRET.encode(), "Brünhilde".encode(), SECRET.encode().hex().encode()):
        assert form not in kept


@pytest.mark.parametrize("last", ["4,Ann,1,0", None])
@pytest.mark.parametrize(("through", "exchange"), [("1", 1), ("3", 2), ("4", 2)])
def test_rows_of_a_person_do_not_decide_how_far_a_client_plays(
    tmp_path: Path, last: str | None, through: str, exchange: int
) -> None:
    study = study_of(tmp_path, "person:3")
    path = file_of(tmp_path, ["1,Ben,1,0"] + ([] if last is None else [last]))
    assert play(study, path, through) == (through == "4")
    assert study.learner(0).client.exchange == exchange
    study.close()


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"through": None}, "--through 1"),
        ({"every": 1.0}, "when a person's row arrives"),
        ({"through": "monday"}, "'monday' is no round of this study: they are called 1, 2"),
        ({"through": "0"}, "no round"),
    ],
)
def test_what_would_show_a_person_is_refused(
    tmp_path: Path, choices: dict[str, Any], words: str
) -> None:
    study = study_of(tmp_path, "person:3")
    with pytest.raises(InvalidValue, match=words):
        play(study, file_of(tmp_path), **choices)
    with pytest.raises(InvalidValue, match="must not wait for one person"):
        OwnFile(file_of(tmp_path, ["1,Ben,,"]), study.manifest)
    study.close()


@pytest.mark.parametrize(
    ("unit", "account", "words"),
    [
        ("person:2", "event", r"more than 2 rounds.*\(person:2\)"),
        ("person:3", "person:2", "more than 2 rounds"),
        ("person:2/2", "event", "two rounds less than 2 apart"),
    ],
)
def test_a_person_with_more_than_declared_is_refused(
    tmp_path: Path, unit: str, account: str, words: str
) -> None:
    study = study_of(tmp_path, unit, account)
    with pytest.raises(InvalidValue, match=words) as refusal:
        play(study, file_of(tmp_path))
    assert SECRET not in str(refusal.value)
    assert "Nothing was sent" in str(refusal.value)
    study.close()


def test_people_are_counted_in_all_studies_of_an_account(tmp_path: Path) -> None:
    """The same round of another study is the same record; another round is one more."""
    account = Account.make(tmp_path / "a", name="Ward", epsilon="2", unit="person:2")
    for study in (b"one", b"two"):
        account.count(["x", 7], "week 1", 0, study, [])
        account.count(["x"], "week 2", 1, study, [])
    account.count(["7"], "week 3", 2, b"two", [])  # 7 and "7" are one person, now in two rounds
    for who, name in (("x", "week 3"), (7, "week 2")):
        with pytest.raises(InvalidValue, match="more than 2 rounds"):
            account.count([who], name, 3, b"three", [])
    with pytest.raises(InvalidValue, match="more than 2 rounds"):
        account.count(["new", "x"], "week 9", 9, b"three", [])
    account.count(["new"], "week 10", 10, b"three", [])
    account.count(["new"], "week 11", 11, b"three", [])  # "new" was not counted in week 9
    again = Account.make(tmp_path / "b", name="Ward", epsilon="2", unit="person")
    for week in range(9):
        again.count(["x"], f"week {week}", week, b"one", [])


def test_an_id_does_not_depend_on_the_other_rows_of_a_file(tmp_path: Path) -> None:
    """A column of numbers was read as numbers, and 007 became another person beside a text."""
    study = study_of(tmp_path, "person:3")
    found = set[tuple[str, ...] | None]()
    for more in ([], ["2,A12,1,0"], ["2,7.0,1,0"], ["2,true,1,0"], ["2,2026-01-03,1,0"]):
        row = OwnFile(file_of(tmp_path, ["1,007,1,0", *more]), study.manifest, "4").row(0)
        found.add(None if row is None else row.people)
    assert found == {("007",)}
    study.close()


@pytest.mark.parametrize("people", ["p-17", 17, {"p-17": 1}, True])
def test_what_is_no_list_of_people_is_refused(tmp_path: Path, people: Any) -> None:
    """A text was counted as the people that its letters name."""
    study = study_of(tmp_path, "person:3")
    status, reply = replied(
        Application(study.learner(0)),
        json.dumps({"do": "observe", "round": 0, "losses": [0, 1], "people": people}),
    )
    assert (status, reply["error"][:40]) == (422, "Expected people to be a list of ids, suc")
    assert study.learner(0).client.round == 0
    study.close()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,,1,0", "line 2 .*names no person in column 'patient'"),
        ("1,NA,1,0", "names no person"),
        ("1,  ,1,0", "names no person"),
    ],
)
def test_a_row_without_a_person_is_refused(tmp_path: Path, row: str, words: str) -> None:
    study = study_of(tmp_path, "person:3")
    with pytest.raises(InvalidValue, match=f"(?i){words}"):
        OwnFile(file_of(tmp_path, [row, *ROWS]), study.manifest)
    study.close()


def test_rounds_that_show_who_was_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="would show when a person was there"):
        study_of(tmp_path, "person:3", features=("absent clients",))


@pytest.mark.parametrize("rows", [ROWS, [*ROWS, "9,Ute,1,1"]])
def test_people_says_what_to_declare(
    tmp_path: Path, rows: Sequence[str], hedgerow: Command
) -> None:
    path = str(file_of(tmp_path, rows))
    arguments = ["people", path, "--person", "patient", "--round", "week"]
    document = hedgerow(*arguments, "--json").document()
    assert (document["rows"], document["rounds"], document["unit"]) == (len(rows), 3, "person:3")
    shown = hedgerow(*arguments).out
    refused = hedgerow("people", path, "--person", "patiant", "--round", "week")
    assert refused.code == 2
    assert "--person COLUMN" in " ".join(refused.err.split())
    assert "--unit person:3" in shown
    assert SECRET not in shown

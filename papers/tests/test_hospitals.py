"""Hospital reports: the official format, the stated rules, and an error for everything else."""

from __future__ import annotations

import gzip
import os
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.walks.reports import Reporter
from hedgerow.core.environment import Feature
from hedgerow.core.errors import HedgerowError, InvalidValue, MissingData
from hedgerow.core.lattice import round_to_lattice
from hedgerow.studies.config import load_study
from hedgerow_papers.experiments.reproduce import reproduce
from hedgerow_papers.jacobsen2025 import table1 as jacobsen2025_table1
from hedgerow_papers.jacobsen2025.certified_meta import WalkMeta
from hedgerow_papers.jacobsen2025.hospitals import (
    BEDS,
    EXCERPT,
    FILES,
    HOSPITAL,
    OFFICIAL,
    PATIENTS,
    STATE,
    WEEK,
    Hospitals,
    Tally,
    counted,
)
from hedgerow_papers.jacobsen2025.table1 import EXPERIMENT
from support.command import Command

REAL = Path(os.environ.get("HEDGEROW_DATA", "../shared/data")) / FILES[-1]
HEAD = f"{HOSPITAL},{WEEK},{STATE},name,{BEDS},{PATIENTS['confirmed']},{PATIENTS['suspected']}"
# hospital, week, state, name, beds, confirmed, suspected: B misses a week and is once suppressed
ROWS = """
A,2021/01/01,NM,"One, Ltd",10.0,4.0,5.0
A,2021/01/08,NM,"One, Ltd",20.0,5.0,6.0
A,2021/01/15,NM,"One, Ltd",16.0,17.0,18.0
B,2021/01/01,NM,Two,100.0,50.0,50.0
B,2021/01/08,NM,Two,"1,000.0",-999999,-999999
C,2021/01/01,NM,Never open,0.0,9.0,9.0
C,2021/01/15,NM,Never open,,9.0,9.0
D,2021/01/01,NM,Few,5.0,-999999.0,-999999.0
D,2021/01/08,NM,Few,5.0,0.0,0.0
D,2021/01/15,NM,Few,-999999,0.5,0.5
E,2021/01/01,TX,Elsewhere,5.0,1.0,1.0
F,2019/01/01,NM,Too early,5.0,4.0,4.0
""".strip()


def _file(folder: Path, rows: str = ROWS, head: str = HEAD, name: str = OFFICIAL) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    text = f"{head}\n{rows}\n"
    if name.endswith(".gz"):
        (folder / name).write_bytes(gzip.compress(text.encode()))
    else:
        (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEDGEROW_DATA", str(tmp_path))
    return _file(tmp_path)


def test_the_rules_of_the_module(made_up: Path) -> None:
    """Only A and B take part: C never has beds, D has too few patients, F is too early."""
    game = Hospitals(state="NM", suppressed=2.0, keep=150.0)  # 3.04 patients in three weeks
    data = game.weeks
    assert data.hospitals == ("A", "B")
    assert [str(week) for week in data.weeks] == ["2021-01-01", "2021-01-08", "2021-01-15"]
    expected = [[0.4, 0.5], [0.25, 0.002], [1.0, 0.0]]
    assert np.array_equal(data.gains, round_to_lattice(np.array(expected)))
    assert np.array_equal(data.reporting, [[True, True], [True, True], [True, False]])
    assert np.array_equal(data.beds, [[10, 100], [20, 1000], [16, 0]])
    assert np.array_equal(data.fewest, [10, 20, 16])
    assert data.tally == Tally(without_beds=1, too_few=1, missing=1, suppressed=1, full=1)
    assert game.setting.clients == game.setting.experts == 2
    assert game.setting.deciders == 1
    assert game.traits.features == {Feature.SIDE_INFORMATION, Feature.SOME_REPORT}
    assert np.array_equal(game.side[..., 0], data.beds)
    fewest = Hospitals(state="NM", sizes="fewest").side[..., 0]
    assert np.array_equal(fewest, [[10, 10], [20, 20], [16, 0]])


def test_the_keep_rule_is_pro_rata(made_up: Path) -> None:
    """26 patients in three weeks are as many as 26 * 148 / 3 in 148 weeks."""
    assert Hospitals(keep=26 * 148 / 3).weeks.hospitals == ("A", "B")
    with pytest.raises(InvalidValue, match=r"1 of 4 hospitals of state='NM' .*at least 26\.01 pat"):
        _ = Hospitals(keep=26.01 * 148 / 3).setting
    with pytest.raises(InvalidValue, match="a choice needs two"):
        _ = Hospitals(state="TX", keep=0.0).setting


def test_blocks_and_counts_do_not_change_the_game(made_up: Path) -> None:
    game = Hospitals(patients="suspected")
    whole, _ = game.block(game.start(0), 3, None)
    state, pieces = game.start(0), []
    for rounds in (1, 2):
        block, state = game.block(state, rounds, None)
        pieces.append(block)
    for part in ("losses", "reports", "side", "reporting"):
        assert np.array_equal(
            np.concatenate([getattr(p, part) for p in pieces]), getattr(whole, part)
        )
    assert whole.losses[0, 0, 0] == 0.5
    assert game.fingerprint() != Hospitals().fingerprint()
    assert Hospitals().fingerprint() == Hospitals(keep=99.0 + 1.0).fingerprint()


BROKEN: dict[str, tuple[str, str, str]] = {
    "no beds column": (HEAD.replace(BEDS, "beds"), ROWS, f"column '{BEDS}' is missing"),
    "no such state": (HEAD, ROWS.replace("NM", "AZ"), "no row of state='NM'"),
    "wrong day": (
        HEAD,
        ROWS.replace("2021/01/08,NM", "week 2,NM"),
        "line 3: Expected collection_week to be a day",
    ),
    "no number": (
        HEAD,
        ROWS.replace("16.0", "many"),
        "line 4: Expected all_adult.* to be a number",
    ),
    "negative": (HEAD, ROWS.replace("17.0", "-3"), "line 4: Expected total.* >= 0, or -999999"),
    "infinite": (HEAD, ROWS.replace("17.0", "inf"), "line 4: Expected total.* >= 0"),
    "no name": (HEAD, ROWS.replace("B,2021/01/08", ",2021/01/08"), "line 6: .*to name a hospital"),
    "repeated": (HEAD, ROWS + "\nB,2021-01-08,NM,x,9,1,1", "B has more than one row .*2021-01-08"),
    "too early": (HEAD, ROWS.replace("2021/", "2019/"), "no week of state='NM' from 2020-08-09"),
    "all suppressed": (
        HEAD,
        "\n".join(f"{h},2021-01-01,NM,x,9,-999999,-999999" for h in "AB"),
        r"0 of 2 hospitals .* at least 0\.6757 patients in 1 weeks",
    ),
    "all beds suppressed": (
        HEAD,
        "\n".join(f"{h},2021-01-01,NM,x,-999999,5,5" for h in "AB"),
        "0 of 2 hospitals of state='NM'",
    ),
    "empty": (HEAD, "", "no row of state='NM'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_named(made_up: Path, name: str) -> None:
    head, rows, message = BROKEN[name]
    _file(made_up.parents[1], rows, head)
    with pytest.raises(InvalidValue, match=message):
        _ = Hospitals().setting


def test_a_file_that_is_no_table_is_named(made_up: Path) -> None:
    made_up.write_bytes(b"")
    with pytest.raises(HedgerowError, match="Cannot read"):
        _ = Hospitals().setting


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"state": "New Mexico"}, "state='New Mexico' to be two capital letters"),
        ({"suppressed": 4.0}, "suppressed=4.0 in"),
        ({"keep": -1.0}, "keep=-1.0"),
        ({"first": "August"}, "first='August' to be a day"),
        ({"patients": "all"}, "patients='all' in"),
        ({"sizes": "none"}, "sizes='none' in"),
    ],
)
def test_bad_choices_are_named(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Hospitals(**choices)


def test_missing_data_says_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDGEROW_DATA", str(tmp_path))
    outcome = reproduce(EXPERIMENT, quick=True, out=tmp_path / "x", workers=1)
    assert outcome.status == "no-data"
    assert str(tmp_path / OFFICIAL) in outcome.message
    assert "https://healthdata.gov" in outcome.message
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(MissingData, match=r"nothing\.csv"):
        _ = Hospitals(path="nothing.csv").setting


def test_the_official_file_comes_first(made_up: Path) -> None:
    rows = "\n".join(f"{h},2021-01-01,NM,x,9,5,5" for h in "GH")
    _file(made_up.parents[1], rows, name=FILES[-1])
    assert Hospitals().weeks.hospitals == ("A", "B")
    made_up.unlink()
    assert Hospitals().weeks.hospitals == ("G", "H")


def test_suspected_cases_count_where_the_official_file_is(made_up: Path) -> None:
    """As in the paper; the excerpt has few."""
    assert counted() == "suspected"
    played = jacobsen2025_table1.game("NM", "fewest")
    assert np.array_equal(played.weeks.gains, Hospitals(patients="suspected").weeks.gains)
    assert not np.array_equal(played.weeks.gains, Hospitals().weeks.gains)
    made_up.unlink()
    _file(made_up.parents[1], name=EXCERPT)
    assert counted() == "confirmed"
    assert jacobsen2025_table1.game("NM", "own").patients == "confirmed"


def test_reports_without_public_sizes_take_the_whole_range(made_up: Path) -> None:
    game = Hospitals()
    algorithm = WalkMeta(mu=1.0, reports="silo").build(game.setting)
    assert hr.simulate(algorithm, game, 0).played == game.setting.rounds
    assert isinstance(algorithm.client, Reporter)
    assert algorithm.client.noise is not None
    assert algorithm.client.noise.scale == 1.0


def test_a_study_in_toml_runs(
    made_up: Path, tmp_path: Path, hedgerow: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        'title = "x"\nseeds = 2\n[environment]\nname = "hospitals"\nstate = "NM"\n'
        '[[algorithms]]\nname = "walk_meta"\nmu = 1.0\nreports = "silo"\nsized = true\n'
        'unit = "person:2@2"\nforecasters = ["last", "leader"]\n'
        '[[algorithms]]\nname = "walk_leader"\nmu = inf\nreports = "silo"\nsized = true\n'
    )
    monkeypatch.setenv("HEDGEROW_DATA", str(made_up.parents[1]))
    done = hedgerow("run", str(study), "--out", str(tmp_path / "out"))
    assert done.code == 0, done.err
    assert "walk_meta" in done.out
    assert load_study(tmp_path / "out/config.toml") == load_study(study)


@pytest.mark.skipif(not REAL.is_file(), reason=f"no {REAL}")
def test_the_shared_weeks_are_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDGEROW_DATA", str(REAL.parents[1]))
    for state, hospitals, best in (("NM", 33, 16.16), ("PA", 153, 18.47), ("CA", 298, 18.42)):
        data = Hospitals(state=state).weeks
        assert data.gains.shape == (72, hospitals)
        assert data.gains.sum(axis=0).max() == pytest.approx(best, abs=0.005)
        assert 4 < data.fewest.min() < 6
    assert inf > data.fewest.max() > 15

"""`hr.run` in a script or a notebook: DataFrames, a folder that is resumed, processes, progress."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, interchange

import hedgerow as hr
from hedgerow.cli.view import view_of
from hedgerow.core.errors import Interrupted, InvalidValue
from hedgerow.studies import run as module
from hedgerow.studies.storage.finished import read_run
from support.paths import EXAMPLES

PRIVATE = {"private": hr.Doubling(epsilon=1.0)}
STATIONS = {"target": "measured", "round": "date", "client": "station", "missing": "absent"}
PLAIN = """
import hedgerow as hr
from hedgerow.studies import run
run.WORTH_PROCESSES, run.os.cpu_count = 0.0, lambda: 2
game = hr.Bernoulli(clients=2, experts=3, horizon=20)
{more}
print(hr.run(game, {{"a": {spec}}}, seeds=4).regret("a").mean)
"""
OWN = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Mine(hr.Hedge): pass\n"


class Interchange:
    """A DataFrame that offers the interchange protocol only."""

    def __init__(self, table: Any) -> None:
        self.__dataframe__ = table.__dataframe__


@pytest.mark.parametrize("kind", [lambda table: table, Interchange])
def test_a_frame_is_read_like_its_file(kind: Any) -> None:
    path = EXAMPLES / "recorded_losses.csv"
    frame = kind(csv.read_csv(path))
    one, other = hr.run(hr.Recorded(str(path)), PRIVATE, seeds=2), hr.run(frame, PRIVATE, seeds=2)
    assert one.regrets("private").tolist() == other.regrets("private").tolist()
    assert other["private"].clients[0].client == "harbour"
    texts = csv.ConvertOptions(column_types={"date": pa.string()})  # as other libraries read it
    stations = kind(csv.read_csv(EXAMPLES / "stations.csv", convert_options=texts))
    game = hr.Forecasts(stations, largest_error=50.0, **STATIONS)  # type: ignore[arg-type]
    assert "north" in game.expert_names
    text = str(hr.run(game, {"a": hr.FollowTheLeader()}, seeds=1))
    assert "mean error in a round, in the unit of the target: a 5.6" in text


def test_errors_of_a_frame_name_it_and_show_no_value() -> None:
    frame = pa.table({"round": [0, 0], "client": ["a", "b"], "x": [0.5, 77.25]})
    with pytest.raises(InvalidValue, match=r"row 2, column 'x' of the DataFrame") as error:
        hr.run(frame, PRIVATE, seeds=1)
    assert "77" not in str(error.value)
    mixed = Interchange(frame)
    mixed.__dataframe__ = lambda *_, **__: 3
    with pytest.raises(InvalidValue, match="cannot be read"):
        hr.run(mixed, PRIVATE, seeds=1)


def test_a_study_is_a_frame_to_others() -> None:
    study = hr.run(np.full((9, 2, 2), 0.5), PRIVATE, seeds=3)
    for found in (pa.table(study), interchange.from_dataframe(study)):
        assert found["regret"].to_pylist() == study.regrets("private").tolist()


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_results_are_kept_and_resumed(tmp_path: Path, kind: str) -> None:
    losses = np.random.default_rng(0).random((30, 12, 2))
    losses[3, 1] = np.nan
    games = {
        "array": hr.RecordedArray(losses, "absent", experts=("calm", "wild")),
        "frame": csv.read_csv(EXAMPLES / "recorded_losses.csv"),
    }

    def stop(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    out = tmp_path / "run"
    with pytest.raises(Interrupted, match="2 of 4 results"):
        hr.run(games[kind], PRIVATE, seeds=4, out=out, progress=stop)
    seen: list[int] = []
    study = hr.run(
        games[kind], PRIVATE, seeds=4, out=out, progress=lambda done, _: seen.append(done)
    )
    assert seen[0] == 2
    plain = hr.run(games[kind], PRIVATE, seeds=4)
    assert study.regrets("private").tolist() == plain.regrets("private").tolist()
    assert read_run(out).regrets["private"][3] == plain.regrets("private")[3]
    assert "wild" in view_of(out) or kind == "frame"
    with pytest.raises(InvalidValue, match="already exists"):
        hr.run(games[kind], PRIVATE, seeds=4, out=out)
    (out.parent / "other.losses.parquet").write_bytes(
        (tmp_path / "run.losses.parquet").read_bytes()
    )
    with pytest.raises(InvalidValue, match="holds other losses"):
        hr.run(np.zeros((3, 1, 2)), PRIVATE, seeds=1, out=tmp_path / "other")


@pytest.mark.parametrize("spec", ["hr.Hedge()", "Mine()"])
def test_a_plain_script_plays_without_a_guard(tmp_path: Path, spec: str) -> None:
    script = tmp_path / "plain.py"
    script.write_text(PLAIN.format(spec=spec, more=OWN if spec == "Mine()" else ""))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1, "workers ran the script again"
    game = hr.Bernoulli(clients=2, experts=3, horizon=20)
    assert float(done.stdout) == hr.run(game, {"a": hr.Hedge()}, seeds=4).regret("a").mean


def test_explicit_workers_name_the_guard(tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    text = PLAIN.format(spec="Mine()", more=OWN).replace("seeds=4", "seeds=4, workers=2")
    script.write_text(text)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert 'if __name__ == "__main__"' in done.stderr.splitlines()[-1]


def test_progress_is_one_line_of_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: True)
    hr.run(np.zeros((3, 1, 2)), PRIVATE, seeds=2, progress=True)
    assert capsys.readouterr().err.endswith("\r2 of 2 games played\n")
    hr.run(np.zeros((3, 1, 2)), PRIVATE, seeds=2)
    assert capsys.readouterr().err == "", "short runs are silent"

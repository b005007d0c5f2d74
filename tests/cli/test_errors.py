"""Bad input on the command line: one line that names the value and the rule, an exit code, nothing
half-written.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from hedgerow.cli.app import guarded
from support.command import Command

STUDY = """
seeds = 2
[environment]
name = "realizable"
clients = 2
experts = 4
horizon = 30
[[algorithms]]
name = "sparse_vector"
"""
RECORDED = "round,client,a,b\n0,x,0.5,1\n0,y,0.25,0\n"
ENDLESS = """
import os
from dataclasses import dataclass
import hedgerow
@dataclass(frozen=True, kw_only=True)
class Endless(hedgerow.Bernoulli):
    def block(self, state, rounds, past_plays):
        if state.round == 0:
            with open(os.environ["READY"], "w") as ready:
                ready.write("x")
        return super().block(state, rounds, past_plays)
hedgerow.ENVIRONMENTS.add("endless", Endless)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEDGEROW_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("COLUMNS", raising=False)
    (tmp_path / "data").mkdir()
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "exists").mkdir()
    for name, text in (
        ("nan", RECORDED.replace("0.25", "nan")),
        ("large", RECORDED.replace("0.25", "1.5")),
        ("rows", RECORDED + "1,x,0,0\n"),
    ):
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "bad.py").write_text("import nonsense_module\n")
    (tmp_path / "recorded.toml").write_text(
        'seeds = 1\n[environment]\nname = "recorded"\npath = "absent.csv"\n[[algorithms]]\nname = "hedge"\n'
    )
    return tmp_path


def _start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The real command in a session of its own, with Ctrl-C at work even where the tests run in the
    background.
    """
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from hedgerow.cli.main import main; main()"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


BAD = {
    "nan loss": (
        ["run", "recorded.toml", "--set", "environment.path=nan.csv"],
        "has no value in column 'a'",
    ),
    "large loss": (
        ["run", "recorded.toml", "--set", "environment.path=large.csv"],
        "every loss in [0, 1]",
    ),
    "missing rows": (
        ["run", "recorded.toml", "--set", "environment.path=rows.csv"],
        "has no row for the round of line 4",
    ),
    "missing data": (["run", "recorded.toml"], "'absent.csv' not found"),
    "zero experts": (["run", "study.toml", "--set", "environment.experts=0"], "experts=0"),
    "T below N": (
        ["run", "study.toml", "--set", "algorithms.0.every=31"],
        "every=31 <= horizon=30",
    ),
    "epsilon": (["run", "study.toml", "--set", "algorithms.0.epsilon=0.0"], "epsilon=0.0 > 0"),
    "unknown key": (
        ["run", "study.toml", "--set", "algorithms.0.epsilom=1"],
        "did you mean 'epsilon'",
    ),
    "existing out": (
        ["run", "study.toml", "--out", "exists"],
        "--out exists already exists. Choose another place or delete it.",
    ),
    "missing study": (["run", "absent.toml"], "absent.toml"),
    "broken plugin": (
        ["run", "study.toml", "--plugin", "bad.py"],
        "bad.py failed to import: ModuleNotFoundError",
    ),
    "missing plugin": (["list", "--plugin", "absent.py"], "absent.py not found"),
    "unknown algorithm": (["certify", "hedg"], "did you mean 'hedge'"),
    "unknown parameter": (["certify", "hedge", "--set", "evry=1"], "did you mean 'every'"),
    "tiny epsilon": (["certify", "sparse_vector", "--set", "epsilon=1e-320"], "epsilon=1e-320"),
    "unknown experiment": (["reproduce", "gao2024-figur2"], "did you mean 'gao2024-figure2'"),
    "no experiment": (["reproduce"], "--all"),
    "unknown benchmark": (["bench", "simulat"], "did you mean 'simulate'"),
    "unknown contract": (["contracts", "uniformm"], "did you mean 'uniform'"),
    "no argument": (["run"], "file"),
    "unknown option": (["run", "study.toml", "--sed", "1"], "--sed"),
    "a parameter as an option": (
        ["certify", "hedge", "--horizon", "9"],
        "--horizon. Change a parameter with --set KEY=VALUE.",
    ),
    "negative seed": (["run", "study.toml", "--seed", "-1"], "-1"),
    "no workers": (["run", "study.toml", "--workers", "0"], "0"),
    "no data folder": (["run", "study.toml", "--data", "nowhere"], "nowhere"),
    "unknown command": (["rnu"], "rnu"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_answered_in_one_line(
    folder: Path, case: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments, message = BAD[case]
    before = sorted(folder.iterdir())
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["hedgerow", *arguments])
    code = guarded(debug=False)
    out, err = capfd.readouterr()
    assert "Traceback" not in err, err.splitlines()[-1]
    assert code == 2
    assert message in err
    (line,) = err.strip().splitlines()
    assert line.startswith("Error: ")
    assert out == ""
    assert [p for p in sorted(folder.iterdir()) if p not in before and any(p.iterdir())] == []


def test_an_error_ends_the_process_with_its_code(folder: Path) -> None:
    out, err = (process := _start(folder, "run", "absent.toml")).communicate(timeout=120)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1)


def test_debug_shows_the_traceback_and_keeps_the_exit_code(folder: Path) -> None:
    _, err = (
        process := _start(folder, "run", "study.toml", "--set", "environment.experts=0", "--debug")
    ).communicate(timeout=120)
    assert "Traceback" in err
    assert "experts=0" in err
    assert process.returncode == 2


@pytest.mark.parametrize(
    "signals",
    [
        pytest.param((signal.SIGINT,), id="ctrl-c"),
        pytest.param((signal.SIGTERM, signal.SIGTERM), id="timeout", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_ctrl_c_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, workers: int, signals: tuple[signal.Signals, ...]
) -> None:
    """Signals go to the whole process group, as from a terminal or from `timeout`, once every
    worker is in the middle of a run.
    """
    (folder / "endless.py").write_text(ENDLESS)
    os.mkfifo(folder / "ready")
    monkeypatch.setenv("READY", str(folder / "ready"))
    ready = os.open(folder / "ready", os.O_RDWR)
    settings = ["--set", "environment.name=endless", "--set", "environment.horizon=100000000"]
    process = _start(
        folder, "run", "study.toml", "--plugin", "endless.py", "--workers", str(workers), *settings
    )
    try:
        for _ in range(workers):
            assert select.select([ready], [], [], 120)[0], "the run did not begin"
            os.read(ready, 1)
        for number in signals:
            os.killpg(process.pid, number)
        out, err = process.communicate(
            timeout=120
        )  # ends only when the workers, who share its pipes, have ended too
    finally:
        os.close(ready)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert out == ""
    assert err.strip().splitlines() == ["Interrupted. Nothing was written."]
    assert not (folder / "runs").exists() or list((folder / "runs").iterdir()) == []


def test_an_unknown_command_names_the_nearest(hedgerow: Command) -> None:
    answer = hedgerow("statment")
    assert answer.code == 2
    assert answer.err == "Error: Unknown command 'statment'; did you mean 'statement'?\n"

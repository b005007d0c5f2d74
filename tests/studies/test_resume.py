"""A run that is interrupted, killed or fails keeps what is finished; resumed, it gives what a run
in one go gives.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.studies import run as study_module
from hedgerow.studies.config import load_study
from hedgerow.studies.run import run_together
from hedgerow.studies.storage.identity import studies_identity
from hedgerow.studies.storage.unfinished import RECORD, ResultStore, new_run
from support.command import Command
from support.played import run_one

GATED = """
import os, time
from dataclasses import dataclass
import hedgerow
@dataclass(frozen=True, kw_only=True)
class Gated(hedgerow.Bernoulli):
    def start(self, seed):
        if seed >= 6 and "GATE" in os.environ:
            with open(os.environ["GATE"], "w") as reached:
                reached.write("x")
            time.sleep(600)
        return super().start(seed)
hedgerow.ENVIRONMENTS.add("gated", Gated)
"""
STUDY = """
title = "Gated"
seeds = 4
first_seed = 4
[environment]
name = "gated"
clients = 2
experts = 4
horizon = 30
[[algorithms]]
name = "sparse_vector"
label = "private"
epsilon = 5.0
[[algorithms]]
name = "hedge"
every = 4
"""
SAFE = "4 of 8 results (2 algorithms x 4 seeds) are saved"
RESULTS = (
    "config.toml",
    "curves.parquet",
    "results.parquet",
    "plays.parquet",
    "messages.parquet",
    "regret.png",
)


def _assert_same(one: Path, other: Path, files: tuple[str, ...] = RESULTS) -> None:
    assert (
        {p.name for p in one.iterdir()}
        == {p.name for p in other.iterdir()}
        == {*files, "digest.json", "summary.json", "privacy.json"}
    )
    for name in files:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (one, other)]
    assert [s.pop("run") for s in summaries] == [one.name, other.name]
    assert summaries[0] == summaries[1]


def _stopped(folder: Path, workers: int, stop: Callable[[int], None]) -> tuple[int, str, str]:
    """Run the real command until every worker is in the middle of a game, then stop it."""
    os.mkfifo(folder / "gate")
    gate = os.open(folder / "gate", os.O_RDWR)
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from hedgerow.cli.main import main; main()"
    arguments = [
        "run",
        "gated.toml",
        "--plugin",
        "gated.py",
        "--out",
        "results",
        "--keep",
        "--workers",
        str(workers),
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "GATE": str(folder / "gate")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        for _ in range(workers):
            assert select.select([gate], [], [], 120)[0], "the run did not begin"
            os.read(gate, 1)
        stop(process.pid)
        out, err = process.communicate(
            timeout=120
        )  # ends only when the workers, who share its pipes, have ended too
    finally:
        os.close(gate)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, err


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL]
)
def test_a_stopped_process_can_be_resumed(
    hedgerow: Command, tmp_path: Path, monkeypatch: Any, number: int
) -> None:
    """Ctrl-C goes to the whole group, as from a terminal; a kill to the parent alone, whose workers
    then end by themselves.
    """
    (tmp_path / "gated.py").write_text(GATED)
    (tmp_path / "gated.toml").write_text(STUDY)
    stop = (
        (lambda pid: os.killpg(pid, number))
        if number == signal.SIGINT
        else (lambda pid: os.kill(pid, number))
    )
    code, out, err = _stopped(tmp_path, 2, stop)
    assert out == ""
    resume = "hedgerow run --resume results --plugin gated.py"
    if number == signal.SIGINT:
        assert code == 130
        assert err.strip().splitlines() == [f"Interrupted. {SAFE}. To resume: {resume}"]
    else:
        assert code == -signal.SIGKILL
    assert not (tmp_path / "results").exists()
    for command in (
        ("statement", "results"),
        ("compare", "results", "other"),
        ("statement", ".results.partial"),
    ):
        refused = hedgerow(*command)
        assert refused.code == 2
        assert "unfinished" in refused.err
        assert SAFE in refused.err
        assert resume in refused.err

    played: list[int] = []
    monkeypatch.setattr(
        study_module, "run_together", lambda *args: (played.extend(args[2]), run_together(*args))[1]
    )
    answer = hedgerow(*shlex.split(resume)[1:], "--json")
    assert answer.code == 0, answer.err
    assert answer.document()["run"] == "results"
    assert played == [6, 7]
    assert hedgerow("run", "gated.toml", "--out", "whole", "--keep").code == 0
    _assert_same(tmp_path / "results", tmp_path / "whole")
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


# In this process: interrupted after some games


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The seed after so many ends in an exception; None: no more interruptions."""

    def change(seeds: int | None, error: type[BaseException] = KeyboardInterrupt) -> None:
        left = [seeds]

        def stopping(*args: Any) -> Any:
            if left[0] == 0:
                raise error("stopped")
            left[0] = None if left[0] is None else left[0] - 1
            return run_together(*args)

        monkeypatch.setattr(study_module, "run_together", stopping)

    return change


def test_a_new_run_leaves_an_unfinished_one_and_names_it(
    hedgerow: Command, tmp_path: Path, stop_after: Any
) -> None:
    stop_after(1)
    assert hedgerow("run", "study.toml").code == 130
    stop_after(None)
    (partial,) = (tmp_path / "runs").iterdir()
    name = partial.name.removeprefix(".").removesuffix(".partial")
    assert (
        f"Unfinished: runs/{name} (2 of 4 results" in (again := hedgerow("run", "study.toml")).err
    )
    assert f"hedgerow run --resume runs/{name}" in again.err
    assert again.code == 0
    assert partial.is_dir()
    assert f"Results in runs/{name}\n" in hedgerow("run", "study.toml", "--resume").out
    assert len(list((tmp_path / "runs").iterdir())) == 2
    assert (
        "There is no unfinished run of study in runs/. Start a new run"
        in hedgerow("run", "study.toml", "--resume").err
    )
    assert (
        "is complete. There is nothing to resume."
        in hedgerow("run", "--resume", f"runs/{name}").err
    )


def test_among_several_the_user_chooses(hedgerow: Command, tmp_path: Path, stop_after: Any) -> None:
    for settings in ((), ("--seed", "9"), ()):
        stop_after(1)
        assert hedgerow("run", "study.toml", *settings).code == 130
    stop_after(None)
    assert "Name one of them after --resume" in hedgerow("run", "study.toml", "--resume").err
    assert (
        "Name one of them after --resume"
        in hedgerow("run", "study.toml", "--resume", "--seed", "3").err
    )
    assert hedgerow("run", "study.toml", "--resume", "--seed", "9").code == 0
    partial = max(p.name for p in (tmp_path / "runs").iterdir() if p.name.startswith("."))
    assert (
        hedgerow(
            "run", "study.toml", "--resume", f"runs/{partial[1:].removesuffix('.partial')}"
        ).code
        == 0
    )
    assert hedgerow("run", "study.toml", "--resume").code == 0


def test_an_explicit_folder_is_never_begun_twice(
    hedgerow: Command, tmp_path: Path, stop_after: Any
) -> None:
    stop_after(1)
    assert "2 of 4" in hedgerow("run", "study.toml", "--out", "deep/results").err
    stop_after(None)
    refused = hedgerow("run", "study.toml", "--out", "deep/results")
    assert refused.code == 2
    assert "The run --out deep/results is unfinished: 2 of 4" in refused.err
    assert "hedgerow run --resume deep/results" in refused.err
    assert hedgerow("run", "study.toml", "--resume", "--out", "deep/results").code == 0
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["results"]


def test_a_running_run_is_left_alone(hedgerow: Command, tmp_path: Path) -> None:
    config = load_study(tmp_path / "study.toml")
    with new_run(Path("results"), "study", studies_identity({"study": config})) as run:
        for arguments in (
            ("--out", "results"),
            ("--resume", "--out", "results"),
            ("--resume", "results"),
        ):
            refused = hedgerow("run", "study.toml", *arguments)
            assert "Another process is using " in refused.err
        assert "Another process is running it now" in hedgerow("statement", "results").err
        (run.draft / "config.toml").write_text("")
    assert [p.name for p in (tmp_path / "results").iterdir()] == ["config.toml"]
    assert not run.path.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--set", "seeds=3"), "seeds was 2, is 3"),
        (("--set", "algorithms.private.epsilon=6.0"), "algorithms.private.epsilon was 5.0, is 6.0"),
        (("--set", "environment.experts=5"), "environment.experts was 4, is 5"),
        (("--keep",), "--keep was False, is True"),
        (("--plugin", "plugin.py"), "plugins.plugin.py was not set, is "),
    ],
)
def test_another_configuration_is_named(
    hedgerow: Command, tmp_path: Path, stop_after: Any, options: tuple[str, ...], told: str
) -> None:
    stop_after(1)
    hedgerow("run", "study.toml")
    stop_after(None)
    refused = hedgerow("run", "study.toml", "--resume", *options)
    assert refused.code == 2
    assert told in refused.err
    assert refused.err.count(" was ") == 1
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert hedgerow("run", "study.toml", "--resume").code == 0 or options[0] == "--plugin"


def test_other_code_versions_losses_and_formats_are_named(
    hedgerow: Command, tmp_path: Path, stop_after: Any
) -> None:
    (tmp_path / "losses.csv").write_text("round,client,a,b\n0,x,0.5,1\n1,x,0.25,0\n")
    (tmp_path / "recorded.toml").write_text(
        'seeds = 3\n[environment]\nname = "recorded"\npath = "losses.csv"\n[[algorithms]]\nname = "hedge"\n'
    )
    stop_after(2)
    assert hedgerow("run", "recorded.toml", "--out", "results").code == 130
    stop_after(None)
    file = tmp_path / ".results.partial" / RECORD
    before = file.read_text()
    for old, new, told in (
        ('code = "', 'code = "0', "code was 0"),
        ('numpy = "', 'numpy = "0.', "versions.numpy was 0."),
        (
            "unfinished run 1",
            "unfinished run 2",
            "has the format 'hedgerow unfinished run 2', "
            "but this version of hedgerow reads 'hedgerow unfinished run 1'",
        ),
    ):
        assert old in before
        file.write_text(before.replace(old, new))
        assert told in hedgerow("run", "--resume", "results").err
    file.write_text(before)
    (tmp_path / "losses.csv").write_text("round,client,a,b\n0,x,0.5,1\n1,x,0.25,0.125\n")
    changed = hedgerow("run", "--resume", "results")
    assert "losses.hedge was" in changed.err
    assert changed.code == 2
    (tmp_path / "losses.csv").write_text("round,client,a,b\n0,x,0.5,1\n1,x,0.25,0\n")
    assert hedgerow("run", "--resume", "results").code == 0


def test_a_crash_of_the_program_keeps_what_is_safe(
    hedgerow: Command, tmp_path: Path, stop_after: Any
) -> None:
    stop_after(0, RuntimeError)
    assert "saved" not in hedgerow("run", "study.toml", "--out", "results").err
    assert not (tmp_path / ".results.partial").exists()
    stop_after(1, RuntimeError)
    failed = hedgerow("run", "study.toml", "--out", "results")
    assert failed.code == 2
    assert "RuntimeError: stopped" in failed.err
    assert (
        "2 of 4 results (2 algorithms x 2 seeds) are saved. "
        "To resume once this is fixed: hedgerow run --resume results" in failed.err
    )
    stop_after(1)
    assert hedgerow("run", "--resume", "results").code == 0


def test_an_interruption_while_writing_loses_nothing(
    hedgerow: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hedgerow.cli import run as run_module

    def half(study: Any, folder: Path, final: Path) -> None:
        (folder / "config.toml").write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "write_study", half)
        assert "4 of 4 results" in hedgerow("run", "study.toml", "--out", "results").err
    assert not (tmp_path / "results").exists()
    assert hedgerow("run", "--resume", "results").code == 0
    hedgerow("run", "study.toml", "--out", "whole")
    _assert_same(tmp_path / "results", tmp_path / "whole", RESULTS[:3] + RESULTS[5:])


def test_a_damaged_result_is_made_again(hedgerow: Command, tmp_path: Path, stop_after: Any) -> None:
    stop_after(2)
    hedgerow("run", "study.toml", "--set", "seeds=3", "--out", "results")
    stop_after(None)
    whole, half, flipped, _ = sorted((tmp_path / ".results.partial" / "results").glob("*.npz"))
    half.write_bytes(half.read_bytes()[:500])
    content = bytearray(flipped.read_bytes())
    content[content.index(b"regret.npy") + 200] ^= 1
    flipped.write_bytes(bytes(content))
    store = ResultStore(whole.parent)
    assert [
        store.load(*map(int, file.stem.split("-"))) is None for file in (whole, half, flipped)
    ] == [False, True, True]
    assert hedgerow("run", "--resume", "results").code == 0
    hedgerow("run", "study.toml", "--set", "seeds=3", "--out", "whole")
    _assert_same(tmp_path / "results", tmp_path / "whole", RESULTS[:3] + RESULTS[5:])


def test_options_that_a_folder_already_has_are_refused(hedgerow: Command) -> None:
    refused = hedgerow("run", "--resume", "results", "--set", "seeds=3")
    assert "give no other arguments: it keeps its options" in refused.err
    assert "A folder needs --resume" in hedgerow("run", "study.toml", "results").err
    assert "Unfinished runs beside it: none." in hedgerow("run", "--resume", "results").err


def test_a_stored_result_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY.replace("gated", "bernoulli"))
    config = load_study(tmp_path / "study.toml")
    store = ResultStore(tmp_path)
    for index, entry in enumerate(config.algorithms):
        pair = run_one(config.build(entry), config.environment, entry.label, 3, keep=True)
        store.save(index, pair)
        loaded = store.load(index, 3)
        assert loaded is not None
        for made, stored in zip(pair, loaded, strict=True):
            assert made is not None
            assert stored is not None
            for f in fields(made):
                one, other = getattr(made, f.name), getattr(stored, f.name)
                assert type(one) is type(other)
                assert (
                    one.tobytes() == other.tobytes() and one.dtype == other.dtype
                    if isinstance(one, np.ndarray)
                    else one == other
                )
    assert len(store) == 2
    assert store.load(0, 4) is None

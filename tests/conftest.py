"""The command line as a fixture: in this process, in an empty folder, with a study and a plugin of experiments at hand."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.cli.main import main
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow.experiments.registry import EXPERIMENTS
from hedgerow.studies import plugins


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tables computed by the tests stay out of the user's cache."""
    os.environ["HEDGEROW_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def own_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers, by a plugin or by hand, is forgotten after it: no test depends on those before it."""
    for registry in (ALGORITHMS, ENVIRONMENTS, EXPERIMENTS):
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    monkeypatch.setattr(plugins, "_loaded", [])


STUDY = """
title = "A study"
seeds = 2
[environment]
name = "realizable"
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
PLUGIN = """
import hedgerow
from hedgerow.algorithms.experts.uniform import Uniform
from hedgerow.core.errors import HedgerowError
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.experiments.experiment import Check, Experiment, Verdict
def studies(quick):
    environment = hedgerow.Bernoulli(clients=2, experts=3, horizon=20)
    return {"only": StudyConfig("x", environment, (Entry("u", Uniform()),), seeds=2)}
def judge_by(limit):
    def judge(done):
        if limit is None:
            raise HedgerowError("the judge is ill")
        return Verdict(True, (Check("u/regret", done["only"].regret("u").mean, "<=", limit, 1.5),), "a note")
    return judge
def draw(done, path):
    done["only"].plot(path)
def add(id, limit, data=()):
    hedgerow.EXPERIMENTS.add(id, Experiment(id, "title of " + id, "claim", studies, judge_by(limit), draw, data))
add("good", 1e9)
add("impossible", -1.0)
add("ill", None)
add("needs-data", 1e9, (("absent.csv", "https://example.org/absent"),))
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    def document(self) -> Any:
        """Standard output as one JSON document without NaN and Infinity."""
        return json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


Command = Callable[..., Answer]


@pytest.fixture
def hedgerow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command in this process, in an empty folder; what it sets is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEDGEROW_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "plugin.py").write_text(PLUGIN)

    def call(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["hedgerow", *arguments])
        capsys.readouterr()
        code, crash = 0, ""
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        except Exception:
            code, crash = 1, traceback.format_exc()
        shown = capsys.readouterr()
        return Answer(code, shown.out, shown.err + crash)

    return call

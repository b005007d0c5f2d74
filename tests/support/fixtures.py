"""The command line as a fixture: in this process, in an empty folder, with a study and a plugin of
experiments at hand.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.audits.registry import AUDITS
from hedgerow.cli.main import main
from hedgerow.core import registry as plugins
from hedgerow.core.registry import EXPERIMENTS
from hedgerow.deployment import logs
from hedgerow.environments.recorded.data import CHOSEN
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow.studies import run
from hedgerow_benchmarks.benchmark import BENCHMARKS
from hedgerow_papers.jacobsen2025.forecasters import FORECASTERS
from support.command import PLUGIN, STUDY, Answer, Command


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tables computed by the tests stay out of the user's cache; parallel workers share them."""
    base = tmp_path_factory.getbasetemp()
    os.environ["HEDGEROW_CACHE"] = str(
        (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "tables"
    )


@pytest.fixture(autouse=True, scope="session")
def in_this_process() -> None:
    """No study moves to other processes by itself, as it would on a busy machine: tests change
    what they run.
    """
    run.WORTH_PROCESSES = math.inf


@pytest.fixture(autouse=True)
def own_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers, by a plugin or by hand, is forgotten after it: no test depends on
    those before it.
    """
    for registry in (ALGORITHMS, AUDITS, BENCHMARKS, ENVIRONMENTS, EXPERIMENTS, FORECASTERS):
        list(registry)  # installed plugins are found once, and stay
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    monkeypatch.setattr(plugins, "_loaded", [])


@pytest.fixture(autouse=True)
def own_logs() -> Iterator[None]:
    """Where logs go and which are kept is as before after a test: a command sends them to the
    standard error of its process, which the next test does not have.
    """
    loggers = [logging.getLogger(name) for name in (logs.LOGGER.name, *logs.OTHERS)]
    before = [(one.handlers, one.propagate, one.level) for one in loggers]
    yield
    for one, (handlers, propagate, level) in zip(loggers, before, strict=True):
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


@pytest.fixture
def hedgerow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """The command in this process, in an empty folder; what it sets is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEDGEROW_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv(CHOSEN, "")  # `--data` sets it
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

"""Runs to state, made once for all tests; statements of them; the command beside a finished run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from hedgerow.records.schema import RunRecord, read_record
from hedgerow.statement.files import rendered_statement
from hedgerow.statement.statement import Details, Statement, algorithms_to_state
from hedgerow.studies.config import load_study
from hedgerow.studies.run import run_study
from hedgerow.studies.storage.folder import write_study
from support import command
from support.command import Command
from support.statements import STUDY, TODAY


def _run(folder: Path, study: str, final: Path) -> Path:
    folder.mkdir()
    (folder.parent / "study.toml").write_text(study)
    write_study(run_study(load_study(folder.parent / "study.toml"), workers=1), folder, final)
    return folder


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with every kind of certificate."""
    folder = tmp_path_factory.mktemp("statement") / "run"
    return _run(folder, STUDY, folder)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the usual study, to be copied."""
    return _run(tmp_path_factory.mktemp("usual") / "results", command.STUDY, Path("results"))


@pytest.fixture(scope="session")
def record(run: Path) -> RunRecord:
    return read_record(run)


@pytest.fixture(scope="session")
def stated(record: RunRecord) -> Callable[..., Statement]:
    def make(label: str, details: Details | None = None) -> Statement:
        (algorithm,) = algorithms_to_state(record, label)
        return Statement(record, algorithm, details or Details(), None, TODAY)

    return make


@pytest.fixture(scope="session")
def pages(stated: Callable[..., Statement]) -> Callable[[str], dict[str, str]]:
    """The files of a label's statement without details, by name; rendered once."""
    return cache(lambda label: rendered_statement(stated(label)))


@pytest.fixture
def made(hedgerow: Command, results: Path, tmp_path: Path) -> Command:
    """The command beside a finished run of the usual study, `results`."""
    shutil.copytree(results, tmp_path / "results")
    return hedgerow

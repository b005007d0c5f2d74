"""What is imported when: a library that starts at once, and a privacy core that needs nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import hedgerow
from support.paths import PACKAGE

HEAVY = {"matplotlib", "pyarrow", "typer", "rich", "pydantic"}


def imported(*arguments: str) -> set[str]:
    """The top-level modules that a Python process has imported when it ends."""
    code = (
        "import atexit, sys; atexit.register(lambda: print('\\n', *sys.modules, file=sys.stderr))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + arguments[0], *arguments[1:]],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split()}


def test_the_package_itself_imports_neither_numpy_nor_anything_heavy() -> None:
    assert not imported("import hedgerow") & (HEAVY | {"numpy", "scipy"})


def test_the_privacy_core_needs_no_plots_files_or_command_line() -> None:
    found = imported("from hedgerow.privacy import *")
    assert "scipy" in found
    assert not found & HEAVY
    assert not imported("import hedgerow.privacy") & (HEAVY | {"numpy", "scipy"})


@pytest.mark.parametrize("name", ["SparseVector", "Realizable", "Learner", "SecureNoise"])
def test_using_one_name_draws_no_plots_and_needs_no_command_line(name: str) -> None:
    assert not imported(f"import hedgerow; hedgerow.{name}") & {"matplotlib", "typer", "rich"}


def test_help_needs_no_numpy() -> None:
    found = imported(
        "import sys; sys.argv = ['hedgerow', '--help']; from hedgerow.cli.main import main; main()"
    )
    assert "typer" in found
    assert not found & {"numpy", "matplotlib", "pyarrow"}


def test_every_listed_name_can_be_imported() -> None:
    listed = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    names = {
        alias.asname or alias.name
        for node in listed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert names == set(dir(hedgerow))
    assert all(getattr(hedgerow, name) is not None for name in names)

"""A package that announces algorithms by entry point is found like a built-in one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.registry import Registry

PACKAGE = """
from dataclasses import dataclass
from hedgerow import Hedge

@dataclass(frozen=True)
class Careful(Hedge):
    \"\"\"Hedge under another name.\"\"\"
"""


def _install(folder: Path, points: str) -> None:
    """What an installer leaves behind: a module and its metadata."""
    (folder / "neighbour.py").write_text(PACKAGE)
    metadata = folder / "neighbour-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: neighbour\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[hedgerow.algorithms]\n{points}\n")


def test_an_entry_point_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, "careful = neighbour:Careful")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry: Registry[type] = Registry(
        "algorithm", {"hedge": "hedgerow.algorithms.baselines.hedge:Hedge"}
    )
    assert {"careful", "hedge"} <= set(registry)
    assert issubclass(registry["careful"], Hedge)
    monkeypatch.delitem(sys.modules, "neighbour")


@pytest.mark.parametrize(
    ("code", "error"), [(None, "ModuleNotFoundError"), ("1 / 0", "ZeroDivisionError: division")]
)
def test_a_broken_entry_point_is_named(
    code: str | None, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, "careful = broken:Careful")
    if code is not None:
        (tmp_path / "broken.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(HedgerowError, match=f"Plugin 'broken:Careful' failed to load: {error}"):
        Registry("algorithm", {})["careful"]


def test_a_broken_entry_point_does_not_disturb_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only names are read; a plugin is imported when it is used."""
    _install(tmp_path, "careful = nowhere:Careful")
    monkeypatch.syspath_prepend(str(tmp_path))
    built_in = {"hedge": "hedgerow.algorithms.baselines.hedge:Hedge"}
    registry: Registry[type] = Registry("algorithm", built_in)
    assert "careful" in registry
    assert registry["hedge"] is Hedge


def test_an_entry_point_keeps_the_rules_of_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, "careful = neighbour:dataclass\nhedge = neighbour:Careful")
    monkeypatch.syspath_prepend(str(tmp_path))
    built_in = {"hedge": "hedgerow.algorithms.baselines.hedge:Hedge"}
    with pytest.raises(InvalidValue, match="'hedge' is taken, so plugin 'neighbour:Careful'"):
        list(Registry("algorithm", built_in))
    with pytest.raises(InvalidValue, match="'careful' to be a class that inherits from Hedge"):
        Registry("algorithm", {}, Hedge)["careful"]
    monkeypatch.delitem(sys.modules, "neighbour")

"""Stored runs of experiments, and what the commands say where the papers are not installed."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest

from hedgerow.core import registry
from hedgerow.core.registry import EXPERIMENTS
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow.records import provenance
from hedgerow_papers import stored
from support.command import Command

ROW = {
    **{"id": "gao2024-figure2", "status": "ran", "message": "new", "holds": "as printed"},
    **{"passed": True, "checks": [], "tables": [], "run": "runs/x", "communication": []},
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stored runs of two papers, in another folder."""
    monkeypatch.setattr(stored, "FOLDER", tmp_path)
    old = {key: ROW[key] for key in stored.KEPT} | {"message": "old"}
    for name, rows in (("gao2024", [old]), ("ours", [])):
        (tmp_path / name).mkdir()
        page = {"experiments": rows, "not_stored": {"flusight": "Not run."}}
        (tmp_path / name / stored.FILE).write_text(json.dumps(page))
    return tmp_path


def test_a_run_is_stored_beside_its_experiment(place: Path) -> None:
    (place / "run.json").write_text(
        json.dumps({"experiments": [ROW, {**ROW, "id": "flusight", "message": "flu"}]})
    )
    assert stored.main([str(place / "run.json")]) == 0
    found = stored.stored()["experiments"]
    assert {name: row["message"] for name, row in found.items()} == {
        "gao2024-figure2": "new",
        "flusight": "flu",  # of the package: among ours
    }
    assert set(found["flusight"]) == {*stored.KEPT, stored.VERSION}
    assert json.loads((place / "ours" / stored.FILE).read_text())["not_stored"] == {}


@pytest.mark.parametrize("change", [{"passed": False}, {"status": "quick"}])
def test_a_run_that_fails_is_not_stored(
    change: dict[str, object], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "run.json").write_text(json.dumps({"experiments": [{**ROW, **change}]}))
    assert stored.main([str(place / "run.json")]) == 1
    assert "gao2024-figure2 is not stored" in capsys.readouterr().err
    assert stored.stored()["experiments"]["gao2024-figure2"]["message"] == "old"


def test_without_the_papers_the_commands_say_what_to_install(
    hedgerow: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = tmp_path / "hospitals.toml"
    study.write_text('environment.name = "hospitals"\n[[algorithms]]\nname = "walk_meta"\n')
    monkeypatch.setattr(registry, "installed_plugins", tuple)
    for kind in (EXPERIMENTS, ENVIRONMENTS):
        own = {name: kind[name] for name in kind.built_in}
        monkeypatch.setattr(kind, "_installed", set(own))
        monkeypatch.setattr(kind, "_things", own)
    monkeypatch.setattr(metadata, "entry_points", lambda **_: ())
    (tmp_path / "mine.py").write_text("import hedgerow_papers")
    with monkeypatch.context() as absent:
        absent.setitem(sys.modules, registry.PAPERS, None)
        answer = hedgerow("list", "--plugin", str(tmp_path / "mine.py"))
    assert answer.err.endswith("run `pip install ./papers` in a checkout of Hedgerow.\n")
    for command in (["reproduce", "gao2024-figure2"], ["reproduce", "--all"], ["gallery"]):
        answer = hedgerow(*command)
        assert answer.code == 2
        assert "is in a plugin that is not installed: run `pip install ./papers`" in answer.err
    for words in (["list"], ["list", "experiments"]):
        assert "pip install ./papers" in hedgerow(*words).out
    assert "The experiments of the papers are not installed" in hedgerow("list", "trust").err
    for command in ("run", "launch"):
        answer = hedgerow(command, str(study))
        assert answer.code == 2
        assert "The environments of the papers are not installed: run `pip i" in answer.err


def test_with_the_papers_nothing_is_to_install(hedgerow: Command) -> None:
    assert "pip install" not in hedgerow("list").out
    answer = hedgerow("reproduce", "gao2024-figure22")
    assert "did you mean 'gao2024-figure2'" in answer.err


def test_a_record_has_the_hash_of_an_installed_plugin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So that a result is not reused after its experiment changed."""
    known = provenance.code_provenance().plugins
    assert known["hedgerow_papers"] == provenance.hash_of(Path(stored.__file__).parent)[0]
    assert "hedgerow_benchmarks" not in known  # no result depends on them
    metadata = tmp_path / "hashed_neighbour-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: hashed_neighbour\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text(
        "[hedgerow.algorithms]\nmine = hashed_neighbour:Mine\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []
    for text in ("1", "2"):
        (tmp_path / "hashed_neighbour.py").write_text(text)
        provenance._installed.cache_clear()
        found.append(provenance.code_provenance().plugins)
    provenance._installed.cache_clear()
    assert found[0].pop("hashed_neighbour") != found[1].pop("hashed_neighbour")
    assert found == [known, known]

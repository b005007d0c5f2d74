"""Running a study: the same results however it is run, plugins in every process, folders complete
or absent.
"""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core import registry as plugins
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.registry import load_plugin
from hedgerow.environments.drawn.realizable import Realizable
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow.studies import run as study_module
from hedgerow.studies.config import Entry, StudyConfig, load_study, study_from_table, study_table
from hedgerow.studies.run import run_study
from hedgerow.studies.storage import folder as folder_module
from hedgerow.studies.storage.folder import fresh_folder
from hedgerow.studies.study import Study
from support.command import Command


def _small(**changes: Any) -> StudyConfig:
    entries = (
        Entry("private", SparseVector(epsilon=3.0, every=2)),
        Entry("hedge", Hedge(every=3), Realizable(clients=1, experts=4, horizon=40)),
    )
    return replace(
        StudyConfig(
            "x", Realizable(clients=3, experts=4, horizon=40), entries, seeds=5, first_seed=2
        ),
        **changes,
    )


def _assert_same(one: Study, other: Study) -> None:
    assert len(one.results) == len(other.results)
    for a, b in zip(one.results, other.results, strict=True):
        for f in fields(a):
            assert np.array_equal(getattr(a, f.name), getattr(b, f.name)), f.name
    for a, b in zip(one.kept, other.kept, strict=True):
        assert (a.label, a.seed) == (b.label, b.seed)
        assert np.array_equal(a.plays, b.plays)


def test_results_do_not_depend_on_workers() -> None:
    alone = run_study(_small(), workers=1, keep=True)
    assert [(r.label, r.seed) for r in alone.results] == [
        (name, s) for name in ("private", "hedge") for s in range(2, 7)
    ]
    assert len(alone.kept) == 10
    _assert_same(alone, run_study(_small(), workers=2, keep=True))


def test_results_do_not_depend_on_the_engine() -> None:
    one, other = run_study(_small(), workers=1), run_study(_small(engine="in_process"), workers=1)
    assert one.kept == []
    _assert_same(one, other)


def test_seeds_differ_and_progress_counts_them() -> None:
    seen: list[tuple[int, int]] = []
    study = run_study(_small(), workers=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 10) for n in range(11)]
    assert len({float(r.loss[-1]) for r in study.of("private")}) > 1
    assert study.regret("hedge").count == 5


# Plugins

STUDY = """
seeds = 3
[environment]
name = "plugin_wide"
clients = 2
horizon = 30
[[algorithms]]
name = "plugin_uniform"
"""
PLUGIN = """
from dataclasses import dataclass
import hedgerow
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.environments.drawn.stochastic import Bernoulli
class PluginUniform(Uniform): pass
@dataclass(frozen=True, kw_only=True)
class Wide(Bernoulli):
    gap: float = 0.5
hedgerow.ALGORITHMS.add("plugin_uniform", PluginUniform)
hedgerow.ENVIRONMENTS.add("plugin_wide", Wide)
"""


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in (ALGORITHMS, ENVIRONMENTS):
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    monkeypatch.setattr(plugins, "_loaded", [])


@pytest.mark.usefixtures("registries")
def test_a_plugin_brings_algorithms_and_environments_also_to_workers(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    for _ in range(2):  # loading again is harmless
        load_plugin(str(tmp_path / "mine.py"))
    (tmp_path / "study.toml").write_text(STUDY)
    config = load_study(tmp_path / "study.toml")
    assert study_from_table(study_table(config)) == config
    _assert_same(run_study(config, workers=1), run_study(config, workers=2))


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nonsense_module", "ModuleNotFoundError"),
        ("x = ", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("1 / 0", "ZeroDivision"),
    ],
)
def test_a_plugin_that_fails_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(HedgerowError, match=rf"bad\.py failed to import: {message}"):
        load_plugin(str(tmp_path / "bad.py"))
    with pytest.raises(HedgerowError, match=r"absent\.py not found"):
        load_plugin(str(tmp_path / "absent.py"))


# Folders


def test_a_folder_appears_only_when_complete(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "results"
    with fresh_folder(out, "x") as made:
        (made.path / "a").write_text("a")
        assert not out.exists()
    assert (out / "a").read_text() == "a"
    assert [p.name for p in out.parent.iterdir()] == ["results"]
    with (
        pytest.raises(InvalidValue, match=r"already exists\. Choose another place or delete it\."),
        fresh_folder(out, "x"),
    ):
        pass
    assert (out / "a").exists()


@pytest.mark.parametrize("stop", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_after_an_exception(tmp_path: Path, stop: type[BaseException]) -> None:
    def interrupted() -> None:
        with fresh_folder(tmp_path / "results", "x") as made:
            (made.path / "half").write_text("half")
            raise stop

    with pytest.raises(stop):
        interrupted()
    assert list(tmp_path.iterdir()) == []


class _Noon(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime(2024, 1, 1, 12, tzinfo=tz)


def test_default_names_are_unique_within_a_second_even_while_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folder_module, "datetime", _Noon)
    with fresh_folder(None, "x") as first:
        pass
    with fresh_folder(None, "x") as second, fresh_folder(None, "x") as third:
        (second.path / "mine").write_text("second")
        (third.path / "mine").write_text("third")
    finals = [f.final for f in (first, second, third)]
    assert len(set(finals)) == 3
    assert [(f / "mine").read_text() for f in finals[1:]] == ["second", "third"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InvalidValue, match="Cannot write to"),
        fresh_folder(tmp_path / "file" / "results", "x"),
    ):
        pass


# What Python users do with a study


@pytest.fixture(scope="module")
def small() -> hr.Study:
    game = hr.Realizable(clients=2, experts=4, horizon=60)
    return hr.run(
        game,
        {"private": hr.SparseVector(epsilon=5.0), "leader": hr.FollowTheLeader()},
        seeds=3,
        title="small",
    )


def test_a_label_gives_its_results_and_its_certificate(small: hr.Study) -> None:
    one = small["private"]
    assert [result.seed for result in one.results] == [0, 1, 2]
    assert one.regret == small.regret("private")
    assert one.certificate is small.algorithms["private"].certificate
    assert one.certificate.public is one.certificate.guarantee(hr.Observer.PUBLIC)
    assert one.certificate.peer.observer is hr.Observer.PEER
    assert not one.certificate.server.protects
    assert one.certificate.public.proof is not None
    assert one.certificate.public.proof.read().startswith("## Weights by recency")
    with pytest.raises(hr.InvalidValue, match=r"Unknown label 'privat'; did you mean 'private'\?"):
        small["privat"]


def test_a_study_is_shown_on_one_screen(small: hr.Study) -> None:
    lines = repr(small).splitlines()
    assert lines[0] == "<Study 'small': Realizable, 2 clients, 4 experts, 60 rounds, 3 seeds>"
    assert lines[-1] == "simulation: not private"
    many = hr.run(
        hr.Realizable(clients=1, experts=2, horizon=3),
        {f"u{i}": hr.Uniform() for i in range(40)},
        seeds=1,
    )
    assert len(repr(many).splitlines()) < 24
    assert "... and 25 more labels" in repr(many)
    assert len(str(many).splitlines()) > 40


def test_a_frame_has_a_row_for_each_label_and_seed(
    small: hr.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = small.to_frame()
    assert frame["label"] == ["private"] * 3 + ["leader"] * 3
    assert frame["regret"] == [r.final_regret for r in small.results]
    assert {len(column) for column in frame.values()} == {6}
    curves = small.to_frame(curves=True)
    assert len(curves["round"]) == sum(len(r.rounds) for r in small.results)
    assert curves["regret"][len(small.results[0].rounds) - 1] == small.results[0].final_regret
    pandas = SimpleNamespace(DataFrame=lambda table: ("frame", table), __spec__=object())
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert small.to_frame() == ("frame", frame)


def test_folders_are_compared_as_on_the_command_line(hedgerow: Command, tmp_path: Path) -> None:
    for name, epsilon in (("a", 5), ("b", 50)):
        hedgerow(
            "run", "study.toml", "--out", name, "--set", f"algorithms.private.epsilon={epsilon}"
        )
    comparison = hr.compare(["a", "b"])
    text = str(comparison)
    assert all(
        line.split()[:3] in [text_line.split()[:3] for text_line in text.splitlines()]
        for line in ("A = a", "B = b")
    )
    assert "private: epsilon: A 5; B 50" in text
    shown = hedgerow("compare", "a", "b", "--json").document()
    assert {**comparison.to_dict(), "picture": "comparison.png"} == shown
    comparison.plot(tmp_path / "mine.png")
    assert (tmp_path / "mine.png").stat().st_size > 10_000
    with pytest.raises(
        hr.InvalidValue, match="Expected a list of run folders, which `hedgerow run` writes, got a"
    ):
        hr.compare("a")


def test_losses_are_drawn_once_for_all_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every algorithm gets what it gets alone, for any number of workers' tasks."""
    game = hr.Bernoulli(clients=2, experts=3, horizon=70)
    algorithms = {"one": hr.Hedge(), "two": hr.SparseVector(epsilon=9.0), "three": hr.Uniform()}
    drawn: list[int] = []
    draw = hr.Bernoulli.draw

    def counting(self: Any, *args: Any) -> Any:
        drawn.append(args[2])
        return draw(self, *args)

    alone = {
        label: hr.run(game, {label: spec}, seeds=2, seed=5).results
        for label, spec in algorithms.items()
    }
    monkeypatch.setattr(hr.Bernoulli, "draw", counting)
    together = hr.run(game, algorithms, seeds=2, seed=5).results
    assert drawn == [0, 0]  # once for each seed
    assert [(r.label, r.seed) for r in together] == [
        (label, seed) for label in algorithms for seed in (5, 6)
    ]
    for result in together:
        (same,) = (r for r in alone[result.label] if r.seed == result.seed)
        assert np.array_equal(result.regret, same.regret)
        assert result.comparators == same.comparators
        assert (result.switches, result.exchanges) == (same.switches, same.exchanges)


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_tasks_cover_what_is_missing_and_keep_workers_busy(workers: int) -> None:
    own = hr.Bernoulli(clients=2, experts=3, horizon=70, gap=0.1)
    entries = (
        *(Entry(f"a{i}", hr.Hedge(every=i + 1)) for i in range(3)),
        Entry("b", hr.Hedge(), environment=own),
    )
    config = StudyConfig("", hr.Bernoulli(clients=2, experts=3, horizon=70), entries, 2)
    missing = {0: [0, 1], 1: [1], 2: [0, 1], 3: [0]}
    tasks = study_module._tasks(config, missing, workers)
    pairs = [(index, seed) for indices, seeds in tasks for index in indices for seed in seeds]
    assert sorted(pairs) == sorted((i, seed) for i, seeds in missing.items() for seed in seeds)
    assert all(len({config.stream_of(i) for i in indices}) == 1 for indices, _ in tasks)
    assert len(tasks) >= min(workers, 4)

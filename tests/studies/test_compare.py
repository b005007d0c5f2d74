"""Runs side by side: the right interval for what the runs share, what differs by name, other
folders refused by name.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hedgerow.environments.drawn.realizable import Realizable
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.studies.compare import (
    compare_runs,
    paired_difference,
    regret_difference,
    unpaired_difference,
)
from hedgerow.studies.config import load_study, study_from_table
from hedgerow.studies.run import run_study
from hedgerow.studies.storage.finished import FinishedRun, read_run
from hedgerow.studies.storage.folder import write_study
from hedgerow.studies.storage.identity import ADAPTIVE, losses_fingerprint
from support.command import STUDY, Command

Make = Callable[..., Path]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A run folder of the usual study with some values changed; each is made once."""
    place = tmp_path_factory.mktemp("runs")
    (place / "study.toml").write_text(STUDY.replace("seeds = 2", "seeds = 6"))

    def made(*settings: str) -> Path:
        folder = place / ("run-" + "-".join(settings).replace("/", "_"))
        if not folder.exists():
            folder.mkdir()
            write_study(
                run_study(load_study(place / "study.toml", settings), workers=1), folder, folder
            )
        return folder

    return made


# intervals


def test_intervals_are_those_of_scipy() -> None:
    draw = np.random.default_rng(3)
    one, other = draw.normal(5, 1, 12), draw.normal(7, 3, 12)
    matched = paired_difference(one.tolist(), other.tolist())
    low, high = stats.ttest_rel(other, one).confidence_interval()
    assert (matched.mean - matched.half_width, matched.mean + matched.half_width) == pytest.approx(
        (low, high)
    )
    apart = unpaired_difference(one.tolist(), other[:7].tolist())
    low, high = stats.ttest_ind(other[:7], one, equal_var=False).confidence_interval()
    assert (apart.mean - apart.half_width, apart.mean + apart.half_width) == pytest.approx(
        (low, high)
    )
    assert (matched.method, matched.seeds, apart.method, apart.seeds) == ("paired", 12, "Welch", 7)
    assert matched.ratio == pytest.approx(other.mean() / one.mean())


def test_degenerate_intervals() -> None:
    assert unpaired_difference([1.0, 1.0], [3.0, 3.0]).half_width == 0
    assert np.isnan(unpaired_difference([1.0], [3.0, 4.0]).half_width)
    assert paired_difference([0.0, 0.0], [1.0, 2.0]).ratio is None
    assert paired_difference([-1.0, -2.0], [1.0, 2.0]).ratio is None


def test_pairing_finds_what_independence_hides() -> None:
    """Streams of very different difficulty and a small steady gain, as with common seeds."""
    draw = np.random.default_rng(4)
    hardness = draw.normal(100, 30, 20)
    one, other = hardness + draw.normal(0, 1, 20), hardness - 2 + draw.normal(0, 1, 20)
    close, wide = (
        paired_difference(one.tolist(), other.tolist()),
        unpaired_difference(one.tolist(), other.tolist()),
    )
    assert close.mean + close.half_width < 0 < wide.mean + wide.half_width


# which interval


def _methods(one: Path, other: Path) -> dict[str, str]:
    runs = [read_run(one), read_run(other)]
    return {
        row.label: row.difference.method
        for row in compare_runs(runs).rows
        if row.difference is not None
    }


def test_the_same_streams_are_paired(make: Make) -> None:
    one, other = make(), make("algorithms.private.epsilon=0.5", "first_seed=2")
    assert _methods(one, other) == {"private": "paired", "hedge": "paired"}
    by_label = {
        row.label: row.difference
        for row in compare_runs([read_run(one), read_run(other)]).rows
        if row.difference
    }
    assert by_label["hedge"].seeds == 4
    assert (by_label["hedge"].mean, by_label["hedge"].half_width, by_label["hedge"].ratio) == (
        0,
        0,
        1,
    )
    assert by_label["private"].mean != 0


def test_other_environments_are_not_paired(make: Make) -> None:
    one = make()
    assert _methods(one, make("environment.horizon=20")) == {"private": "Welch", "hedge": "Welch"}
    assert _methods(one, make("algorithms.hedge.environment.horizon=20")) == {
        "private": "paired",
        "hedge": "Welch",
    }
    assert _methods(one, make("first_seed=5")) == {"private": "Welch", "hedge": "Welch"}
    adaptive = make("environment.name=play_chasing")
    assert regret_difference(read_run(adaptive), read_run(adaptive), "hedge").method == "Welch"


def test_equal_words_with_other_losses_are_not_paired(make: Make, tmp_path: Path) -> None:
    """The same configuration where the code that draws, or a data file, was changed in between."""
    other = shutil.copytree(make(), tmp_path / "other")
    summary = json.loads((other / "summary.json").read_text())
    summary["losses"]["hedge"] = "0" * 64
    (other / "summary.json").write_text(json.dumps(summary))
    assert _methods(make(), other) == {"private": "paired", "hedge": "Welch"}
    comparison = compare_runs([read_run(make()), read_run(other)])
    assert list(comparison.changes) == ["hedge: losses"]
    assert comparison.notes == ["Not on the same streams in A and B: hedge."]


def test_fingerprints_follow_the_losses() -> None:
    losses = np.linspace(0, 1, 24).reshape(4, 2, 3)
    other = losses.copy()
    other[-1, -1, -1] = 0.5
    environments = [
        RecordedArray(losses),
        RecordedArray(other),
        RecordedArray(losses.reshape(4, 3, 2)),
        Realizable(clients=2, experts=3, horizon=4),
        Realizable(clients=2, experts=3, horizon=4, mean=0.25),
        Bernoulli(clients=2, experts=3, horizon=4),
    ]
    prints = [losses_fingerprint(environment) for environment in environments]
    assert len(set(prints)) == len(prints)
    assert prints == [losses_fingerprint(environment) for environment in environments]
    assert losses_fingerprint(PlayChasing(clients=2, experts=3, horizon=4)) == ADAPTIVE


# what differs


def test_what_differs_is_named(make: Make) -> None:
    runs = [read_run(make()), read_run(make("algorithms.private.epsilon=6.0", "first_seed=2"))]
    changes = compare_runs(runs).changes
    assert changes["private: epsilon"] == [5.0, 6.0]
    assert changes["seeds"] == ["0 to 5", "2 to 7"]
    assert changes["private: privacy against public"] == [
        "epsilon = 5, delta = 0",
        "epsilon = 6, delta = 0",
    ]
    assert not [
        name for name in changes if name.startswith(("hedge", "code", "version", "environment"))
    ]
    assert compare_runs([runs[0], read_run(make("title=x"))]).changes == {}


def test_no_common_label_and_no_common_environment(make: Make) -> None:
    one, other = (
        read_run(make()),
        read_run(make("environment.horizon=20", "algorithms.0.label=a", "algorithms.1.label=b")),
    )
    comparison = compare_runs([one, other])
    assert [(row.label, row.run) for row in comparison.rows] == [
        ("private", "A"),
        ("hedge", "A"),
        ("a", "B"),
        ("b", "B"),
    ]
    assert all(row.difference is None for row in comparison.rows)
    assert "no label in common" in comparison.notes[0]
    assert "not on the same streams" in comparison.notes[1]
    assert comparison.changes["environment horizon"] == [30, 20]
    assert comparison.changes["label 'a'"] == ["not there", "there"]


def test_a_run_reads_back(make: Make, tmp_path: Path) -> None:
    run = read_run(make())
    assert isinstance(run, FinishedRun)
    assert study_from_table(run.config) == load_study(make().parent / "study.toml")
    assert {label: len(found) for label, found in run.regrets.items()} == {"private": 6, "hedge": 6}


# the command


def test_the_command_prints_a_table_and_draws(
    hedgerow: Command, tmp_path: Path, make: Make
) -> None:
    folders = [
        str(make()),
        str(make("algorithms.private.epsilon=6.0", "first_seed=2")),
        str(make("environment.horizon=20")),
    ]
    answer = hedgerow("compare", *folders)
    assert answer.code == 0, answer.err
    for words in (
        "paired, 4 seeds",
        "Welch",
        "private: epsilon: A 5; B 6; C 5",
        "Picture: comparison.png",
        f"C = {folders[2]}",
    ):
        assert words in answer.out.replace("\n", "")
    again = hedgerow("compare", *folders[:2], "--json").document()
    assert set(again) == {"runs", "rows", "changes", "notes", "picture"}
    assert again["picture"] == "comparison-2.png"
    assert again["changes"]["private: epsilon"] == {"A": 5.0, "B": 6.0}
    assert again["rows"][1]["difference"]["method"] == "paired"
    assert again["rows"][0]["difference"] is None
    for name in ("comparison.png", "comparison-2.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert hedgerow("compare", *folders[:2], "--out", "deep/mine.png").code == 0
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["mine.png"]


def test_single_seeds_have_no_interval(hedgerow: Command, make: Make) -> None:
    rows = hedgerow(
        "compare", str(make("seeds=1")), str(make("seeds=1", "first_seed=3")), "--json"
    ).document()["rows"]
    assert rows[1]["difference"]["half_width"] is None
    assert rows[1]["difference"]["mean"] is not None


def _as(version: str | None) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        summary = json.loads((folder / "summary.json").read_text())
        del summary["format"]
        (folder / "summary.json").write_text(
            json.dumps(summary if version is None else {"format": version, "news": 1})
        )

    return change


def _newer_record(folder: Path) -> None:
    (folder / "privacy.json").write_text(json.dumps({"format": "hedgerow privacy record 9"}))


SPOILT: dict[str, tuple[Callable[[Path], Any], str]] = {
    "absent": (shutil.rmtree, "There is no run folder at bad. Check the path."),
    "not a run": (lambda p: [file.unlink() for file in p.iterdir()], "it has no privacy.json"),
    "newer": (
        _as("hedgerow run 4"),
        "Expected format='hedgerow run 4' in bad/summary.json to be 'hedgerow run 3'",
    ),
    "older": (
        _as("hedgerow run 1"),
        "Expected format='hedgerow run 1' in bad/summary.json to be 'hedgerow run 3'",
    ),
    "oldest": (_as(None), "Expected format=None in bad/summary.json to be 'hedgerow run 3'"),
    "newer record": (
        _newer_record,
        "'hedgerow privacy record 9' in bad/privacy.json to be 'hedgerow privacy record 5'",
    ),
    "half": (
        lambda p: (p / "results.parquet").write_bytes(b"PAR1"),
        "Cannot read the run folder bad",
    ),
    "without results": (
        lambda p: (p / "results.parquet").unlink(),
        "Cannot read the run folder bad",
    ),
    "other labels": (
        lambda p: (p / "config.toml").write_text(
            (p / "config.toml").read_text().replace('"private"', '"x"')
        ),
        "do not agree",
    ),
}


@pytest.mark.parametrize("case", list(SPOILT))
def test_other_folders_are_refused_by_name(
    hedgerow: Command, tmp_path: Path, make: Make, case: str
) -> None:
    spoil, message = SPOILT[case]
    spoil(shutil.copytree(make(), tmp_path / "bad"))
    answer = hedgerow("compare", str(make()), "bad")
    assert answer.code == 2
    assert message in answer.err
    assert not (tmp_path / "comparison.png").exists()


def test_a_newer_record_is_named_by_the_statement_too(
    hedgerow: Command, tmp_path: Path, make: Make
) -> None:
    _newer_record(shutil.copytree(make(), tmp_path / "bad"))
    assert "'hedgerow privacy record 9'" in hedgerow("statement", "bad").err


def test_bad_requests(hedgerow: Command, tmp_path: Path, make: Make) -> None:
    one, other = str(make()), str(make("first_seed=2"))
    (tmp_path / "there.png").write_text("mine")
    for arguments, message in (
        ((one,), "2 to 26 run folders to compare, got 1"),
        ((one, one), "is given twice"),
        (
            (one, other, "--out", "there.png"),
            "--out there.png already exists. Choose another name or delete it.",
        ),
        ((one, other, "--out", "there.pdf"), "to end in .png"),
        ((one, other, "--out", "there.png/x.png"), "Cannot write to"),
    ):
        answer = hedgerow("compare", *arguments)
        assert (answer.code, message in answer.err) == (2, True), answer.err
    assert (tmp_path / "there.png").read_text() == "mine"

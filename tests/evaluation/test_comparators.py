"""Comparators against direct computation: best expert, every client's best, mean, best sequence
with few changes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.cli.tables import comparators_table
from hedgerow.core.block import Block, check
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.setting import Setting
from hedgerow.environments.drawn.switching import Switching
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.evaluation import best_sequence as module
from hedgerow.evaluation.recorder import Recorder, with_switches
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.run import run, run_study
from support.command import Command
from support.played import run_one

NOTHING_SENT: Any = SimpleNamespace(
    exchanged=0, uploaded_scalars=0, uploaded_bytes=0, broadcast_scalars=0, broadcast_bytes=0
)


def _found(losses: np.ndarray, switches: tuple[int, ...] = (), block: int = 5) -> dict[str, float]:
    rounds, clients, width = losses.shape
    setting = Setting(clients, width, rounds)
    recorder = Recorder(setting, switches=switches)
    for first in range(0, rounds, block):
        part = losses[first : first + block]
        plays = np.zeros(part.shape[:2], int)
        recorder.rounds(first, check(Block.of(part), setting, first, len(part)), plays)
    return recorder.comparators()


def _by_force(totals: np.ndarray, switches: int) -> float:
    """The least loss of all d^T sequences with at most so many changes."""
    rounds, experts = totals.shape
    best = np.inf
    for sequence in product(range(experts), repeat=rounds):
        if sum(a != b for a, b in pairwise(sequence)) <= switches:
            best = min(best, float(totals[np.arange(rounds), sequence].sum()))
    return best


def test_plain_comparators_are_sums() -> None:
    losses = round_to_lattice(np.random.default_rng(0).random((23, 3, 4)))
    found = _found(losses)
    assert list(found) == ["best expert", "best expert of each client", "a random expert"]
    assert found["best expert"] == losses.sum(axis=(0, 1)).min() / 3
    assert found["best expert of each client"] == losses.sum(axis=0).min(axis=1).sum() / 3
    assert found["a random expert"] == pytest.approx(losses.mean(axis=2).sum() / 3)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_sequence_is_the_best_of_all_sequences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    losses = round_to_lattice(
        rng.random((8, 2, 3)) if seed % 2 else rng.integers(0, 2, (8, 2, 3)).astype(float)
    )
    found = _found(losses, (1, 2, 3, 9), block=3)
    for count in (1, 2, 3, 9):
        assert found[with_switches(count)] == _by_force(losses.sum(axis=1), count) / 2
    assert (
        found[with_switches(9)] == losses.sum(axis=1).min(axis=1).sum() / 2
    )  # more changes than rounds: the best of every round


@pytest.mark.parametrize("cache", [1, 40, 2**16])
def test_the_best_sequence_does_not_depend_on_blocks_or_pieces(
    cache: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is that of the plain programme, round by round."""
    monkeypatch.setattr(module, "CACHE_ELEMENTS", cache)
    losses = round_to_lattice(np.random.default_rng(5).random((97, 2, 4)))
    totals = losses.sum(axis=1)
    value = np.zeros((4, 4))
    for row in totals:
        stay = value.copy()
        stay[1:] = np.minimum(stay[1:], value[:-1].min(axis=1, keepdims=True))
        value = stay + row
    for block in (1, 10, 97):
        found = _found(losses, (1, 2, 3), block)
        assert [found[with_switches(s)] for s in (1, 2, 3)] == (value[1:].min(axis=1) / 2).tolist()


@pytest.mark.parametrize("cache", [1, 40, 2**16])
def test_segments_are_those_of_the_best_sequence(
    cache: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their experts really lose what is said, and both columns add up to the totals."""
    monkeypatch.setattr(module, "CACHE_ELEMENTS", cache)
    rng, many = np.random.default_rng(cache), 0
    for _ in range(20):
        losses = rng.integers(0, 3, (41, 1, 3)) / 4
        losses[: rng.integers(41), :, 0] /= 4
        setting = Setting(1, 3, 41)
        recorder = Recorder(setting, switches=(4,))
        plays = rng.integers(0, 3, (41, 1))
        for start in range(0, 41, 17):
            part = losses[start : start + 17]
            block = check(Block.of(part), setting, start, len(part))
            recorder.rounds(start, block, plays[start : start + 17])
        result = recorder.result("x", 0, NOTHING_SENT)
        starts, experts = result.segments[:, :2].T.astype(int)
        assert starts[0] == 0
        assert (np.diff(starts) > 0).all()
        many += len(starts) == 5
        for row, end in zip(result.segments, [*starts[1:], 41], strict=True):
            rounds = np.arange(int(row[0]), end)
            assert row[2] == losses[rounds, 0, int(row[1])].sum()
            assert row[3] == losses[rounds, 0, plays[rounds, 0]].sum()
        assert result.segments[:, 2].sum() == result.comparators[with_switches(4)]
        assert result.segments[:, 3].sum() == result.loss[-1]
        assert len(experts) <= 5
    assert many > 10


def test_one_round_and_one_expert_have_comparators() -> None:
    assert set(_found(np.full((1, 1, 1), 0.5), (1, 7)).values()) == {0.5}
    assert _found(np.full((6, 2, 1), 0.5), (2,))["best with 2 switches"] == 3.0


# In a study


def _config(**changes: Any) -> StudyConfig:
    environment = Switching(clients=2, experts=4, horizon=60)
    entries = (
        Entry("leader", FollowTheLeader()),
        Entry("hedge", Hedge()),
        Entry("alone", Hedge(), replace(environment, clients=1)),
    )
    return replace(
        StudyConfig("x", environment, entries, seeds=2, comparator_switches=(1, 3)), **changes
    )


def test_every_result_knows_the_comparators_of_its_own_losses() -> None:
    config = _config()
    study = run_study(config, workers=1)
    for entry in config.algorithms:
        environment = config.environment_of(entry)
        for result in study.of(entry.label):
            alone, _ = run_one(config.build(entry), environment, "x", result.seed, switches=(1, 3))
            assert result.comparators == alone.comparators
            assert result.final_regret == pytest.approx(
                result.loss[-1] - result.comparators["best expert"]
            )
    streams = study.streams()
    assert list(streams) == ["", "clients = 1"]
    assert [list(stream.algorithms) for stream in streams.values()] == [
        ["leader", "hedge"],
        ["alone"],
    ]
    assert list(streams[""].comparators)[-2:] == ["best with 1 switch", "best with 3 switches"]
    assert streams[""].algorithms["hedge"].mean == pytest.approx(
        np.mean([r.loss[-1] for r in study.of("hedge")])
    )


def test_all_algorithms_on_a_stream_have_its_segments() -> None:
    study = run_study(_config(), workers=1)
    for leader, hedge in zip(study.of("leader"), study.of("hedge"), strict=True):
        assert len(leader.segments) > 1
        assert (leader.segments[:, :3] == hedge.segments[:, :3]).all()
        assert hedge.segments[:, 3].sum() == pytest.approx(hedge.loss[-1])
    table = study.segment_table()
    assert table[0] == ["regret in each segment", "leader", "hedge", "alone"]
    assert table[-1][1] == f"{np.mean([r.regret_with(3) for r in study.of('leader')]):.2f}"
    sums = np.array([row[1:] for row in table[1:-1]], float).sum(axis=0)
    assert sums == pytest.approx(np.array(table[-1][1:], float), abs=0.03)
    assert table[-1][0] in str(study)


def test_an_adaptive_environment_has_comparators_for_each_algorithm() -> None:
    entries = (Entry("leader", FollowTheLeader()), Entry("uniform", Uniform()))
    study = run_study(
        StudyConfig(
            "x", PlayChasing(clients=2, experts=4, horizon=30), entries, 2, comparator_switches=(2,)
        ),
        workers=1,
    )
    assert list(study.streams()) == ["leader", "uniform"]
    assert study.results[0].comparators != study.results[2].comparators
    assert all("best with 2 switches" in result.comparators for result in study.results)


def test_environments_that_cannot_be_compared_are_different_streams() -> None:
    losses = np.random.default_rng(0).random((9, 1, 2))
    entries = (
        Entry("a", Uniform(), RecordedArray(losses)),
        Entry("b", Uniform(), RecordedArray(losses)),
    )
    study = run_study(StudyConfig("x", RecordedArray(losses), entries, 1), workers=1)
    assert len(study.streams()) == 2


def test_run_prints_comparators_beside_the_algorithms_and_writes_them(
    hedgerow: Command, tmp_path: Path
) -> None:
    answer = hedgerow("run", "study.toml", "--set", "comparator_switches=[1]", "--out", "results")
    rows = answer.out.split("comparators")[1]
    assert all(
        word in rows
        for word in (
            "private",
            "hedge",
            "best expert",
            "best expert of each client",
            "a random expert",
        )
    )
    assert "best with 1 switch" in rows
    document = json.loads((tmp_path / "results" / "summary.json").read_text())["comparators"]
    assert [(part["stream"], part["labels"]) for part in document] == [("", ["private", "hedge"])]
    finals = pq.read_table(tmp_path / "results" / "results.parquet").to_pylist()
    for label in ("private", "hedge"):
        kept = [
            row["value"]
            for row in finals
            if (row["label"], row["metric"]) == (label, "comparator: best with 1 switch")
        ]
        assert len(kept) == 2
        assert document[0]["losses"]["best with 1 switch"]["mean"] == pytest.approx(np.mean(kept))


def test_algorithms_with_streams_of_their_own_have_comparators_beside_them() -> None:
    """Where experts sleep, comparators depend on the plays; a column for each would be unreadable."""
    losses = np.random.default_rng(0).random((30, 2, 3))
    losses[::4, 0, 1] = np.nan
    game = RecordedArray(losses, missing="absent")
    entries = (Entry("leader", FollowTheLeader()), Entry("hedge", Hedge()))
    study = run_study(StudyConfig("x", game, entries, 2), workers=1)
    table = comparators_table(study)
    assert table is not None
    console = Console(width=120, file=StringIO())
    console.print(table)
    rows = [
        [cell.strip() for cell in line.strip().strip("│┃").replace("┃", "│").split("│")]
        for line in console.file.getvalue().splitlines()  # pyright: ignore[reportAttributeAccessIssue]
        if line.strip()[:1] in ("│", "┃")
    ]
    best = study.streams()["hedge"].comparators["best expert"]
    assert rows[0] == [
        "",
        "loss",
        "best expert",
        "best expert of each client",
        "a random expert",
    ]
    assert [row[0] for row in rows[1:]] == ["leader", "hedge"]
    assert rows[2][2] == str(best)
    # and a note that holds for both is said once
    said = "this environment has experts that sleep, for which nothing is proven"
    private = {"a": PhasedSelection(epsilon=9.0), "b": PhasedSelection(epsilon=8.0)}
    lines = [line for line in str(run(game, private, seeds=2)).splitlines() if said in line]
    assert len(lines) == 1
    assert lines[0].startswith("a; b: note: ")


def test_reproduce_prints_comparators(hedgerow: Command) -> None:
    out = hedgerow("reproduce", "good", "--plugin", "plugin.py").out
    assert "comparators: mean loss of a client" in out
    assert "best expert of each client" in out


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("3", "Expected comparator_switches=3 to be a list of whole numbers"),
        ("[0]", "Expected comparator_switches=0 to be a whole number >= 1"),
        ("[1.5]", "Expected comparator_switches=1.5 to be a whole number >= 1"),
    ],
)
def test_bad_numbers_of_switches_are_named(hedgerow: Command, value: str, message: str) -> None:
    answer = hedgerow("run", "study.toml", "--set", f"comparator_switches={value}")
    assert answer.code == 2
    assert message in answer.err


def test_an_absent_client_pays_nothing_beside_one_that_plays() -> None:
    """The last expert of the client before it always loses; that is not charged to the absent."""
    losses = np.zeros((40, 3, 2))
    losses[:, :, 1] = 1.0
    losses[10:30, 1] = np.nan
    game = RecordedArray(losses, missing="absent")
    result, _ = run_one(FollowTheLeader().build(game.setting), game, "leader", 0)
    assert result.loss[-1] == result.regret[-1] <= 1.0

"""Experiments that run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hedgerow.core.registry import EXPERIMENTS
from hedgerow_papers.experiments import side_by_side as module
from hedgerow_papers.experiments.side_by_side import FEW, LONGEST, side_by_side

INSTALLED = EXPERIMENTS.installed()


def _played(names: Sequence[str], workers: int | None) -> dict[str, str]:
    found: dict[str, str] = {}
    side_by_side(names, workers, lambda name: f"here {name}", str.upper, found.__setitem__)
    return found


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of processes that were asked for; the tasks run in this one, last ones first."""
    counts: list[int] = []

    def run(
        function: Callable[..., Any], tasks: Any, workers: int, done: Any, prepare: Any
    ) -> None:
        counts.append(workers)
        for task in reversed(list(tasks)):
            done(task, function(*task))

    monkeypatch.setattr(module, "run_in_processes", run)
    return counts


def test_built_in_experiments_share_the_cores(started: list[int]) -> None:
    names = ["mine", *INSTALLED[: FEW + 1]]
    assert _played(names, 2) == {"mine": "here mine", **{n: n.upper() for n in names[1:]}}
    assert started == [2]
    assert set(INSTALLED) <= set(EXPERIMENTS)


def test_the_longest_begin_first(started: list[int]) -> None:
    assert set(LONGEST) <= set(INSTALLED)
    begun = list(reversed(_played(INSTALLED, 2)))
    assert begun[: len(LONGEST)] == list(LONGEST)
    assert sorted(begun) == sorted(INSTALLED)
    assert started == [2]


@pytest.mark.parametrize(("count", "workers"), [(FEW, 2), (FEW + 1, 1)])
def test_few_experiments_and_one_worker_need_no_processes(
    count: int, workers: int, started: list[int]
) -> None:
    names = INSTALLED[:count]
    assert _played(names, workers) == {name: f"here {name}" for name in names}
    assert started == []


@pytest.mark.long
def test_processes_answer_for_every_experiment() -> None:
    assert _played(INSTALLED, 2) == {name: name.upper() for name in INSTALLED}

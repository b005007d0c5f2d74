"""Benchmarks: limits that can fail, every algorithm measured, long games in little memory."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

import numpy as np
import pytest

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow_benchmarks import measure, start
from hedgerow_benchmarks.benchmark import BENCHMARKS, Benchmark, Row, retried
from hedgerow_benchmarks.measure import compared
from hedgerow_benchmarks.repeating import Repeating, losses
from hedgerow_benchmarks.simulation import CASES, COMBINATIONS, Case, game_rows
from support.command import Command


def _row(name: str, ratio: float, limit: float | None = 1.0) -> Row:
    return Row(name, ratio, "b", 1.0, "s", None if limit is None else "<=", limit)


def test_every_algorithm_has_a_limit() -> None:
    ours = {name for name, kind in ALGORITHMS.items() if kind.__module__.startswith("hedgerow.")}
    papers = {"cover_dartboard", "frank_wolfe", "potential", "tree_hedge", "tree_leader"}
    papers |= {"walk_batches", "walk_meta"}
    assert {*CASES, *COMBINATIONS} == ours | papers
    assert all(type(spec) is ALGORITHMS[name] for name, spec in COMBINATIONS.items())
    for name, cases in CASES.items():
        assert cases
        assert all(type(case.spec) is ALGORITHMS[name] for case in cases)


def test_a_game_row_can_fail() -> None:
    case = CASES["uniform"][0]._replace(size=(2, 2**10, 3))
    fast, slow = (
        next(game_rows({"uniform": (case._replace(limit=limit),)})) for limit in (1e9, 1e-9)
    )
    assert (fast.passed, slow.passed) == (True, False)
    assert fast.name == "uniform/m=2/T=1024/d=3"
    assert fast.spread is not None
    assert fast.spread >= 0


def test_what_fails_is_measured_again() -> None:
    def measured(ratios: Iterator[list[Row]]) -> list[bool | None]:
        return [row.passed for row in retried(lambda: next(ratios))]

    bad, good, told = _row("a", 3.0), _row("a", 0.5), _row("b", 9.0, None)
    assert measured(iter([[good, told]])) == [True, None]
    assert measured(iter([[bad, told], [good, told]])) == [True, None]
    assert measured(iter([[bad, told], [bad, told]])) == [False, None]
    assert measured(iter([[_row("a", 1.4)]])) == [True]  # limits are wider
    twice = iter([[bad, _row("c", 0.3)], [good, _row("c", 3.0)]])
    assert [row.ratio for row in retried(lambda: next(twice))] == [0.5, 0.3]


def test_ratios_are_medians_with_a_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter([2.0, 1.0, 4.0, 1.0, 100.0, 1.0, 3.0, 1.0, 5.0, 1.0])
    monkeypatch.setattr(measure, "seconds", lambda _: next(taken))
    found = compared(lambda: None, lambda: None)
    assert found == (4.0, 4.0, 2.0)  # 2, 3, 4, 5, 100


def test_losses_are_repeated() -> None:
    recorded = np.arange(15.0).reshape(5, 1, 3) / 16
    game = Repeating(recorded, 12)
    whole = np.concatenate([recorded, recorded, recorded])[:12]
    state, seen = game.start(0), list[np.ndarray]()
    for rounds in (3, 4, 5):
        block, state = game.block(state, rounds, None)
        seen.append(block.losses)
    assert np.array_equal(np.concatenate(seen), whole)
    assert game.sum() == whole.sum()
    assert game.size == whole.size
    assert game.setting.rounds == 12
    assert losses(10**9, 100, 1000).losses.nbytes <= 4 * 2**25


def test_the_quick_form_fails_only_if_it_fails_twice(
    hedgerow: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratios = iter([3.0, 0.5, 3.0, 3.0])
    twice = Benchmark(lambda: [], lambda: [_row("a", next(ratios))])
    monkeypatch.setattr(BENCHMARKS, "_things", {"points": twice, "scale": Benchmark(lambda: [])})
    assert hedgerow("bench", "--quick").code == 0
    assert hedgerow("bench", "--quick", "--json").code == 1
    assert "scale has no quick form" in hedgerow("bench", "scale", "--quick").err
    assert "Unknown benchmark" in hedgerow("bench", "nothing", "--quick").err


def test_without_the_plugin_the_command_says_what_to_install(
    hedgerow: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda **_: ())
    answer = hedgerow("bench")
    assert answer.code == 2
    assert "is in a plugin that is not installed: run `pip install ./benchmarks`" in answer.err


def test_a_command_that_fails_is_a_failed_row(
    hedgerow: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = {
        "hedgerow demo": (("--nonsense",), 5.0, 1),
        "hedgerow run": (("--version",), 1000.0, 1),
    }
    monkeypatch.setattr(start, "COMMANDS", commands)
    bad, good = start.command_rows()
    assert (bad.passed, good.passed) == (False, True)
    assert "No such option" in (bad.failure or "")
    monkeypatch.setattr(BENCHMARKS, "_things", {"start": Benchmark(lambda: [bad, good])})
    shown = hedgerow("bench", "start")
    assert shown.code == 1
    assert "exit code 2" in shown.out
    assert hedgerow("bench", "start", "--json").code == 1


def test_names_say_what_was_played() -> None:
    assert Case(CASES["hedge"][0].spec, 1.0, (1, 2, 3), detail="N=5").name == "m=1/T=2/d=3/N=5"

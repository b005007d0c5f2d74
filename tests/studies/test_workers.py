"""Tasks in parallel processes: all are done, errors come back whole, and no process is left,
whatever happens.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from hedgerow.core.errors import InvalidValue
from hedgerow.studies.workers import THREADS, WorkerEnded, run_in_processes


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []


class Awkward(Exception):
    """It pickles, and cannot be unpickled."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def nothing() -> None:
    pass


def refuse() -> None:
    raise InvalidValue("no plugin here")


def refuse_at_length() -> None:
    raise InvalidValue("x" * 10**7)


def divide(a: int, b: int) -> float:
    return a / b


def variable(name: str) -> str | None:
    return os.environ.get(name)


def fail_awkwardly(_: int) -> None:
    raise Awkward(1, 2)


def fail_to_read(_: int) -> None:
    raise EOFError("the file is cut")


def vanish(_: int) -> None:
    os._exit(7)


def weigh(ballast: bytes, a: int) -> int:
    return len(ballast) + a


def _run(
    function: Callable[..., Any],
    tasks: list[Any],
    workers: int = 2,
    prepare: Callable[[], None] = nothing,
) -> list[Any]:
    found: list[Any] = []
    run_in_processes(
        function, tasks, workers, lambda task, result: found.append((*task, result)), prepare
    )
    return sorted(found)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_task_is_done_once(workers: int) -> None:
    tasks = [(a, 2) for a in range(3)]
    assert _run(divide, tasks, workers) == [(a, 2, a / 2) for a in range(3)]


def test_no_task_is_no_work() -> None:
    assert _run(divide, []) == []


def test_large_functions_and_results_pass_the_pipe() -> None:
    ballast = bytes(10**7)
    assert _run(partial(weigh, ballast), [(1,), (2,), (3,)]) == [(a, 10**7 + a) for a in (1, 2, 3)]


def test_an_error_comes_back_with_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        _run(divide, [(1, 1), (1, 0), (2, 1)])
    assert "in divide" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [(fail_awkwardly, RuntimeError, "Awkward: 1 and 2"), (fail_to_read, EOFError, "cut")],
)
def test_no_error_is_lost_on_the_way(
    function: Callable[..., Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        _run(function, [(1,)])


def test_an_error_before_the_first_task_is_told_even_where_the_function_is_large() -> None:
    with pytest.raises(InvalidValue, match="no plugin here"):
        _run(partial(weigh, bytes(10**7)), [(1,), (2,)], prepare=refuse)


def test_a_large_error_and_a_large_task_do_not_wait_for_each_other() -> None:
    with pytest.raises(RuntimeError, match="InvalidValue: xxx"):
        _run(len, [(bytes(10**7),)], prepare=refuse_at_length)


def test_a_result_is_noted_even_where_the_next_task_cannot_be_sent() -> None:
    found: list[Any] = []
    with pytest.raises((AttributeError, TypeError), match="pickle"):
        run_in_processes(
            str, [(1,), (lambda: 1,)], 1, lambda task, result: found.append(result), nothing
        )
    assert found == ["1"]


def test_a_worker_that_vanishes_is_named_with_its_exit_code() -> None:
    with pytest.raises(WorkerEnded, match="exit code 7"):
        _run(vanish, [(1,), (2,)])


def test_what_happens_while_results_are_noted_ends_the_workers() -> None:
    def note(task: Any, result: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_processes(divide, [(1, 1), (2, 1), (3, 1)], 2, note, nothing)


def test_every_worker_computes_in_one_thread_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen, *others = THREADS
    monkeypatch.setenv(chosen, "3")
    for name in others:
        monkeypatch.delenv(name, raising=False)
    found: dict[str, str] = {}
    run_in_processes(
        variable, [(name,) for name in THREADS], 2, lambda t, r: found.update({t[0]: r}), nothing
    )
    assert found == {chosen: "3", **dict.fromkeys(others, "1")}
    assert not any(name in os.environ for name in others)  # this process goes on as before

"""Seeds in any executor: the same results bit for bit, saved by the caller, errors passed on."""

from __future__ import annotations

from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.studies.run import run_study

GAME = hr.Realizable(clients=3, experts=4, horizon=40)
ALGORITHMS: dict[str, Any] = {"private": hr.PhasedSelection(), "open": hr.Hedge()}


class Elsewhere(Executor):
    """As a cluster does: everything that is sent is pickled, and answers come in reverse order."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], bytes]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        import pickle

        future: Future[Any] = Future()
        self.waiting.append((future, pickle.dumps((fn, args, kwargs))))
        if len(self.waiting) == 8:  # one task for each seed
            for one, sent in reversed(self.waiting):
                function, given, named = pickle.loads(sent)
                one.set_result(function(*given, **named))
        return future


def _same(one: hr.Study, other: hr.Study) -> bool:
    return all(
        np.array_equal(a.regret, b.regret) and a.uploaded_bytes == b.uploaded_bytes
        for a, b in zip(one.results, other.results, strict=True)
    )


def test_results_are_the_same_bit_for_bit() -> None:
    plain = hr.run(GAME, ALGORITHMS, seeds=8)
    assert _same(hr.run(GAME, ALGORITHMS, seeds=8, executor=Elsewhere()), plain)
    with ThreadPoolExecutor(2) as threads:
        assert _same(hr.run(GAME, ALGORITHMS, seeds=8, executor=threads), plain)


@pytest.mark.long
def test_a_process_pool_gives_the_same_results() -> None:
    plain = hr.run(GAME, ALGORITHMS, seeds=8, alone=True)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert _same(hr.run(GAME, ALGORITHMS, seeds=8, alone=True, executor=pool), plain)


def test_results_are_saved_by_the_caller_and_errors_are_passed_on() -> None:
    saved: list[tuple[int, int]] = []

    class Store:
        def load(self, index: int, seed: int) -> None:
            return None

        def save(self, index: int, pair: Any) -> None:
            saved.append((index, pair[0].seed))

    config = hr.run(GAME, ALGORITHMS, seeds=8).config
    elsewhere: Any = Elsewhere()
    store: Any = Store()
    run_study(config, executor=elsewhere, store=store)
    assert sorted(saved) == [(index, seed) for index in range(2) for seed in range(8)]

    class Broken(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            return super().submit(int, "not a number")

    with Broken(1) as broken, pytest.raises(ValueError, match="not a number"):
        hr.run(GAME, ALGORITHMS, seeds=2, executor=broken)
    with pytest.raises(hr.InvalidValue, match="Expected workers=2 to be None with an executor"):
        hr.run(GAME, ALGORITHMS, seeds=2, workers=2, executor=Elsewhere())

"""Seeds in any executor: the same results bit for bit, saved by the caller, errors passed on."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.studies import workers
from hedgerow.studies.run import run_study

GAME = hr.Realizable(clients=3, experts=4, horizon=40)
ALGORITHMS: dict[str, Any] = {"private": hr.PhasedSelection(), "open": hr.Hedge()}


class Elsewhere(Executor):
    """As a cluster does: everything that is sent is pickled, and answers come in reverse order."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], bytes]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
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


ARRAY = np.random.default_rng(3).integers(0, 2**20, (400, 5, 6)) / 2**20


def _kill(pid: int) -> None:
    time.sleep(0.5)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def test_the_study_is_sent_to_a_cluster_once() -> None:
    class Counting(workers.Cluster):
        def __init__(self) -> None:
            self.kept, self.sizes = list[bytes](), list[int]()

        def put(self, data: bytes) -> Any:
            self.kept.append(data)
            return len(self.kept) - 1

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.sizes.append(len(pickle.dumps((fn, args, kwargs))))
            plugins, place, *task = args
            future: Future[Any] = Future()
            future.set_result(fn(plugins, self.kept[place], *task))
            return future

    cluster = Counting()
    assert _same(
        hr.run(ARRAY, ALGORITHMS, seeds=8, executor=cluster), hr.run(ARRAY, ALGORITHMS, seeds=8)
    )
    assert [len(data) > ARRAY.nbytes / 4 for data in cluster.kept] == [True]
    assert max(cluster.sizes) < 2000


def test_processes_survive_a_worker_that_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, killed = hr.run(GAME, ALGORITHMS, seeds=8), list[int]()
    start = BaseProcess.start

    def started(process: BaseProcess) -> None:
        start(process)
        if not killed:
            killed.append(process.pid or 0)
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(BaseProcess, "start", started)
    assert _same(hr.run(GAME, ALGORITHMS, seeds=8, executor="processes"), plain)
    assert killed


@pytest.mark.parametrize("name", ["slurm", "dask:8786", ""])
def test_an_executor_that_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(hr.InvalidValue, match="to be 'processes', 'ray' or 'dask://HOST:PORT'"):
        hr.run(GAME, ALGORITHMS, seeds=2, executor=name)


@pytest.mark.long
def test_a_dask_cluster_that_loses_a_worker(tmp_path: Path) -> None:
    """Real processes; the results are those of one process, and a run can be resumed."""
    distributed = pytest.importorskip("distributed", reason="not one of the pinned requirements")
    plain = hr.run(ARRAY, ALGORITHMS, seeds=24)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        with distributed.Client(cluster) as client:
            pids = client.run(os.getpid)
        threading.Thread(target=_kill, args=(next(iter(pids.values())),)).start()
        far = hr.run(
            ARRAY, ALGORITHMS, seeds=24, executor=f"dask://{address}", out=tmp_path / "run"
        )
        assert _same(far, plain)


@pytest.mark.long
def test_a_ray_cluster_gives_the_same_results() -> None:
    pytest.importorskip("ray", reason="not one of the pinned requirements")
    assert _same(
        hr.run(ARRAY, ALGORITHMS, seeds=8, executor="ray"), hr.run(ARRAY, ALGORITHMS, seeds=8)
    )

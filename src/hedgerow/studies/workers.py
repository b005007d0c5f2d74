"""Run tasks in parallel processes, or in a cluster: any executor, or Dask and Ray by their names.

Processes end with their parent, and at once if it is interrupted. The pools of the standard library
wait in a separate thread, and an interrupted program races with it. Here each worker has one pipe
and the parent itself waits for the pipes, so there is no race.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from itertools import islice
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.extras import needs
from hedgerow.core.registry import load_plugins

PROCESSES, RAY, DASK = "processes", "ray", "dask://"
RETRIES = 3
"""How often a task is played again after its worker was lost."""


class Cluster(Executor):
    """An executor that keeps data: `put` sends them once, and tasks get them in its place."""

    @abstractmethod
    def put(self, data: bytes) -> Any:
        """Send data to the cluster; a task gets the data where what this returns is an argument."""


class _Dask(Cluster):
    def __init__(self, client: Any) -> None:
        self._client = client
        self._tasks = client.get_executor(pure=False, retries=RETRIES)

    def put(self, data: bytes) -> Any:
        return self._client.scatter(data, broadcast=True, hash=False)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._tasks.submit(fn, *args, **kwargs)


class _Ray(Cluster):
    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def put(self, data: bytes) -> Any:
        return self._ray.put(data)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        remote = self._ray.remote(max_retries=RETRIES)(fn)
        return remote.remote(*args, **kwargs).future()


@contextmanager
def opened_cluster(name: str) -> Iterator[Cluster]:
    """The cluster with this name, until the block ends.

    >>> with opened_cluster("slurm"):
    ...     pass
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Expected executor='slurm' to be 'processes', 'ray' or
    'dask://HOST:PORT'.
    """
    if name.startswith(DASK):
        with needs("dask"):
            distributed = import_module("distributed")
        try:
            client = distributed.Client(f"tcp://{name.removeprefix(DASK)}")
        except (OSError, ValueError) as error:
            raise InvalidValue(
                f"There is no Dask scheduler at {name.removeprefix(DASK)}. Start one with `dask "
                "scheduler`, and name its host and port."
            ) from error
        with client:
            yield _Dask(client)
    elif name == RAY:
        with needs("ray"):
            ray = import_module("ray")
        ours = not ray.is_initialized()
        if ours:
            try:  # the cluster of RAY_ADDRESS, or one of this machine
                ray.init(log_to_driver=False)
            except (ConnectionError, ValueError) as error:
                raise InvalidValue(
                    f"There is no Ray cluster at {os.environ.get('RAY_ADDRESS')}. Start it, or "
                    "unset RAY_ADDRESS to start one on this machine."
                ) from error
        try:
            yield _Ray(ray)
        finally:
            if ours:
                ray.shutdown()
    else:
        known = f"{PROCESSES!r}, {RAY!r} or 'dask://HOST:PORT'"
        raise InvalidValue(f"Expected executor={name!r} to be {known}.")


LONGEST = 20_000  # bytes of an error or a traceback: what a pipe holds before it is read

OUT_OF_MEMORY = "It was possibly out of memory. Fewer --workers need less memory."
SCRIPT = (
    "Workers import the script that defines what they play: start the study there below "
    'if __name__ == "__main__":, or play with workers=1.'
)
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


class WorkerEnded(HedgerowError):
    """A worker process ended in the middle of its task; `killed`: by a signal."""

    killed = False


class _InWorker(Exception):
    """The traceback of an error in a worker, attached as the cause of that error."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def run_in_processes(
    function: Callable[..., Any],
    tasks: Iterable[Sequence[Any]],
    workers: int,
    done: Callable[[Sequence[Any], Any], None],
    prepare: Callable[[], None],
) -> None:
    """Call `done(task, function(*task))` as each task ends.

    Every worker calls `prepare` before it unpickles the function or a task.
    """
    waiting = iter(tasks)
    with _started(workers, prepare, needs_main(function)) as processes:
        busy: dict[Any, Sequence[Any]] = {}

        def give(connection: Any, *before: Any) -> None:
            for task in islice(waiting, 1):
                # If the worker has ended, its last answer can still be read.
                with suppress(OSError):
                    for message in (*before, task):
                        connection.send(message)
                busy[connection] = task

        for connection in processes:
            give(connection, function)
        while busy:
            for connection in wait(list(busy)):
                result = _answer(connection, processes[connection])
                task = busy.pop(connection)
                try:
                    give(connection)
                finally:
                    done(task, result)


def run_in_executor(
    function: Callable[..., Any],
    tasks: Iterable[Sequence[Any]],
    executor: Executor,
    done: Callable[[Sequence[Any], Any], None],
    plugins: Sequence[str],
) -> None:
    """Call `done(task, function(*task))` as each task ends in an executor of the caller.

    The plugins are loaded where a task runs, before the function is unpickled.
    """
    data = pickle.dumps(function)
    written = executor.put(data) if isinstance(executor, Cluster) else data
    futures = {executor.submit(_run_in_worker, plugins, written, *task): task for task in tasks}
    try:
        for future in as_completed(futures):
            done(futures[future], future.result())
    finally:
        for future in futures:
            future.cancel()


def _run_in_worker(plugins: Sequence[str], written: bytes, *task: Any) -> Any:
    load_plugins(plugins)
    return pickle.loads(written)(*task)


@contextmanager
def _started(
    workers: int, prepare: Callable[[], None], main: bool
) -> Iterator[dict[Any, BaseProcess]]:
    """Start processes, by their pipes; all of them are ended on exit, also after an error.

    They import the script that runs only if they need `main`.
    """
    context = multiprocessing.get_context("spawn")
    processes: dict[Any, BaseProcess] = {}
    try:
        with _ignore_sigint(), _one_thread(), nullcontext() if main else _without_main():
            for _ in range(workers):
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs, prepare), daemon=True)
                process.start()
                theirs.close()  # so that the pipe closes when the worker ends
                processes[ours] = process
        yield processes
    finally:
        for process in processes.values():
            process.terminate()
        for connection, process in processes.items():
            process.join()
            connection.close()


def _answer(connection: Any, process: BaseProcess) -> Any:
    try:
        result, error, where = connection.recv()
    except (EOFError, OSError):
        process.join()
        if process.exitcode == -signal.SIGTERM:  # all were terminated, and a worker ended first
            raise KeyboardInterrupt from None
        ended = WorkerEnded(
            f"A worker process ended in the middle of its task (exit code {process.exitcode}). "
            + (SCRIPT if process.exitcode == 1 else OUT_OF_MEMORY)
        )
        ended.killed = (process.exitcode or 0) < 0
        raise ended from None
    if error is not None:
        raise error from _InWorker(where)
    return result


def _work(connection: Any, prepare: Callable[[], None]) -> None:
    """The loop of a worker: answer every task with (result, error, traceback) until it is ended."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        prepare()
        function = connection.recv()
        while True:
            connection.send((function(*connection.recv()), None, ""))
    except Exception as error:
        with suppress(OSError):  # the parent may have ended
            connection.send((None, _sendable(error), traceback.format_exc()[-LONGEST:]))


def _sendable(error: Exception) -> Exception:
    """The error itself, or its text if it cannot be pickled or is too large for the pipe.

    A larger message could block, because the parent may be sending at the same time.
    """
    with suppress(Exception):
        written = pickle.dumps(error)
        if len(written) <= LONGEST:
            return pickle.loads(written)
    return RuntimeError(f"{type(error).__name__}: {error}"[:LONGEST])


def _end_with_parent() -> None:
    """End this worker when its parent ends, even if the parent is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def needs_main(function: Callable[..., Any]) -> bool:
    """Whether what is sent to workers is defined in the script that runs, or cannot be sent."""
    try:
        return b"__main__" in pickle.dumps(function)
    except Exception:  # whatever an object raises that cannot be pickled
        return True


@contextmanager
def _without_main() -> Iterator[None]:
    """Make processes started inside not import the script that runs.

    So a plain script without a guard does not run again in each of them.
    """
    main = sys.modules["__main__"]
    before = {name: getattr(main, name, None) for name in ("__spec__", "__file__")}
    main.__spec__ = main.__file__ = None
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(main, name, value)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Make processes started inside compute in one thread each, unless the user says otherwise.

    Workers share the cores already: threads of linear algebra would only wait for each other.
    """
    missing = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, "1"))
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


@contextmanager
def _ignore_sigint() -> Iterator[None]:
    """Make processes started inside ignore Ctrl-C, which reaches them all. The parent ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

"""Executors by name: worker processes of this machine, a Dask cluster or a Ray cluster.

A study is sent to a cluster once, with its losses; tasks name the seeds. A task whose worker is
lost is played again, and gives the same results.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import needs

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
def opened(name: str) -> Iterator[Cluster]:
    """The cluster with this name, until the block ends.

    >>> with opened("slurm"):
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

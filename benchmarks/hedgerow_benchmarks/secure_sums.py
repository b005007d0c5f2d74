"""What secure sums cost: processor time of each party for an exchange, beyond that without masks.

The other side of each ratio is the same study with local trust: the same messages over the same
ledgers, without masks, seals for helpers, tasks and parts. All parties are in one process and take
steps in turn; the time of a step counts for the party that takes it, with its commits. Ledgers are
in the folder for temporary files; if that is in memory, writing costs less.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hedgerow.deployment.simulated import SimulatedStudy, small_study
from hedgerow_benchmarks.benchmark import Benchmark, Row

HELPERS = 2
SIZES = ((10, 100, 60), (10, 10_000, 24), (1000, 100, 3))  # clients, numbers, exchanges
LIMITS = {  # milliseconds, of a client, a helper and the server
    (10, 100): (0.4, 1.6, 3.0),
    (10, 10_000): (0.7, 2.0, 6.0),
    (1000, 100): (0.4, 140.0, 220.0),
}
WARM_UP = 2


class Timed(SimulatedStudy):
    """A study whose exchanges are played one at a time, with the processor time of each party."""

    _spent: dict[str, float]
    _inside: float

    def carry(self, request: bytes) -> bytes | None:
        began = time.process_time()
        reply = super().carry(request)
        used = time.process_time() - began
        self._spent["server"] += used
        self._inside += used
        return reply

    def _timed(self, who: str, work: Callable[[], Any]) -> None:
        """One step of a client or helper; what the server does in it counts for the server."""
        began, self._inside = time.process_time(), 0.0
        work()
        self._spent[who] += time.process_time() - began - self._inside

    def exchange(self, losses: np.ndarray) -> dict[str, float]:
        """Play one exchange: milliseconds of a client, of a helper and of the server.

        Helpers fetch a task and send its part before clients ask for the answer: each asks once,
        as without helpers, since in a deployment requests wait.
        """
        self._spent = dict.fromkeys(("client", "helper", "server"), 0.0)
        number = self.running_server().exchange
        while self.running_server().exchange == number:
            for client in self.learners:
                self._timed("client", partial(self._step, client, losses))
            for name in self.manifest.helper_names * 2:
                self._timed("helper", partial(self.help, name))
        each: dict[str, int] = {
            "client": len(self.learners),
            "helper": max(1, len(self.helpers)),
            "server": 1,
        }
        return {who: 1e3 * self._spent[who] / each[who] for who in each}


def beyond(clients: int, width: int, exchanges: int) -> dict[str, float]:
    """Median milliseconds of an exchange, beyond one without masks that is played next to it."""
    losses = np.zeros((exchanges + WARM_UP + 2, clients, width))

    def study(folder: str, helpers: int) -> Any:
        return small_study(
            folder,
            clients=clients,
            experts=width,
            horizon=len(losses),
            algorithm="walk_leader",
            choices={"trust": "distributed" if helpers else "local", "mu": 0.01},
            seed=None,
            helpers=helpers,
            kind=Timed,
        )

    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        masked, plain = study(one, HELPERS), study(other, 0)
        pairs = [(masked.exchange(losses), plain.exchange(losses)) for _ in losses[:-2]]
        masked.close()
        plain.close()
    return {who: median(a[who] - b[who] for a, b in pairs[WARM_UP:]) for who in pairs[0][0]}


def secure_sums_rows(sizes: tuple[tuple[int, int, int], ...] = SIZES) -> Iterator[Row]:
    """Client, helper and server, with masks against without."""
    for clients, width, exchanges in sizes:
        limits = LIMITS[clients, width]
        for (who, found), limit in zip(
            beyond(clients, width, exchanges).items(), limits, strict=True
        ):
            name = f"secure sums/m={clients}/k={HELPERS}/d={width}/{who}"
            against, unit = f"{limit:g} ms", "ms beyond no masks"
            yield Row(name, found / limit, against, found, unit, op="<=", limit=1.0)


def quick_secure_sums() -> Iterator[Row]:
    """Ten clients, measured once."""
    return secure_sums_rows(((10, 100, 10),))


SECURE_SUMS = Benchmark(secure_sums_rows, quick_secure_sums)

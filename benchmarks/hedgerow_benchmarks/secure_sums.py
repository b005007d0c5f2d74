"""What secure sums cost: processor time of each party for an exchange, beyond that without masks.

The other side of each ratio is the same study with local trust: the same messages over the same
ledgers, without masks, seals for helpers, tasks and parts. All parties are in one process and take
steps in turn; the time of a step counts for the party that takes it, with its commits. Ledgers are
in the folder for temporary files; if that is in memory, writing costs less.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hedgerow.deployment.simulated import SimulatedStudy, small_study
from hedgerow.evaluation.benchmark import Benchmark, Row

HELPERS = 2
SIZES = ((10, 100, 40), (10, 10_000, 12), (100, 100, 6))  # clients, numbers, exchanges
LIMITS = {  # milliseconds, of a client, a helper and the server
    (10, 100): (0.4, 1.6, 3.0),
    (10, 10_000): (0.7, 2.0, 6.0),
    (1000, 100): (0.4, 140.0, 220.0),
}
WARM_UP = 2


class Timed(SimulatedStudy):
    """A study that notes the processor time of each party's steps."""

    spent: dict[str, float]
    _inside: float

    def carry(self, request: bytes) -> bytes | None:
        began = time.process_time()
        server, before = self.running_server(), self._inside
        (reply,) = server.take([request])
        used = time.process_time() - began
        self.spent["server"] += used
        self._inside = before + used
        return reply if isinstance(reply, bytes) else None

    def step(self, who: str, work: Any) -> None:
        """One step of a client or helper; what the server does in it counts for the server."""
        began, self._inside = time.process_time(), 0.0
        work()
        self.spent[who] += time.process_time() - began - self._inside


def used(clients: int, width: int, exchanges: int, helpers: int) -> dict[str, float]:
    """Processor time for an exchange, in milliseconds: a client, a helper and the server."""
    with TemporaryDirectory() as folder:
        made = small_study(
            Path(folder),
            clients=clients,
            experts=width,
            horizon=exchanges + WARM_UP + 2,
            algorithm="walk_leader",
            choices={"trust": "distributed" if helpers else "local", "mu": 0.01},
            seed=None,
            helpers=helpers,
        )
        study = Timed(made.folder, made.manifest)
        study.spent = dict.fromkeys(("client", "helper", "server"), 0.0)
        losses = np.zeros((study.manifest.setting["horizon"], clients, width))
        names = study.manifest.helper_names

        def exchange() -> None:
            number = study.running_server().exchange
            while study.running_server().exchange == number:
                for client in range(clients):
                    study.step("client", lambda c=client: study._step(c, losses, None, None))
                for name in names:
                    study.step("helper", lambda n=name: study.helper(n).advance())

        while study.running_server().exchange < WARM_UP:
            exchange()
        study.spent = dict.fromkeys(study.spent, 0.0)
        for _ in range(exchanges):
            exchange()
        study.close()
        each = {"client": clients, "helper": max(1, helpers), "server": 1}
        return {who: 1e3 * t / exchanges / each[who] for who, t in study.spent.items()}


def secure_sums_rows(
    sizes: tuple[tuple[int, int, int], ...] = SIZES, repeats: int = 3
) -> Iterator[Row]:
    """Client, helper and server, with masks against without."""
    for clients, width, exchanges in sizes:
        pairs = [
            (used(clients, width, exchanges, HELPERS), used(clients, width, exchanges, 0))
            for _ in range(repeats)
        ]
        limits = LIMITS.get((clients, width))
        for at, who in enumerate(("client", "helper", "server")):
            beyond = median(a[who] - b[who] for a, b in pairs)
            name = f"secure sums/m={clients}/k={HELPERS}/d={width}/{who}"
            bound: dict[str, Any] = {} if limits is None else {"op": "<=", "limit": 1.0}
            over = None if limits is None else beyond / limits[at]
            against = None if limits is None else f"{limits[at]:g} ms"
            yield Row(name, over, against, beyond, "ms beyond no masks", **bound)


def quick_secure_sums() -> Iterator[Row]:
    """Ten clients, measured once."""
    return secure_sums_rows(((10, 100, 10),), 1)


SECURE_SUMS = Benchmark(secure_sums_rows, quick_secure_sums)

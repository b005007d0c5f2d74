"""How benchmarks measure: mostly by ratios of processor times taken in one process.

A row without a limit is for information only. Other programs on the machine change even processor
times, so ratios are medians of several pairs.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

REPEATS = 5


class Cache(Protocol):
    """A cache in memory that can be cleared."""

    def cache_clear(self) -> None: ...


def seconds(work: Callable[[], object]) -> float:
    """Processor time of the work, so that other programs do not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


class Compared(NamedTuple):
    """The median ratio of two times, our median time in seconds, and the spread of the ratio."""

    ratio: float
    seconds: float
    spread: float


def compared(
    ours: Callable[[], object], theirs: Callable[[], object], repeats: int = REPEATS
) -> Compared:
    """Measure two works alternately, after a warm-up."""
    ours()
    theirs()
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(repeats)]
    ratios = [a / b for a, b in pairs]
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return Compared(median(ratios), median(a for a, _ in pairs), high - low)


def in_turn(
    ours: Callable[[], object], theirs: Callable[[], object], repeats: int = REPEATS
) -> tuple[float, float]:
    """The median ratio of times measured alternately after a warm-up, and our median time."""
    return compared(ours, theirs, repeats)[:2]


def without_caches(question: Callable[[], object], *caches: Cache) -> float:
    """Seconds to answer a question with empty caches, in memory and on disk."""
    for cache in caches:
        cache.cache_clear()
    before = os.environ.get("HEDGEROW_CACHE")
    with TemporaryDirectory() as folder:
        os.environ["HEDGEROW_CACHE"] = folder
        try:
            return seconds(question)
        finally:
            if before is None:
                del os.environ["HEDGEROW_CACHE"]
            else:
                os.environ["HEDGEROW_CACHE"] = before


def peak_mebibytes(process: int | None = None) -> float:
    """The peak memory of this process, or on Linux of another one.

    On Linux a process inherits `ru_maxrss` from its parent, so `VmHWM` is used there.
    """
    status = Path(f"/proc/{'self' if process is None else process}/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10

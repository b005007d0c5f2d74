"""How benchmarks measure: mostly by ratios of processor times taken in one process.

A row without a limit is for information only. Other programs on the machine change even processor
times, so ratios are medians of several pairs, and `retried` measures again what failed.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, Protocol

REPEATS = 5
WIDER = 2.0  # limits of the quick form, which must not fail on a busy machine


class Cache(Protocol):
    """A cache in memory that can be cleared."""

    def cache_clear(self) -> None: ...


@dataclass(frozen=True)
class Row:
    """One measurement. Without a limit it is for information only.

    `spread` is the distance between the quartiles of the ratio, where it was measured. `failure`
    says why nothing could be measured.
    """

    name: str
    ratio: float | None
    against: str | None
    value: float
    unit: str
    op: Literal["<=", ">="] | None = None
    limit: float | None = None
    spread: float | None = None
    failure: str | None = None

    @property
    def passed(self) -> bool | None:
        """Whether the ratio keeps the limit; None if there is no limit."""
        if self.failure is not None:
            return False
        if self.limit is None or self.ratio is None:
            return None
        return self.ratio <= self.limit if self.op == "<=" else self.ratio >= self.limit

    def to_dict(self) -> dict[str, Any]:
        """The fields and `passed`, for JSON."""
        return {**asdict(self), "passed": self.passed}


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


def widened(row: Row) -> Row:
    """The row with a limit that a busy machine keeps too."""
    if row.limit is None:
        return row
    return replace(row, limit=row.limit * WIDER if row.op == "<=" else row.limit / WIDER)


def retried(measure: Callable[[], Iterable[Row]]) -> list[Row]:
    """Measure rows with wider limits; if one fails, measure all again and keep the better ones.

    >>> ratios = iter([1.6, 0.5])
    >>> [row.passed for row in retried(lambda: [Row("a", next(ratios), "b", 1, "s", "<=", 1.0)])]
    [True]
    """
    rows = [widened(row) for row in measure()]
    if all(row.passed is not False for row in rows):
        return rows
    again = {row.name: widened(row) for row in measure()}
    return [again.get(row.name, row) if row.passed is False else row for row in rows]


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

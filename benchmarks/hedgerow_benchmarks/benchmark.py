"""What a benchmark is: rows of ratios with limits, and the registry of installed benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from hedgerow.core.registry import Registry

WIDER = 2.0  # limits of the quick form, which must not fail on a busy machine


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


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: what measures its rows, and a short form (None: it has none)."""

    rows: Callable[[], Iterable[Row]]
    quick: Callable[[], Iterable[Row]] | None = None


BENCHMARKS: Registry[Benchmark] = Registry("benchmark", {})
"""All benchmarks come from installed packages, by the entry point group `hedgerow.benchmarks`."""


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

"""Mean and confidence interval over seeds, one row for each label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from hedgerow.evaluation.regret import RunResult


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with the half-width of its 95 % t-interval (NaN for one seed)."""

    mean: float
    half_width: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float] | np.ndarray) -> Estimate:
        """
        >>> Estimate.of([1.0, 2.0, 3.0])
        Estimate(mean=2.0, half_width=2.484..., count=3)
        """
        array = np.asarray(values, float)
        if len(array) < 2:
            return cls(float(array.mean()), float("nan"), len(array))
        error = array.std(ddof=1) / np.sqrt(len(array))
        return cls(float(array.mean()), float(stdtrit(len(array) - 1, 0.975) * error), len(array))

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.half_width

    def __str__(self) -> str:
        if np.isnan(self.mean):
            return "-"
        return f"{self.mean:.2f}" if np.isnan(self.half_width) else f"{self.mean:.2f} ± {self.half_width:.2f}"


def welch(larger: Estimate, smaller: Estimate) -> Estimate:
    """The difference of two means as of independent samples of unequal variance; its count is that of the smaller sample.

    >>> print(welch(Estimate.of([4.0, 6.0]), Estimate.of([1.0, 1.0])))
    4.00 ± 12.71
    """
    sides = (larger, smaller)
    variances = [(e.half_width / stdtrit(e.count - 1, 0.975)) ** 2 for e in sides]
    total, mean, fewest = sum(variances), larger.mean - smaller.mean, min(e.count for e in sides)
    if total == 0:
        return Estimate(mean, 0.0, fewest)
    freedom = total**2 / sum(v**2 / (e.count - 1) for v, e in zip(variances, sides, strict=True)) if fewest > 1 else float("nan")
    return Estimate(mean, float(stdtrit(freedom, 0.975) * np.sqrt(total)), fewest)


@dataclass(frozen=True)
class SummaryRow:
    label: str
    regret: Estimate
    own_best_regret: Estimate
    loss: Estimate
    switches: Estimate
    exchanges: Estimate
    scalars: Estimate
    bytes: Estimate


@dataclass(frozen=True)
class Stream:
    """What was paid on the same losses, mean over clients: by every algorithm that played on them, and by every comparator."""

    algorithms: dict[str, Estimate]
    comparators: dict[str, Estimate]

    @classmethod
    def of(cls, results: Sequence[RunResult]) -> Stream:
        labels = dict.fromkeys(result.label for result in results)
        first = [result for result in results if result.label == results[0].label]
        return cls(
            {label: Estimate.of([float(r.loss[-1]) for r in results if r.label == label]) for label in labels},
            {name: Estimate.of([r.comparators[name] for r in first]) for name in results[0].comparators},
        )


def summarise(results: Iterable[RunResult]) -> list[SummaryRow]:
    """One row for each label, in order of first appearance."""
    groups: dict[str, list[RunResult]] = {}
    for result in results:
        groups.setdefault(result.label, []).append(result)
    return [
        SummaryRow(
            label,
            Estimate.of([r.final_regret for r in group]),
            Estimate.of([r.own_best_regret for r in group]),
            Estimate.of([float(r.loss[-1]) for r in group]),
            Estimate.of([r.switches for r in group]),
            Estimate.of([r.exchanges for r in group]),
            Estimate.of([r.uploaded_scalars + r.broadcast_scalars for r in group]),
            Estimate.of([r.uploaded_bytes + r.broadcast_bytes for r in group]),
        )
        for label, group in groups.items()
    ]

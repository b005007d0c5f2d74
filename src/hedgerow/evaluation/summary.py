"""Summaries over seeds: one row for each label, and the losses on each stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hedgerow.evaluation.recorder import RunResult
from hedgerow.evaluation.statistics import Estimate


@dataclass(frozen=True)
class SummaryRow:
    """The summary of one label.

    The columns in `table.py` describe the fields. `regret_bound` is None if nothing is proven.
    """

    label: str
    regret: Estimate
    regret_bound: float | None
    own_best_regret: Estimate
    loss: Estimate
    switches: Estimate
    exchanges: Estimate
    numbers_sent: Estimate
    bytes_sent: Estimate


@dataclass(frozen=True)
class Stream:
    """The mean loss over clients of every algorithm and every comparator on the same losses."""

    algorithms: dict[str, Estimate]
    comparators: dict[str, Estimate]

    @classmethod
    def of(cls, results: Sequence[RunResult]) -> Stream:
        labels = dict.fromkeys(result.label for result in results)
        first = [result for result in results if result.label == results[0].label]
        return cls(
            {
                label: Estimate.of([float(r.loss[-1]) for r in results if r.label == label])
                for label in labels
            },
            {
                name: Estimate.of([r.comparators[name] for r in first])
                for name in results[0].comparators
            },
        )


def summarise(
    results: Iterable[RunResult], bounds: Mapping[str, float | None] | None = None
) -> list[SummaryRow]:
    """One row for each label, in order of first appearance; `bounds` are proven bounds by label."""
    groups: dict[str, list[RunResult]] = {}
    for result in results:
        groups.setdefault(result.label, []).append(result)
    return [
        SummaryRow(
            label=label,
            regret=Estimate.of([r.final_regret for r in group]),
            regret_bound=None if bounds is None else bounds.get(label),
            own_best_regret=Estimate.of([r.own_best_regret for r in group]),
            loss=Estimate.of([float(r.loss[-1]) for r in group]),
            switches=Estimate.of([r.switches for r in group]),
            exchanges=Estimate.of([r.exchanges for r in group]),
            numbers_sent=Estimate.of([r.uploaded_scalars + r.broadcast_scalars for r in group]),
            bytes_sent=Estimate.of([r.uploaded_bytes + r.broadcast_bytes for r in group]),
        )
        for label, group in groups.items()
    ]

"""Results of many seeds in rows, and the one summary table, in text and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, isfinite, isnan
from typing import Any

from hedgerow.core.rounding import rounded_up
from hedgerow.core.text import one_line
from hedgerow.evaluation.recorder import RunResult
from hedgerow.evaluation.statistics import Estimate


@dataclass(frozen=True)
class SummaryRow:
    """The summary of one label.

    `COLUMNS` describes the fields. `regret_bound` is None if nothing is proven.
    `counts` names the figures that are numbers of things.
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
    regret_error: float = 0.0
    figures: Mapping[str, Estimate] = field(default_factory=dict)
    counts: frozenset[str] = frozenset()


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
    results: Iterable[RunResult],
    bounds: Mapping[str, float | None] | None = None,
    counts: frozenset[str] = frozenset(),
) -> list[SummaryRow]:
    """One row for each label, in order of first appearance.

    `bounds` are proven bounds by label; `counts` names the figures that are numbers of things.
    """
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
            regret_error=max(r.regret_error for r in group),
            figures={
                name: Estimate.of([float(r.figures[name][-1]) for r in group])
                for name in group[0].figures
            },
            counts=counts,
        )
        for label, group in groups.items()
    ]


GAP = "  "


def finite(value: float) -> float | None:
    """The value, or None for NaN and infinity, which JSON does not have."""
    return value if isfinite(value) else None


def digits(value: float) -> str:
    """A number with four digits, or a whole number with thousands separators.

    >>> digits(52.3456), digits(20730.4)
    ('52.35', '20,730')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def bound_words(value: float) -> str:
    """A proven upper bound as `digits` writes it, but whole numbers are rounded up.

    >>> bound_words(52.3456), bound_words(10000.0), bound_words(23715.2)
    ('52.35', '10,000', '23,716')
    """
    return f"{ceil(value):,}" if value >= 1000 else digits(value)


def estimate_json(estimate: Estimate) -> dict[str, Any]:
    """An estimate as plain values.

    A missing half-width (one seed) or mean (no comparator) is null, with a reason.
    """
    line: dict[str, Any] = {
        "mean": finite(estimate.mean),
        "half_width": finite(estimate.half_width),
        "seeds": estimate.count,
    }
    if not isfinite(estimate.mean):
        line["reason"] = (
            "this loss family has no finite set of comparators, points are played, "
            "or only sums over all clients were drawn"
        )
    elif not isfinite(estimate.half_width):
        line["reason"] = "one seed gives no confidence interval"
    return line


def _bound(value: float | None) -> str:
    return "-" if value is None else bound_words(value)


def _figure(estimate: Estimate | None) -> str:
    """A figure with three decimals where it is small, such as a share."""
    if estimate is None or not isfinite(estimate.mean) or abs(estimate.mean) >= 10:
        return "-" if estimate is None else str(estimate)
    half = f" ± {estimate.half_width:.3f}" if isfinite(estimate.half_width) else ""
    return f"{estimate.mean:.3f}{half}"


def _count(estimate: Estimate | None) -> str:
    """A number of things; with an interval if it differs between seeds.

    >>> _count(Estimate(25.0, 0.0, 3)), _count(Estimate(2.5, 1.0, 2))
    ('25', '2.50 ± 1.00')
    """
    if estimate is None:
        return "-"
    varies = isfinite(estimate.half_width) and estimate.half_width > 0
    return str(estimate) if varies else f"{estimate.mean:,.0f}"


def _tenths(estimate: Estimate) -> str:
    return "-" if isnan(estimate.mean) else f"{estimate.mean:.1f}"


def _whole(estimate: Estimate) -> str:
    return f"{estimate.mean:,.0f}"


@dataclass(frozen=True)
class Column:
    """One column of the summary table.

    Parameters
    ----------
    name
        The field of a row, and the key in JSON.
    heading
        The heading in a printed table.
    meaning
        What the column shows.
    text
        Formats its value.
    printed
        Whether people see it; otherwise it is in JSON only.
    """

    name: str
    heading: str
    meaning: str
    text: Callable[[Any], str] = str
    printed: bool = True


COLUMNS = (
    Column(
        "regret",
        "regret",
        "loss above that of the best expert (or point) in hindsight, mean over clients",
    ),
    Column(
        "regret_error",
        "error",
        "the regret may be larger by at most this much, because the best point is computed only to "
        "a certified error",
        lambda error: rounded_up(error, 2),
    ),
    Column("regret_bound", "bound", "proven bound on the expected regret on these losses", _bound),
    Column(
        "own_best_regret",
        "own-best regret",
        "loss above that of each client's own best expert, mean over clients",
    ),
    Column("loss", "loss", "total loss of a client, mean over clients", printed=False),
    Column("switches", "switches", "changes of expert by one client", _tenths),
    Column(
        "exchanges", "exchanges", "number of times clients and server exchanged messages", _whole
    ),
    Column(
        "numbers_sent", "numbers sent", "numbers in all messages, uploads and broadcasts", _whole
    ),
    Column("bytes_sent", "bytes sent", "bytes of all messages, uploads and broadcasts", _whole),
)


def printed_columns(
    rows: Sequence[SummaryRow], meanings: Mapping[str, str] | None = None
) -> tuple[Column, ...]:
    """The columns of a printed table: those that say something here, and the measures.

    The bound is shown only if one is proven. Points have no switches and no own best expert, and
    only their regret has an error. Trained models have no regret: their loss is shown. `meanings`
    explain the measures.
    """
    trained = all(isnan(row.regret.mean) for row in rows)
    empty = {
        "regret": trained,
        "regret_bound": all(row.regret_bound is None for row in rows),
        "regret_error": all(row.regret_error == 0 for row in rows),
        "own_best_regret": all(isnan(row.own_best_regret.mean) for row in rows)
        and (trained or any(row.regret_error > 0 for row in rows)),
        "switches": all(isnan(row.switches.mean) for row in rows),
    }
    extra = {"loss"} if trained else set[str]()
    shown = [
        column
        for column in COLUMNS
        if (column.printed or column.name in extra) and not empty.get(column.name)
    ]
    names = dict.fromkeys(name for row in rows for name in row.figures)
    figures = [Column(name, name, (meanings or {}).get(name, ""), _figure) for name in names]
    first = ("regret", "regret_error", "regret_bound", *extra)
    at = sum(column.name in first for column in shown)
    return (*shown[:at], *figures, *shown[at:])


def _value(row: SummaryRow, column: Column) -> Any:
    return row.figures.get(column.name) if column.text is _figure else getattr(row, column.name)


def cells(row: SummaryRow, columns: Sequence[Column]) -> list[str]:
    """The values of a row as text."""
    return [
        (_count if column.name in row.counts else column.text)(_value(row, column))
        for column in columns
    ]


def summary_json(rows: Sequence[SummaryRow]) -> list[dict[str, Any]]:
    """All columns by name. A `regret_bound` of null means that nothing is proven."""

    def plain(value: Estimate | float | None) -> Any:
        return estimate_json(value) if isinstance(value, Estimate) else value

    return [
        {
            "label": row.label,
            **{column.name: plain(getattr(row, column.name)) for column in COLUMNS},
            **{name: plain(value) for name, value in row.figures.items()},
        }
        for row in rows
    ]


def summary_text(rows: Sequence[SummaryRow]) -> str:
    """The table in plain text. A heading wider than its column is written on several lines."""
    columns = printed_columns(rows)
    body = [[one_line(row.label), *cells(row, columns)] for row in rows]
    headings = [
        [""],
        *(
            _broken(column.heading, max(len(line[i]) for line in body))
            for i, column in enumerate(columns, start=1)
        ),
    ]
    height = max(map(len, headings))
    above = [[""] * (height - len(words)) + words for words in headings]
    return aligned([*map(list, zip(*above, strict=True)), *body])


def aligned(lines: Sequence[Sequence[str]], left: bool = False) -> str:
    """Align lines of cells in columns: the first (or all) to the left, the others to the right.

    >>> print(aligned([["", "regret"], ["private", "7.5"]]))
             regret
    private     7.5
    """
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    rows = [
        [
            line[0].ljust(widths[0]),
            *(
                cell.ljust(w) if left else cell.rjust(w)
                for cell, w in zip(line[1:], widths[1:], strict=True)
            ),
        ]
        for line in lines
    ]
    return "\n".join(GAP.join(row).rstrip() for row in rows)


def _broken(heading: str, width: int) -> list[str]:
    """The lines of a heading.

    >>> _broken("numbers sent", 7), _broken("numbers sent", 12)
    (['numbers', 'sent'], ['numbers sent'])
    """
    return [heading] if len(heading) <= width else heading.split()

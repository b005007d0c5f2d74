"""Comparing pictures: panels of regret curves on one scale, sweeps in which curves cross, bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hedgerow.evaluation.plots.canvas import (
    COLOURS,
    canvas,
    footnote,
    head,
    plain,
    spread_labels,
    tidy,
)
from hedgerow.evaluation.plots.over_time import Line
from hedgerow.evaluation.recorder import RunResult
from hedgerow.evaluation.statistics import Estimate
from hedgerow_papers.log_axis import CUT, Bar, draw_bars, set_span, shades, span
from hedgerow_papers.statistics import Contest


def _name_ends(axes: Axes, x: float, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write (height, words, colour) to the right of `x`, moved apart on the log axis."""
    low, high = np.log(axes.get_ylim())
    heights = spread_labels(
        [float(np.log(height)) for height, _, _ in ends], 0.05 * (high - low), high
    )
    for (height, words, colour), place in zip(ends, heights, strict=True):
        axes.annotate(
            words,
            (x, height),
            (x + 0.02 * x, float(np.exp(place))),
            va="center",
            color=colour,
            annotation_clip=False,
        )


def plot_panels(
    panels: Mapping[str, Mapping[str, Sequence[RunResult]]],
    path: Path,
    title: str,
    value: str,
    note: str,
) -> None:
    """Draw regret over time with 95 % bands, on a common log axis.

    There is one panel for each heading and one line for each label.
    """
    figure = Figure(figsize=(3.7 * len(panels) + 1, 4.8), layout="constrained")
    head(figure, title)
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    lines = [
        {label: Line.of(group) for label, group in groups.items()} for groups in panels.values()
    ]
    everything = [line for some in lines for line in some.values()]
    lowest = min((float(line.mean[1]) for line in everything if line.mean[1] > 0), default=1.0)
    limits = span([Bar(0.0, nan, *line.top) for line in everything], (lowest,))
    names = dict.fromkeys(label for some in lines for label in some)
    colours = shades(names)  # in all panels
    for axes, heading, some in zip(row, panels, lines, strict=True):
        tidy(axes)
        axes.set_title(heading, fontsize=10)
        axes.set_xlabel("round")
        axes.set_xlim(0, max(line.end[0] for line in some.values()))
        for label, line in some.items():
            colour = colours[label]
            axes.plot(line.rounds[1:], line.mean[1:], color=colour, linewidth=2, label=label)
            if line.half is not None:
                low, high = np.maximum(line.band[0], limits.low), line.band[1]
                axes.fill_between(
                    line.rounds[1:], low[1:], high[1:], color=colour, alpha=0.2, linewidth=0
                )
    set_span(row[0], limits)
    row[0].set_ylabel(value)
    for axes, some in zip(row, lines, strict=True):
        ends = [(line.end[1], plain(line.end[1]), colours[label]) for label, line in some.items()]
        _name_ends(axes, axes.get_xlim()[1], ends)
    row[-1].legend(loc="best", frameon=False)
    footnote(figure, note)
    figure.savefig(path, dpi=150)


def plot_sweeps(
    panels: Mapping[str, tuple[str, Mapping[str, Mapping[float, Estimate]]]],
    path: Path,
    title: str,
    value: str,
    note: str,
) -> None:
    """Draw one panel for each heading: what is varied, and a curve with bars for each label."""
    figure = Figure(figsize=(4.4 * len(panels) + 2.4, 4.8), layout="constrained")
    head(figure, title)
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    labels = dict.fromkeys(label for _, curves in panels.values() for label in curves)
    colours, lines = shades(labels), {}
    bars = {
        heading: {
            label: [Bar.of(x, found[x]) for x in sorted(found)] for label, found in some.items()
        }
        for heading, (_, some) in panels.items()
    }
    limits = span([bar for some in bars.values() for each in some.values() for bar in each], ())
    for axes, (heading, (varied, _)) in zip(row, panels.items(), strict=True):
        tidy(axes)
        axes.set_title(heading, fontsize=10)
        axes.set_xlabel(varied)
        axes.set_xscale("log")
        places = sorted({bar.place for each in bars[heading].values() for bar in each})
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.minorticks_off()
        for label, some in bars[heading].items():
            lines[label], _ = draw_bars(axes, some, limits, colour=colours[label])
    set_span(row[0], limits)
    row[0].set_ylabel(value)
    figure.legend(
        [lines[label] for label in labels], list(labels), loc="outside right center", frameon=False
    )
    footnote(figure, note)
    figure.savefig(path, dpi=150)


def plot_contests(
    contests: Sequence[Contest], path: Path, title: str, parameter: str, value: str, note: str
) -> None:
    """Draw each curve with error bars, its level as a dashed line, and the crossing as a band."""
    figure, axes = canvas(title, 9.0, 5.4)
    bars = [[Bar.of(x, contest.curve[x]) for x in sorted(contest.curve)] for contest in contests]
    limits = span(
        (bar for some in bars for bar in some), (contest.level.mean for contest in contests)
    )
    set_span(axes, limits)
    ends, cut, last = [], False, max(max(contest.curve) for contest in contests)
    for contest, some, colour in zip(contests, bars, COLOURS, strict=False):
        level, crossing = contest.level, contest.crossing
        _, beyond = draw_bars(axes, some, limits, colour=colour)
        cut = cut or beyond
        axes.axhline(level.mean, color=colour, linestyle="--", linewidth=1.5)
        ends += [
            (some[-1].mean, contest.curve_name, colour),
            (level.mean, contest.level_name, colour),
        ]
        if np.isfinite([crossing.at, crossing.low, crossing.high]).all():
            axes.axvspan(crossing.low, crossing.high, color=colour, alpha=0.2, linewidth=0)
            axes.annotate(
                f"even at {crossing}",
                (crossing.at, level.mean),
                xytext=(30, -24),
                textcoords="offset points",
                color=colour,
                arrowprops={"arrowstyle": "->", "color": colour},
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            )
    axes.set_xlim(-0.01 * last, last)
    _name_ends(axes, last, ends)
    axes.set_xlabel(parameter)
    axes.set_ylabel(value)
    footnote(figure, "; ".join(filter(None, (note, CUT if cut else ""))))
    figure.savefig(path, dpi=150)


def plot_bars(
    groups: Mapping[str, Mapping[str, Estimate]], path: Path, title: str, value: str, note: str = ""
) -> None:
    """Draw bars on a log axis with 95 % intervals: a group per setting, a bar per variant."""
    figure, axes = canvas(title, 9.0, 2.0 + 0.45 * len(groups))
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color="#e5e5e5", linewidth=0.8)
    limits = span(Bar.of(0.0, estimate) for some in groups.values() for estimate in some.values())
    limits = limits._replace(low=limits.low / 2)
    set_span(axes, limits, sideways=True)
    variants = list(dict.fromkeys(v for some in groups.values() for v in some))
    height, cut, named = 0.8 / max(1, len(variants)), False, set[str]()
    colours = shades(variants)
    for row, some in enumerate(groups.values()):
        for i, variant in enumerate(variants):
            if variant not in some:
                continue
            estimate, colour = some[variant], colours[variant]
            y = row + (i - (len(variants) - 1) / 2) * height
            axes.barh(
                y,
                max(estimate.mean, 0.0),
                height * 0.9,
                color=colour,
                label=None if variant in named else variant,
            )
            named.add(variant)
            _, beyond = draw_bars(
                axes, [Bar.of(y, estimate)], limits, sideways=True, colour="#333333", marker=""
            )
            cut = cut or beyond
            end = np.nanmax([estimate.mean, estimate.high, limits.low])
            axes.text(
                min(end, limits.high) * 1.05,
                y,
                plain(estimate.mean),
                va="center",
                fontsize=8,
                color=colour,
            )
    axes.set_yticks(range(len(groups)), list(groups))
    axes.invert_yaxis()
    axes.set_xlabel(value)
    axes.legend(
        frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=max(1, len(variants))
    )
    footnote(figure, "; ".join(filter(None, (note, CUT if cut else ""))))
    figure.savefig(path, dpi=150)

"""Pictures of gains: cumulative curves with a band of single forecasters, and levels by budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hedgerow.core.lattice import Array
from hedgerow.evaluation.plots.canvas import COLOURS, GREY, footnote, head, tidy
from hedgerow.evaluation.recorder import RunResult
from hedgerow.evaluation.statistics import Estimate

GAIN = "gain"  # the measure of every game of gains
LIGHT = "#c9d3d9"


@dataclass(frozen=True)
class GainPanel:
    """One panel: lines by name, a band between the lowest and highest of several, and levels.

    `levels` are curves that are known, such as that of the best expert in hindsight.
    """

    heading: str
    lines: Mapping[str, Sequence[RunResult]]
    band: Sequence[Sequence[RunResult]] = ()
    levels: Mapping[str, Array] = field(default_factory=dict)


def _mean(group: Sequence[RunResult]) -> Array:
    return np.mean([np.append(0.0, run.figures[GAIN]) for run in group], axis=0)


def _draw(axes: Axes, panel: GainPanel, band: str) -> None:
    tidy(axes)
    axes.set_title(panel.heading, fontsize=10)
    rounds = np.append(0, next(iter(panel.lines.values()))[0].rounds)
    if panel.band:
        curves = np.stack([_mean(group) for group in panel.band])
        axes.fill_between(
            rounds, curves.min(axis=0), curves.max(axis=0), color=LIGHT, linewidth=0, label=band
        )
    for (name, group), colour in zip(panel.lines.items(), COLOURS, strict=False):
        mean = _mean(group)
        axes.plot(rounds, mean, color=colour, linewidth=1.8, label=name)
        if len(group) > 1:
            last = Estimate.of([run.figures[GAIN][-1] for run in group])
            half = [[last.half_width], [last.half_width]]
            axes.errorbar([rounds[-1]], [last.mean], half, color=colour, capsize=2, linewidth=1.2)
    for name, level in panel.levels.items():
        axes.plot(
            rounds, np.append(0.0, level), color=GREY, linestyle="--", linewidth=1.2, label=name
        )
    axes.set_xlim(0, rounds[-1] * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))


def plot_gains(
    rows: Sequence[Sequence[GainPanel]], path: Path, title: str, band: str, value: str, note: str
) -> None:
    """Draw cumulative gains over rounds; the panels of a row share their height.

    `band` is the name of the bands, and `value` that of the vertical axis.
    """
    count = len(rows[0])
    figure = Figure(figsize=(3.0 * count + 2.4, 2.5 * len(rows) + 1.4), layout="constrained")
    head(figure, title)
    grid = figure.subplots(len(rows), count, sharey="row", sharex=True, squeeze=False)
    for line, panels in zip(grid, rows, strict=True):
        for axes, panel in zip(line, panels, strict=True):
            _draw(axes, panel, band)
        line[0].set_ylim(bottom=0)
        line[0].set_ylabel(value)
    for axes in grid[-1]:
        axes.set_xlabel("round")
    _legend(figure, grid[0][0])
    footnote(figure, note)
    figure.savefig(path, dpi=150)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=9)


def plot_levels(
    panels: Mapping[str, Mapping[str, Mapping[str, Estimate]]],
    path: Path,
    title: str,
    parameter: str,
    value: str,
    note: str,
    levels: Mapping[str, tuple[str, float]] | None = None,
) -> None:
    """Draw final values with 95 % intervals against a few settings, one panel for each heading.

    `panels[heading][name][setting]` is a value. `levels` are dashed lines by heading: a name and a
    height.
    """
    figure = Figure(figsize=(3.4 * len(panels) + 2.6, 4.8), layout="constrained")
    head(figure, title)
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (heading, series) in zip(row, panels.items(), strict=True):
        tidy(axes)
        axes.set_title(heading, fontsize=10)
        settings = list(dict.fromkeys(s for points in series.values() for s in points))
        for i, (name, points) in enumerate(series.items()):
            apart = 0.05 * (i - (len(series) - 1) / 2)
            x = [settings.index(s) + apart for s in points]
            means, halves = zip(*((e.mean, e.half_width) for e in points.values()), strict=True)
            axes.errorbar(
                x,
                means,
                np.nan_to_num(halves),
                color=COLOURS[i % len(COLOURS)],
                marker="o",
                markersize=4,
                linewidth=1.5,
                capsize=2,
                label=name,
            )
        if levels and heading in levels:
            name, height = levels[heading]
            axes.axhline(height, color=GREY, linestyle="--", linewidth=1.2, label=name)
        axes.set_xticks(range(len(settings)), settings)
        axes.set_xlabel(parameter)
    row[0].set_ylim(bottom=0)
    row[0].set_ylabel(value)
    _legend(figure, row[0])
    footnote(figure, note)
    figure.savefig(path, dpi=150)

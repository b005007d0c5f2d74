"""Pictures with a comparison in them: panels of regret curves on one scale, and a sweep in which curves cross."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from scipy.special import stdtrit

from hedgerow.evaluation.crossing import Contest
from hedgerow.evaluation.plots import COLOURS, _spread_labels
from hedgerow.evaluation.regret import RunResult


def _plain_log(axes: Axes) -> None:
    """A log axis with plain numbers: 0.5, 1, 2, 5, 10."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _tidy(figure: Figure, axes: Axes, title: str, note: str) -> None:
    figure.suptitle(fill(title, 100), x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.supxlabel(note, fontsize=8, color="#666666", x=0.01, ha="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)


def _name_ends(axes: Axes, x: float, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write (height, words, colour) to the right of `x`, moved apart on the log axis where they would overlap."""
    low, high = np.log(axes.get_ylim())
    heights = _spread_labels([float(np.log(height)) for height, _, _ in ends], 0.05 * (high - low))
    for (height, words, colour), place in zip(ends, heights, strict=True):
        axes.annotate(words, (x, height), (x + 0.02 * x, float(np.exp(place))), va="center", color=colour, annotation_clip=False)


def plot_panels(panels: Mapping[str, Mapping[str, Sequence[RunResult]]], path: Path, title: str, value: str, note: str) -> None:
    """Regret over time, one panel for each heading, one line for each label, on a common log axis with 95 % bands."""
    figure = Figure(figsize=(3.7 * len(panels) + 1, 4.8), layout="constrained")
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    lines, ends, lowest = {}, [], np.inf
    for axes, (heading, groups) in zip(row, panels.items(), strict=True):
        _tidy(figure, axes, title, note)
        axes.set_title(heading, fontsize=10)
        axes.set_xlabel("round")
        axes.set_xlim(0, max(int(group[0].rounds[-1]) for group in groups.values()))
        ends.append([])
        for i, (label, group) in enumerate(groups.items()):
            curves = np.stack([run.regret for run in group])
            mean, rounds, colour = curves.mean(axis=0), group[0].rounds, COLOURS[i % len(COLOURS)]
            (lines[label],) = axes.plot(rounds, mean, color=colour, linewidth=2)
            if len(group) > 1:
                half = stdtrit(len(group) - 1, 0.975) * curves.std(axis=0, ddof=1) / np.sqrt(len(group))
                axes.fill_between(rounds, np.maximum(mean - half, mean * 0.01), mean + half, color=colour, alpha=0.2, linewidth=0)
            ends[-1].append((float(mean[-1]), f"{mean[-1]:.3g}", colour))
            lowest = min(lowest, float(mean[0]))
    _plain_log(row[0])
    row[0].set_ylim(bottom=lowest / 1.5)
    row[0].set_ylabel(value)
    for axes, named in zip(row, ends, strict=True):
        _name_ends(axes, axes.get_xlim()[1], named)
    row[-1].legend(list(lines.values()), list(lines), loc="best", frameon=False)
    figure.savefig(path, dpi=150)


def plot_contests(contests: Sequence[Contest], path: Path, title: str, parameter: str, value: str, note: str) -> None:
    """Every curve with error bars and its level as a dashed line, in one colour; the crossing as an upright band."""
    figure = Figure(figsize=(9.0, 5.4), layout="constrained")
    axes = figure.add_subplot()
    _tidy(figure, axes, title, note)
    _plain_log(axes)
    ends, last = [], max(max(contest.curve) for contest in contests)
    for contest, colour in zip(contests, COLOURS, strict=False):
        level, crossing, x = contest.level, contest.crossing, np.array(sorted(contest.curve))
        mean, half = (np.array([getattr(contest.curve[v], name) for v in x]) for name in ("mean", "half_width"))
        above = np.nan_to_num(half)
        below = np.minimum(above, 0.9 * mean)
        axes.errorbar(x, mean, yerr=[below, above], color=colour, marker="o", markersize=4, linewidth=1.8, capsize=3)
        axes.axhline(level.mean, color=colour, linestyle="--", linewidth=1.5)
        ends += [(float(mean[-1]), contest.curve_name, colour), (level.mean, contest.level_name, colour)]
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
    figure.savefig(path, dpi=150)

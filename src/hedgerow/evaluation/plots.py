"""The standard plots: regret over time with a band, and regret against a parameter on log axes with a theoretical slope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from scipy.special import stdtrit

from hedgerow.evaluation.regret import RunResult
from hedgerow.evaluation.summary import Estimate

COLOURS = ("#0b6e4f", "#d1495b", "#30638e", "#edae49", "#6d597a", "#8d99ae", "#3d405b", "#81b29a")
STYLES = ("-", "--", "-.", ":")


def _canvas(title: str, width: float = 8.0, height: float = 4.8) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    figure.suptitle(fill(title, int(width * 10)), x=0.01, ha="left", fontsize=12, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=150)


def _spread_labels(places: list[float], gap: float) -> list[float]:
    """Move label heights apart so that neighbours are at least `gap` from each other, keeping their order."""
    order = np.argsort(places)
    spread = list(places)
    for before, after in pairwise(order):
        spread[after] = max(spread[after], spread[before] + gap)
    return spread


def draw_regret_over_time(axes: Axes, results: Sequence[RunResult]) -> None:
    """Mean regret of every label with a 95 % band over seeds; each line is named at its right end."""
    labels = list(dict.fromkeys(r.label for r in results))
    ends, last = [], 0
    for i, label in enumerate(labels):
        group = [r for r in results if r.label == label]
        curves = np.stack([np.append(0.0, r.regret) for r in group])
        rounds, mean = np.append(0, group[0].rounds), curves.mean(axis=0)
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(rounds, mean, color=colour, linewidth=2, linestyle=STYLES[i // len(COLOURS) % len(STYLES)], label=label)
        if len(group) > 1:
            half = stdtrit(len(group) - 1, 0.975) * curves.std(axis=0, ddof=1) / np.sqrt(len(group))
            axes.fill_between(rounds, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)
        ends.append(float(mean[-1]))
        last = max(last, int(rounds[-1]))
    axes.set_xlim(0, last)
    known = [end for end in ends if np.isfinite(end)]
    axes.set_ylim(bottom=min([0.0, *known]))
    axes.set_xlabel("round")
    axes.set_ylabel("regret (mean over clients)")
    low, high = axes.get_ylim()
    heights = [end if np.isfinite(end) else 0.0 for end in ends]
    for i, (label, end, place) in enumerate(zip(labels, heights, _spread_labels(heights, (high - low) * 0.055), strict=True)):
        axes.annotate(
            f"{label}  {end:.3g}" if np.isfinite(ends[i]) else f"{label}  no comparator",
            (last, end),
            xytext=(last * 1.03, place),
            color=COLOURS[i % len(COLOURS)],
            va="center",
            fontsize=9,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": COLOURS[i % len(COLOURS)],
                "linewidth": 0.6,
                "shrinkA": 0,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


def plot_regret_over_time(results: Sequence[RunResult], path: Path, title: str, note: str = "") -> None:
    figure, axes = _canvas(title, 9.0)
    draw_regret_over_time(axes, results)
    if note:
        figure.supxlabel(note, fontsize=8, color="#666666", x=0.01, ha="left")
    _save(figure, path)


def plot_regret_against(
    points: Mapping[str, Mapping[float, Estimate]],
    path: Path,
    title: str,
    parameter: str,
    slope: float | None = None,
    slope_name: str = "",
    bounds: Mapping[str, Mapping[float, float]] | None = None,
) -> None:
    """Regret against clients, epsilon or horizon, log-log, with error bars and the slope theory predicts.

    `bounds` were computed, not measured, and are dashed: in the colour of the points of the same name, where there are any.
    """
    figure, axes = _canvas(title)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for i, (label, series) in enumerate(points.items()):
        x = np.array(sorted(series))
        y = np.array([series[v].mean for v in x])
        half = np.nan_to_num(np.array([series[v].half_width for v in x]))
        colour = COLOURS[i % len(COLOURS)]
        error: Any = np.stack([np.clip(half, 0, np.maximum(y * 0.9, 0)), half])
        axes.errorbar(x, y, yerr=error, color=colour, marker="o", markersize=5, linewidth=1.8, capsize=3, label=label)
    labels = list(points)
    for i, (label, bound) in enumerate((bounds or {}).items(), start=len(labels)):
        colour = COLOURS[(labels.index(label) if label in points else i) % len(COLOURS)]
        x = np.array(sorted(bound))
        name = f"{label}: proven bound" if label in points else label
        axes.plot(x, [bound[v] for v in x], color=colour, linewidth=1.5, linestyle="--", label=name)
    if slope is not None and points:
        series = next(iter(points.values()))
        x = np.array(sorted(series))
        axes.plot(
            x,
            series[x[0]].mean * (x / x[0]) ** slope,
            color="#999999",
            linestyle=":",
            linewidth=1.5,
            label=slope_name or f"slope {slope:g}",
        )
    ticks = sorted({x for series in points.values() for x in series})
    axes.set_xticks(ticks, [f"{tick:,.0f}" if tick >= 10_000 else f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(parameter)
    axes.set_ylabel("regret (mean over clients)")
    axes.legend(frameon=False)
    _save(figure, path)


def plot_bars(groups: Mapping[str, Mapping[str, Estimate]], path: Path, title: str, value: str) -> None:
    """Grouped horizontal bars on a log axis with 95 % intervals: a group for each setting, a bar for each variant."""
    figure, axes = _canvas(title, 9.0, 1.8 + 0.45 * len(groups))
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color="#e5e5e5", linewidth=0.8)
    variants = list(dict.fromkeys(v for bars in groups.values() for v in bars))
    height = 0.8 / max(1, len(variants))
    for row, bars in enumerate(groups.values()):
        for i, variant in enumerate(variants):
            if variant not in bars:
                continue
            estimate = bars[variant]
            y = row + (i - (len(variants) - 1) / 2) * height
            colour = COLOURS[i % len(COLOURS)]
            axes.barh(y, estimate.mean, height * 0.9, color=colour, label=variant if row == 0 else None)
            half = float(np.nan_to_num(estimate.half_width))
            axes.errorbar(
                estimate.mean, y, xerr=[[max(0.0, min(half, estimate.mean * 0.999))], [half]], color="#333333", linewidth=1, capsize=2
            )
            axes.text((estimate.mean + half) * 1.05, y, f"{estimate.mean:.3g}", va="center", fontsize=8, color=colour)
    axes.set_xscale("log")
    axes.set_yticks(range(len(groups)), list(groups))
    axes.invert_yaxis()
    axes.set_xlabel(value)
    figure.legend(frameon=False, loc="outside lower center", ncols=max(1, len(variants)))
    _save(figure, path)

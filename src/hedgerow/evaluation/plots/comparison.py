"""Picture of a comparison of runs: the regret of every label, and its difference from the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from hedgerow.evaluation.plots.canvas import COLOURS
from hedgerow.evaluation.statistics import Estimate

Estimates = Mapping[str, Mapping[str, Estimate]]
WIDE = 30.0  # times the smallest value: beyond it a linear axis hides small values


def _draw(
    axes: Axes, rows: Sequence[str], runs: Sequence[str], estimates: Estimates
) -> list[float]:
    """Draw a dot with its 95 % interval for each label (row) and run (colour); return the means."""
    sizes = []
    step = 0.6 / max(1, len(runs) - 1)
    for row, label in enumerate(rows):
        for i, run in enumerate(runs):
            estimate = estimates.get(label, {}).get(run)
            if estimate is None or not np.isfinite(estimate.mean):
                continue
            half = float(np.nan_to_num(estimate.half_width))
            place = row + (i - (len(runs) - 1) / 2) * step
            colour = COLOURS[i % len(COLOURS)]
            axes.errorbar(
                estimate.mean,
                place,
                xerr=half,
                color=colour,
                marker="o",
                markersize=5,
                linewidth=1.6,
                capsize=3,
            )
            axes.annotate(
                f"{estimate.mean:.3g}",
                (estimate.mean, place),
                (0, 5),
                textcoords="offset points",
                ha="center",
                fontsize=7,
            )
            sizes.append(estimate.mean)
    axes.set_yticks(range(len(rows)), [fill(label, 24).replace("$", r"\$") for label in rows])
    for row in range(1, len(rows)):
        axes.axhline(row - 0.5, color="#e5e5e5", linewidth=0.8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)
    return sizes


def plot_comparison(
    runs: Mapping[str, str], regrets: Estimates, differences: Estimates, path: Path
) -> None:
    """Draw regrets and differences into a PNG file.

    Parameters
    ----------
    runs
        The names of the runs by letter; the others are compared with the first.
    regrets, differences
        The estimates by label and letter.
    path
        The file.
    """
    rows, letters = list(regrets), list(runs)
    height = 2.0 + len(rows) * (0.25 + 0.28 * len(letters)) + 0.18 * len(letters)
    figure = Figure(figsize=(10.0, height), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    figure.suptitle(
        "Regret in each run, and its difference from A (95 % intervals)",
        x=0.01,
        ha="left",
        fontsize=12,
        fontweight="bold",
    )
    sizes = _draw(left, rows, letters, regrets)
    if sizes and min(sizes) > 0 and max(sizes) > WIDE * min(sizes):
        left.set_xscale("log")
        left.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        left.set_xlabel("regret (mean over clients and seeds, log scale)")
    else:
        left.set_xlabel("regret (mean over clients and seeds)")
    away = [abs(size) for size in _draw(right, rows, letters, differences) if size != 0]
    right.axvline(0.0, color="#333333", linewidth=1)
    right.set_xlabel("difference of regret from A (below 0: less than A)")
    if away and max(away) > WIDE * min(away):
        right.set_xscale("symlog", linthresh=min(away))
        right.set_xlabel("difference of regret from A (below 0: less than A; log scale)")
    if not away and not any(differences.values()):
        right.text(
            0.5,
            0.5,
            "no label in common with A",
            transform=right.transAxes,
            ha="center",
            color="#666666",
        )
    handles = [
        Line2D(
            [],
            [],
            color=COLOURS[i % len(COLOURS)],
            marker="o",
            label=fill(f"{letter} = {name}", 150).replace("$", r"\$"),
        )
        for i, (letter, name) in enumerate(runs.items())
    ]
    figure.legend(handles=handles, frameon=False, loc="outside lower left", fontsize=8)
    figure.savefig(path, dpi=150, format="png")

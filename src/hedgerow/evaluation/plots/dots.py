"""A picture of a few values on one scale: one row for each, with its interval and its number."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

from hedgerow.evaluation.plots.canvas import GREY, canvas, footnote
from hedgerow.evaluation.statistics import Estimate

MARGIN = 0.12  # of the range of all values: room for the numbers


class Row(NamedTuple):
    """One value: what it is, its estimate, its colour, and whether it is written in bold."""

    name: str
    value: Estimate
    colour: str
    bold: bool = False


def plot_dots(
    rows: Sequence[Row], path: Path, title: str, value: str, note: str, mark: str = ""
) -> None:
    """Draw a dot with its 95 % interval and its number for each row, from top to bottom.

    A dashed line goes through the row named `mark`, to compare the others with it.
    """
    figure, axes = canvas(title, 9.5, 1.6 + 0.42 * len(rows))
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color="#e5e5e5", linewidth=0.8)
    for place, row in enumerate(rows):
        half = row.value.half_width if isfinite(row.value.half_width) else 0.0
        axes.errorbar(
            row.value.mean,
            place,
            xerr=half,
            color=row.colour,
            marker="o",
            markersize=9,
            linewidth=2,
            capsize=4,
        )
        axes.annotate(
            f"{row.value.mean:.1f}",
            (row.value.mean + half, place),
            (9, 0),
            textcoords="offset points",
            va="center",
            color=row.colour,
            fontsize=11,
            fontweight="bold" if row.bold else "normal",
        )
        if row.name == mark:
            axes.axvline(row.value.mean, color=row.colour, linestyle="--", linewidth=1, zorder=0)
    axes.set_yticks(range(len(rows)), [fill(row.name, 44) for row in rows], fontsize=10)
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_color(row.colour)
        label.set_fontweight("bold" if row.bold else "normal")
    ends = [end for row in rows for end in (row.value.low, row.value.mean, row.value.high)]
    low, high = min(filter(isfinite, ends)), max(filter(isfinite, ends))
    room = MARGIN * (high - low or 1.0)
    axes.set_xlim(low - room / 2, high + room)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(value, color=GREY)
    footnote(figure, note)
    figure.savefig(path, dpi=150)

"""A picture of a table: a number in every cell, on a colour that grows with its logarithm."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hedgerow.evaluation.plots.canvas import canvas, footnote, plain


def plot_grid(
    cells: Mapping[str, Mapping[str, float]], path: Path, title: str, note: str = ""
) -> None:
    """Draw a row for each name and a column for each setting; dark cells are large numbers."""
    columns = list(next(iter(cells.values())))
    values = np.array([[row[column] for column in columns] for row in cells.values()])
    with np.errstate(divide="ignore", invalid="ignore"):
        shade = np.log(np.maximum(values, 1.0))
    figure, axes = canvas(title, 3.5 + 0.75 * max(6, len(columns)), 2.0 + 0.32 * len(cells))
    axes.grid(visible=False)
    darkest = 1.4 * max(1.0, shade.max())
    axes.imshow(shade, cmap="YlOrRd", aspect="auto", vmin=0.0, vmax=darkest)
    for (row, column), value in np.ndenumerate(values):
        ink = "white" if shade[row, column] > 0.55 * darkest else "black"
        axes.text(column, row, plain(value), ha="center", va="center", fontsize=8, color=ink)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(columns)), columns, fontsize=8)
    axes.set_yticks(range(len(cells)), list(cells), fontsize=9)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    footnote(figure, note)
    figure.savefig(path, dpi=150)

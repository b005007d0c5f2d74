"""Curves of a measure, such as loss or accuracy on test data, in panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from hedgerow.evaluation.plots.canvas import footnote, head, tidy
from hedgerow.evaluation.recorder import RunResult
from hedgerow_papers.log_axis import shades

FEW = 16  # a measure that changes less often is drawn with markers


def plot_measure(
    panels: Mapping[str, Mapping[str, Sequence[RunResult]]],
    measure: str,
    path: Path,
    title: str,
    note: str,
    value: str = "",
) -> None:
    """Draw a measure over time: means over seeds, with bands of one standard deviation.

    There is one panel for each heading and one line for each label; equal labels have one colour,
    and what is not private is grey. Every other line is dashed, so that lines below it are seen.
    `value` names the measure on the axis.
    """
    figure = Figure(figsize=(4.4 * len(panels) + 1, 4.8), layout="constrained")
    head(figure, title)
    labels = list(dict.fromkeys(label for groups in panels.values() for label in groups))
    colours, dashes = shades(labels), dict.fromkeys(labels[1::2], "--")
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (heading, groups) in zip(row, panels.items(), strict=True):
        tidy(axes)
        axes.set_title(heading, fontsize=10)
        axes.set_xlabel("round")
        for label, runs in groups.items():
            curves = np.array([run.figures[measure] for run in runs])
            taken = _taken(curves)
            mean, rounds = curves.mean(axis=0)[taken], runs[0].rounds[taken]
            axes.plot(
                rounds,
                mean,
                dashes.get(label, "-"),
                color=colours[label],
                label=label,
                linewidth=1.8,
                marker="o" if len(rounds) < curves.shape[1] else "",
                markersize=3,
                zorder=3 if label in dashes else 2,
            )
            if len(runs) > 1:
                spread = curves.std(axis=0, ddof=1)[taken]
                low, high = mean - spread, mean + spread
                axes.fill_between(rounds, low, high, color=colours[label], alpha=0.15, linewidth=0)
        axes.legend(frameon=False, fontsize=8)
    row[0].set_ylabel(value or measure)
    footnote(figure, note)
    figure.savefig(path, dpi=150)


def _taken(curves: np.ndarray) -> np.ndarray:
    """Where a measure was taken, if that was a few times only; otherwise every place.

    >>> _taken(np.array([[1.0] * 9 + [2.0] * 9])).tolist()
    [0, 9]
    """
    changed = (np.diff(curves, axis=1) != 0).any(axis=0)
    places = np.concatenate([[0], np.flatnonzero(changed) + 1])
    return places if len(places) <= min(FEW, curves.shape[1] // 2) else np.arange(curves.shape[1])

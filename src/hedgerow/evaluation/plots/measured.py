"""Curves of a measure, such as loss or accuracy on test data, in panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from hedgerow.evaluation.plots.canvas import COLOURS, footnote, head, tidy
from hedgerow.evaluation.recorder import RunResult


def plot_measure(
    panels: Mapping[str, Mapping[str, Sequence[RunResult]]],
    measure: str,
    path: Path,
    title: str,
    note: str,
    value: str = "",
) -> None:
    """Draw a measure over time: means over seeds, with bands of one standard deviation.

    There is one panel for each heading and one line for each label; equal labels have one colour.
    `value` names the measure on the axis.
    """
    figure = Figure(figsize=(4.4 * len(panels) + 1, 4.8), layout="constrained")
    head(figure, title)
    labels = list(dict.fromkeys(label for groups in panels.values() for label in groups))
    colours = {label: COLOURS[k % len(COLOURS)] for k, label in enumerate(labels)}
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (heading, groups) in zip(row, panels.items(), strict=True):
        tidy(axes)
        axes.set_title(heading, fontsize=10)
        axes.set_xlabel("round")
        for label, runs in groups.items():
            curves = np.array([run.figures[measure] for run in runs])
            mean, rounds = curves.mean(axis=0), runs[0].rounds
            axes.plot(rounds, mean, color=colours[label], label=label, linewidth=1.8)
            if len(runs) > 1:
                spread = curves.std(axis=0, ddof=1)
                low, high = mean - spread, mean + spread
                axes.fill_between(rounds, low, high, color=colours[label], alpha=0.15, linewidth=0)
        axes.legend(frameon=False, fontsize=8)
    row[0].set_ylabel(value or measure)
    footnote(figure, note)
    figure.savefig(path, dpi=150)

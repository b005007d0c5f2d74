"""Weights of forecasts over time, each line named at its end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.ticker import PercentFormatter

from hedgerow.evaluation.plots.canvas import COLOURS, GREY, canvas, footnote, spread_labels

NAMED = len(COLOURS)


def draw_weights(
    weights: np.ndarray, models: Sequence[str], rounds: Sequence[str], path: Path, title: str
) -> None:
    """Draw the weights (rounds, models); the largest at the end have names, the others are grey."""
    figure, axes = canvas(title, width=9.0)
    last, when = weights[-1], np.arange(len(weights))
    named = np.argsort(-last, kind="stable")[:NAMED]
    for k in range(len(models)):
        if k not in named:
            axes.plot(when, weights[:, k], color="#cccccc", linewidth=0.8)
    for colour, k in zip(COLOURS, named, strict=False):
        axes.plot(when, weights[:, k], color=colour, linewidth=1.8)
    axes.axhline(1 / len(models), color=GREY, linewidth=0.8, linestyle=":")
    top = max(float(weights.max()) * 1.05, 2 / len(models))
    axes.set_ylim(0, top)
    places = spread_labels([float(last[k]) for k in named], top / 18)
    for colour, k, place in zip(COLOURS, named, places, strict=False):
        axes.annotate(
            models[int(k)],
            (len(weights) - 1, place),
            xytext=(6, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=9,
            annotation_clip=False,
        )
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    shown = np.linspace(0, len(rounds) - 1, min(5, len(rounds))).round().astype(int)
    axes.set_xticks(shown, [rounds[int(k)] for k in shown], fontsize=8)
    note = f"One private run. Dotted: equal weights of {len(models)} models."
    rest = len(models) - len(named)
    footnote(figure, note + (f" Grey: {rest} other models." if rest else ""))
    figure.savefig(path, dpi=150)

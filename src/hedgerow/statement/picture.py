"""The picture of a statement: how well the best attack on each guarantee can do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO

from hedgerow.core.extras import needs
from hedgerow.core.text import visible
from hedgerow.evaluation.plots.canvas import COLOURS
from hedgerow.records.schema import Attack
from hedgerow.statement.exposure import Exposure, exposure, exposure_outline
from hedgerow.statement.statement import Statement
from hedgerow.statement.words.phrases import counted, listed, observer_words, quoted

with needs("plots"):
    from matplotlib import rc_context
    from matplotlib.figure import Figure

WITHOUT = "#b3261e"


def draw_statement(statement: Statement) -> Figure:
    """False alarms to the right, truths found upward; results above a line are impossible."""
    figure = Figure(figsize=(7.2, 2.0), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.plot(
        [0, 100], [0, 100], color="#999999", linewidth=1, linestyle=":", label="blind guessing"
    )
    for i, (curve, members) in enumerate(statement.protecting):
        who = listed([observer_words(g) for g in members], "or")
        x, y = _line(curve.outline)
        axes.plot(
            x,
            y,
            color=COLOURS[i],
            linewidth=1.8,
            label=f"{who}\n{quoted(curve.epsilon, curve.delta)}",
        )
        axes.fill_between(x, x, y, color=COLOURS[i], alpha=0.10, linewidth=0)
        total, records = members[0].total, statement.lead
        if total is not None or records > 1:
            several = (curve, total, records, statement.algorithm.separate)
            worst, shown = exposure_outline(*several), exposure(*several)
            axes.plot(
                *_line(worst),
                color=COLOURS[i],
                linewidth=1.8,
                linestyle="--",
                zorder=3,
                clip_on=False,
                label=_worst_label(statement, shown),
            )
    if statement.claimed is not None:
        numbers = quoted(statement.claimed.epsilon, statement.claimed.delta)
        label = f"claimed by the paper\n{numbers}"
        axes.plot(*_line(statement.claimed.outline), color="#6d597a", linestyle=":", label=label)
    if statement.unguarded:
        who = listed([observer_words(g) for g in statement.unguarded])
        axes.plot(
            [0, 0, 100],
            [0, 100, 100],
            color=WITHOUT,
            linewidth=1.8,
            clip_on=False,
            label=f"{who}\nno guarantee",
        )
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    axes.set_xlabel("false alarms in 100", fontsize=8)
    axes.set_ylabel("found in 100", fontsize=8)
    axes.tick_params(labelsize=8)
    figure.legend(
        loc="outside right center",
        frameon=False,
        fontsize=8,
        labelspacing=0.7,
        handlelength=1.2,
        handletextpad=0.5,
    )
    if statement.stamp is not None:
        figure.text(0.99, 0.02, statement.stamp, ha="right", va="bottom", fontsize=8, color=WITHOUT)
    return figure


def _line(corners: Sequence[Attack]) -> tuple[list[float], list[float]]:
    return [100 * a.false_alarms for a in corners], [100 * a.detections for a in corners]


def _worst_label(statement: Statement, shown: Exposure) -> str:
    who = [counted(shown.records, "record")] if shown.records > 1 else []
    who += [counted(statement.algorithm.runs, "run")] if statement.repeats else []
    return f"the same, {' in '.join(who)}\n{quoted(shown.epsilon, shown.delta)}"


def statement_svg(statement: Statement) -> str:
    """The picture as one SVG element; the same statement gives the same text."""
    text = StringIO()
    with rc_context({"svg.hashsalt": "hedgerow"}):
        draw_statement(statement).savefig(text, format="svg", metadata={"Date": None})
    drawn = re.sub(r"<metadata>.*?</metadata>", "", text.getvalue(), flags=re.DOTALL)
    return visible(drawn[drawn.index("<svg") :])

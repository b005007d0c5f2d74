"""The standard plot of experiments: regret against a parameter, on log axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.ticker import NullLocator

from hedgerow.evaluation.plots.canvas import canvas, footnote, plain
from hedgerow.evaluation.statistics import Estimate
from hedgerow_papers.log_axis import CUT, Bar, draw_bars, set_span, shades, span


def plot_regret_against(
    points: Mapping[str, Mapping[float, Estimate]],
    path: Path,
    title: str,
    parameter: str,
    slope: float | None = None,
    slope_name: str = "",
    bounds: Mapping[str, Mapping[float, float]] | None = None,
    note: str = "",
    ticks: Sequence[float] | None = None,
) -> None:
    """Draw regret against clients, epsilon or horizon on log axes, with error bars.

    `ticks` are the values that are named on the axis; None: all at which there are points. A dotted
    line shows the slope that theory predicts. `bounds` are computed, not measured. They are dashed,
    in the colour of the points with the same name if there are any.
    """
    figure, axes = canvas(title, 9.0, 5.2)
    axes.set_xscale("log")
    places = sorted({x for series in points.values() for x in series})
    apart = (places[-1] / places[0]) ** 0.006  # so that bars at the same place stay visible
    ticks = places if ticks is None else ticks
    bars = {
        label: [Bar.of(x * apart ** (i - (len(points) - 1) / 2), series[x]) for x in sorted(series)]
        for i, (label, series) in enumerate(points.items())
    }
    dashed, first = bounds or {}, next(iter(points.values()))
    expected = (
        {}
        if slope is None
        else {x: first[min(first)].mean * (x / min(first)) ** slope for x in sorted(first)}
    )
    computed = [value for bound in (*dashed.values(), expected) for value in bound.values()]
    limits = span((bar for some in bars.values() for bar in some), computed)
    set_span(axes, limits)
    cut, colours = False, shades((*points, *dashed))
    for label, some in bars.items():
        _, beyond = draw_bars(axes, some, limits, colour=colours[label], markersize=5, label=label)
        cut = cut or beyond
    for label, bound in dashed.items():
        colour, x = colours[label], sorted(bound)
        name = f"{label}: proven bound" if label in points else label
        axes.plot(x, [bound[v] for v in x], color=colour, linewidth=1.5, linestyle="--", label=name)
    if expected:
        named = slope_name or f"slope {slope:g}"
        axes.plot(
            list(expected),
            list(expected.values()),
            color="#999999",
            linestyle=":",
            linewidth=1.5,
            label=named,
        )
    axes.set_xticks(ticks, [plain(tick) for tick in ticks], fontsize=10 if len(ticks) < 8 else 9)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(parameter)
    axes.set_ylabel("regret (mean over clients)")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    footnote(figure, "; ".join(filter(None, (note, CUT if cut else ""))))
    figure.savefig(path, dpi=150)

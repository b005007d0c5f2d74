"""Regret over time with a band, each line named at its end; many lines are split over panels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from scipy.special import stdtrit

from hedgerow.evaluation.plots.canvas import (
    COLOURS,
    Role,
    canvas,
    coloured,
    footnote,
    head,
    legend,
    plain,
    spread_labels,
    tidy,
)
from hedgerow.evaluation.recorder import RunResult

MOST = len(COLOURS)  # lines in one panel
# In inches: the width and height of a panel without its names, and the width of a letter.
WIDTH, HEIGHT, LETTER = 3.5, 3.2, 0.09
NEAR = 0.97  # of the rounds: a line that ends later than this ends beside its name
LEADER = {
    "arrowstyle": "-",
    "linewidth": 0.8,
    "linestyle": ":",
    "shrinkA": 0,
    "shrinkB": 2,
    "relpos": (0, 0.5),
}


@dataclass(frozen=True)
class Line:
    """Mean regret by round, and the half-width of its 95 % interval (None: one seed).

    `reach` is the most that one round can add to the regret. `error` is how much larger the regret
    may be (`RunResult.regret_error`). `dashed` lines are for clients that play by themselves.
    `changes` are rounds in which the best sequence of experts changes, if all seeds have as many.
    """

    rounds: np.ndarray
    mean: np.ndarray
    half: np.ndarray | None
    reach: float = 1.0
    error: float = 0.0
    dashed: bool = False
    changes: tuple[float, ...] = ()

    @classmethod
    def of(cls, group: Sequence[RunResult], reach: float = 1.0) -> Line:
        error = max(run.regret_error for run in group)
        curves = np.stack([np.append(0.0, run.regret) for run in group])
        rounds, mean, half = np.append(0, group[0].rounds), curves.mean(axis=0), None
        if len(group) > 1:
            spread = curves.std(axis=0, ddof=1) / np.sqrt(len(group))
            half = stdtrit(len(group) - 1, 0.975) * spread
        starts = [run.segments[1:, 0] for run in group]
        alike = len({len(each) for each in starts}) == 1
        changes = tuple(np.mean(starts, axis=0).tolist()) if alike else ()
        return cls(rounds, mean, half, reach, error, changes=changes)

    @property
    def band(self) -> tuple[np.ndarray, np.ndarray]:
        """The interval of every mean, cut to possible regrets, with the error above it."""
        half, most = 0.0 if self.half is None else self.half, self.reach * self.rounds
        low, high = self.mean - half, self.mean + half + self.error
        return np.maximum(low, -most), np.minimum(high, most)

    @property
    def top(self) -> tuple[float, float]:
        """The largest mean, and the highest point of the band."""
        return float(self.mean.max()), float(self.band[1].max())

    @property
    def end(self) -> tuple[float, float]:
        """The last round and its mean."""
        return float(self.rounds[-1]), float(self.mean[-1])

    def ends_before(self, last: float) -> bool:
        """Whether the line visibly ends before round `last`."""
        return self.end[0] < NEAR * last


def panels(labels: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Split labels into panels: headings, and the short name of each label below its heading.

    If many labels share the text before their first slash, that text is the heading.

    >>> panels(["a", "b"])
    [('', {'a': 'a', 'b': 'b'})]
    >>> labels = [f"{x}/m={i}" for x in "ab" for i in range(6)]
    >>> [(heading, len(names)) for heading, names in panels(labels)]
    [('a', 6), ('b', 6)]
    """
    if len(labels) <= MOST:
        return [("", {label: label for label in labels})]
    families: dict[str, dict[str, str]] = {}
    for label in labels:
        family, _, member = label.partition("/")
        families.setdefault(family, {})[label] = member or label
    if 2 * len(families) > len(labels):
        families = {"": {label: label for label in labels}}
    return [
        (family, dict(list(names.items())[start : start + MOST]))
        for family, names in families.items()
        for start in range(0, len(names), MOST)
    ]


def _draw(axes: Axes, lines: Mapping[str, Line], colours: Sequence[str]) -> None:
    tidy(axes)
    for change in sorted({change for line in lines.values() for change in line.changes}):
        axes.axvline(change, color="0.85", linewidth=1, zorder=0)
    for (name, line), colour in zip(lines.items(), colours, strict=True):
        style = "--" if line.dashed else "-"
        axes.plot(line.rounds, line.mean, color=colour, linewidth=2, linestyle=style, label=name)
        axes.plot(*line.end, color=colour, marker="o", markersize=4, clip_on=False)
        if line.half is not None or line.error > 0:
            axes.fill_between(line.rounds, *line.band, color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))


def _at_its_end(line: Line, last: float) -> str:
    """The last value and, if other lines go on, the round of that value."""
    if not np.isfinite(line.end[1]):
        return "no comparator"
    return plain(line.end[1]) + (
        f" by round {plain(line.end[0])}" if line.ends_before(last) else ""
    )


def _name_ends(axes: Axes, lines: Mapping[str, Line], colours: Sequence[str], gap: float) -> None:
    """Write the name and last value of every line to the right of the panel.

    A dotted leader joins the name to the end of the line. A line that ends early has none, because
    it would look like a forecast: its name says in which round it ends.
    """
    (low, high), last = axes.get_ylim(), axes.get_xlim()[1]
    heights = [line.end[1] if np.isfinite(line.end[1]) else 0.0 for line in lines.values()]
    places = spread_labels(heights, (high - low) * gap, high)
    for (name, line), height, place, colour in zip(
        lines.items(), heights, places, colours, strict=True
    ):
        known = np.isfinite(line.end[1])
        axes.annotate(
            f"{name}  {_at_its_end(line, last)}".replace("$", r"\$"),
            (line.end[0] if known else last, height),
            xytext=(last * 1.03, place),
            color=colour,
            va="center",
            fontsize=9,
            annotation_clip=False,
            arrowprops=None if known and line.ends_before(last) else {**LEADER, "color": colour},
        )


def _several(title: str, count: int, width: float) -> tuple[Figure, list[Axes]]:
    columns = 2 if count <= 4 else 3
    rows = ceil(count / columns)
    figure = Figure(figsize=(width * columns, 0.9 + HEIGHT * rows), layout="constrained")
    head(figure, title)
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    for empty in grid.flat[count:]:
        empty.remove()
    for axes in grid.flat[:count]:
        axes.yaxis.set_tick_params(labelleft=True)
    return figure, list(grid.flat[:count])


def plot_regret_over_time(
    results: Sequence[RunResult],
    path: Path,
    title: str,
    note: str = "",
    reach: float = 1.0,
    roles: Mapping[str, Role] | None = None,
    dashed: Collection[str] = (),
) -> None:
    """Draw the mean regret of every label with a 95 % band over seeds, on one scale.

    `reach` is the most that one round can add to a regret. `roles` give the colours: a name has the
    same one in all panels. Lines of the labels in `dashed` are dashed.
    """
    groups: dict[str, list[RunResult]] = {}
    for result in results:
        groups.setdefault(result.label, []).append(result)
    lines = {
        label: replace(Line.of(group, reach), dashed=label in dashed)
        for label, group in groups.items()
    }
    shared = panels(list(lines))
    last = max(line.end[0] for line in lines.values())
    known = {} if roles is None else roles
    colours = coloured(
        (known[label], name) for _, names in shared for label, name in names.items() if roles
    )

    def shades(names: Mapping[str, str]) -> Sequence[str]:
        if roles is None:
            return COLOURS[: len(names)]
        return [colours[known[label], name] for label, name in names.items()]

    room = LETTER * max(
        len(name) + max(8, 2 + len(_at_its_end(lines[label], last)))
        for _, part in shared
        for label, name in part.items()
    )
    if len(shared) == 1:
        figure, axes = canvas(title, max(9.0, 2 * WIDTH + room))
        places = [axes]
    else:
        figure, places = _several(title, len(shared), WIDTH + room)
    lowest = min((float(np.nanmin(line.band[0])) for line in lines.values()), default=0.0)
    for axes, (heading, names) in zip(places, shared, strict=True):
        _draw(axes, {name: lines[label] for label, name in names.items()}, shades(names))
        axes.set_xlim(0, last)
        axes.set_title(heading.replace("$", r"\$"), fontsize=10, loc="left")
        axes.set_ylabel("regret (mean over clients)")
    places[0].set_ylim(bottom=min(0.0, lowest))
    for axes, (_, names) in zip(places, shared, strict=True):
        _name_ends(
            axes,
            {name: lines[label] for label, name in names.items()},
            shades(names),
            0.055 if len(shared) == 1 else 0.085,
        )
    footnote(figure, "; ".join(filter(None, (note, legend(known.values())))))
    figure.savefig(path, dpi=150)

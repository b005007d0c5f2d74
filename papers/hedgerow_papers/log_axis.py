"""A log axis with plain numbers, and error bars on it.

An end of a bar that is at 0 or below, or far away, is cut off and shown as an arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle
from math import isfinite, log10, nan
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from hedgerow.evaluation.plots.canvas import COLOURS, PALETTES, Role, plain
from hedgerow.evaluation.statistics import Estimate

REACH = 3.0  # bars are shown up to this factor beyond the outermost means
MARGIN = 1.2
CUT = "arrow: the bar continues beyond the picture"


class Bar(NamedTuple):
    """A mean with the ends of its interval (NaN: none), and its `place` on the other axis."""

    place: float
    low: float
    mean: float
    high: float

    @classmethod
    def of(cls, place: float, estimate: Estimate) -> Bar:
        return cls(place, estimate.low, estimate.mean, estimate.high)


class Span(NamedTuple):
    """The ends of a log axis."""

    low: float
    high: float


def span(bars: Iterable[Bar], others: Iterable[float] = ()) -> Span:
    """The range of all positive means and `others`, and of bars up to `REACH` times beyond them.

    >>> span([Bar(1.0, -3.0, 10.0, 23.0), Bar(2.0, 6.0, 12.0, 1e9)])
    Span(low=2.77..., high=43.1...)
    """
    bars = list(bars)
    shown = [
        value for value in (*(bar.mean for bar in bars), *others) if isfinite(value) and value > 0
    ] or [1.0]
    low, high = min(shown) / REACH, max(shown) * REACH
    bottom = min([*shown, *(max(bar.low, low) for bar in bars if isfinite(bar.low))])
    top = max([*shown, *(min(bar.high, high) for bar in bars if isfinite(bar.high))])
    return Span(bottom / MARGIN, top * MARGIN)


def set_span(axes: Axes, limits: Span, sideways: bool = False) -> None:
    """Set a log axis with these ends, vertical or `sideways`, with ticks such as 1, 2, 5, 10."""
    if sideways:
        axes.set(xscale="log", xlim=limits)
    else:
        axes.set(yscale="log", ylim=limits)
    axis = axes.xaxis if sideways else axes.yaxis
    decades = log10(limits.high / limits.low)
    axis.set_major_locator(
        LogLocator(
            subs=(1, 2, 3, 4, 5, 6, 8) if decades < 1 else (1, 2, 5) if decades < 4 else (1,)
        )
    )
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))
    axis.set_minor_locator(NullLocator())


def draw_bars(
    axes: Axes,
    bars: Sequence[Bar],
    limits: Span,
    *,
    sideways: bool = False,
    colour: str,
    **style: Any,
) -> tuple[Line2D, bool]:
    """Draw the means as a line with their bars; return the line and whether any bar was cut off.

    The line has a gap where a mean is not above 0.
    """

    def put(place: float | Sequence[float], value: float | Sequence[float], **how: Any) -> Line2D:
        return axes.plot(*((value, place) if sideways else (place, value)), color=colour, **how)[0]

    means = [bar.mean if bar.mean > 0 else nan for bar in bars]
    line = put(
        [bar.place for bar in bars],
        means,
        **{"marker": "o", "markersize": 4, "linewidth": 1.8, **style},
    )
    whole, below, above = ("|", "<", ">") if sideways else ("_", "v", "^")
    cut = False
    for bar in bars:
        if (
            not (isfinite(bar.low) and isfinite(bar.high))
            or bar.high <= limits.low
            or bar.low >= limits.high
        ):
            continue
        ends = max(bar.low, limits.low), min(bar.high, limits.high)
        put([bar.place, bar.place], ends, linewidth=1.2)
        for end, real, arrow in zip(ends, (bar.low, bar.high), (below, above), strict=True):
            put(
                bar.place,
                end,
                marker=whole if end == real else arrow,
                markersize=6 if end == real else 5,
                clip_on=False,
            )
            cut = cut or end != real
    return line, cut


def shades(labels: Iterable[str]) -> dict[str, str]:
    """A colour for every label: grey and red by the role that its words tell, else in order.

    >>> shades(["a", "b, printed constants", "c", "not private"]).values()
    dict_values(['#0b6e4f', '#d1495b', '#30638e', '#5c677d'])
    """
    left = {role: cycle(palette) for role, palette in PALETTES.items()}
    left["private"] = cycle(
        colour for colour in COLOURS if colour != PALETTES["printed constants"][0]
    )
    return {label: next(left[_told(label)]) for label in dict.fromkeys(labels)}


def _told(label: str) -> Role:
    if any(words in label for words in ("not private", "no noise", "open")):
        return "not private"
    return "printed constants" if "printed" in label or "published" in label else "private"

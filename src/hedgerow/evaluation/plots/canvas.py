"""Parts of all pictures: colours, frame, title, footnote, numbers, labels that do not overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from textwrap import fill
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hedgerow.core.certificate import Certificate

COLOURS = ("#0b6e4f", "#d1495b", "#30638e", "#edae49", "#6d597a", "#8d99ae", "#3d405b", "#81b29a")
GREY = "#666666"


def canvas(title: str, width: float = 8.0, height: float = 4.8) -> tuple[Figure, Axes]:
    """A figure with a title and one panel; sizes are in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    head(figure, title)
    axes = figure.add_subplot()
    tidy(axes)
    return figure, axes


def head(figure: Figure, title: str) -> None:
    """Write the title of a figure."""
    figure.suptitle(
        fill(title, int(figure.get_figwidth() * 10)).replace("$", r"\$"),
        x=0.01,
        ha="left",
        fontsize=12,
        fontweight="bold",
    )


def footnote(figure: Figure, note: str) -> None:
    """Write a note in small letters below the picture, in as many lines as it needs."""
    if note:
        figure.supxlabel(
            fill(note, int(figure.get_figwidth() * 17)), fontsize=8, color=GREY, x=0.01, ha="left"
        )


def tidy(axes: Axes) -> None:
    """Remove two sides of the frame and draw light grid lines."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)


def plain(value: float) -> str:
    """A number with thousands separators, or with three digits if it is small.

    >>> plain(0.0512), plain(99.96), plain(1994.3), plain(1048576.0)
    ('0.0512', '100', '1,994', '1,048,576')
    """
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def spread_labels(places: Sequence[float], gap: float, top: float = np.inf) -> list[float]:
    """Move label heights apart: neighbours at least `gap` apart, none above `top`, same order.

    >>> spread_labels([5.0, 5.0, 1.0], 1.0), spread_labels([5.0, 5.0, 1.0], 1.0, top=5.0)
    ([5.0, 6.0, 1.0], [4.0, 5.0, 1.0])
    """
    order = np.argsort(places, kind="stable")
    spread = [min(float(place), top) for place in places]
    for before, after in pairwise(order):
        spread[after] = max(spread[after], spread[before] + gap)
    if len(order):
        spread[order[-1]] = min(spread[order[-1]], top)
    for after, before in pairwise(order[::-1]):
        spread[before] = min(spread[before], spread[after] - gap)
    return spread


Role = Literal["private", "printed constants", "not private"]
PALETTES: dict[Role, tuple[str, ...]] = {
    "private": (
        *("#0b6e4f", "#30638e", "#43aa8b", "#1b3a4b"),
        *("#76b77a", "#4d7ea8", "#014f86", "#7aa095"),
    ),
    "printed constants": (
        *("#d1495b", "#c9861a", "#8f1d2c", "#e07a5f"),
        *("#a6611a", "#d87093", "#7f5539", "#b5838d"),
    ),
    "not private": (
        *("#5c677d", "#9aa3ad", "#212529", "#7d8597"),
        *("#45494e", "#adb5bd", "#33415c", "#6c757d"),
    ),
}
WORDS: dict[Role, str] = {
    "private": "green and blue",
    "printed constants": "red and brown",
    "not private": "grey",
}


def role_of(certificate: Certificate) -> Role:
    """The role of an algorithm: whether it protects, and with whose constants.

    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=2, experts=3, horizon=10)
    >>> [role_of(spec.build(setting).certificate) for spec in (hr.SparseVector(), hr.Hedge())]
    ['private', 'not private']
    """
    if not any(guarantee.protects for guarantee in certificate.guarantees):
        return "not private"
    return "printed constants" if certificate.calibration == "published" else "private"


def coloured(names: Iterable[tuple[Role, str]]) -> dict[tuple[Role, str], str]:
    """A colour for every name and role, from the palette of the role.

    >>> coloured([("private", "a"), ("not private", "b"), ("private", "a")])
    {('private', 'a'): '#0b6e4f', ('not private', 'b'): '#5c677d'}
    """
    found: dict[tuple[Role, str], str] = {}
    for role, name in names:
        if (role, name) not in found:
            palette = PALETTES[role]
            found[role, name] = palette[sum(r == role for r, _ in found) % len(palette)]
    return found


def legend(roles: Iterable[Role]) -> str:
    """What the colours mean, if there are several roles."""
    given = {*roles}
    present: list[Role] = [role for role in PALETTES if role in given]
    return ", ".join(f"{WORDS[role]}: {role}" for role in present) if len(present) > 1 else ""

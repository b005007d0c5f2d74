"""Docstrings are plain text with `names` in single backticks; this makes valid reStructuredText of
them.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

CODE = re.compile(r"(``.+?``|`[^`]+`|\$[^$]+\$)")
VALUES = ("property", "attribute", "data")
MARKUP = re.compile(r"([*|\\])|(?<=\w)(_)(?=\W|$)")
BULLET = re.compile(r"\s*\* ")


def readable(lines: list[str]) -> list[str]:
    """
    >>> readable(["See `x_` and 2 * y, a_ too", ">>> 2 * 3", "6"])
    ['See ``x_`` and 2 \\\\* y, a\\\\_ too', '>>> 2 * 3', '6']
    >>> readable(["* one", "  of 2 * 3"])
    ['* one', '  of 2 \\\\* 3']
    """
    made, in_doctest = [], False
    for line in lines:
        in_doctest = line.lstrip().startswith(">>>") or (in_doctest and bool(line.strip()))
        made.append(line if in_doctest else _line(line))
    return made


def _line(line: str) -> str:
    bullet = BULLET.match(line)
    start = bullet[0] if bullet else ""
    parts = CODE.split(line[len(start) :])
    return start + "".join(
        _code(part) if index % 2 else MARKUP.sub(r"\\\1\2", part)
        for index, part in enumerate(parts)
    )


def _code(part: str) -> str:
    if part.startswith("$"):
        return f":math:`{part[1:-1]}`"
    return part if part.startswith("``") else f"`{part}`"


def whole(line: str) -> list[str]:
    """The first line of a value in two: napoleon would take what is before a colon for a type.

    >>> whole("The running sum: what is spent")
    ['The running sum\\\\', ': what is spent']
    """
    name, colon, rest = line.partition(": ")
    return [f"{name}\\", f": {rest}"] if colon else [line]


def clean(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    del app, name, thing, options
    lines[:] = readable(lines)
    if what in VALUES and lines:
        lines[:1] = whole(lines[0])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", clean, priority=400)  # before napoleon
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

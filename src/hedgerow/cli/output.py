"""Output of the command line: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment

from hedgerow.core.errors import InvalidValue
from hedgerow.core.text import visible


class _Visible:
    """A renderable whose text cannot command the terminal; styles and tables stay as they are."""

    def __init__(self, inner: ConsoleRenderable) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self._inner, options):
            yield Segment(text if control else visible(text), style, control)


class _ShowControls(RenderHook):
    """Shows control characters in names from files and users, instead of sending them."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Visible(renderable) for renderable in renderables]


class _Pipe(Console):
    """A console whose reader may close it: `hedgerow list | head` is no error."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


OUT = _Pipe(highlight=False, width=None if sys.stdout.isatty() else 120)
ERR = Console(stderr=True, highlight=False)
for _console in (OUT, ERR):
    _console.push_render_hook(_ShowControls())


def print_json(document: Any) -> None:
    """Print one valid JSON document and nothing else."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def say(text: str) -> None:
    """Print a line as it is, however long."""
    OUT.print(text, markup=False, soft_wrap=True)


def aside(text: str) -> None:
    """Print a line on standard error."""
    ERR.print(text, markup=False, soft_wrap=True)


def write_page(page: Path, text: str) -> None:
    """Write a page; an old one is replaced only when the new one is complete."""
    draft = page.with_name(f".{page.name}.draft")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.replace(page)
    except OSError as error:
        raise InvalidValue(f"Cannot write to {page}: {error.strerror}.") from error


@contextmanager
def progress_bar(title: str) -> Iterator[Any]:
    """Show a temporary bar on standard error; yields `update(description, done, total)`."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=ERR, transient=True, disable=not ERR.is_terminal) as bar:
        task = bar.add_task(title, total=None)

        def update(description: str, done: int, total: int) -> None:
            bar.update(task, description=description, completed=done, total=total)

        yield update


def print_indented(text: str, indent: int = 2, style: str | None = None, hanging: int = 0) -> None:
    """Print a paragraph so that wrapped lines keep its indent, or are `hanging` further right."""
    width = OUT.width - indent
    hang = " " * hanging
    lines = textwrap.wrap(
        text, width, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False
    )
    for line in lines:
        OUT.print(f"{' ' * indent}{line}", markup=False, soft_wrap=True, style=style)

"""A statement's page as Markdown."""

from __future__ import annotations

from hedgerow.statement.page import Block, Bullets, Grid, Page, Picture, Text


def escaped(text: str) -> str:
    """The text on one line, with every sign of markup escaped."""
    line = " ".join(text.split())
    for sign in ("\\", "|", "*", "`", "[", "]"):
        line = line.replace(sign, f"\\{sign}")
    return line.replace("<", "&lt;")


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(map(escaped, cells))} |"


def _block(block: Block) -> str:
    match block:
        case Text(text, loud):
            return f"**{escaped(text)}**" if loud else escaped(text)
        case Bullets(items):
            return "\n".join(f"* {escaped(item)}" for item in items)
        case Grid(head, rows):
            return "\n".join([_row(head), f"|{'---|' * len(head)}", *map(_row, rows)])
        case Picture(file, text):
            return f"![{escaped(text)}]({file})\n\n{escaped(text)}"


def markdown(page: Page) -> str:
    """The page as Markdown."""
    parts = [f"# {escaped(page.title)}"]
    if page.stamp is not None:
        parts.append(f"> **{page.stamp}**")
    parts.append(escaped(page.subtitle))
    for section in page.sections:
        parts += [f"## {escaped(section.heading)}", *(_block(block) for block in section.blocks)]
    if page.stamp is not None:
        parts.append(f"**{page.stamp}**")
    return "\n\n".join(parts) + "\n"

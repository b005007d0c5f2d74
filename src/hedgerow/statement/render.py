"""The page of a statement as HTML and as Markdown."""

from __future__ import annotations

import html as markup
import re

from hedgerow.core.text import visible
from hedgerow.statement.page import Block, Bullets, Grid, Page, Picture, Section, Text
from hedgerow.statement.words import is_loud

STYLE = """
@page { size: A4; margin: 5mm 8mm; }
* { box-sizing: border-box; }
body {
  font: 8pt/1.1 Helvetica, Arial, "Liberation Sans", "DejaVu Sans", sans-serif;
  color: #1b1b1b; margin: 0 auto; max-width: 194mm;
}
h1 { font-size: 12pt; line-height: 1.1; margin: 0 0 0.5mm; }
.subtitle { color: #555; margin: 0 0 1mm; }
.stamp {
  border: 0.5mm solid #b3261e; color: #b3261e; font-weight: bold; font-size: 10pt;
  text-align: center; padding: 0.4mm; margin: 0 0 1.2mm;
}
h2 { font-size: 9pt; margin: 0 0 0.5mm; color: #0b6e4f; border-bottom: 0.2mm solid #cfd8d4; }
section { break-inside: avoid; margin: 0 0 0.6mm; }
.columns { columns: 2; column-gap: 4mm; margin-bottom: 0.4mm; }
p { margin: 0 0 0.4mm; }
.loud { color: #b3261e; font-weight: bold; }
ul { margin: 0; padding-left: 3.2mm; }
table { border-collapse: collapse; width: 100%; margin: 0.4mm 0 0.9mm; }
th { text-align: left; font-weight: 600; color: #555; }
th, td { border-bottom: 0.15mm solid #ddd; padding: 0.1mm 1.2mm 0.1mm 0; vertical-align: top; }
.short { white-space: nowrap; }
.columns .short { white-space: normal; }
li { overflow-wrap: anywhere; }
.sign td { height: 5mm; width: 25%; }
svg { display: block; width: 100%; height: auto; max-height: 52mm; }
figure { margin: 0 0 0.6mm; }
figcaption { color: #555; }
@media screen { body { padding: 8mm; font-size: 9.5pt; max-width: 230mm; } }
"""
VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">'
SECOND = "Second page, for readers who calculate"
WHOLE = 12  # words of at most this many letters are not broken in a table


def escape(text: str) -> str:
    """The text for HTML: markup is escaped, and control characters are shown."""
    return markup.escape(visible(text))



def _cell(text: str) -> str:
    kind = ' class="loud"' if is_loud(text) else ' class="short"' if len(text) <= SHORT else ""
    return f"<td{kind}>{escape(text)}</td>"


def _html_block(block: Block, picture: str) -> str:
    match block:
        case Text(text, loud):
            return f'<p class="loud">{escape(text)}</p>' if loud else f"<p>{escape(text)}</p>"
        case Bullets(items):
            return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
        case Grid(head, rows):
            signing = ' class="sign"' if "signature" in head else ""
            body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
            top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
            return f"<table{signing}><tr>{top}</tr>{body}</table>"
        case Picture(_, text):
            return f"<figure>{picture}<figcaption>{escape(text)}</figcaption></figure>"


def _html_section(section: Section, picture: str) -> str:
    blocks = "\n".join(_html_block(block, picture) for block in section.blocks)
    return f"<section>\n<h2>{escape(section.heading)}</h2>\n{blocks}\n</section>"


def html(page: Page, picture: str) -> str:
    """The page as HTML, with `picture`, an SVG element, inside."""
    body = [f"<h1>{escape(page.title)}</h1>", f'<p class="subtitle">{escape(page.subtitle)}</p>']
    if page.stamp is not None:
        body.append(f'<p class="stamp">{escape(page.stamp)}</p>')
    narrow = False
    for section in page.sections:
        if section.wide == narrow:
            body.append("</div>" if narrow else '<div class="columns">')
            narrow = not narrow
        body.append(_html_section(section, picture))
    body.append("</div>" if narrow else "")
    head = f'<meta charset="utf-8">\n<title>{escape(page.title)}</title>\n<style>{STYLE}</style>'
    printed = "\n".join(body)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n'
        f"<body>\n{printed}\n</body>\n</html>\n"
    )


def escaped(text: str) -> str:
    """The text on one line, with every sign of markup escaped; names between backticks are code."""
    line = visible(" ".join(text.split()))
    parts = re.split(r"(`[^`]+`)", line)
    return "".join(
        part.replace("|", "\\|") if i % 2 else _literal(part) for i, part in enumerate(parts)
    )


def _literal(text: str) -> str:
    for sign in ("\\", "|", "*", "`", "[", "]"):
        line = line.replace(sign, f"\\{sign}")
    return line.replace("<", "&lt;")


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(map(escaped, cells))} |"


def _markdown_block(block: Block) -> str:
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
        parts += [
            f"## {escaped(section.heading)}",
            *(_markdown_block(block) for block in section.blocks),
        ]
    if page.stamp is not None:
        parts.append(f"**{page.stamp}**")
    return "\n\n".join(parts) + "\n"

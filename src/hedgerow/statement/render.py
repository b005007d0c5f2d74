"""The page of a statement as HTML and as Markdown."""

from __future__ import annotations

import re

from hedgerow.core.text import escape, visible
from hedgerow.statement.page import Block, Bullets, Grid, Page, Picture, Section, Text
from hedgerow.statement.words.phrases import is_loud

STYLE = """
@page { size: A4; margin: 8mm; }
* { box-sizing: border-box; }
body {
  font: 10.5pt/1.3 Helvetica, Arial, "Liberation Sans", "DejaVu Sans", sans-serif;
  color: #1b1b1b; margin: 0 auto; max-width: 194mm; overflow-wrap: anywhere;
}
h1 { font-size: 15pt; line-height: 1.15; margin: 0 0 1mm; }
.subtitle { color: #555; margin: 0 0 1mm; }
.stamp {
  border: 0.5mm solid #b3261e; color: #b3261e; font-weight: bold; font-size: 10pt;
  text-align: center; padding: 0.4mm; margin: 0 0 1.2mm;
}
h2 { font-size: 11.5pt; margin: 0 0 0.5mm; color: #0b6e4f; border-bottom: 0.2mm solid #cfd8d4; }
section { break-inside: avoid; margin: 0 0 3mm; }
.second { break-before: page; font-size: 8pt; line-height: 1.15; }
.second section { margin-bottom: 2mm; break-inside: auto; }
.second h2 { font-size: 9pt; }
p { margin: 0 0 0.4mm; }
.loud { color: #b3261e; font-weight: bold; }
ul { margin: 0; padding-left: 3.2mm; }
table { border-collapse: collapse; width: 100%; margin: 0.4mm 0 0.9mm; }
tr { break-inside: avoid; }
th { text-align: left; font-weight: 600; color: #555; }
th, td { border-bottom: 0.15mm solid #ddd; padding: 0.1mm 1.2mm 0.1mm 0; vertical-align: top; }
th, .whole { overflow-wrap: normal; }
code { font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 8pt; }
.sign td { height: 9mm; width: 25%; }
svg { display: block; width: 100%; height: auto; max-height: 52mm; }
figure { margin: 0 0 0.6mm; }
figcaption { color: #555; }
@media screen {
  body { padding: 8mm; max-width: 230mm; }
  .second { font-size: 9.5pt; }
  .second { border-top: 0.5mm solid #cfd8d4; margin-top: 6mm; padding-top: 6mm; }
}
@media screen and (max-width: 700px) {
  body { padding: 4mm; line-height: 1.3; }
  section { margin-bottom: 4mm; }
  table, tbody, tr, td { display: block; width: 100%; }
  tr { padding: 1mm 0; border-bottom: 0.15mm solid #ddd; }
  tr.head { display: none; }
  td, .sign td { border: 0; width: 100%; }
  td[data-head]::before { content: attr(data-head) ": "; color: #555; font-weight: 600; }
}
"""
VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">'
SECOND = "Further pages: conditions, and for readers who calculate"
WHOLE = 12  # words of at most this many letters are not broken in a table


def marked(text: str) -> str:
    """The text for HTML, in which names between backticks are code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _cell(head: str, text: str) -> str:
    """A cell; on a narrow screen the head of its column stands before it."""
    whole = all(len(word) <= WHOLE for word in text.split())
    kind = ' class="loud"' if is_loud(text) else ' class="whole"' if whole else ""
    above = f' data-head="{escape(head)}"' if head else ""
    return f"<td{kind}{above}>{marked(text)}</td>"


def _html_block(block: Block, picture: str) -> str:
    match block:
        case Text(text, loud):
            return f'<p class="loud">{marked(text)}</p>' if loud else f"<p>{marked(text)}</p>"
        case Bullets(items):
            return f"<ul>{''.join(f'<li>{marked(item)}</li>' for item in items)}</ul>"
        case Grid(head, rows):
            signing = ' class="sign"' if "signature" in head else ""
            body = "".join(f"<tr>{''.join(map(_cell, head, row))}</tr>" for row in rows)
            top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
            return f'<table{signing}><tr class="head">{top}</tr>{body}</table>'
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
    second = False
    for section in page.sections:
        if section.second and not second:
            body += ['<div class="second">', f'<p class="subtitle">{SECOND}</p>']
            second = True
        body.append(_html_section(section, picture))
    body += ["</div>"] * second
    title = f"<title>{escape(page.title)}</title>"
    head = f'<meta charset="utf-8">\n{VIEWPORT}\n{title}\n<style>{STYLE}</style>'
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
        text = text.replace(sign, f"\\{sign}")
    return text.replace("<", "&lt;")


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
        if section.second and f"*{SECOND}*" not in parts:
            parts += ["---", f"*{SECOND}*"]
        parts += [
            f"## {escaped(section.heading)}",
            *(_markdown_block(block) for block in section.blocks),
        ]
    if page.stamp is not None:
        parts.append(f"**{page.stamp}**")
    return "\n\n".join(parts) + "\n"

"""Pieces of HTML for live pages. Every piece escapes its text; a `Html` is already escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from hedgerow.core.text import escape as as_text

HERE = Path(__file__).parent
SAFE = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
"""The headers of every reply that a person may open, at the server and at a client."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: object) -> Html:
    """The text for HTML: markup is escaped, and control characters are shown.

    >>> escape("<b>"), escape(Html("<b>"))
    ('&lt;b&gt;', '<b>')
    """
    return text if isinstance(text, Html) else Html(as_text(text))


def element(name: str, *inside: object, **attributes: object) -> Html:
    """An element; `_` at the end of an attribute's name is dropped, other ones become `-`.

    >>> element("th", "a < b", scope="row", class_="wide")
    '<th scope="row" class="wide">a &lt; b</th>'
    """
    given = "".join(
        f' {key.removesuffix("_").replace("_", "-")}="{as_text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>{''.join(escape(part) for part in inside)}</{name}>")


def joined(*parts: object) -> Html:
    """Several pieces, one after the other."""
    return Html("".join(escape(part) for part in parts))


def code(text: object) -> Html:
    """A name or a number that readers copy."""
    return element("code", text)


def terms(rows: Iterable[tuple[str, object]]) -> Html:
    """A list of terms, each with its value."""
    return element(
        "dl",
        *(element("div", element("dt", term), element("dd", value)) for term, value in rows),
    )


def bullets(items: Iterable[object]) -> Html:
    """A list with bullets."""
    return element("ul", *(element("li", item) for item in items))


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """A table with a caption, a head, and the name of each row in its first cell.

    Roles are written out: on narrow screens the style takes the table apart.
    """
    body = (
        element(
            "tr",
            element("th", first, scope="row", data_head=head[0], role="rowheader"),
            *(
                element("td", cell, data_head=name, role="cell")
                for name, cell in zip(head[1:], rest, strict=True)
            ),
            role="row",
        )
        for first, *rest in rows
    )
    names = (element("th", name, scope="col", role="columnheader") for name in head)
    return element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *names, role="row"), role="rowgroup"),
        element("tbody", *body, role="rowgroup"),
        role="table",
    )


def swatch(colour: str) -> Html:
    """A small square of the colour that stands for a name in a picture."""
    square = element("rect", width=12, height=12, fill=colour)
    return element("svg", square, viewBox="0 0 12 12", class_="swatch", aria_hidden="true")


def part(name: str, inside: str) -> Html:
    """A place whose contents a script may replace."""
    return element("div", Html(inside), id=name)


def scroll(inside: object, label: str) -> Html:
    """A region that scrolls sideways, also by keyboard, if it is too wide."""
    return element("div", inside, class_="scroll", tabindex=0, role="region", aria_label=label)


def section(heading: object, *inside: object, name: str) -> Html:
    """A region of the page with its heading."""
    title = element("h2", heading, id=f"{name}-heading")
    return element("section", title, *inside, aria_labelledby=f"{name}-heading")


def mark(text: str, kind: str) -> Html:
    """A mark that says whether values stay on this machine ("stays") or were sent ("left")."""
    return element("span", text, class_=f"mark {kind}")


@cache
def _file(name: str) -> Html:
    return Html((HERE / name).read_text(encoding="utf-8"))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def policy() -> str:
    """The content policy of every page: its own style and script, and nothing from elsewhere."""
    style, script = _hash(_file("style.css")), _hash(_file("refresh.js"))
    return (
        f"default-src 'none'; style-src {style}; script-src {script}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


LIVE = "Without JavaScript this page does not update itself. Reload it to see the current state."


def page(
    title: str, header: object, main: object, footer: object, live: Mapping[str, str] | None = None
) -> bytes:
    """A whole page. `live` says where its script gets new parts: `events` or `poll`."""
    news = {f"data_{key}": value for key, value in (live or {}).items()}
    head = element(
        "head",
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{as_text(policy())}">'),
        Html('<link rel="icon" href="data:,">'),
        element("title", title),
        Html(f"<style>{_file('style.css')}</style>"),
    )
    waiting = element("p", LIVE, id="link", role="status", class_="quiet") if live else ""
    body = element(
        "body",
        element("a", "Skip to the contents", href="#main", class_="skip"),
        element("header", header, waiting),
        element("main", main, id="main"),
        element("footer", footer, class_="quiet"),
        Html(f"<script>{_file('refresh.js')}</script>") if live else "",
        **news,
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n".encode()

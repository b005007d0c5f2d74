"""The gallery as one HTML file.

The pictures are embedded. There are no scripts and no external files. In print, each experiment has
a page.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from hedgerow.core.text import escape
from hedgerow_papers.experiments.experiment import claim_words
from hedgerow_papers.experiments.gallery import Exhibit

MARK = '<meta name="generator" content="hedgerow gallery">'
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
STYLE = """
@page { size: A4; margin: 12mm; }
* { box-sizing: border-box; }
body { font: 10pt/1.4 Helvetica, Arial, "Liberation Sans", "DejaVu Sans", sans-serif;
  color: #1b1b1b; margin: 0 auto; max-width: 230mm; }
h1 { font-size: 18pt; margin: 0 0 2mm; }
h2 { font-size: 13pt; margin: 0 0 1mm; color: #0b6e4f; }
article { margin: 12mm 0 0; }
p { margin: 0 0 2mm; }
.muted { color: #555; }
.yes { color: #0b6e4f; font-weight: bold; }
.no, .error { color: #b3261e; font-weight: bold; }
.error { border-left: 1mm solid #b3261e; padding-left: 3mm; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; margin: 1mm 0 3mm; font-size: 8.5pt; }
thead { display: table-header-group; }
tr { break-inside: avoid; }
th { text-align: left; color: #555; font-weight: 600; }
th, td { border-bottom: 0.2mm solid #ddd; padding: 0.5mm 2mm 0.5mm 0; vertical-align: top;
  overflow-wrap: anywhere; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
figure { margin: 2mm 0; break-inside: avoid; }
img { display: block; max-width: 100%; max-height: 150mm; height: auto; width: auto; }
code { font: 9pt "DejaVu Sans Mono", Menlo, Consolas, monospace; background: #f2f4f3;
  padding: 0.3mm 1mm; overflow-wrap: anywhere; }
a { color: inherit; }
@media screen { body { padding: 8mm; } }
@media print { article { break-before: page; margin: 0; } code { background: none; } }
"""
WORDS = {True: ("yes", "yes"), False: ("no", "no"), None: ("not judged", "muted")}


def _word(value: bool | None) -> str:
    word, kind = WORDS[value]
    return f'<span class="{kind}">{word}</span>'


def _number(value: float | None, none: str = "-") -> str:
    return none if value is None else f"{value:.4g}"


def duration(seconds: float) -> str:
    """A duration in words.

    >>> duration(3.21), duration(75.0), duration(4000.0)
    ('3.2 s', '1 min 15 s', '1 h 7 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    return (
        f"{minutes} min {round(seconds) % 60} s"
        if minutes < 60
        else f"{round(seconds / 60) // 60} h {round(seconds / 60) % 60} min"
    )


def state(exhibit: Exhibit) -> str:
    """The word or two for the table: whether our expectations hold."""
    status, passed = exhibit.outcome["status"], exhibit.outcome["passed"]
    if status == "error":
        return "failed"
    if status == "no-data":
        return "no data"
    return "quick, not judged" if passed is None else "holds" if passed else "does not hold"


def _check(check: dict[str, Any]) -> str:
    numbers = (
        _number(check["published"]),
        _number(check["obtained"], "not finite"),
        check["op"],
        _number(check["limit"]),
    )
    cells = "".join(f'<td class="number">{escape(cell)}</td>' for cell in numbers)
    return f"<tr><td>{escape(check['name'])}</td>{cells}<td>{_word(check['passed'])}</td></tr>"


def _verdict(outcome: dict[str, Any]) -> str:
    if outcome["status"] in ("error", "no-data"):
        text = "Failed" if outcome["status"] == "error" else "Not run because its data is missing"
        return f'<p class="error">{text}: {escape(outcome["message"])}</p>'
    rows = "".join(map(_check, outcome["checks"]))
    heads = "".join(
        f'<th class="number">{head}</th>' for head in ("published", "obtained", "", "limit")
    )
    text = (
        f"The paper's claim {claim_words(outcome['holds'])}."
        f" Our expectations hold: {_word(outcome['passed'])}."
    )
    quick = " Quick: fewer seeds, shown but not judged." if outcome["status"] == "quick" else ""
    note = f'<p class="muted">Note: {escape(outcome["message"])}</p>' if outcome["message"] else ""
    return (
        f"<p>{text}{quick}</p>{note}<table><thead><tr><th>check</th>{heads}<th>passed</th></tr>"
        f"</thead><tbody>{rows}</tbody></table>"
    )


def _article(exhibit: Exhibit) -> str:
    outcome = exhibit.outcome
    took = f"Took {duration(exhibit.seconds)}" + (
        "" if exhibit.written is None else f", run of {exhibit.written}"
    )
    where = "" if outcome["run"] is None else f"; results in <code>{escape(outcome['run'])}</code>"
    sources = (
        f"data:image/png;base64,{b64encode(picture).decode()}" for picture in exhibit.pictures
    )
    figures = "".join(
        f'<figure><img src="{source}" alt="{escape(exhibit.title)}"></figure>' for source in sources
    )
    return (
        f'<article id="{escape(exhibit.id)}"><h2>{escape(exhibit.title)}</h2>'
        f"<p>Claim: {escape(exhibit.claim)}</p>{figures}{_verdict(outcome)}"
        f'<p class="muted">{took}{where}.</p>'
        f"<p><code>{escape(exhibit.command)}</code></p></article>"
    )


def _line(exhibit: Exhibit) -> str:
    kind = {"failed": "no", "does not hold": "no", "holds": "yes"}.get(state(exhibit), "muted")
    link = f'<a href="#{escape(exhibit.id)}">{escape(exhibit.id)}</a>'
    return (
        f"<tr><td>{link}</td><td>{escape(exhibit.title)}</td>"
        f"<td>{claim_words(exhibit.outcome['holds'])}</td>"
        f'<td class="{kind}">{state(exhibit)}</td>'
        f'<td class="number">{duration(exhibit.seconds)}</td></tr>'
    )


def html(exhibits: Sequence[Exhibit], made_by: str) -> str:
    """The whole page; `made_by` says when and with which version."""
    head = (
        f'<meta charset="utf-8">\n{MARK}\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Hedgerow: experiments</title>\n<style>{STYLE}</style>"
    )
    columns = "<th>experiment</th><th></th><th>claim</th><th>expectations</th><th>took</th>"
    lines = "\n".join(map(_line, exhibits))
    listed = (
        f"<table><thead><tr>{columns}</tr></thead><tbody>\n{lines}\n</tbody></table>"
        if exhibits
        else "<p>No experiment is registered.</p>"
    )
    articles = "\n".join(map(_article, exhibits))
    body = f'<h1>Experiments</h1>\n<p class="muted">{escape(made_by)}</p>\n{listed}\n{articles}'
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n'
        f"<body>\n{body}\n</body>\n</html>\n"
    )

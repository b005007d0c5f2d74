"""The page of a statement: sections of blocks, written as HTML and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hedgerow.core.rounding import rounded_up
from hedgerow.core.text import escape, visible
from hedgerow.privacy.curves.pure import bounded_range_words
from hedgerow.records.schema import CurveRecord, Total
from hedgerow.statement.exposure import SHOWN_ALARMS, exposure
from hedgerow.statement.statement import OPEN, Statement
from hedgerow.statement.words.attackers import audit_words, person_words, plain_words
from hedgerow.statement.words.conditions import (
    assumption_words,
    budget_words,
    code_words,
    collusion_words,
    composition_words,
    dropout,
    floating_point_words,
    horizon_words,
    ledger_words,
    only_here,
    purpose_words,
    recorded_words,
    trust_words,
    unprotected,
)
from hedgerow.statement.words.phrases import (
    DEFINITION,
    counted,
    curve_words,
    guarantee_words,
    in_range,
    is_loud,
    listed,
    neighbours,
    number,
    observer_words,
    pairs,
    percent,
    shown_setting,
    vocabulary,
)

PICTURE = "trade-off.svg"
ONLY_IF = "This holds only if what the next page lists under 'Holds only if' is true."
SIGNED = (
    "intended_use",
    "records_per_client",
    "clients_per_person",
    "contact",
    "legal_basis",
    "retention",
    "server_trusted_by",
    "expires",
)
WELL_BELOW = 0.9  # share of the chosen budget below which the page names both numbers


@dataclass(frozen=True)
class Text:
    """A paragraph; a `loud` one is a warning in bold, and red in HTML."""

    text: str
    loud: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list with bullets."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """A table with a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A picture with its caption."""

    file: str
    text: str


Block = Text | Bullets | Grid | Picture


@dataclass(frozen=True)
class Section:
    """A heading with its blocks.

    Conditions, and what only readers need who calculate, are on the second page (`second`).
    """

    heading: str
    blocks: tuple[Block, ...]
    second: bool = False


@dataclass(frozen=True)
class Page:
    """A statement, ready to render: a page to sign, then one for those who calculate."""

    title: str
    subtitle: str
    stamp: str | None
    sections: tuple[Section, ...]


def statement_page(statement: Statement) -> Page:
    """The page of a statement."""
    algorithm, run = statement.algorithm, statement.run
    name = (
        algorithm.algorithm
        if algorithm.label == algorithm.algorithm
        else f"{algorithm.label}: {algorithm.algorithm}"
    )
    subtitle = f"{name}, calibration {algorithm.calibration}; {recorded_words(statement)}"
    subtitle += f" as {run.title!r}, " if statement.title != run.title else ", "
    subtitle += f"statement of {statement.written}, expires {statement.details.text('expires')}"
    unit = f"Unit: {'; '.join(g.unit.words for g in statement.units)}. {person_words(statement)}"
    sections = [
        Section("What is protected", (Text(unit),)),
        Section(
            "In plain words",
            (
                *map(_text, plain_words(statement)),
                Text(ONLY_IF if statement.protecting else ""),
            ),
        ),
        Section("Who sees what, and what is guaranteed", (_observers(statement),)),
        Section("How well an attack can do", _attacks(statement)),
        Section("Sign-off", (Text(_open(statement), True), _sign_offs(statement))),
        *(replace(section, second=True) for section in _second(statement)),
    ]
    return Page(
        f"Privacy statement: {statement.title}",
        subtitle,
        statement.stamp,
        tuple(filter(None, map(_filled, sections))),
    )


def _second(statement: Statement) -> list[Section]:
    """The sections for readers who calculate: definitions, numbers, mechanisms, provenance."""
    curves = [curve_words(curve) for curve, _ in statement.protecting]
    definitions = (
        *(
            Text(
                f"Neighbours: {neighbours(g)}; "
                f"{statement.algorithm.record.charges} {in_range(g.bounds)}."
            )
            for g in statement.units
        ),
        Text(f"Guarantee: {DEFINITION}." if statement.protecting else ""),
        Text(bounded_range_words(curves)),
    )
    trust = f"{trust_words(statement)} {collusion_words(statement)} {dropout(statement)}"
    lasts = (*horizon_words(statement), composition_words(statement))
    return [
        Section("Holds only if", _assumptions(statement)),
        Section("Attacks in numbers", (_persons(statement),) if statement.protecting else ()),
        Section("For whom and for what", (Text(" ".join(purpose_words(statement))),)),
        Section("Trust and collusion", (Text(trust),)),
        Section("How long, and what adds up", (Bullets(lasts),)),
        Section("Not protected", (Bullets(tuple(unprotected(statement))),)),
        Section("Audit", (_text(audit_words(statement)),)),
        Section("Words", (Text(vocabulary(statement.algorithm)),)),
        Section("Definitions", definitions),
        Section("The whole guarantee", _trade_off(statement)),
        Section("Ledger", _ledger(statement)),
        Section("Parameters and mechanisms", _parameters(statement)),
        Section("Where it comes from", (_provenance(statement),)),
    ]


def _filled(section: Section) -> Section | None:
    """The section without empty texts; None if nothing is left."""
    blocks = tuple(
        block
        for block in section.blocks
        if not (isinstance(block, Text) and not block.text.strip())
    )
    return replace(section, blocks=blocks) if blocks else None


def _text(text: str) -> Text:
    """A paragraph that is loud if it is a warning."""
    return Text(text, is_loud(text))


def _observers(statement: Statement) -> Grid:
    published = statement.claimed is not None
    head = (
        "observer",
        "sees",
        *(("claimed by the paper", "proven here") if published else ("guarantee",)),
        "proof",
    )
    rows = []
    for guarantee in statement.algorithm.guarantees:
        claim = (
            ("" if guarantee.claimed is None else curve_words(guarantee.claimed),)
            if published
            else ()
        )
        who = observer_words(guarantee)
        rows.append(
            (
                who,
                ", ".join(guarantee.sees),
                *claim,
                guarantee_words(guarantee),
                guarantee.proof or "none",
            )
        )
    return Grid(head, tuple(rows))


def _columns(statement: Statement) -> list[tuple[str, CurveRecord, Total | None]]:
    """The curves in the tables, with their observers if they differ, and the paper's claim."""
    if len(statement.protecting) == 1:
        curve, members = statement.protecting[0]
        found = [("" if statement.claimed is None else ": proven", curve, members[0].total)]
    else:
        found = [
            (
                f": {listed([observer_words(g) for g in members])}",
                curve,
                members[0].total,
            )
            for curve, members in statement.protecting
        ]
    return found if statement.claimed is None else [*found, (": claimed", statement.claimed, None)]


def _attacks(statement: Statement) -> tuple[Block, ...]:
    if not statement.protecting:
        return (
            Text(
                "No guarantee holds against any observer: assume that an attack always succeeds.",
                True,
            ),
        )
    noun = statement.units[0].unit.noun
    about = "a person" if statement.by_person else f"a {noun}"
    caption = (
        f"An attack answers A or B about {about}; none gets above a line. "
        "Found: it answers B and B is true; false alarm: it answers B but A is true."
    )
    return (Picture(PICTURE, caption),)


def _trade_off(statement: Statement) -> tuple[Block, ...]:
    if not statement.protecting:
        return ()
    noun = statement.units[0].unit.noun
    return (
        Text(f"One {noun} in one run: delta at other values of epsilon."),
        *(_deltas(name, curve) for name, curve, _ in _columns(statement)),
    )


def _persons(statement: Statement) -> Grid:
    """How well the best attack on a person can do.

    All in 100: even bets won, and truths found at some rates of false alarms.
    """
    first, *others = (f"{share * 100:g}" for share in SHOWN_ALARMS)
    rows, approximate = [], any(curve.delta > 0 for _, curve, _ in _columns(statement))
    for name, curve, total in _columns(statement):
        for count in statement.counts if name != ": claimed" else (1,):
            shown = exposure(curve, total, count, statement.algorithm.separate)
            who = f"{_unit(statement, count)}{name}"
            rates = (shown.even_guess, *shown.found)
            point = (
                rounded_up(shown.epsilon, 3),
                *((rounded_up(shown.delta, 2),) if approximate else ()),
            )
            rows.append((who, *point, *(f"{percent(rate)} %" for rate in rates)))
    point = ("epsilon", "delta") if approximate else ("epsilon",)
    alarms = (f"found at {first} %", *(f"at {share} %" for share in others))
    return Grid(
        ("person with" if statement.by_person else "unit", *point, "bet won", *alarms), tuple(rows)
    )


def _unit(statement: Statement, count: int) -> str:
    """The records that a person has or, if the unit is not a record, the unit."""
    unit = statement.units[0].unit
    return counted(count, "record") if statement.by_person else f"one {unit.noun}"


def _deltas(name: str, curve: CurveRecord) -> Grid:
    """Delta against epsilon for one curve, as a row."""
    head = (f"epsilon{name}", *(rounded_up(point.epsilon, 3) for point in curve.table))
    return Grid(head, (("delta", *(rounded_up(point.delta, 3) for point in curve.table)),))


def _assumptions(statement: Statement) -> tuple[Block, ...]:
    if not statement.protecting:
        return ()
    texts = assumption_words(statement)
    assumed = Bullets(tuple(texts)) if texts else Text("The certificate names no assumption.")
    return (assumed, Text(only_here(statement), True))


def _choices(statement: Statement, choices: Mapping[str, Any], name: str) -> str:
    """The chosen parameters; if much of the budget is unused, also how much is needed."""
    asked, one = choices.get("epsilon"), statement.one_run
    if asked is None or one is None or one.epsilon > WELL_BELOW * asked:
        return pairs(choices, name)
    others = {key: value for key, value in choices.items() if key != "epsilon"}
    needed = (
        f"asked for at most epsilon = {number(asked)}; this choice needs {rounded_up(one.epsilon)}"
    )
    return f"{pairs(others, name)}; {needed}" if others else needed


def _parameters(statement: Statement) -> tuple[Block, ...]:
    algorithm = statement.algorithm
    name = str(algorithm.choices["name"])
    choices = {key: value for key, value in algorithm.choices.items() if key != "name"}
    derived = {
        key: value
        for key, value in algorithm.parameters.items()
        if key not in choices or choices[key] != value
    }
    texts = [f"Setting: {pairs(shown_setting(algorithm), name)}."]
    if choices:
        texts.append(f"Chosen: {_choices(statement, choices, name)}.")
    if derived:
        texts.append(f"Derived: {pairs(derived, name)}.")
    if not algorithm.mechanisms:
        return (Text(" ".join(texts)),)
    rows = tuple(
        (
            m.name,
            m.purpose,
            m.law,
            *("-" if value is None else number(value) for value in (m.scale, m.sensitivity)),
        )
        for m in algorithm.mechanisms
    )
    return (
        Text(" ".join(texts)),
        Grid(("mechanism", "purpose", "law", "scale", "sensitivity"), rows),
    )


def _provenance(statement: Statement) -> Bullets:
    run, floats = statement.run, floating_point_words(statement)
    secure = "secure" if run.noise.secure else "NOT SECURE"
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    return Bullets(
        (
            f"Noise: {run.noise.source}, {secure}: {run.noise.words}."
            + (f" Floating point: {floats}." if floats else ""),
            f"Versions: {versions}.",
            f"Code: {code_words(statement)}.",
            f"Run folder: {run.run}, written {run.written}, {statement.signature.words}. "
            f"{budget_words(statement)}",
        )
    )


def _ledger(statement: Statement) -> tuple[Block, ...]:
    """What the ledger of a deployment shows, and what its data set has spent in all studies."""
    ledger = statement.ledger
    if ledger is None:
        return ()
    shown = Bullets(tuple(ledger_words(statement)))
    if ledger.account is None or not ledger.account.charges:
        return (shown,)
    rows = tuple(
        (charge.time[:10], charge.title, charge.words, charge.study[:16])
        for charge in ledger.account.charges
    )
    return (shown, Grid(("joined", "study", "charged", "digest"), rows))


def _open(statement: Statement) -> str:
    """The open details, printed above the signatures: by name those that a signer needs."""
    names = [name.replace("_", " ") for name in statement.open if name in SIGNED]
    rest = len(statement.open) - len(names)
    if rest:
        names.append(f"{counted(rest, 'detail')} of the registry record")
    return f"Still open: {', '.join(names)}." if names else ""


def _sign_offs(statement: Statement) -> Grid:
    signing = list(statement.details.sign_offs) or [
        {"role": "Data protection officer", "name": ""},
        {"role": "Responsible for the data", "name": ""},
    ]
    if statement.trusts_server:
        who = statement.details.server_trusted_by
        signing.append({"role": "Yes: we trust the operator of the server", "name": who or ""})
    rows = tuple((who["role"], who["name"] or OPEN, "", "") for who in signing)
    return Grid(("role", "name", "date", "signature"), rows)


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


def statement_html(page: Page, picture: str) -> str:
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


def statement_markdown(page: Page) -> str:
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

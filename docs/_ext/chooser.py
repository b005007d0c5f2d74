"""The page "Choose an algorithm": chart and tables made from `choose.json`, a stored run of
`python -m hedgerow_papers.choose_chart`.
"""

from __future__ import annotations

import json
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

STORED = "choose.json"
TRUST = {
    ("central",): "You trust the server with exact sums of losses",
    (
        "distributed",
    ): "You trust the server only with the sum of noisy reports (secure aggregation)",
    ("local",): "You trust nobody: every report is noisy",
    ("distributed", "local"): "You do not trust the server with exact sums",
    ("central", "distributed", "local"): "Whatever you trust",
}
TALK = {
    "every round": "talk every round",
    "every 32 rounds": "talk every 32 rounds",
    "log2(T) exchanges": "talk about log2(T) times in all",
}
NOBODY = "none: more than half the regret of guessing"


def stored(home: Path) -> dict[str, Any]:
    return json.loads((home / STORED).read_text(encoding="utf-8"))


def leaves(table: dict[str, Any], labels: list[str], kind: dict[str, Any]) -> str:
    """The algorithms to take, with the regret on the worst stream of the kind."""
    if not labels:
        return f'<span class="leaf none">{NOBODY}</span>'
    rows = {row["label"]: row for row in table["rows"]}
    return "".join(
        leaf(label, number(max(rows[label]["regret"][name]["mean"] for name in kind["streams"])))
        for label in labels
    )


def leaf(label: str, regret: str) -> str:
    name, _, parameters = label.partition(", ")
    small = f" <small>{escape(parameters.replace('1e-06', '1e-6'))}</small>" if parameters else ""
    code = f'<code data-algorithm="{escape(name)}">{escape(name)}</code>'
    return f'<span class="leaf">{code}{small} <span class="regret">{escape(regret)}</span></span>'


def number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _same(
    table: dict[str, Any], kind: dict[str, Any], trust: str
) -> list[tuple[list[str], dict[str, Any]]]:
    """Frequencies of talk with the same answer, together."""
    some = [c for c in table["choices"] if (c["kind"], c["trust"]) == (kind["id"], trust)]
    groups = groupby(some, key=lambda c: (c["pure"], c["approximate"], c["proven"]))
    return [
        ([c["talk"] for c in members], members[-1])
        for _, group in groups
        if (members := list(group))
    ]


def chart(table: dict[str, Any]) -> str:
    """Three questions as nested boxes that fit a phone."""
    boxes = []
    for kind in table["kinds"]:
        made: list[str] = []
        seen: dict[str, list[str]] = {}
        for trust in table["trusts"]:
            answers = []
            for talks, choice in _same(table, kind, trust):
                when = (
                    "however often you talk"
                    if len(talks) == len(table["talks"])
                    else " or ".join(TALK[t] for t in talks)
                )
                lines = [leaves(table, choice["pure"], kind)]
                if choice["approximate"] != choice["pure"]:
                    lines.append(
                        f'<span class="also">with a delta:</span> {leaves(table, choice["approximate"], kind)}'
                    )
                if choice["proven"] is not None and choice["proven"] not in (
                    *choice["pure"],
                    *choice["approximate"],
                ):
                    proven = leaf(choice["proven"], f"at most {number(choice['proven_bound'])}")
                    lines.append(f'<span class="also">smallest proven bound:</span> {proven}')
                answer = "".join(f"<div>{line}</div>" for line in lines)
                answers.append(
                    f'<li><span class="when">{escape(when)}</span><div class="then">{answer}</div></li>'
                )
            seen.setdefault("".join(answers), []).append(trust)
        for answers, trusts in seen.items():
            made.append(
                f'<div class="trust"><p>{escape(TRUST[tuple(trusts)])}</p><ul>{answers}</ul></div>'
            )
        boxes.append(
            f'<section class="kind" id="if-{kind["id"]}"><h3>… {escape(kind["words"])}</h3>{"".join(made)}</section>'
        )
    questions = ("What do you know of the losses?", "Whom do you trust?", "How often can you talk?")
    head = "".join(
        f'<span class="question"><b>{place}</b> {text}</span>'
        for place, text in enumerate(questions, 1)
    )
    head = f'<div class="questions">{head}</div>'
    return f'<div class="chooser">{head}{"".join(boxes)}</div>'


def full_table(table: dict[str, Any], kind: dict[str, Any]) -> str:
    """Every algorithm on every stream of the kind, the best first; the worst stream of each is
    bold.
    """
    named = {
        label
        for c in table["choices"]
        if c["kind"] == kind["id"]
        for label in (*c["pure"], *c["approximate"])
    }
    rounds = {name: stream["horizon"] for name, stream in table["streams"].items()}

    def worst(row: dict[str, Any]) -> str:
        return max(kind["streams"], key=lambda name: row["regret"][name]["mean"])

    head = "".join(
        f"<th>{escape(text).replace('_', '_<wbr>')}</th>"
        for text in ("algorithm", "trust", "talk", *kind["streams"], "proven")
    )
    lines = []
    shown = [row for row in table["rows"] if row["only"] in (None, kind["id"])]
    for row in sorted(shown, key=lambda row: row["regret"][worst(row)]["mean"]):
        cells = []
        for name in kind["streams"]:
            cell = row["regret"][name]
            text = f"{number(cell['mean'])} ± {number(cell['half_width'])}"
            cells.append(
                f'<td class="number">{f"<strong>{text}</strong>" if name == worst(row) else text}</td>'
            )
        bounds = [row["bound"][name] for name in kind["streams"]]
        whole = all(
            bound is not None and bound < rounds[name]
            for bound, name in zip(bounds, kind["streams"], strict=True)
        )
        cells.append(f'<td class="number">{number(max(bounds)) if whole else "–"}</td>')
        mark = ' class="named"' if row["label"] in named else ""
        texts = (row["label"], row["trust"] or "not private", row["talk"])
        lines.append(
            f"<tr{mark}>{''.join(f'<td>{escape(text)}</td>' for text in texts)}{''.join(cells)}</tr>"
        )
    return f'<div class="wide"><table class="measured"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


class Chart(SphinxDirective):
    """`{choose-chart}`: the three questions."""

    def run(self) -> list[nodes.Node]:
        home = Path(self.env.srcdir)
        self.env.note_dependency(str(home / STORED))
        return [nodes.raw("", chart(stored(home)), format="html")]


class Measured(SphinxDirective):
    """`{choose-table} KIND`: the measured table of one kind of losses."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        home = Path(self.env.srcdir)
        self.env.note_dependency(str(home / STORED))
        table = stored(home)
        kind = next(kind for kind in table["kinds"] if kind["id"] == self.arguments[0])
        return [nodes.raw("", full_table(table, kind), format="html")]


class Origin(SphinxDirective):
    """`{choose-origin}`: what made the stored run."""

    def run(self) -> list[nodes.Node]:
        table = stored(Path(self.env.srcdir))
        text = f"Made by `{table['command']}` of version {table['version']}: {table['seeds']} seeds, epsilon = {table['epsilon']:g}."
        return self.parse_text_to_nodes(text)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("choose-chart", Chart)
    app.add_directive("choose-table", Measured)
    app.add_directive("choose-origin", Origin)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""The registry of claims: what the papers say, and what is true (`claims.toml`).

An experiment that judges a claim of a paper quotes it from here, so that no claim is reworded. The
documentation shows all of them on one page.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from hedgerow_papers.experiments.experiment import Holds

Verdict = Holds | Literal["not judged"]


@dataclass(frozen=True)
class Claim:
    """One claim of a paper.

    `holds` is about the claim as printed, under the privacy that it claims; "not judged" only where
    we lack the data or the constants of the paper. `privacy` is what the printed constants cost.
    `proof` is a file and an anchor; `experiment` or `command` shows it.
    """

    place: str
    quote: str
    holds: Verdict
    truth: str = ""
    privacy: str = ""
    proof: str = ""
    experiment: str = ""
    command: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper with its claims by name."""

    title: str
    note: str
    claims: Mapping[str, Claim]


@cache
def papers() -> dict[str, Paper]:
    """All papers by name."""
    found = {}
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    for name, table in tomllib.loads(text).items():
        title, note = table.pop("paper"), table.pop("note", "")
        found[name] = Paper(title, note, {key: Claim(**row) for key, row in table.items()})
    return found


def printed_claim(paper: str, name: str) -> str:
    """The words of a claim.

    >>> printed_claim("gao2024", "communication")
    'the communication cost scales in O(mdT/N)'
    """
    return papers()[paper].claims[name].quote


COLUMNS = (
    "as printed",
    "true as printed?",
    "under which epsilon",
    "ours",
    "proof or counter&shy;example",
    "command",
)


INTRODUCTION = """
This page lists the theorems and figures of the papers that Hedgerow builds on: each claim in the
words of the paper, whether it is true as printed under the privacy that it claims, what the printed
constants really cost, and how to check it. Everything here builds on the ideas of the authors, and
most corrections are small. If we misread a paper, please tell us.
""".strip()
MEANING = """
*With other constants* means that something near the claim is true; the column *ours* says what.
*Not judged* means that we lack the data or the constants of the paper. A dash under epsilon means
that the claim is not about privacy. The commands need `pip install ./papers` in a checkout.
""".strip()


def page() -> str:
    """All claims as one table of the documentation."""
    lines = [
        "# What the papers claim, and what is true",
        "",
        INTRODUCTION,
        "",
        f"{_counted()} {MEANING}",
        "",
        "````{container} claims",
        f"| {' | '.join(COLUMNS)} |",
        "|" + "---|" * len(COLUMNS),
    ]
    for paper in papers().values():
        lines.append(f"| **{paper.title}** {paper.note} |" + " |" * (len(COLUMNS) - 1))
        lines += [f"| {' | '.join(map(_cell, _row(c)))} |" for c in paper.claims.values()]
    return "\n".join([*lines, "````", ""])


def _counted() -> str:
    """How many claims have each verdict."""
    all_of_them = [claim.holds for paper in papers().values() for claim in paper.claims.values()]
    verdicts: tuple[Verdict, ...] = (*get_args(Holds), "not judged")
    parts = [f"{all_of_them.count(verdict)} {words(verdict)}" for verdict in verdicts]
    return f"Of {len(all_of_them)} claims, {', '.join(parts[:-1])} and {parts[-1]}."


def words(verdict: Verdict) -> str:
    """A verdict in the page.

    >>> words("no"), words("not judged")
    ('do not hold', 'are not judged')
    """
    if verdict == "no":
        return "do not hold"
    return "are not judged" if verdict == "not judged" else f"hold {verdict}"


def _row(claim: Claim) -> tuple[str, ...]:
    """The cells of a claim."""
    file, _, anchor = claim.proof.partition("#")
    seen = [
        f"[`hedgerow reproduce {claim.experiment}`](experiments.md#{claim.experiment})"
        if claim.experiment
        else "",
        f"`{claim.command}`" if claim.command else "",
    ]
    return (
        f"**{claim.place}.** “{claim.quote}”",
        "yes" if claim.holds == "as printed" else claim.holds,
        claim.privacy or "–",
        claim.truth or "The same.",
        f"[{anchor.replace('-', ' ')}](../proofs/{file}#{anchor})" if file else "–",
        "<br>".join(filter(None, seen)) or "–",
    )


def _cell(text: str) -> str:
    """Text that stays in its cell."""
    return text.replace("|", "\\|")

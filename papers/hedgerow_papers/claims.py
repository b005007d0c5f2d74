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

from hedgerow.experiments.experiment import Holds, claim_words


@dataclass(frozen=True)
class Claim:
    """One claim of a paper.

    `holds` is about the claim as printed, under the privacy that it claims. `privacy` is what the
    printed constants cost. `proof` is a file and an anchor; `experiment` or `command` shows it.
    """

    place: str
    quote: str
    holds: Holds
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


def page() -> str:
    """All claims as one page of the documentation."""
    lines = [
        "# What the papers claim, and what is true",
        "",
        "This page lists the theorems and figures that we checked: the claim in the words of the"
        " paper, whether it holds as printed under the privacy that it claims, what the printed"
        " constants really cost, and how to see it. Everything here builds on the ideas of the"
        " authors, and most corrections are small. If we misread a paper, please tell us.",
        "",
    ]
    for paper in papers().values():
        lines += [f"## {paper.title}", ""]
        lines += [paper.note, ""] if paper.note else []
        for claim in paper.claims.values():
            lines += [f"### {claim.place}", "", f"> {claim.quote}", "", _verdict(claim), ""]
    return "\n".join(lines)


def _verdict(claim: Claim) -> str:
    words = claim_words(claim.holds)
    parts = [f"**{words[:1].upper()}{words[1:]}.** {claim.truth}".strip()]
    if claim.privacy:
        parts.append(f"The printed constants cost {claim.privacy}.")
    seen = []
    if claim.proof:
        file, _, anchor = claim.proof.partition("#")
        seen.append(f"[proof](../proofs/{file}#{anchor})")
    if claim.experiment:
        seen.append(f"[`hedgerow reproduce {claim.experiment}`](experiments.md#{claim.experiment})")
    if claim.command:
        seen.append(f"`{claim.command}`")
    return " ".join([*parts, f"See {', '.join(seen)}." if seen else ""]).strip()

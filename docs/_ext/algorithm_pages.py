"""One page for each algorithm, and the table of all: what it is for, what it guarantees, how it did.

Everything comes from the code (docstring, certificate, bound, what a deployment says), from the
measurements of `choose.json`, and from the experiments in which the algorithm plays.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from math import log10
from pathlib import Path
from typing import Any

import hedgerow
from hedgerow.algorithms.registry import ALGORITHMS, variants
from hedgerow.cli.listing import grouped
from hedgerow.core.errors import HedgerowError
from hedgerow.core.protocol import Algorithm
from hedgerow.core.registry import EXPERIMENTS, PAPERS
from hedgerow.core.setting import Setting
from hedgerow.deployment.manifest import check_deployable
from hedgerow.engines.communication import communication

SETTING = Setting(clients=10, experts=100, horizon=512)
AGAINST = {
    "stochastic": "losses drawn from one law",
    "oblivious": "losses fixed in advance",
    "adaptive": "losses that react",
}
GALLERY = Path(__file__).parent.parent / "gallery"
DOT, ROW, LEFT, RIGHT = 4, 26, 130, 380  # names and 1000 fit at 13 px, as on a phone


@dataclass(frozen=True)
class Form:
    """An algorithm in one of its forms, and why it cannot be deployed; empty if it can."""

    name: str
    built: Algorithm
    refused: str


@lru_cache
def forms() -> dict[str, list[Form]]:
    """The forms of every algorithm, its default first, at the setting of all tables."""
    found: dict[str, list[Form]] = defaultdict(list)
    for name, spec in variants().items():
        built = spec.build(replace(SETTING, family=spec.traits.family or SETTING.family))
        try:
            check_deployable(built)
            refused = ""
        except HedgerowError as error:
            refused = str(error).partition("deployed: ")[2] or str(error).partition(" ")[2]
        found[built.name].append(Form(name.partition(", ")[2] or "default", built, refused))
    return dict(found)


@lru_cache
def played_in() -> dict[str, list[str]]:
    """The experiments in which each algorithm plays; those without their data are left out."""
    names = {kind: name for name, kind in ALGORITHMS.items()}
    found: dict[str, list[str]] = defaultdict(list)
    for id, experiment in EXPERIMENTS.items():
        try:
            studies = experiment.studies(True).values()
        except HedgerowError:
            continue
        for kind in {type(entry.algorithm) for study in studies for entry in study.algorithms}:
            if kind in names:
                found[names[kind]].append(id)
    return dict(found)


def summary(name: str) -> str:
    """What an algorithm does, in its own first sentence."""
    return (ALGORITHMS[name].__doc__ or "").strip().partition("\n")[0]


def _bound(built: Algorithm, link: str = "../proofs/") -> str:
    bound = built.claims.regret_bound
    if bound is None:
        return "none before the game"
    value = "the horizon" if bound.value >= SETTING.rounds else f"{bound.value:.3g}"
    proof = f"{link}{bound.proof.file}#{bound.proof.anchor}"
    return f"[{value}]({proof}), {AGAINST[bound.covers]}"


def _protects(guarantee: Any, link: str = "../proofs/") -> str:
    if not guarantee.protects:
        return "no guarantee"
    words, proof = guarantee.curve.words(), guarantee.proof
    return words if proof is None else f"[{words}]({link}{proof.file}#{proof.anchor})"


def _sent(built: Algorithm) -> str:
    found = communication(built)
    return "-" if found is None else f"{found.exchanges:,}"


def table() -> str:
    """All algorithms by what they are for."""
    lines = [
        "# All algorithms",
        "",
        "This page compares all algorithms, so that you can open the one you need. [Choose](../choose.md) ranks them for your setting.",
        "",
        "Bounds and exchanges are for 10 clients, 100 experts, 512 rounds and epsilon = 1, in the default form.",
        "",
    ]
    for heading, names in grouped("algorithms").items():
        lines += [f"## {heading[:1].upper()}{heading[1:]}", ""]
        lines += ["| algorithm | what it does | trust | regret bound | exchanges |", "|---|---|---|---|---|"]
        for name in names:
            trusts = ", ".join(dict.fromkeys(f.built.certificate.trust for f in forms()[name]))
            one = forms()[name][0].built
            cells = (f"[{name}](../algorithms/{name}.md)", summary(name), trusts, _bound(one), _sent(one))
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join([*lines, "```{toctree}", ":hidden:", ":glob:", "", "../algorithms/*", "```", ""])


def page(name: str, measured: dict[str, Any]) -> str:
    """The page of one algorithm."""
    kind, found = ALGORITHMS[name], forms()[name]
    lines = [f"# {name}", "", f"This page is about `{_python(kind)}`. {summary(name)}", ""]
    if kind.__module__.startswith(PAPERS):
        lines += ["It is in a plugin: run `pip install ./papers` in a checkout of Hedgerow.", ""]
    plain = name.removeprefix("proven_")  # the same with other constants
    lines += [chart(name, measured) or _picture(name) or chart(plain, measured), ""]
    lines += [
        "## At a glance",
        "",
        "At epsilon = 1 (or mu = 1) with 10 clients, 100 experts and 512 rounds:",
        "",
        "| form | trust | to the server | to others | regret bound | exchanges | can be deployed |",
        "|---|---|---|---|---|---|---|",
    ]
    for form in found:
        certificate = form.built.certificate
        cells = (
            *(form.name, certificate.trust, _protects(certificate.server)),
            *(_protects(certificate.peer), _bound(form.built), _sent(form.built)),
            f"no: {form.refused}" if form.refused else "yes",
        )
        lines.append(f"| {' | '.join(cells)} |")
    supports = sorted(feature.value for feature in found[0].built.supports)
    lines += ["", f"It allows {', '.join(supports)}." if supports else "Every client reports in every round, at once.", ""]
    lines += ["```text", f"hedgerow certify {name}     # for your own parameters", f"hedgerow audit {name}       # attack it", "```", ""]
    lines += ["## In full", "", "```{eval-rst}", f".. autoclass:: {_place(kind)}", "   :no-index:", "```", ""]
    if name in played_in():
        links = ", ".join(f"[{id}](../made/experiments.md#{id})" for id in played_in()[name])
        lines += ["## Experiments", "", f"It plays in {links}.", ""]
    return "\n".join(lines)


def _python(kind: type[Any]) -> str:
    exported = getattr(hedgerow, kind.__name__, None) is kind
    return f"hr.{kind.__name__}" if exported else f"{kind.__module__}.{kind.__name__}"


def _place(kind: type[Any]) -> str:
    exported = getattr(hedgerow, kind.__name__, None) is kind
    return f"hedgerow.{kind.__name__}" if exported else f"{kind.__module__}.{kind.__name__}"


def _picture(name: str) -> str:
    """The picture of the smallest experiment in which it plays."""
    shown = [id for id in played_in().get(name, ()) if (GALLERY / f"{id}.png").is_file()]
    if not shown:
        return ""
    others = played_in().values()
    id = min(shown, key=lambda id: sum(id in each for each in others))
    return f"[![{EXPERIMENTS[id].title}](../gallery/{id}.png)](../made/experiments.md#{id})\n\n*{EXPERIMENTS[id].title}.*"


def chart(name: str, measured: dict[str, Any]) -> str:
    """Its regret on every measured stream beside that of all others; empty if it is not measured."""
    rows = [row for row in measured["rows"] if row["only"] is None]
    own = [row for row in rows if row["algorithm"] == name]
    if not own:
        return ""
    streams = [one for one in measured["streams"] if one != "consensus_columns"]
    lines = []
    for place, stream in enumerate(streams):
        y = ROW * place + ROW / 2
        lines.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(stream)}</text>')
        lines.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}"/>')
        for row in sorted(rows, key=lambda row: row["algorithm"] == name):
            mine = row["algorithm"] == name
            x = _x(row["regret"][stream]["mean"])
            text = f"{row['label']}: {row['regret'][stream]['mean']:.3g}"
            lines.append(f'<circle class="{"mine" if mine else "other"}" cx="{x:.1f}" cy="{y}" r="{DOT if mine else DOT - 1}"><title>{escape(text)}</title></circle>')
    height = ROW * len(streams)
    for mark in (1, 10, 100, 1000):
        lines.append(f'<text x="{_x(mark):.1f}" y="{height + 14}" text-anchor="middle">{mark}</text>')
    lines.append(f'<text x="{LEFT - 10}" y="{height + 14}" text-anchor="end">regret</text>')
    what = f"Regret of {name} on {len(streams)} streams, beside that of all other algorithms"
    caption = f"*Regret on {len(streams)} streams (10 clients, 100 experts, 1024 rounds, epsilon = 1): {name} in colour, all other measured algorithms in grey; further left is better, and what is below 0.3 is at the edge. Point at a dot for its name.*"
    svg = f'<svg class="strip" viewBox="0 0 400 {height + 20}" role="img" aria-label="{what}">{"".join(lines)}</svg>'
    return f"```{{raw}} html\n{svg}\n```\n\n{caption}"


def _x(regret: float) -> float:
    """Where a regret is drawn, from 0.3 to 1000 on a logarithmic scale."""
    share = (log10(min(max(regret, 0.3), 1000.0)) - log10(0.3)) / (3 - log10(0.3))
    return LEFT + share * (RIGHT - LEFT)


def pages(measured: dict[str, Any]) -> dict[str, str]:
    """The page of every algorithm, by file name."""
    return {f"{name}.md": page(name, measured) for name in ALGORITHMS}



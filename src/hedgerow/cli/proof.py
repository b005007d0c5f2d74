"""`hedgerow proof NAME`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hedgerow import proofs
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.cli.options import Debug, Json
from hedgerow.cli.output import print_json, say
from hedgerow.core.errors import InvalidValue
from hedgerow.core.setting import Setting
from hedgerow.core.validate import nearest

GENERAL = ("composition.md", "mechanisms.md")


def proof(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A proof, an algorithm, or a citation such as sparse_vector.md#setting."
        ),
    ] = None,
    json: Json = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the Markdown source with its LaTeX formulas.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Print the proof that a certificate cites.

    Without a name, all proofs are listed. For a citation, only its section is shown.

    Example: hedgerow proof sparse_vector.md#whole-algorithm
    """
    if name is None:
        titles = {
            known: proofs.read(known).splitlines()[0].lstrip("# ") for known in proofs.names()
        }
        width = max(map(len, titles))
        lines = [f"{known:<{width}} {title}" for known, title in titles.items()]
        document: dict[str, Any] = {"proofs": titles}
    else:
        lines = [text if raw else proofs.in_unicode(text) for text in _texts(name)]
        document = {"name": name, "text": "\n".join(lines)}
    if json:
        print_json(document)
        return
    for line in lines:
        say(line)


def _texts(name: str) -> list[str]:
    """The texts to print: a section, a proof, or all proofs that an algorithm cites."""
    file, _, anchor = name.removeprefix("proofs/").partition("#")
    stem, known = file.removesuffix(".md"), proofs.names()
    if stem not in known and stem in ALGORITHMS:
        cited = _cited(stem)
        if cited:
            return cited
        raise InvalidValue(f"{stem} cites no proof because it guarantees nothing.")
    if stem not in known:
        text = f"Unknown proof {stem!r}; {nearest(stem, {*known, *ALGORITHMS})}"
        raise InvalidValue(" ".join(filter(None, (text, ALGORITHMS.what_to_install()))))
    try:
        return [proofs.read(stem, anchor or None)]
    except KeyError:
        headings = [
            line.lstrip("# ") for line in proofs.read(stem).splitlines() if line.startswith("#")
        ]
        hint = nearest(anchor, map(proofs.anchor_of, headings))
        raise InvalidValue(f"Unknown section {anchor!r} of {stem}.md; {hint}") from None


def _cited(algorithm: str) -> list[str]:
    """The proofs behind an algorithm's guarantees and regret bound; sections of general ones."""
    built = ALGORITHMS[algorithm]().build(Setting(clients=2, experts=2, horizon=8))
    found = [guarantee.proof for guarantee in built.certificate.guarantees]
    found += [] if built.claims.regret_bound is None else [built.claims.regret_bound.proof]
    cited = list(dict.fromkeys(one for one in found if one is not None))
    own = [one for one in cited if one.file not in GENERAL]
    return [
        proofs.read(file.removesuffix(".md")) for file in dict.fromkeys(o.file for o in own)
    ] + [one.read() for one in cited if one.file in GENERAL]

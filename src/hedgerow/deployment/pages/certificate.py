"""The whole certificate of a study as a page: guarantees, assumptions, mechanisms, parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.protocol import Algorithm
from hedgerow.deployment.manifest import Manifest
from hedgerow.deployment.pages.html import (
    Html,
    bullets,
    code,
    element,
    joined,
    page,
    scroll,
    section,
    table,
    terms,
)
from hedgerow.records.build import algorithm_record
from hedgerow.records.schema import GuaranteeRecord


def certificate_page(manifest: Manifest, algorithm: Algorithm) -> bytes:
    """The page.

    Parameters
    ----------
    manifest, algorithm
        The study, and the algorithm that `rebuild` returned for it.
    """
    choices = {"name": manifest.algorithm, **manifest.choices}
    record = algorithm_record(manifest.algorithm, algorithm, choices, "real")
    meanings = ALGORITHMS[manifest.algorithm].traits.meanings
    header = joined(
        element("p", element("a", "Back to the study", href="./")),
        element("h1", f"Certificate: {manifest.title}"),
        "" if manifest.private else element("p", manifest.words()[-1], class_="note loud"),
    )
    assumed = {name: text for g in record.guarantees for name, text in g.assumes.items()}
    main = joined(
        section(
            "The game",
            terms(
                [
                    ("algorithm", manifest.algorithm),
                    *_plain({**record.setting, **manifest.choices}),
                    ("trust", record.trust),
                ]
            ),
            name="game",
        ),
        *(
            section(f"What {_who(g.observer)} can learn", _guarantee(g), name=g.observer)
            for g in record.guarantees
        ),
        section(
            "Assumptions",
            bullets(joined(code(name), ": ", text) for name, text in sorted(assumed.items())),
            name="assumptions",
        ),
        section(
            "Noise",
            scroll(
                table(
                    "Every draw of noise that protects",
                    ("mechanism", "purpose", "law", "scale", "sensitivity"),
                    (
                        (m.name, m.purpose, m.law, _number(m.scale), _number(m.sensitivity))
                        for m in record.mechanisms
                    ),
                ),
                "Noise",
            ),
            name="noise",
        ),
        section(
            "Derived parameters",
            scroll(
                table(
                    "From the choices",
                    ("name", "value", "meaning"),
                    [
                        (name, value, meanings.get(name, ""))
                        for name, value in _plain(record.parameters)
                    ],
                ),
                "Derived parameters",
            ),
            name="parameters",
        ),
        section("Who signs", _signers(manifest), name="signers"),
    )
    footer = joined(
        element("p", f"Study {manifest.digest.hex()}, the SHA-256 of the manifest."),
        element(
            "p", f"Hedgerow {manifest.version}, fingerprint {manifest.resolved['fingerprint']}"
        ),
    )
    return page(f"Certificate: {manifest.title}", header, main, footer)


def _who(observer: str) -> str:
    return {"peer": "another client", "public": "the public"}.get(observer, f"the {observer}")


def _guarantee(guarantee: GuaranteeRecord) -> Html:
    rows: list[tuple[str, object]] = [("Sees", ", ".join(guarantee.sees))]
    if guarantee.curve is None:
        text = f"No guarantee: {guarantee.reason}."
        return joined(element("p", text, class_="note loud"), terms(rows))
    rows += [
        ("Guarantee", guarantee.curve.words),
        ("Protects", joined(guarantee.unit.words, _helpers(guarantee.colluding))),
        ("Neighbours", guarantee.adjacency),
        ("Assumes", ", ".join(sorted(guarantee.assumes)) or "nothing"),
        ("Proof", "none" if guarantee.proof is None else code(guarantee.proof)),
    ]
    return terms(rows)


def _helpers(count: int) -> Html:
    others = "1 other client helps" if count == 1 else f"{count} other clients help"
    return element("small", f"even if {others} the observer") if count else Html()


def _signers(manifest: Manifest) -> Html:
    rows = [("the server", code(manifest.server))]
    keys = sorted(manifest.roster.items())
    rows += [(name, code(key) if key else "an open seat") for name, key in keys]
    return scroll(table("Public keys (Ed25519)", ("party", "key"), rows), "Who signs")


def _plain(values: Mapping[str, Any]) -> list[tuple[str, object]]:
    return [(key, _number(value)) for key, value in values.items()]


def _number(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)

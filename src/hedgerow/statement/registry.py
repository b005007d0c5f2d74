"""The record for the OpenDP Deployments Registry, by the fields and values of its schema."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from hedgerow.core.extras import needs
from hedgerow.core.rounding import rounded_up
from hedgerow.core.text import visible
from hedgerow.records.schema import CurveRecord
from hedgerow.statement.statement import OPEN, Statement
from hedgerow.statement.words.attackers import audit_words, person_words
from hedgerow.statement.words.conditions import (
    assumption_words,
    code_words,
    collusion_words,
    composition_words,
    dropout,
    floating_point_words,
    horizon_words,
    ledger_words,
    only_here,
    trust_words,
    unprotected,
)
from hedgerow.statement.words.phrases import (
    claim_words,
    counted,
    curve_words,
    follows,
    guarantee_words,
    in_range,
    in_rounds,
    listed,
    neighbours,
    number,
    observer_words,
    option,
    pairs,
    player,
)

with needs("statement"):
    import yaml


def registry_variant(statement: Statement) -> str:
    """The kind of differential privacy, as the registry names it."""
    found = {_variant(curve) for curve, _ in statement.protecting}
    return found.pop() if len(found) == 1 else "Custom"


def _variant(curve: CurveRecord) -> str:
    if curve.kind == "GaussianDP":
        return "Custom"
    if curve.kind == "ZeroConcentratedDP":
        return "Zero-concentrated DP"
    return "Pure DP" if curve.delta == 0 else "Approximate DP"


def registry_record(statement: Statement) -> dict[str, Any]:
    """Every field of every tier.

    What the software cannot know is open; the registry refuses the record until it is filled in.
    """
    algorithm, details = statement.algorithm, statement.details
    units = statement.units
    clients = algorithm.clients
    stamp = "" if statement.stamp is None else f"{statement.stamp}. "
    return {
        "url_slug": re.sub(
            r"[^a-z0-9]+", "-", f"{statement.title} {algorithm.label}".lower()
        ).strip("-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": statement.title,
                "data_curators": [
                    {"data_curator_name": c["name"], "data_curator_type": c["type"]}
                    for c in details.data_curators
                ]
                or [{"data_curator_name": OPEN, "data_curator_type": OPEN}],
                "intended_use": details.text("intended_use"),
                "data_product_type": details.text("data_product_type"),
                "data_product_region": details.text("data_product_region"),
                "description": stamp + details.text("description"),
                "publication_date": details.text("publication_date"),
                "data_product_sector": details.text("data_product_sector"),
            },
            "dp_variant": {
                "variant_name": registry_variant(statement),
                "data_domain": _domain(statement),
                "unprotected_quantities": _lines(unprotected(statement)),
            },
            "privacy_loss": {
                "privacy_unit": "; ".join(g.unit.words for g in units),
                "privacy_unit_details": f"{'; '.join(map(neighbours, units))}. "
                f"{person_words(statement)}",
                "privacy_parameters": _numbers(statement),
                "privacy_parameters_details": _lines(_parameter_details(statement)),
            },
            "deployment_model": {
                "model_name": "Federated" if clients > 1 else "Central",
                "model_name_details": f"{trust_words(statement)} "
                f"{collusion_words(statement)} {dropout(statement)}",
                "actors": _lines(
                    f"{observer_words(g)} sees {', '.join(g.sees)}: {guarantee_words(g)}"
                    for g in algorithm.guarantees
                ),
                "release_type": "Many releases",
                "release_type_details": " ".join(horizon_words(statement)),
                "data_source_type": "Dynamic",
                "access_type": "Non-interactive",
                "access_type_details": "Nobody can ask questions; "
                "what is released follows a protocol fixed in advance.",
            },
            "accounting": {
                "post_processing": f"{player(algorithm).capitalize()}s "
                f"{follows(algorithm)} what the server broadcasts; "
                "nothing else is computed from the data after the noise.",
                "composition": composition_words(statement),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": details.text("preprocessing"),
                "mechanisms": _lines(_mechanisms(statement)),
                "justification": details.text("justification"),
            },
            "administrative": {
                "sources": details.text("sources"),
                "notes": _lines(_notes(statement)),
                "registry_authors": list(details.registry_authors) or [OPEN],
            },
        },
    }


def _domain(statement: Statement) -> str:
    """What the data are, and the range of a single loss or gain."""
    algorithm, bounds = statement.algorithm, statement.units[0].bounds
    record, noun = algorithm.record, option(algorithm)
    size = algorithm.setting[f"{noun}s"]
    what = (
        f"{record.charges} of {size} {noun}s"
        if algorithm.plays == "expert"
        else f"{record.plural}, with points of {counted(size or 0, noun)},"
    )
    where = f"at {algorithm.clients} clients {in_rounds(algorithm)}"
    return f"streams of {what} {where}, each {record.charge} {in_range(bounds)}"


def _numbers(statement: Statement) -> dict[str, float]:
    """For one unit, all runs on the same data together; numbers that do not exist are left out."""
    point = statement.all_runs
    if point is None:
        return {}
    rhos = [(g.total or g.curve).rho for g in statement.algorithm.guarantees if g.curve is not None]
    known = [rho for rho in rhos if rho is not None]
    found = {"epsilon": float(point.epsilon), "delta": float(point.delta)}
    return {**found, "rho": float(max(known))} if len(known) == len(rhos) else found


def _parameter_details(statement: Statement) -> list[str]:
    lines = (
        []
        if statement.all_runs is None
        else [f"the parameters are for {'; '.join(g.unit.words for g in statement.units)}"]
    )
    if statement.lead > 1 and lines:
        lines.append(person_words(statement))
    for curve, members in statement.protecting:
        who = listed([observer_words(g) for g in members])
        lines.append(f"against {who}: {curve_words(curve)} (proof: {members[0].proof})")
        row = "; ".join(
            f"{rounded_up(point.delta, 3)} at {rounded_up(point.epsilon, 3)}"
            for point in curve.table
        )
        lines.append(f"delta at epsilon: {row}")
        if members[0].total is not None:
            lines.append(
                f"all {members[0].total.runs} runs on the same data together: "
                f"{members[0].total.words}"
            )
    lines += [f"against {observer_words(g)}: {guarantee_words(g)}" for g in statement.unguarded]
    if statement.claimed is not None:
        lines.append(claim_words(statement))
    name = str(statement.algorithm.choices["name"])
    lines.append(f"chosen: {pairs(statement.algorithm.choices, name)}")
    if statement.algorithm.parameters:
        lines.append(f"derived: {pairs(statement.algorithm.parameters, name)}")
    return lines


def _mechanisms(statement: Statement) -> list[str]:
    run = statement.run
    lines = [
        f"{m.name} ({m.purpose}): law {m.law}, "
        f"scale {'-' if m.scale is None else number(m.scale)}, "
        f"sensitivity {'-' if m.sensitivity is None else number(m.sensitivity)}"
        for m in statement.algorithm.mechanisms
    ] or ["no mechanism draws noise that protects"]
    return [
        *lines,
        f"library: {', '.join(f'{name} {version}' for name, version in run.versions.items())}",
        f"noise: {run.noise.source}, {'secure' if run.noise.secure else 'NOT SECURE'}: "
        f"{run.noise.words}",
        f"floating point: {floating_point_words(statement) or 'nothing is guaranteed'}",
        "timing: when clients talk is part of what observers see, and is covered; "
        "the time a computation takes is not",
        f"security of the data: {statement.details.text('security')}",
        f"code: {code_words(statement)}",
    ]


def _notes(statement: Statement) -> list[str]:
    details = statement.details
    lines = [] if statement.stamp is None else [statement.stamp]
    lines += [] if details.notes is None or not details.notes.strip() else [details.notes.strip()]
    lines += [f"assumes: {text}" for text in assumption_words(statement)]
    only = only_here(statement)
    lines += [f"assumes: {only}"] if only else []
    lines += ledger_words(statement)
    return [*lines, f"audit: {audit_words(statement)}", f"expires: {details.text('expires')}"]


def _lines(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _text)


def registry_yaml(statement: Statement) -> str:
    """The record as a YAML file; the first line of a simulation is its stamp."""
    first = "" if statement.stamp is None else f"# {statement.stamp}\n"
    return first + visible(
        yaml.dump(
            registry_record(statement),
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=120,
        )
    )

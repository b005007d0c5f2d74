"""The record for the OpenDP Deployments Registry, in its tiers and with its values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

from hedgerow.privacy.curves.pure import rounded_up
from hedgerow.records.schema import CurveRecord
from hedgerow.statement import words
from hedgerow.statement.details import OPEN
from hedgerow.statement.page import number, pairs
from hedgerow.statement.statement import Statement


def variant(statement: Statement) -> str:
    found = {_variant(curve) for curve, _ in statement.protecting}
    return found.pop() if len(found) == 1 else "Custom"


def _variant(curve: CurveRecord) -> str:
    if curve.kind == "GaussianDP":
        return "Custom"
    if curve.kind == "ZeroConcentratedDP":
        return "Zero-concentrated DP"
    return "Pure DP" if curve.delta == 0 else "Approximate DP"


def record(statement: Statement) -> dict[str, Any]:
    """Every field of every tier. What the software cannot know is open, and the registry's check refuses it until it is filled in."""
    algorithm, details = statement.algorithm, statement.details
    units = statement.units
    rounds, clients = algorithm.setting["horizon"], algorithm.setting["clients"]
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
                "intended_use": details.said("intended_use"),
                "data_product_type": details.said("data_product_type"),
                "data_product_region": details.said("data_product_region"),
                "description": stamp + details.said("description"),
                "publication_date": details.said("publication_date"),
                "data_product_sector": details.said("data_product_sector"),
            },
            "dp_variant": {
                "variant_name": variant(statement),
                "data_domain": f"streams of losses of {algorithm.setting['experts']} experts at {clients} clients in {rounds} rounds, "
                f"each loss in [{units[0].bounds[0]:g}, {units[0].bounds[1]:g}]",
                "unprotected_quantities": _lines(words.unprotected(statement)),
            },
            "privacy_loss": {
                "privacy_unit": "; ".join(g.unit.words for g in units),
                "privacy_unit_details": f"{'; '.join(map(words.neighbours, units))}. {words.person_words(statement)}",
                "privacy_parameters": _numbers(statement),
                "privacy_parameters_details": _lines(_parameter_details(statement)),
            },
            "deployment_model": {
                "model_name": "Federated" if clients > 1 else "Central",
                "model_name_details": f"{words.TRUST.get(algorithm.trust, algorithm.trust)} {words.collusion_words(statement)} "
                f"{words.dropout(statement)}",
                "actors": _lines(
                    f"{words.observer_words(g)} sees {', '.join(g.sees)}: {words.guarantee_words(g)}"
                    for g in algorithm.guarantees
                ),
                "release_type": "Many releases",
                "release_type_details": " ".join(words.horizon_words(statement)),
                "data_source_type": "Dynamic",
                "access_type": "Non-interactive",
                "access_type_details": "Nobody can ask questions; what is released follows a protocol fixed beforehand.",
            },
            "accounting": {
                "post_processing": "Sites follow what the server broadcasts; nothing else is computed from the data after the noise.",
                "composition": words.composition_words(statement),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": details.said("preprocessing"),
                "mechanisms": _lines(_mechanisms(statement)),
                "justification": details.said("justification"),
            },
            "administrative": {
                "sources": details.said("sources"),
                "notes": _lines(_notes(statement)),
                "registry_authors": list(details.registry_authors) or [OPEN],
            },
        },
    }


def _numbers(statement: Statement) -> dict[str, float]:
    """For one unit, all runs on the same data together; the registry leaves out a number that does not exist."""
    point = statement.all_runs
    if point is None:
        return {}
    rhos = [(g.total or g.curve).rho for g in statement.algorithm.guarantees if g.curve is not None]
    known = [rho for rho in rhos if rho is not None]
    found = {"epsilon": float(point.epsilon), "delta": float(point.delta)}
    return {**found, "rho": float(max(known))} if len(known) == len(rhos) else found


def _parameter_details(statement: Statement) -> list[str]:
    told = (
        []
        if statement.all_runs is None
        else [f"the parameters are for {'; '.join(g.unit.words for g in statement.units)}"]
    )
    if statement.lead > 1 and told:
        told.append(words.person_words(statement))
    for curve, members in statement.protecting:
        who = words.listed([words.observer_words(g) for g in members])
        told.append(f"against {who}: {words.curve_words(curve)} (proof: {members[0].proof})")
        row = "; ".join(
            f"{rounded_up(point.delta, 3)} at {rounded_up(point.epsilon, 3)}"
            for point in curve.table
        )
        told.append(f"delta at epsilon: {row}")
        if members[0].total is not None:
            told.append(
                f"all {members[0].total.runs} runs on the same data together: {members[0].total.words}"
            )
    told += [
        f"against {words.observer_words(g)}: {words.guarantee_words(g)}"
        for g in statement.unguarded
    ]
    if statement.claimed is not None:
        told.append(words.claim_words(statement))
    name = str(statement.algorithm.choices["name"])
    told.append(f"chosen: {pairs(statement.algorithm.choices, name)}")
    if statement.algorithm.parameters:
        told.append(f"derived: {pairs(statement.algorithm.parameters, name)}")
    return told


def _mechanisms(statement: Statement) -> list[str]:
    run = statement.run
    told = [
        f"{m.name} ({m.purpose}): law {m.law}, scale {'-' if m.scale is None else number(m.scale)}, "
        f"sensitivity {'-' if m.sensitivity is None else number(m.sensitivity)}"
        for m in statement.algorithm.mechanisms
    ] or ["no mechanism draws noise that protects"]
    return [
        *told,
        f"library: {', '.join(f'{name} {version}' for name, version in run.versions.items())}",
        f"noise: {run.noise.source}, {'secure' if run.noise.secure else 'NOT SECURE'}: {run.noise.words}",
        f"floating point: {words.floating_point_words(statement) or 'nothing is guaranteed'}",
        "timing: when sites talk is part of what observers see, and covered; the time a computation takes is not",
        f"security of the data: {statement.details.said('security')}",
        f"code: {words.code_words(statement)}",
    ]


def _notes(statement: Statement) -> list[str]:
    details = statement.details
    told = [] if statement.stamp is None else [statement.stamp]
    told += [] if details.notes is None or not details.notes.strip() else [details.notes.strip()]
    told += [f"assumes: {told}" for told in words.assumption_words(statement)]
    told += [f"assumes: {words.ONE_GAME}"] if words.one_game(statement) else []
    return [*told, f"audit: {words.audit_words(statement)}", f"expires: {details.said('expires')}"]


def _lines(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _text)


def to_yaml(statement: Statement) -> str:
    """The record as a YAML file; a simulation says so in its first line."""
    first = "" if statement.stamp is None else f"# {statement.stamp}\n"
    return first + yaml.dump(
        record(statement), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120
    )

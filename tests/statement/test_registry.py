"""The registry record has the fields and values of the registry's schema."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from hedgerow.statement.registry import registry_yaml
from hedgerow.statement.statement import OPEN, read_details
from support.statements import EXAMPLE, TODAY, Stated

SCHEMA: dict[str, dict[str, Any]] = {
    "basic": {
        "name": str,
        "data_curators": list,
        "intended_use": str,
        "data_product_type": str,
        "data_product_region": str,
        "description": str,
        "publication_date": str,
        "data_product_sector": str,
    },
    "dp_variant": {
        "variant_name": ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
        "data_domain": str,
        "unprotected_quantities": str,
    },
    "privacy_loss": {
        "privacy_unit": str,
        "privacy_unit_details": str,
        "privacy_parameters": {"epsilon", "delta", "rho"},
        "privacy_parameters_details": str,
    },
    "deployment_model": {
        "model_name": ("Local", "Central", "Shuffle", "Federated", "Varies"),
        "model_name_details": str,
        "actors": str,
        "release_type": ("One release", "Many releases"),
        "release_type_details": str,
        "data_source_type": ("Static", "Dynamic"),
        "access_type": ("Interactive", "Non-interactive"),
        "access_type_details": str,
    },
    "accounting": {"post_processing": str, "composition": str},
    "implementation": {
        "preprocessing_and_hyperparameter_tuning": str,
        "mechanisms": str,
        "justification": str,
    },
    "administrative": {"sources": str, "notes": str, "registry_authors": list},
}


@pytest.mark.parametrize("label", ["pure", "approximate", "published", "uniform", "hedge"])
@pytest.mark.parametrize("details", [None, EXAMPLE])
def test_the_registry_record_has_every_field(
    stated: Stated, label: str, details: Path | None
) -> None:
    registered = yaml.safe_load(registry_yaml(stated(label, read_details(details, TODAY))))
    assert set(registered) == {"url_slug", "status", "tier", "deployment"}
    deployment = registered["deployment"]
    assert list(deployment) == list(SCHEMA)
    for tier, fields in SCHEMA.items():
        assert set(deployment[tier]) == set(fields), tier
        for name, rule in fields.items():
            value = deployment[tier][name]
            if isinstance(rule, tuple):
                assert value in rule, name
            elif isinstance(rule, set):
                assert set(value) <= rule
                assert all(type(number) is float for number in value.values())
            else:
                assert isinstance(value, rule), name
                assert value, name
    assert registered["status"] in ("Draft", "Pending", "Changes Required", "Approved")
    assert registered["tier"] in (1, 2, 3)
    assert re.fullmatch(r"[a-z0-9-]+", registered["url_slug"])
    assert all(
        set(curator) == {"data_curator_name", "data_curator_type"}
        for curator in deployment["basic"]["data_curators"]
    )
    assert all(
        isinstance(author, str) for author in deployment["administrative"]["registry_authors"]
    )
    published = deployment["basic"]["publication_date"]
    assert published == OPEN if details is None else date.fromisoformat(published)
    assert deployment["deployment_model"]["model_name"] == "Federated"
    assert (deployment["basic"]["intended_use"] == OPEN) == (details is None)

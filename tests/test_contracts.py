"""Every registered algorithm keeps every contract, and every contract catches an algorithm that breaks it."""

from __future__ import annotations

from typing import Any

import pytest

from broken import BROKEN
from hedgerow.algorithms.experts.sparse_vector import SparseVector
from hedgerow.algorithms.registry import variants
from hedgerow.contracts.suite import CONTRACTS, examine

SPECS: dict[str, Any] = dict(variants())
SPECS["sparse_vector, published"] = SparseVector(calibration="published", epsilon=100.0)
SPECS["sparse_vector, approximate"] = SparseVector(epsilon=20.0, delta=1e-3)
SPECS["sparse_vector, approximate, published"] = SparseVector(calibration="published", epsilon=50.0, delta=1e-3)
SPECS["sparse_vector, every 3"] = SparseVector(every=3, epsilon=20.0)
QUICK = ("same on every engine", "same for every block", "causal", "pure", "resumable", "covers every message", "sensitivities hold")


def _cases() -> list[tuple[str, str]]:
    """The full suite for every registered algorithm; the quick contracts for further variants."""
    return [(a, c) for a in SPECS for c in (CONTRACTS if a in variants() else QUICK)]


@pytest.mark.parametrize(("algorithm", "contract"), _cases())
def test_algorithm_keeps_contract(algorithm: str, contract: str) -> None:
    outcome = examine(contract, SPECS[algorithm])
    if outcome.status == "not applicable":
        pytest.skip(f"not applicable: {outcome.detail}")
    assert outcome.status == "holds", outcome.detail


@pytest.mark.parametrize("name", BROKEN)
def test_contract_catches(name: str) -> None:
    contract, spec = BROKEN[name]
    outcome = examine(contract, spec)
    assert outcome.status == "broken", outcome


def test_every_contract_has_a_broken_algorithm() -> None:
    caught = {contract for contract, _ in BROKEN.values()}
    assert caught == set(CONTRACTS)

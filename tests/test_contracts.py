"""Every registered algorithm keeps every contract, and every contract catches an algorithm that breaks it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from broken import BROKEN
from hedgerow.algorithms.experts.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.experts.sparse_vector import SparseVector
from hedgerow.algorithms.registry import ALGORITHMS, variants
from hedgerow.contracts.outcome import same
from hedgerow.contracts.recording import RecordingNoise
from hedgerow.contracts.suite import CONTRACTS, ON_BOTH_SOURCES, examine
from hedgerow.core.noise import SeededNoise
from hedgerow.core.transcript import Everything
from hedgerow.engines.simulate import EngineName, simulate
from hedgerow.environments.switching import Switching
from honest import HONEST, NoisySums

SPECS: dict[str, Any] = dict(variants())
SPECS["sparse_vector, published"] = SparseVector(calibration="published", epsilon=100.0)
SPECS["sparse_vector, approximate"] = SparseVector(epsilon=20.0, delta=1e-3)
SPECS["sparse_vector, approximate, published"] = SparseVector(calibration="published", epsilon=50.0, delta=1e-3)
SPECS["sparse_vector, every 3"] = SparseVector(every=3, epsilon=20.0)
SPECS["shrinking_dartboard, every 3"] = ShrinkingDartboard(every=3, epsilon=20.0, delta=1e-6)
QUICK = ("same on every engine", "same for every block", "causal", "pure", "resumable", "covers every message", "sensitivities hold")


SLOW = ("exact ratio below certificate", "million rounds", "regret below bound")  # of variants: for `make test-full`


def _cases() -> list[Any]:
    """The full suite for every registered algorithm; the quick contracts for further variants."""
    found = [(a, c) for a in SPECS for c in (CONTRACTS if a in variants() else QUICK)]
    return [pytest.param(a, c, marks=pytest.mark.long if c in SLOW and a not in ALGORITHMS else ()) for a, c in found]


@pytest.mark.parametrize(("algorithm", "contract"), _cases())
def test_algorithm_keeps_contract(algorithm: str, contract: str) -> None:
    outcome = examine(contract, SPECS[algorithm])
    if outcome.status == "not applicable":
        pytest.skip(f"not applicable: {outcome.detail}")
    assert outcome.status == "holds", outcome.detail


@pytest.mark.parametrize("contract", [name for name in CONTRACTS if name != "million rounds"])
@pytest.mark.parametrize("name", HONEST)
def test_honest_algorithm_keeps_contract(name: str, contract: str) -> None:
    outcome = examine(contract, HONEST[name])
    other_games = ("same by sums", "sleeping experts", "absent clients")
    applies = contract not in (*other_games, "exact ratio below certificate", "noiseless is reference", "regret below bound")
    assert outcome.status == ("holds" if applies else "not applicable"), outcome.detail


@pytest.mark.parametrize("contract", ON_BOTH_SOURCES)
@pytest.mark.parametrize(
    "algorithm", ["sparse_vector", "sparse_vector, approximate", "sparse_vector, published", "shrinking_dartboard, approximate"]
)
def test_algorithm_keeps_contract_on_secure_noise(algorithm: str, contract: str) -> None:
    outcome = examine(contract, SPECS[algorithm], secure=True)
    if outcome.status == "not applicable":
        pytest.skip(f"not applicable: {outcome.detail}")
    assert outcome.status == "holds", outcome.detail


@pytest.mark.parametrize("name", ["half the noise", "half the selection noise", "a mechanism that lies"])
def test_contract_catches_it_on_secure_noise(name: str) -> None:
    contract, spec = BROKEN[name]
    assert examine(contract, spec, secure=True).status == "broken"


@pytest.mark.parametrize("name", BROKEN)
def test_contract_catches(name: str) -> None:
    contract, spec = BROKEN[name]
    outcome = examine(contract, spec)
    assert outcome.status == "broken", outcome


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("adds up what has no cost", "without a cost of its own"),
        ("counts one release of many", "the server is promised delta = 0.4621 at epsilon = 0; a datum enters"),
        ("a false Gaussian claim", r"the peer is promised .* a datum enters 1 of mu = 0.5 \(Gaussian\)"),
        ("Gaussian releases that do not add", r"the peer is promised .* a datum enters \d+ of mu = 0.5 \(Gaussian\)"),
        ("a false claim to the server alone", "the server is promised .* a datum enters 1 of epsilon = 1"),
        ("the server's own noise", "protected by noise that it draws itself"),
        ("a promise for a whole site", "all the data of one client, which no contract can check"),
        ("a likelihood that leaves out uploads", r"the server sees \['uploads'\]"),
        ("a likelihood that leaves out clients", "clients release noise of their own"),
        ("too quiet to be audited", "of the certificate: offer audit_variants"),
    ],
)
def test_contract_says_why(name: str, reason: str) -> None:
    contract, spec = BROKEN[name]
    assert re.search(reason, examine(contract, spec).detail), examine(contract, spec).detail


def test_what_clients_release_is_recorded_one_by_one_and_replayed_on_every_engine() -> None:
    environment = Switching(clients=3, experts=5, horizon=12)
    algorithm = NoisySums("gaussian").build(environment.setting)
    recorded, replayed, plays = RecordingNoise(SeededNoise(1)), [], []
    simulate(algorithm, environment, 1, noise=recorded)
    releases = recorded.ledger.releases
    assert [release.client for release in releases] == [0, 1, 2] * 11
    assert all(np.shape(release.value) == np.shape(release.output) == (5,) for release in releases)
    engines: tuple[EngineName, ...] = ("vectorised", "in_process")
    for engine in engines:
        noise, kept = RecordingNoise(SeededNoise(2), recorded.ledger), Everything()
        simulate(algorithm, environment, 1, noise=noise, engine=engine, sinks=[kept])
        replayed.append(noise.ledger.releases)
        plays.append(kept.all_plays())
    assert same(replayed[0], releases)
    assert same(replayed[1], releases)
    assert same(plays[0], plays[1])


def test_every_contract_has_a_broken_algorithm() -> None:
    caught = {contract for contract, _ in BROKEN.values()}
    assert caught == set(CONTRACTS)

"""Algorithms as printed: their constants, what they claim and cost, and how they fail."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log
from typing import Any

import numpy as np
import pytest

from hedgerow.contracts.suite import examine
from hedgerow.core.certificate import Observer
from hedgerow.core.errors import InvalidValue
from hedgerow.core.setting import Setting
from hedgerow.engines.simulate import simulate
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow_papers.asi2023.certified_potential import Potential
from hedgerow_papers.asi2023.potential import AsiPotential, printed_cost
from hedgerow_papers.asi2023.sparse_vector import AsiSparseVector
from hedgerow_papers.gao2024.fed_svt import FedSVT
from support.attacked import attacked
from support.played import plays_of


def test_printed_constants() -> None:
    setting = Setting(10, 100, 512)
    algorithm = FedSVT(epsilon=2.0, every=4, best_loss=1.5).build(setting)
    kappa = ceil(3 * 7 + 24 * log(20))
    assert algorithm.parameters["switches"] == kappa == 93
    assert algorithm.parameters["selection_epsilon"] == pytest.approx(2.0 / (2 * kappa))
    assert algorithm.parameters["threshold_scale"] == 2.0
    assert algorithm.parameters["query_scale"] == 4.0
    assert algorithm.parameters["noise_law"] == "laplace"
    printed = 10 * 1.5 + 8 * log(2 * 128**2 / 0.05) / 2.0 + 4 * 2 * kappa / 2.0
    assert algorithm.parameters["threshold"] == pytest.approx(printed)
    assert algorithm.certificate.peer.curve.stated()[0] == pytest.approx(1.5)
    assert algorithm.certificate.peer.claimed is not None


def test_the_printed_bound_follows_the_paper() -> None:
    """(kappa / m) (m L* + 16 ln(2 T^2 / (N^2 rho)) / epsilon + 4 / eta + m N)."""
    spec = FedSVT(2.0, every=4, best_loss=1.5, rho=0.1)
    parameters = spec.build(Setting(10, 100, 512)).parameters
    kappa, eta = parameters["switches"], parameters["selection_epsilon"]
    wait = 16 * np.log(2 * 128**2 / 0.1) / 2.0
    exact = kappa / 10 * (10 * 1.5 + wait + 4 / eta + 10 * 4)
    assert parameters["printed_regret_bound"] == pytest.approx(exact)
    for by_hand in ({"switches": 1}, {"threshold": 0.0}):  # the paper says nothing about these
        changed = replace(spec, **by_hand).build(Setting(10, 100, 512))
        assert "printed_regret_bound" not in changed.parameters


def test_the_papers_print_different_numbers_of_draws() -> None:
    """3 ceil(log2 d) + 24 ln(1/rho) of Gao et al., 6 ceil(log2 d) + 24 ln(1/rho) of Asi et al."""
    setting = Setting(1, 100, 512)
    gao, asi = (kind().build(setting) for kind in (FedSVT, AsiSparseVector))
    draws = [3 * 7 + 24 * np.log(20), 6 * 7 + 24 * np.log(20)]
    assert [a.parameters["switches"] for a in (gao, asi)] == [int(np.ceil(k)) for k in draws]
    both = [a.certificate.peer.curve.stated()[0] for a in (gao, asi)]
    assert both == pytest.approx([0.75, 0.75])  # kappa eta = epsilon / 2
    assert "printed_regret_bound" in gao.parameters
    assert "printed_regret_bound" not in asi.parameters
    gao, asi = (kind(delta=1e-6).build(setting) for kind in (FedSVT, AsiSparseVector))
    eta = 1 / np.sqrt(32 * 114 * np.log(1e6))
    assert asi.parameters["selection_epsilon"] == pytest.approx(eta)
    spent = [a.certificate.peer.curve.stated()[0] for a in (gao, asi)]
    assert spent[1] < spent[0] <= 1


def test_nothing_is_sent_after_the_last_switch() -> None:
    losses = np.ones((100, 2, 3))
    algorithm = FedSVT(epsilon=50.0, switches=2, threshold=1.0).build(Setting(2, 3, 100))
    counters = simulate(algorithm, RecordedArray(losses), 0)
    assert counters.exchanged < 10


@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-3])
def test_every_audit_verdict_of_the_potential_is_the_expected_one(delta: float) -> None:
    rows = attacked("asi2023_potential", AsiPotential(delta=delta))
    assert {row.verdict for row in rows} == {"holds", "violated"}
    (worst,) = (row for row in rows if row.case.name.startswith("worst transcript"))
    assert 1.0 <= worst.certified / float(worst.finding.epsilon or 0.0) <= 1.3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"delta": 1.0}, r"Expected delta=1.0 in \[0, 1\)"),
        ({"rate": 1e4}, r"Expected rate=10000.0 in"),
        ({"switches": 0}, r"Expected switches=0 to be a whole number >= 1"),
        ({"threshold": -1.0}, r"Expected threshold=-1.0 >= 0 and finite"),
    ],
)
def test_wrong_values_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        AsiPotential(**values)
    if "rate" not in values:
        with pytest.raises(InvalidValue, match=message):
            FedSVT(**values)


def test_potential_moves() -> None:
    """One datum moves the printed query by 1 in its own run and, because the weights remember it,
    by nearly 2 in a later one.
    """
    setting = Setting(1, 2, 1000)
    server = AsiPotential(rate=1.0, switches=2, threshold=1.0).server(setting)
    moved = []
    for datum in ((0, 1), (1, 0)):
        before = np.array(datum) + np.array((20, 0))  # nearly all weight on expert 1
        after = before + np.array((0, 40))  # now on expert 0
        potentials = server.potential(np.stack([before, after]) * 2**20) / 2**20
        moved.append((potentials[0], potentials[1] - potentials[0]))
    own, later = np.abs(np.subtract(*moved))
    assert 0.99 < own <= 1.0
    assert 1.99 < later <= 2.0
    same = printed_cost(1, server.sparse, 2.0, 0.0).bound  # pyright: ignore[reportAttributeAccessIssue]
    both = printed_cost(2, server.sparse, 2.0, 0.0).bound  # pyright: ignore[reportAttributeAccessIssue]
    assert both - same == pytest.approx(2 * (same - 2.0) + 2.0, rel=1e-4)


@pytest.mark.parametrize(
    ("delta", "claim"), [(0.0, "epsilon = 1, delta = 0"), (1e-6, "epsilon = 1, delta = 1e-6")]
)
def test_printed_constants_state_claim_and_truth(delta: float, claim: str) -> None:
    algorithm = AsiPotential(epsilon=1.0, delta=delta).build(Setting(10, 100, 512))
    guarantee = algorithm.certificate.guarantee(Observer.PEER)
    assert guarantee.claimed is not None
    assert guarantee.claimed.words() == claim
    assert algorithm.parameters["switches"] == 10
    each = 0.1 if delta == 0 else 1 / np.sqrt(10 * np.log(1e6))
    assert algorithm.parameters["selection_epsilon"] == pytest.approx(2 * each / (56 * np.log(512)))
    assert algorithm.parameters["threshold"] == pytest.approx(2 * 56 * np.log(512) / each, abs=1e-5)
    if delta == 0:
        assert guarantee.curve.stated()[0] == pytest.approx(1.9 + 1 / (28 * np.log(512)), rel=1e-4)
    else:
        assert guarantee.curve.stated()[0] > 1.0


def test_no_claim_is_stated_for_another_rate() -> None:
    algorithm = AsiPotential(rate=0.5).build(Setting(10, 100, 512))
    assert algorithm.certificate.guarantee(Observer.PEER).claimed is None


@pytest.mark.long
@pytest.mark.parametrize(
    "contract",
    [
        "same for every block",
        "sensitivities hold",
        "noise follows its law",
        "nothing raw in a view",
    ],
)
def test_the_printed_test_keeps_the_contracts(contract: str) -> None:
    spec = AsiPotential(epsilon=20.0, rate=0.5, threshold=3.0)
    assert examine(contract, spec).status == "holds", examine(contract, spec).detail


@pytest.mark.long
def test_the_printed_ratio_stays_below_its_certificate() -> None:
    outcome = examine("exact ratio below certificate", AsiPotential())
    assert outcome.status == "holds", outcome.detail


def test_the_printed_test_stays_with_an_expert_that_loses() -> None:
    """Half of the experts lose in every round, the others never: the potential falls by ln 2 in
    all, and no run ends.
    """
    losses = np.zeros((300, 10, 16))
    losses[..., :8] = 1.0
    lost = {}
    for spec in (AsiPotential(epsilon=10.0), Potential(epsilon=10.0)):
        algorithm, shares = spec.build(Setting(10, 16, 300)), []
        for seed in range(30):
            shares.append(float((plays_of(algorithm, RecordedArray(losses), seed) < 8).mean()))
        lost[type(spec)] = np.mean(shares)
    assert lost[AsiPotential] > 0.3
    assert lost[Potential] < 0.1

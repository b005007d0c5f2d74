"""Walks: noisy reports, their certificates, and the leader of their sums."""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.walks.walk_leader import WalkLeader, regret_bound
from hedgerow.contracts.suite import CONTRACTS, ON_BOTH_SOURCES, examine
from hedgerow.core.certificate import Event, Person
from hedgerow.core.environment import Feature, Traits
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.privacy.curves import GaussianDP

FORMS: dict[str, WalkLeader] = {
    "slot": WalkLeader(reports="slot"),
    "silo": WalkLeader(reports="silo"),
    "silo, sized": WalkLeader(reports="silo", sized=True),
    "silo, two appearances": WalkLeader(reports="silo", appearances=2),
    "no noise": WalkLeader(mu=inf),
}
SILO = hr.Setting(3, 3, 100, deciders=1, family=hr.Gains(high=(1.0, 4.0, 2.0)))
SLOW = ("sensitivities hold", "noise follows its law", "causal")
OTHER = ("same by sums", "sleeping experts", "absent clients", "within the budget")


def _cases(contracts: Any, quick: tuple[str, ...]) -> list[Any]:
    found = [(form, contract) for form in FORMS for contract in contracts]
    return [
        pytest.param(*case, marks=() if case[0] in quick and case[1] not in SLOW else pytest.mark.long)
        for case in found
    ]


@pytest.mark.parametrize(("form", "contract"), _cases(CONTRACTS, ("slot", "silo, sized")))
def test_every_form_keeps_every_contract(form: str, contract: str) -> None:
    found = examine(contract, FORMS[form])
    assert found.status != "broken", found.detail


@pytest.mark.parametrize(("form", "contract"), _cases(ON_BOTH_SOURCES, ()))
def test_every_form_keeps_every_contract_on_secure_noise(form: str, contract: str) -> None:
    found = examine(contract, FORMS[form], secure=True)
    assert found.status != "broken", found.detail


def test_the_sensitivity_is_that_of_the_ranges() -> None:
    losses, silo = hr.Setting(2, 9, 100), SILO
    assert WalkLeader().sensitivity(losses) == 3.0
    assert WalkLeader(reports="silo").sensitivity(silo) == 4.0
    gains = hr.Setting(2, 3, 100, family=hr.Gains(low=-1.0, high=(1.0, 4.0, 2.0)))
    assert WalkLeader().sensitivity(gains) == pytest.approx(sqrt(4 + 25 + 9))
    nothing = hr.Setting(2, 2, 100, family=hr.Gains(low=1.0, high=1.0))
    with pytest.raises(InvalidValue, match="range of all losses or gains"):
        WalkLeader().build(nothing)


@pytest.mark.parametrize("appearances", [1, 2, 7])
@pytest.mark.parametrize("reports", ["each", "silo"])
def test_the_budget_holds_for_all_records_of_a_person(appearances: int, reports: Any) -> None:
    setting = SILO if reports == "silo" else hr.Setting(3, 5, 100)
    spec = WalkLeader(mu=0.7, reports=reports, appearances=appearances)
    algorithm = spec.build(setting)
    guarantee = algorithm.certificate.server
    assert isinstance(guarantee.unit, Event if appearances == 1 else Person)
    assert isinstance(guarantee.curve, GaussianDP)
    assert 0.7 * (1 - 1e-12) < guarantee.curve.mu <= 0.7
    assert algorithm.parameters["report_mu"] == pytest.approx(0.7 / sqrt(appearances))
    assert algorithm.certificate.separate
    asked = WalkLeader(epsilon=1.0, delta=1e-5, reports=reports, appearances=appearances)
    epsilon, delta = asked.build(setting).certificate.server.curve.stated()
    assert 1 - 1e-6 < epsilon <= 1.0
    assert delta == 1e-5


def test_shares_of_a_person_at_several_clients_add_up() -> None:
    one, two = (
        WalkLeader(trust="distributed", appearances=k).build(hr.Setting(5, 4, 100)) for k in (1, 2)
    )
    assert two.client.noise.scale == pytest.approx(2 * one.client.noise.scale)  # pyright: ignore
    assert not two.certificate.separate
    assert one.certificate.server.colluding == 1


def test_without_noise_nothing_is_promised() -> None:
    algorithm = WalkLeader(mu=inf).build(hr.Setting(2, 3, 10))
    assert algorithm.certificate.trust == "none"
    assert not algorithm.certificate.public.protects
    assert algorithm.regret_bound is None
    with pytest.raises(InvalidValue, match="protects nobody"):
        hr.Learner.private(WalkLeader(mu=inf), clients=2, experts=3, source=hr.SecureNoise())


def test_gains_and_losses_are_the_same_game() -> None:
    losses = np.round(np.random.default_rng(0).random((60, 2, 4)) * 2**20) / 2**20
    plays = []
    for records, family in ((losses, hr.Linear()), (1.0 - losses, hr.Gains())):
        game = hr.Replay(records, family)
        kept = hr.run(game, {"walk": WalkLeader(mu=20.0)}, seeds=1)
        plays.append(kept)
    assert plays

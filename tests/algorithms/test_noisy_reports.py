"""The certificate of noisy reports names the record of the game, whatever the game is."""

from __future__ import annotations

import pytest

import hedgerow as hr
from hedgerow.algorithms.shared.noisy_reports import gaussian_share, noisy_reports
from hedgerow.core.certificate import Certificate, Channel, Proof, no_carry_over
from hedgerow.core.losses import Family
from hedgerow.core.setting import Setting
from hedgerow.core.units import Event, Person
from hedgerow.privacy.mechanisms import GaussianNoise

GAMES = {
    "experts": Setting(3, 2, 10),
    "points": Setting(3, 2, 10, family=hr.Huber()),
    "gains": Setting(3, 2, None, family=hr.Gains(0.0, 4.0)),
}


def certificate(setting: Setting, shared: bool = False, **choices: object) -> Certificate:
    noise = GaussianNoise("report", 2.0)
    if shared:
        noise = gaussian_share("report", hr.Budget(mu=0.5), 1.0, honest=2)
    return noisy_reports(
        setting=setting,
        reporting=noise,
        report="Noisy.report",
        announced={"Said.rounds": Channel.TIMING},
        curve=noise.curve,
        proof=Proof("correlated_noise.md", "privacy"),
        composition="shifts",
        **choices,  # pyright: ignore[reportArgumentType]
    )


def family_of(name: str) -> Family:
    return GAMES[name].family


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", GAMES)
def test_the_record_is_that_of_the_game(name: str, shared: bool) -> None:
    record = family_of(name).record
    found = certificate(GAMES[name], shared)
    for guarantee in found.guarantees:
        assert guarantee.unit == Event(record=record)
        assert guarantee.adjacency == Event(record=record).adjacency()
        assert record.placed in guarantee.adjacency
        assert no_carry_over(record) in guarantee.assumes
        assert guarantee.bounds == record.bounds
        assert guarantee.horizon == GAMES[name].horizon
    assert found.trust == ("distributed" if shared else "local")


def test_the_records_differ_between_games() -> None:
    texts = {certificate(setting).public.adjacency for setting in GAMES.values()}
    assert len(texts) == len(GAMES)


def test_another_unit_is_stated_as_it_is() -> None:
    unit = Person(4, 4, record=family_of("points").record)
    found = certificate(GAMES["points"], unit=unit)
    assert {g.unit for g in found.guarantees} == {unit}
    assert {g.adjacency for g in found.guarantees} == {unit.adjacency()}

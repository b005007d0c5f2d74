"""What the shrinking dartboard costs: the certificate is that of the coins and draws played, and
counts as many draws as are made.
"""

from __future__ import annotations

from dataclasses import replace
from math import expm1
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.dartboard import tuning
from hedgerow.algorithms.dartboard.server import DartboardServer
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.audits.cases.parts import with_server
from hedgerow.contracts.recording import RecordingNoise
from hedgerow.core.certificate import Observer
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import to_units
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.random_draws import CoinThenDraws
from hedgerow.privacy.curves import Quoted
from support.tiny_dartboard import dartboard

SETTING, DELTA = Setting(clients=10, experts=100, horizon=512), 1e-6


def built(**choices: Any) -> Algorithm:
    return dartboard(**{"delta": DELTA, **choices}).build(SETTING)


def certified(algorithm: Algorithm) -> CoinThenDraws:
    curve = algorithm.certificate.guarantee(Observer.PEER).curve
    assert isinstance(curve, Quoted)
    assert isinstance(curve.curve, CoinThenDraws)
    return curve.curve


def draw_chance(server: Any, expert: float, others: float) -> float:
    """Exactly, at one exchange as it is played: how likely a draw is when the expert that is
    followed lost the first number.
    """
    noise = RecordingNoise(SeededNoise(0))
    _, state = server.open(noise.server())
    state = replace(state, expert=0)
    lost = np.full(SETTING.experts, others)
    lost[0] = expert
    server.aggregate(state, LossSums(to_units(lost)), noise.server())
    (coin,) = (
        release for release in noise.ledger.releases if isinstance(release.output, bool | np.bool_)
    )
    return -expm1(coin.mechanism.log_probability(coin.value, True))


def worst_chance(algorithm: Algorithm) -> float:
    """Everybody loses 1 with the expert that is followed; also with all others, or with none of
    them: whatever makes draws likelier.
    """
    server: Any = algorithm.server
    most = float(SETTING.clients * server.schedule.every)
    return max(draw_chance(server, most, others) for others in (0.0, most))


def demand_few_draws(algorithm: Algorithm) -> None:
    """The proofs count with occasions at which a draw has at most a given chance."""
    chance, most = worst_chance(algorithm), certified(algorithm).chance
    assert chance <= most, f"a draw has chance {chance}, the certificate counts with {most}"


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"every": 4},
        {"epsilon": 0.1},
        {"epsilon": 10.0},
        {"draws": 12},
        {"rate": 1e-3, "leave": 0.1},
    ],
)
def test_draws_are_as_likely_as_certified(choices: dict[str, Any]) -> None:
    algorithm = built(**choices)
    demand_few_draws(algorithm)
    rate, base, most = (
        algorithm.parameters["rate"],
        algorithm.parameters["base"],
        SETTING.clients * algorithm.parameters["every"],
    )
    assert worst_chance(algorithm) == pytest.approx(-expm1(-rate * (base + most)), rel=1e-12)
    assert certified(algorithm).chance == pytest.approx(worst_chance(algorithm), rel=1e-12)


def test_the_first_coin_is_the_certified_one() -> None:
    """Where it is least likely to leave, without the datum and with it."""
    for every in (1, 4):
        algorithm = built(every=every)
        most, curve = float(SETTING.clients * every), certified(algorithm)
        rate, base = algorithm.parameters["rate"], algorithm.parameters["base"]
        least = draw_chance(algorithm.server, 0.0, most)
        assert least == pytest.approx(-expm1(-rate * base), rel=1e-12)
        assert least == pytest.approx(-expm1(-curve.gap), rel=1e-12)
        assert -expm1(-curve.gap) <= least
        moved = draw_chance(algorithm.server, 1.0, most - 1)  # the coin does not look at the others
        assert curve.moved == rate
        assert moved == pytest.approx(-expm1(-curve.gap - curve.moved), rel=1e-12)


def added(server: Any) -> DartboardServer:
    """The bug: c is added to the coin's exponent.

    It leaves more often, which no single transcript gives away.
    """
    return replace(
        server,
        coin=replace(server.coin, base=server.coin.base + SETTING.clients * server.schedule.every),
    )


def test_a_server_that_leaves_too_often_is_caught() -> None:
    """By its chances of a draw; and a certificate made from this server would be refused, as it is
    above the budget.
    """
    honest = built()
    wrong = added(honest.server)
    with pytest.raises(AssertionError, match="a draw has chance"):
        demand_few_draws(with_server(honest, wrong))
    cost, spec = wrong.cost(SETTING), ShrinkingDartboard(delta=DELTA)
    assert cost.epsilon(DELTA) > 1.1
    with pytest.raises(InvalidValue, match=r"within epsilon=1\.0, delta=1e-06: this choice costs"):
        spec.afford(tuning.choose(SETTING, 1.0, DELTA, None), cost)


@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_the_certificate_is_that_of_the_server(delta: float) -> None:
    spec = ShrinkingDartboard(delta=delta)
    algorithm = spec.build(SETTING)
    server: Any = algorithm.server
    assert algorithm.certificate.guarantee(Observer.PEER).curve == spec.curve(server.cost(SETTING))
    assert set(algorithm.certificate.mechanisms) == {server.coin, server.selection}


def test_stored_choices_belong_to_the_code_they_rest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    read, now = Path.read_bytes, tuning._code.__wrapped__()
    names = (
        "tuning",
        "cost",
        "coin",
        "selection",
        "search",
        "base",
        "bounded_range",
        "lattice",
        "rounding",
    )
    for name in names:
        monkeypatch.setattr(
            Path, "read_bytes", lambda path, name=name: read(path) + b"#" * (path.stem == name)
        )
        assert tuning._code.__wrapped__() != now, name
    monkeypatch.setattr(Path, "read_bytes", read)
    assert tuning._code.__wrapped__() == now == tuning._code()

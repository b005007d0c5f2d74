"""What lazy servers cost: the certificate is that of the coins and draws that are played, and counts with as many draws as they make."""

from __future__ import annotations

from dataclasses import replace
from math import expm1
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.dartboard import tuning as lazy_tuning
from hedgerow.algorithms.dartboard.choices import LazyChoices
from hedgerow.algorithms.dartboard.lazy_experts import LazyExperts
from hedgerow.algorithms.dartboard.server import LazyServer
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

SETTING, DELTA = Setting(clients=10, experts=100, horizon=512), 1e-6
KINDS: tuple[type[LazyChoices], ...] = (ShrinkingDartboard, LazyExperts)
# From the proofs, not from the code: rate * (base + so often c) is the least exponent of the coin, the largest; a datum moves it.
NEAREST, FARTHEST, MOVES = ({ShrinkingDartboard: one, LazyExperts: two} for one, two in ((0, 1), (1, 3), (1, 2)))


def built(kind: type[LazyChoices], **choices: Any) -> Algorithm:
    return kind(**{"delta": DELTA, **choices}).build(SETTING)


def certified(algorithm: Algorithm) -> CoinThenDraws:
    curve = algorithm.certificate.guarantee(Observer.PEER).curve
    assert isinstance(curve, Quoted)
    assert isinstance(curve.curve, CoinThenDraws)
    return curve.curve


def draw_chances(server: Any, expert: float, others: float) -> list[float]:
    """Exactly, at one exchange as it is played: how likely the expert that is followed, which lost the first number, is to be drawn
    anew, and then the companion, which lost the other, where there is one.
    """
    noise = RecordingNoise(SeededNoise(0))
    _, state = server.open(noise.server())
    state = replace(state, expert=0, **({"companion": 1} if hasattr(state, "companion") else {}))
    lost = np.full(SETTING.experts, others)
    lost[0] = expert
    server.aggregate(state, LossSums(to_units(lost)), noise.server())
    coins = [release for release in noise.ledger.releases if isinstance(release.output, bool | np.bool_)]
    return [-expm1(release.mechanism.log_probability(release.value, True)) for release in coins]


def worst_chances(algorithm: Algorithm) -> list[float]:
    """Everybody loses 1 with the expert that is followed; also with all others, or with none of them: whatever makes draws likelier."""
    server: Any = algorithm.server
    most = float(SETTING.clients * server.every)
    return list(map(max, zip(*(draw_chances(server, most, others) for others in (0.0, most)), strict=True)))


def demand_few_draws(algorithm: Algorithm) -> None:
    """The proofs count with occasions at which a draw has at most a given chance."""
    counted = [chance for _, chance in certified(algorithm).occasions]
    for chance, most in zip(worst_chances(algorithm), counted, strict=True):
        assert chance <= most, f"a draw has chance {chance}, the certificate counts with {most}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("choices", [{}, {"every": 4}, {"epsilon": 0.1}, {"epsilon": 10.0}, {"draws": 12}, {"rate": 1e-3, "leave": 0.1}])
def test_draws_are_as_likely_as_certified(kind: type[LazyChoices], choices: dict[str, Any]) -> None:
    algorithm = built(kind, **choices)
    demand_few_draws(algorithm)
    rate, base, most = algorithm.parameters["rate"], algorithm.parameters["base"], SETTING.clients * algorithm.parameters["every"]
    q = -expm1(-rate * (base + FARTHEST[kind] * most))
    assert worst_chances(algorithm) == pytest.approx([q, -expm1(-rate * base)][: len(certified(algorithm).occasions)], rel=1e-12)
    assert [chance for _, chance in certified(algorithm).occasions] == pytest.approx(worst_chances(algorithm), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_coin_is_the_certified_one(kind: type[LazyChoices]) -> None:
    """Where it is least likely to leave, without the datum and with it."""
    for every in (1, 4):
        algorithm = built(kind, every=every)
        most, curve = float(SETTING.clients * every), certified(algorithm)
        rate, base = algorithm.parameters["rate"], algorithm.parameters["base"]
        least = draw_chances(algorithm.server, 0.0, most)[0]
        assert least == pytest.approx(-expm1(-rate * (base + NEAREST[kind] * most)), rel=1e-12)
        assert least == pytest.approx(-expm1(-curve.gap), rel=1e-12)
        assert -expm1(-curve.gap) <= least
        moved = draw_chances(algorithm.server, 1.0, most - 1)[0]  # the dartboard's coin does not look at the others
        assert curve.moved == MOVES[kind] * rate
        assert moved == pytest.approx(-expm1(-curve.gap - curve.moved), rel=1e-12)


def added(server: Any) -> LazyServer:
    """The bug: a constant in the coin's exponent is too large. It leaves more often, which no single transcript gives away."""
    times = 2 if hasattr(server, "refresh") else 1  # 4c in place of 2c for lazy experts, c in place of nothing for the dartboard
    return replace(server, coin=replace(server.coin, base=server.coin.base + times * SETTING.clients * server.every))


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_leaves_too_often_is_caught(kind: type[LazyChoices]) -> None:
    """By its chances of a draw; and a certificate made from this server would be refused, as it is above the budget."""
    honest = built(kind)
    wrong = added(honest.server)
    with pytest.raises(AssertionError, match="a draw has chance"):
        demand_few_draws(with_server(honest, wrong))
    cost, spec = wrong.cost(SETTING), kind(delta=DELTA)
    assert cost.epsilon(DELTA) > 1.1
    with pytest.raises(InvalidValue, match=r"within epsilon=1\.0, delta=1e-06: this choice costs"):
        spec.afford(spec.settled(SETTING), cost)


@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("kind", KINDS)
def test_the_certificate_is_that_of_the_server(kind: type[LazyChoices], delta: float) -> None:
    spec = kind(delta=delta)
    algorithm = spec.build(SETTING)
    server: Any = algorithm.server
    played = {server.coin, server.selection, getattr(server, "refresh", server.coin)}
    assert algorithm.certificate.guarantee(Observer.PEER).curve == spec.curve(server.cost(SETTING))
    assert set(algorithm.certificate.mechanisms) == played


def test_stored_choices_belong_to_the_code_they_rest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    read, now = Path.read_bytes, lazy_tuning._code.__wrapped__()
    names = ("lazy_tuning", "lazy_cost", "coin", "selection", "bisection", "base", "bounded_range", "lattice", "rounding")
    for name in names:
        monkeypatch.setattr(Path, "read_bytes", lambda path, name=name: read(path) + b"#" * (path.stem == name))
        assert lazy_tuning._code.__wrapped__() != now, name
    monkeypatch.setattr(Path, "read_bytes", read)
    assert lazy_tuning._code.__wrapped__() == now == lazy_tuning._code()

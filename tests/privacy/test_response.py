"""Randomised response: its cost is never above the stated one, and it is what it says."""

from __future__ import annotations

from math import exp, log, log1p

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from hedgerow.core.errors import InvalidValue
from hedgerow.core.noise import NoNoise, SeededNoise
from hedgerow.privacy import RandomisedResponse, SecureNoise

EPSILONS = [
    float(e) for e in np.concatenate([np.geomspace(1e-6, 1.0, 700), np.linspace(1, 40, 700)])
]


def _cost(rate: float) -> mpmath.mpf:
    with mpmath.workprec(300):
        turned = mpmath.exp(-mpmath.mpf(rate))
        return mpmath.log((1 - turned) / turned)


def test_the_stated_epsilon_is_never_below_the_cost_of_the_coin() -> None:
    nearest = 0
    for epsilon in [*EPSILONS, 700.0, 746.0, 1e6]:
        cost = _cost(RandomisedResponse("answer", epsilon).rate)
        assert cost <= mpmath.mpf(epsilon)
        assert cost >= mpmath.mpf(epsilon) * (1 - mpmath.mpf(1e-8))
        nearest += epsilon < 700 and _cost(log1p(exp(epsilon))) > mpmath.mpf(epsilon)
    assert nearest > 400  # rounding to the nearest float would break it


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, 5.0, 30.0, 1e6])
def test_the_gain_makes_answers_unbiased(epsilon: float) -> None:
    answer = RandomisedResponse("answer", epsilon)
    with mpmath.workprec(300):
        exact = 1 / (1 - 2 * mpmath.exp(-mpmath.mpf(answer.rate)))
        assert abs(answer.gain / exact - 1) < 1e-9
    assert answer.log_density(1.0, -1.0) == -answer.rate
    both = np.exp([answer.log_density(-1.0, shown) for shown in answer.outcomes(-1.0)])
    assert both.sum() == pytest.approx(1.0, abs=1e-15)
    ratio = answer.log_density(1.0, 1.0) - answer.log_density(-1.0, 1.0)
    assert ratio == pytest.approx(epsilon, rel=1e-8)


@pytest.mark.parametrize("source", [SeededNoise(3), SecureNoise()], ids=["seeded", "secure"])
def test_signs_are_turned_as_often_as_stated(source: SeededNoise | SecureNoise) -> None:
    answer, count = RandomisedResponse("answer", 1.0), 20_000
    signs = np.where(np.arange(count) % 2, 1.0, -1.0)
    shown = answer.sample(signs, source.everyone("client", count))
    turned = int((shown != signs).sum())

    def likely(chance: float) -> bool:
        return bool(1e-9 < binom.cdf(turned, count, chance) < 1 - 1e-9)

    assert likely(answer.turned)
    assert not likely(answer.scaled(0.5).turned)
    assert not likely(answer.scaled(1.5).turned)


def test_without_noise_the_sign_is_shown() -> None:
    for epsilon in (1e-6, 1.0):
        shown = RandomisedResponse("answer", epsilon).sample(-1.0, NoNoise().server())
        assert shown == -1.0


@pytest.mark.parametrize("value", [0.0, 0.731, np.nan, 2.0])
def test_a_value_that_is_no_sign_is_refused_and_not_shown(value: float) -> None:
    with pytest.raises(InvalidValue, match="1 or -1") as refused:
        RandomisedResponse("answer", 1.0).sample(value, SeededNoise(0).server())
    assert "0.731" not in str(refused.value)
    with pytest.raises(InvalidValue, match="epsilon"):
        RandomisedResponse("answer", 0.0)


def test_words_name_the_chance() -> None:
    assert "0.268941" in RandomisedResponse("answer", 1.0).words()
    assert RandomisedResponse("answer", log(3.0)).turned == pytest.approx(0.25)

"""Lazy experts: the certificate against exhaustive enumeration, the law of the expert, and the comparison with the dartboard."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.experts.lazy_experts import LazyExperts, TwoChains
from hedgerow.algorithms.experts.shrinking_dartboard_tuning import Choice, choose, regret_bounds, with_chance
from hedgerow.core.errors import InvalidValue
from hedgerow.core.noise import SeededNoise
from hedgerow.core.setting import Setting
from hedgerow.engines.broadcasts import broadcasts_of


def transcripts(choice: Choice, most: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Chances of all transcripts (x, y and all coins) in two worlds, from the definition; losses (groups, experts)."""
    experts, found = first.shape[1], []

    def go(s: int, x: int, y: int, chances: tuple[float, float]) -> None:
        if s == len(first):
            found.append(chances)
            return
        stay, laws = [], []
        for losses in (first, second):
            stay.append(exp(-choice.rate * (choice.base + 2 * most + losses[s, x] - losses[s, y])))
            weights = np.exp(-choice.rate * losses[: s + 1].sum(axis=0))
            laws.append(weights / weights.sum())
        xs = [(x, stay[0], stay[1]), *((j, (1 - stay[0]) * laws[0][j], (1 - stay[1]) * laws[1][j]) for j in range(experts))]
        p = choice.leave
        ys = [(y, 1 - p, 1 - p), *((j, p * laws[0][j], p * laws[1][j]) for j in range(experts))]
        for a, pa, qa in xs:
            for b, pb, qb in ys:
                go(s + 1, a, b, (chances[0] * pa * pb, chances[1] * qa * qb))

    for x in range(experts):
        for y in range(experts):
            go(0, x, y, (experts**-2.0, experts**-2.0))
    return np.array(found)


@pytest.mark.parametrize(("groups", "rate", "leave", "every"), [(4, 0.05, 0.2, 3), (4, 0.2, 0.3, 2), (3, 0.1, 0.1, 1)])
def test_no_enumerated_delta_is_above_the_certificate(groups: int, rate: float, leave: float, every: int) -> None:
    choice, setting = with_chance(rate, leave, every, None, TwoChains), Setting(1, 2, groups * every)
    curve, closest = choice.cost(setting), 0.0
    for trial in range(6):
        rng = np.random.default_rng(trial)
        first = rng.integers(0, every + 1, (groups - 1, 2)).astype(float)
        second, datum = first.copy(), rng.integers(0, 2, 2)
        base = rng.integers(0, every, 2)
        first[0], second[0] = base + datum, base + 1 - datum
        p, q = transcripts(choice, every, first, second).T
        assert p.sum() == pytest.approx(1)
        assert np.abs(np.log(p / q)).max() <= curve.pure
        for epsilon in (0.0, 0.1, 0.3):
            for a, b in ((p, q), (q, p)):
                exact = float(np.maximum(a - exp(epsilon) * b, 0).sum())
                assert exact <= curve.delta(epsilon)
                closest = max(closest, exact / curve.delta(epsilon))
    assert closest > 0.4


def test_the_law_of_the_expert_is_that_of_exponential_weights() -> None:
    losses = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [1, 0, 1], [1, 0, 0.5]], float)[:, None]
    algorithm = LazyExperts(epsilon=50.0, delta=1e-6, every=2, rate=0.8, leave=0.1).build(Setting(1, 3, 5))
    noise, runs = SeededNoise(3), 2500
    last = [broadcasts_of(algorithm, losses, noise)[-1].expert for _ in range(runs)]
    seen = np.bincount(last, minlength=3) / runs
    right, wrong = (np.exp(-0.8 * losses[:n].sum(axis=(0, 1))) for n in (4, 2))
    assert np.abs(seen - right / right.sum()).max() < 0.03 < np.abs(seen - wrong / wrong.sum()).max()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_dartboard_has_the_smaller_bound(delta: float) -> None:
    for experts, horizon, epsilon in ((10, 200, 0.3), (50, 300, 2.0)):
        setting = Setting(1, experts, horizon)
        one, two = (choose(setting, epsilon, delta, None, kind) for kind in (Choice, TwoChains))
        curve = two.cost(setting)
        assert (curve.pure if delta == 0 else curve.epsilon(delta)) <= epsilon
        assert one.regret_bound(setting) <= two.regret_bound(setting)


def test_the_tail_of_two_binomials_is_bounded() -> None:
    """By simulation of the sum of unequal coins; and below the mean nothing is claimed."""
    setting, rate, p = Setting(1, 2, 201), np.array(0.02), np.array(0.1)
    q = 1 - 0.9 * exp(-3 * 0.02)
    rng = np.random.default_rng(0)
    wanted = rng.binomial(200, q, 20000) + rng.binomial(200, 0.1, 20000)
    plain = float(regret_bounds(TwoChains, setting, 1, rate, p, np.array(400)))
    for cap in (55, 65):
        added = float(regret_bounds(TwoChains, setting, 1, rate, p, np.array(cap))) - plain
        assert 201 * (wanted > cap).mean() <= added * 1.05
    assert float(regret_bounds(TwoChains, setting, 1, rate, p, np.array(10))) - plain == pytest.approx(201)


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ({"rate": 1.0}, r"Expected rate, leave=\(1.0, None\) to be given both or neither"),
        ({"draws": 2}, r"Expected draws=2 to be given with rate and leave"),
        ({"rate": 5.0, "leave": 0.1}, r"Expected rate, leave, draws=\(5.0, .*within epsilon=1.0"),
        ({"every": 11}, r"Expected every=11 <= horizon=10"),
    ],
)
def test_errors_name_the_value_and_the_rule(choices: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidValue, match=text):
        LazyExperts(**choices).build(Setting(1, 5, 10))

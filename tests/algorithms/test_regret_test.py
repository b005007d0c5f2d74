"""A test of the regret costs what the proof says, and no less noise would do."""

from __future__ import annotations

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.sparse_vector.regret_test import RegretSelector, louder
from hedgerow.engines.simulate import simulate
from hedgerow.evaluation.recorder import Recorder
from hedgerow.evaluation.statistics import Estimate
from hedgerow.privacy.mechanisms import AboveThreshold
from hedgerow_papers.asi2023.certified_potential import Potential
from support.played import seen_in
from support.streams import late, stand_in


def largest_loss(test: AboveThreshold, seed: int, runs: int = 60) -> float:
    """The largest log-ratio of an outcome of one run, over random games and a constructed one."""
    rng = np.random.default_rng(seed)
    found = 0.0
    for run in range(runs):
        experts, exchanges = 3, int(rng.integers(1, 7))
        common = rng.integers(0, 3, (exchanges, experts)).astype(float)
        before, after = rng.integers(0, 2, (2, experts)).astype(float)
        limit = float(rng.integers(0, 5))
        if run == 0:  # the best of the run changes from expert 1 to expert 2 after many "below"
            common = np.zeros((400, experts))
            common[0], common[-1] = (6.0, 0.0, 1.0), (0.0, 2.0, 0.0)
            before, after, limit = np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 1.0]), 6.5
        worlds = [np.cumsum(common, axis=0) + datum for datum in (before, after)]
        queries = [lost[:, 0] - lost.min(axis=1) for lost in worlds]
        for ended in (False, True):
            first, second = (test.log_probability(q, limit, ended=ended) for q in queries)
            if np.isfinite([first, second]).all():
                found = max(found, abs(first - second))
    return found


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_a_test_of_the_regret_costs_what_a_test_of_the_loss_does(epsilon: float) -> None:
    sparse = AboveThreshold("exponential", 1 / epsilon, 1 / epsilon)
    test, said = louder(sparse), sparse.curve.bound
    assert test.curve.bound == said
    assert 0.95 * said < largest_loss(test, seed=1) <= said * (1 + 1e-9)
    assert largest_loss(sparse, seed=1) > 1.5 * said  # the noise of a test of the loss is too small


@pytest.mark.parametrize("spec", [hr.Doubling(epsilon=20.0), Potential(epsilon=20.0)])
def test_many_exchanges_at_once_play_as_one_by_one_does(spec: hr.Doubling | Potential) -> None:
    """Also where the test changes within a block."""
    made = stand_in("days", 3, clients=3, experts=6, rounds=300)
    algorithm = spec.build(made.setting)
    server = algorithm.server
    assert isinstance(server, RegretSelector)
    plays, used = [], 0
    for fused in (True, False):
        everything = seen_in(algorithm, made, 5, fused=fused)
        plays.append(everything.all_plays())
        used = everything.messages[-1][2].switches if everything.messages else used
    assert np.array_equal(*plays)
    assert server.by_regret(used)


@pytest.mark.parametrize("spec", [hr.Doubling, Potential])
def test_what_all_lose_alike_ends_no_run(spec: type[hr.Doubling] | type[Potential]) -> None:
    """However long all experts lose, the regret after they stop is that of a few runs."""
    found = []
    for rounds in (1000, 8000):
        made = late(0, clients=5, experts=20, rounds=rounds)
        algorithm = spec(epsilon=3.0).build(made.setting)
        regrets = []
        for seed in range(12):
            recorder = Recorder(made.setting, points=2)
            ended = simulate(algorithm, made, seed, sinks=[recorder])
            regrets.append(recorder.result("", seed, ended).final_regret)
        found.append(Estimate.of(regrets))
    assert found[1].low < found[0].high
    assert found[1].high < 15.0

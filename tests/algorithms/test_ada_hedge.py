"""AdaHedge: its weights against the textbook, its bound against an exact recursion, and its use."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.baselines.ada_hedge import Gaps, GapState, _largest
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.lattice import to_units
from hedgerow.core.noise import NoNoise


def textbook(losses: np.ndarray) -> list[float]:
    """The sums of mixability gaps after every batch, as the paper writes them."""
    experts = losses.shape[1]
    weights, gap, gaps = np.full(experts, 1 / experts), 0.0, []
    for row in losses:
        total = losses[: len(gaps)].sum(axis=0)
        if gap == 0:  # an infinite rate: the leaders, equally
            weights = (total == total.min()) / (total == total.min()).sum()
            mixed = (total + row).min() - total.min()
        else:
            rate = log(experts) / gap
            weights = np.exp(-rate * (total - total.min()))
            weights /= weights.sum()
            mixed = -np.log((weights * np.exp(-rate * row)).sum()) / rate
        gap += weights @ row - mixed
        gaps.append(gap)
    return gaps


def played(losses: np.ndarray) -> list[float]:
    server = Gaps(losses.shape[1], Schedule(1), log(losses.shape[1]))
    noise = NoNoise().server()
    _, state = server.open(noise)
    gaps = []
    for row in losses:
        _, state = server.aggregate(state, LossSums(to_units(row)), noise)
        assert isinstance(state, GapState)
        gaps.append(state.gap)
    return gaps


@pytest.mark.parametrize("seed", range(3))
def test_gaps_are_those_of_the_paper(seed: int) -> None:
    losses = np.random.default_rng(seed).integers(0, 2, (60, 4)).astype(float)
    assert played(losses) == pytest.approx(textbook(losses), abs=1e-5)
    assert played(losses)[-1] > 1


@pytest.mark.parametrize(("rounds", "experts", "every"), [(40, 4, 1), (300, 3000, 1), (200, 5, 30)])
def test_the_bound_is_the_largest_gap_of_any_losses(rounds: int, experts: int, every: int) -> None:
    """The recursion of the proof, maximised over a grid instead of by convexity."""
    schedule, entropy, largest = Schedule.of(every, True), log(experts), 1e-9
    for batch in range(schedule.count(rounds) + 1):
        length = schedule.wait(batch)
        grid = np.linspace(1e-12, largest, 20001)
        largest = (grid + np.minimum(length, length**2 * entropy / 8 / grid)).max()
    found = _largest(schedule, rounds, entropy, 1e-9)
    assert largest * (1 - 1e-3) <= found <= 1.02 * largest


def test_it_is_the_reference_that_is_shown_by_default() -> None:
    """On easy losses a fixed rate loses to a private algorithm, and AdaHedge does not."""
    game = hr.Bernoulli(clients=10, experts=20, horizon=1000)
    study = hr.run(game, seeds=3)
    assert study.regret("not private: ada_hedge").count == 3
    algorithms = {"open": hr.AdaHedge(), "fixed": hr.Hedge(), "private": hr.PhasedSelection()}
    found = {name: hr.run(game, algorithms, seeds=10).regret(name) for name in algorithms}
    assert found["open"].mean < found["private"].mean
    assert found["private"].high < found["fixed"].low

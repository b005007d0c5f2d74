"""`doubling` restarts on fresh losses, and its test of the guess is sound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.sparse_vector.doubling import Doubling, Guesser
from hedgerow.algorithms.sparse_vector.plan import Plan
from hedgerow.algorithms.sparse_vector.selector import Selector
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.contracts.recording import RecordingNoise
from hedgerow.core.certificate import Observer
from hedgerow.core.errors import InvalidValue
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.engines.simulate import simulate
from hedgerow.environments.drawn.realizable import NearRealizable
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow_papers.asi2023.proven_doubling import ProvenDoubling
from support.attacked import attacked
from support.played import seen_in


def certified(algorithm: Algorithm) -> float:
    return algorithm.certificate.guarantee(Observer.PEER).curve.stated()[0]


def server_of(algorithm: Algorithm) -> Selector:
    assert isinstance(algorithm.server, Selector)
    return algorithm.server


def releases(algorithm: Algorithm, losses: np.ndarray, seed: int) -> list[tuple[str, Any, Any]]:
    noise = RecordingNoise(SeededNoise(seed))
    simulate(algorithm, RecordedArray(losses), 0, noise=noise, fused=False)
    return [(r.mechanism.purpose, r.value, r.output) for r in noise.ledger.releases]


def draws(algorithm: Algorithm, losses: np.ndarray, seed: int) -> int:
    """How many experts are drawn in one game."""
    everything = seen_in(algorithm, RecordedArray(losses), seed, fused=False)
    return everything.messages[-1][2].switches


@pytest.mark.parametrize("every", [1, 3])
def test_scores_of_doubling_forget_earlier_epochs_and_what_the_guess_allows(every: int) -> None:
    losses = np.random.default_rng(1).random((270, 2, 4))
    algorithm = Doubling(epsilon=30.0, every=every, plan=Plan(2, 0.25), first_guess=0.25).build(
        Setting(2, 4, 270)
    )
    server = server_of(algorithm)
    assert isinstance(server, Guesser)
    totals = losses.sum(axis=1)
    for seed in range(5):
        exchange, start, used, earlier, noisy = 0, 0, 0, np.zeros(4), 0.0
        expert = -1
        for purpose, value, output in releases(algorithm, losses, seed):
            regret = "regret " if server.by_regret(used) else ""
            if purpose == f"{regret}threshold":
                assert value == server.limit(used)
                noisy = output
            elif purpose == f"{regret}query":
                exchange += 1
                lost = totals[start : server.schedule.time(exchange)].sum(axis=0)
                asked = lost[expert] - (lost.min() if regret else 0.0)
                assert value + noisy == pytest.approx(asked, abs=1e-4)
            else:
                assert purpose == "selection"
                expert = output
                exchange += used == 0  # the first run has no test
                end = server.schedule.time(exchange)
                lost = np.maximum(totals[start:end].sum(axis=0) - server.guess(used), 0.0)
                column = server.weights.of(used)
                assert np.allclose(value, earlier + column.own * lost, rtol=1e-5, atol=1.0)
                used, start = used + 1, end
                earlier = earlier + column.later * lost if used % 2 else np.zeros(4)
        assert used >= 4
        assert server.by_regret(used)


def test_guesses_double_up_to_the_whole_game() -> None:
    server = server_of(Doubling(plan=Plan(3, 5.0), first_guess=8.0).build(Setting(2, 4, 100)))
    assert isinstance(server, Guesser)
    assert [server.guess(used) for used in (0, 2, 3, 6, 9, 12, 15, 18, 30_000)] == [
        0,
        0,
        8,
        16,
        32,
        64,
        128,
        200,
        200,
    ]
    assert [server.limit(used) for used in (0, 3, 6)] == [5.0, 28.0, 36.0]  # a loss, then regrets


def test_doubling_plays_like_sparse_vector_until_the_first_guess_fails() -> None:
    environment = NearRealizable(
        clients=5, experts=20, horizon=400, mean=0.5, law="bernoulli", best_loss=0.0
    )
    for seed in range(5):
        plays = []
        for spec in (SparseVector(epsilon=4.0), Doubling(epsilon=4.0)):
            kept = seen_in(spec, environment, seed)
            plays.append(kept.all_plays())
        assert np.array_equal(*plays)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_budget_is_spent_and_no_more(epsilon: float, delta: float) -> None:
    algorithm = Doubling(epsilon=epsilon, delta=delta).build(Setting(10, 50, 300))
    curve = algorithm.certificate.guarantee(Observer.PEER).curve
    assert 0.98 * epsilon <= curve.stated()[0] <= epsilon
    assert curve.delta(epsilon) <= delta
    assert not algorithm.certificate.guarantee(Observer.SERVER).protects


def test_a_right_guess_is_rarely_doubled_and_a_wrong_one_is() -> None:
    """The bound of the proof holds for the code that runs, on streams that use up draws, and it is
    not vacuous.
    """
    experts, rounds = 8, 200
    algorithm = ProvenDoubling(20.0, plan=Plan(6, 9.0)).build(Setting(1, experts, rounds))
    bound = algorithm.parameters["wrong_doubling_at_most"]
    assert 0.01 < bound < 0.2
    losses = np.zeros((rounds, 1, experts))
    for expert in range(1, experts):  # they start to lose one after the other; expert 0 never does
        losses[20 * expert :, 0, expert] = 1.0
    used = np.array([draws(algorithm, losses, seed) for seed in range(60)])
    assert used.max() >= 3
    assert (used >= 6).mean() <= bound
    assert all(draws(algorithm, np.ones_like(losses), seed) >= 6 for seed in range(5))


def test_the_bound_on_wrong_doublings_is_stated_only_where_it_is_proven() -> None:
    made = Doubling(epsilon=20.0, plan=Plan(9, 9.0)).build(Setting(1, 8, 200))
    assert "wrong_doubling_at_most" not in made.parameters


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_audit_verdict_is_the_expected_one(delta: float) -> None:
    rows = attacked("doubling", Doubling(delta=delta))
    assert {row.verdict for row in rows} == {"holds", "violated"}
    worst = next(row for row in rows if row.case.name == "worst transcript, two epochs")
    assert worst.finding.epsilon is not None
    assert 1.0 <= worst.certified / worst.finding.epsilon <= 1.1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epsilon": -1.0}, r"Expected epsilon=-1.0 > 0"),
        ({"first_guess": 0.0}, r"Expected first_guess=0.0 >= 2\^-20"),
        ({"first_guess": 1e-7}, r"Expected first_guess=1e-07 >= 2\^-20"),
    ],
)
def test_wrong_values_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Doubling(**values)


def test_a_plan_without_draws_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"Expected switches=0 to be a whole number >= 1"):
        Plan(switches=0)


def test_a_first_guess_beyond_the_game_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"Expected first_guess=30.0 in \[.*, 20.0\]"):
        Doubling(first_guess=30.0).build(Setting(2, 3, 10))

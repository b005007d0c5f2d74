"""Fed-SVT itself: what it releases and when, the printed constants, and its worst transcripts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.sparse_vector.plan import Plan, rule
from hedgerow.algorithms.sparse_vector.recency import RecencySelector
from hedgerow.algorithms.sparse_vector.selector import Selector
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.contracts.recording import RecordingNoise
from hedgerow.core.certificate import Observer
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.engines.simulate import simulate
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.evaluation.recorder import Recorder
from hedgerow.evaluation.statistics import Estimate
from hedgerow_papers.asi2023.proven_sparse_vector import ProvenSparseVector
from hedgerow_papers.ours.distance_to_lower_bound import family, floor
from support.played import seen_in
from support.stopping import Stopping


def certified(algorithm: Algorithm) -> float:
    return algorithm.certificate.guarantee(Observer.PEER).curve.stated()[0]


def releases(
    algorithm: Algorithm, losses: np.ndarray, seed: int
) -> list[tuple[str, object, object]]:
    noise = RecordingNoise(SeededNoise(seed))
    simulate(algorithm, RecordedArray(losses), 0, noise=noise, fused=False)
    return [(r.mechanism.purpose, r.value, r.output) for r in noise.ledger.releases]


@pytest.mark.parametrize("every", [1, 3])
def test_every_run_has_its_own_threshold_and_window(every: int) -> None:
    """One threshold for each run, at most `switches` selections, and queries that start from
    nothing after each of them.
    """
    losses = np.random.default_rng(1).random((60, 2, 4))
    algorithm = Stopping(epsilon=8.0, every=every, switches=5, threshold=3.0).build(
        Setting(2, 4, 60)
    )
    for seed in range(20):
        seen = releases(algorithm, losses, seed)
        purposes = [purpose for purpose, _, _ in seen]
        selections = purposes.count("selection")
        assert 1 <= selections <= 5
        assert purposes.count("threshold") == min(5, selections + 1)
        totals, expert, start, noisy, exchange = losses.sum(axis=1), None, 0, None, 0
        for purpose, value, output in seen:
            if purpose == "threshold":
                assert value == 3.0
                noisy = output
            elif purpose == "query":
                exchange += 1
                assert noisy is not None
                query = float(value) + float(noisy)  # pyright: ignore[reportArgumentType]
                if expert is not None:
                    assert query == pytest.approx(
                        totals[start : exchange * every, expert].sum(), abs=1e-4
                    )
            else:
                assert np.allclose(value, totals[: exchange * every].sum(axis=0), atol=1e-4)  # pyright: ignore[reportArgumentType]
                expert, start = int(output), exchange * every  # pyright: ignore[reportArgumentType]


def test_weights_count_a_run_only_in_later_draws_of_its_epoch() -> None:
    """Every score is own weight times the losses of the run that ends, plus later weights times
    those of the earlier runs of the epoch.
    """
    losses = round_to_lattice(np.random.default_rng(1).random((90, 2, 4)))
    totals = losses.sum(axis=1)
    for every in (1, 4):
        spec = SparseVector(epsilon=8.0, every=every, plan=Plan(3, 3.0, front=0.5))
        algorithm = spec.build(Setting(2, 4, 90))
        server = algorithm.server
        assert isinstance(server, RecencySelector)
        for seed in range(4):
            used, exchange, start, runs = 0, 0, 0, list[np.ndarray]()
            for purpose, value, _ in releases(algorithm, losses, seed):
                if purpose == "threshold":
                    assert used > 0  # the first run has no test
                    assert value == 3.0
                elif purpose == "query":
                    assert used > 0
                    exchange += 1
                else:
                    exchange += used == 0
                    end = server.schedule.time(exchange)
                    lost = totals[start:end].sum(axis=0)
                    own = server.weights.of(used).own
                    earlier = [
                        server.weights.of(used - len(runs) + i).later * run
                        for i, run in enumerate(runs)
                    ]
                    assert np.array_equal(np.asarray(value), own * lost + sum(earlier))
                    runs, used, start = [*runs, lost], used + 1, end
                    runs = runs if used % 3 else []
            assert used >= 5


def test_every_column_spends_the_budget() -> None:
    for front in (0.0, 0.3, 1.0):
        spec = SparseVector(epsilon=0.7, plan=Plan(7, front=front))
        server = spec.build(Setting(3, 5, 400)).server
        assert isinstance(server, RecencySelector)
        weights, rate = server.weights, Fraction(server.selection.rate)
        assert rate <= Fraction(weights.rate)
        for column in (weights.opening, *weights.columns):
            assert column is not None
            spent = Fraction(column.test) + 2 * Fraction(weights.rate) * column.units
            assert 0.7 * (1 - 1e-3) <= spent <= Fraction(0.7)
        assert weights.columns[-1].later == 0
        assert weights.opening is not None
        assert weights.opening.test == 0.0


def test_a_column_with_delta_is_larger_where_that_is_worth_something() -> None:
    setting = Setting(10, 100, 512)
    pure, approximate = (
        SparseVector(delta=delta, plan=Plan(4, front=0.3, draw="exponential")).build(setting).server
        for delta in (0.0, 1e-6)
    )
    assert isinstance(pure, RecencySelector)
    assert isinstance(approximate, RecencySelector)
    assert approximate.weights.cost(1e-6).delta(1.0) <= 1e-6
    for less, more in zip(pure.weights.columns, approximate.weights.columns, strict=True):
        gain = more.units * approximate.weights.rate / (less.units * pure.weights.rate)
        assert gain >= 1.0 if less.after < 2 else gain > 1.05


@pytest.mark.parametrize("horizon", [2**13, 2**28, 2**38])
def test_weighted_sums_stay_exact(horizon: int) -> None:
    """The largest score is an exact float, also where secure noise draws, as long as sums are."""
    for delta in (0.0, 1e-6):
        spec = SparseVector(delta=delta, every=horizon // 4, plan=Plan(3))
        server = spec.build(Setting(8, 3, horizon)).server
        assert isinstance(server, RecencySelector)
        losses = 8 * horizon
        assert server.weights.largest * losses < 2**33 or server.weights.largest == 1


def test_permute_and_flip_makes_no_use_of_delta() -> None:
    setting = Setting(10, 100, 512)
    flips = SparseVector(delta=1e-6, plan=Plan(draw="permute-and-flip")).build(setting)
    assert flips.certificate.peer.curve.epsilon(0.0) <= 1.0
    assert flips.server.selection == SparseVector().build(setting).server.selection  # pyright: ignore[reportAttributeAccessIssue]


def test_it_restarts_instead_of_stopping() -> None:
    losses = np.ones((300, 2, 3))
    algorithm = SparseVector(epsilon=50.0, plan=Plan(2, 1.0)).build(Setting(2, 3, 300))
    counters = simulate(algorithm, RecordedArray(losses), 0)
    assert counters.exchanged == algorithm.parameters["exchanges"] == 299


@pytest.mark.parametrize("every", [1, 7, 30, 511])
def test_exchanges_come_early_and_are_counted(every: int) -> None:
    """A good expert is found before the first regular exchange, and messages stay few."""
    losses = np.ones((512, 10, 20))
    losses[:, :, 3] = 0.0
    algorithm = SparseVector(epsilon=10.0, every=every).build(Setting(10, 20, 512))
    counters = simulate(algorithm, RecordedArray(losses), 1)
    assert counters.exchanged == algorithm.parameters["exchanges"]
    assert algorithm.parameters["exchanges"] <= 511 // every + np.log2(every) + 1
    everything = seen_in(algorithm, RecordedArray(losses), 1)
    assert (everything.all_plays()[8:] == 3).all()
    late = SparseVector(epsilon=10.0, every=every, early=False).build(Setting(10, 20, 512))
    assert late.parameters["exchanges"] == 511 // every


@pytest.mark.parametrize(
    ("clients", "epsilon", "horizon", "most"),
    [
        (10, 1.0, 512, 7.5),
        (1, 1.0, 512, 82.0),
        (10, 10.0, 512, 3.5),
        (1, 10.0, 512, 10.0),
        pytest.param(10, 1.0, 16_384, 9.0, marks=pytest.mark.long),
        pytest.param(1, 1.0, 16_384, 90.0, marks=pytest.mark.long),
    ],
)
def test_regret_on_the_worst_of_seven_streams(
    clients: int, epsilon: float, horizon: int, most: float
) -> None:
    """The family of `distance-to-lower-bound`. Seeds are added until the mean is certain."""
    found = {}
    for name, environment in family(clients, 100, horizon).items():
        algorithm = SparseVector(epsilon=epsilon).build(environment.setting)
        regrets: list[float] = []
        while len(regrets) < 40 or (Estimate.of(regrets).high > most and len(regrets) < 160):
            recorder = Recorder(environment.setting, points=2)
            counters = simulate(algorithm, environment, len(regrets), sinks=[recorder])
            regrets.append(recorder.result("", 0, counters).final_regret)
        found[name] = Estimate.of(regrets)
    assert len(found) == 7
    assert max(found.values(), key=lambda one: one.mean).mean <= most, found
    assert found["halving"].high >= floor(100)  # nobody does better


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
@pytest.mark.parametrize(
    ("clients", "experts", "horizon", "every"),
    [(1, 1, 1, 1), (1, 2, 10, 10), (10, 100, 512, 1), (1000, 5000, 10**7, 100)],
)
def test_certified_choice_spends_the_budget_and_no_more(
    epsilon: float, clients: int, experts: int, horizon: int, every: int
) -> None:
    setting = Setting(clients, experts, horizon)
    algorithm = SparseVector(epsilon=epsilon, every=every).build(setting)
    assert epsilon * (1 - 1e-9) <= certified(algorithm) <= epsilon
    plan = rule(setting, epsilon=epsilon, delta=0.0, every=every, early=True)
    assert algorithm.parameters["threshold"] == round_to_lattice(plan.threshold)
    assert plan.schedule.every % every == 0


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_worst_transcripts_approach_the_certificate_and_never_pass_it(
    clients: int, epsilon: float
) -> None:
    """Every exchange is a switch to an expert that only one world favours: each step is near its
    own worst ratio.
    """
    setting = Setting(clients, 100, 200)
    algorithm = Stopping(epsilon=epsilon).build(setting)
    server = algorithm.server
    assert isinstance(server, Selector)
    assert algorithm.claims.log_likelihood is not None
    rounds = server.switches + 1
    first = np.zeros((rounds, clients, 100))
    first[1:, :, 0] = 1.0
    second = first.copy()
    first[0, 0], second[0, 0] = 1.0, 0.0
    first[0, 0, 0], second[0, 0, 0] = 0.0, 1.0
    sent = [
        CurrentExpert(1, 1, 0),
        *(CurrentExpert(None if k == server.switches else 1, 0, k) for k in range(1, rounds)),
    ]
    ratio = algorithm.claims.log_likelihood(sent, first) - algorithm.claims.log_likelihood(
        sent, second
    )
    assert 0.95 * certified(algorithm) <= ratio <= certified(algorithm)
    halved = Stopping(
        epsilon=2 * epsilon,
        switches=server.switches,
        threshold=server.threshold,
    ).build(setting)
    assert halved.claims.log_likelihood is not None
    assert halved.claims.log_likelihood(sent, first) - halved.claims.log_likelihood(
        sent, second
    ) > certified(algorithm)


def test_wrong_choices_are_refused() -> None:
    for plan, name in ((Plan(front=0.5), "front"), (Plan(draw="exponential"), "draw")):
        with pytest.raises(InvalidValue, match=f"{name}=.*None: the bound"):
            ProvenSparseVector(plan=plan)
    with pytest.raises(InvalidValue, match="front"):
        Plan(front=1.5)
    with pytest.raises(InvalidValue, match="draw"):
        Plan(draw="gumbel")  # pyright: ignore[reportArgumentType]


def test_schedules() -> None:
    """`time`, `wait`, `between` and `count` describe one list, for any first round."""
    for every in (1, 3, 8, 30):
        for schedule in (
            Schedule(every),
            *(Schedule.soon(every, first) for first in (1, 2, 5, 64)),
        ):
            times = [schedule.time(k) for k in range(1, 30)]
            assert times == sorted(set(times))
            assert schedule.between(0, times[-1] + 1).tolist() == times
            assert schedule.between(times[3], times[9]).tolist() == times[3:9]
            assert schedule.count(times[7] + 1) == 8 == schedule.count(times[7]) + 1
            assert [schedule.wait(k) for k in range(5)] == np.diff([0, *times[:5]]).tolist()
            assert all(t % every == 0 for t in times if t not in schedule.early)


def test_a_game_with_separate_deciders_is_refused() -> None:
    with pytest.raises(Unsupported, match="sparse_vector lets the clients play"):
        SparseVector().build(Setting(2, 3, 10, deciders=1))


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        (ProvenSparseVector(delta=1e-6, plan=Plan(15)), (1000, 100, 100_000)),
        (SparseVector(delta=1e-6, plan=Plan(front=0.0)), (1000, 100, 10**6)),
        (SparseVector(epsilon=0.01, delta=0.02), (8000, 100, 10**6)),
    ],
)
def test_weighted_sums_stay_exact_in_large_games(spec: SparseVector, size: Any) -> None:
    clients, experts, horizon = size
    built = spec.build(Setting(clients, experts, horizon))
    server: Any = built.server
    pure: Any = replace(spec, delta=0.0).build(built.setting).server
    most = max(pure.weights.largest, (2**33 - 1) / (clients * horizon))
    assert server.weights.largest <= most


def test_the_best_loss_counts_after_rounding() -> None:
    """Half a step of the lattice in every round is rounded up to a whole one."""
    setting, lost = Setting(1, 8, 2**14), 0.500001 * 2.0**-20
    built = ProvenSparseVector(best_loss=2**14 * lost, epsilon=1e5).build(setting)
    server: Any = built.server
    rounded = 2**14 * float(round_to_lattice(np.array(lost)))
    assert rounded > 1.9 * 2**14 * lost
    assert server.floor >= rounded


@pytest.mark.parametrize("delta", [1e-12, 1e-300])
def test_a_tiny_delta_does_not_bring_the_certificate_above_the_budget(delta: float) -> None:
    """Ranges are rounded up one by one; their sum may exceed the exact cost by a float."""
    setting = Setting(10, 20, 100)
    for epsilon in (0.1, 1 / 3, 1.0):
        curve = SparseVector(epsilon=epsilon, delta=delta).build(setting).certificate.peer.curve
        assert curve.epsilon(delta) <= epsilon
        assert curve.delta(epsilon) <= delta
        assert curve.delta(0.9 * epsilon) > delta  # and the budget is used

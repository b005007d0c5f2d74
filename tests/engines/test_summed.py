"""Games of which only sums are drawn: the same as adding up where losses are given, of the same law
where they are drawn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.environment import Environment
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import UNITS_PER_LOSS, to_units
from hedgerow.core.transcript import Everything
from hedgerow.engines.simulate import EngineName, simulate
from hedgerow.environments.drawn.realizable import Halving, NearRealizable, Realizable
from hedgerow.environments.drawn.stochastic import Bernoulli, GapLadder, UniformLosses
from hedgerow.environments.drawn.switching import Switching
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.evaluation.recorder import RunResult
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.run import run_study
from support.played import played

SMALL: dict[str, Any] = {"clients": 3, "experts": 4, "horizon": 40}
COUNTED = (
    Bernoulli(**SMALL, mean=0.5, gap=0.3),
    GapLadder(**SMALL, mean=0.7, gap=0.1),
    Realizable(**SMALL, law="bernoulli", mean=0.4),
    Switching(**SMALL, segments=3, mean=0.6, gap=0.5),
    Halving(**SMALL),
)


def p_value(one: Any, other: Any) -> float:
    return float(stats.ks_2samp(one, other).pvalue)  # pyright: ignore[reportAttributeAccessIssue]


def play(environment: Environment, seed: int, engine: EngineName, **choices: Any) -> RunResult:
    return played(SparseVector(**{"epsilon": 3.0, **choices}), environment, seed, engine)


@pytest.mark.parametrize("every", [1, 3, 40])
def test_given_losses_are_played_bit_for_bit(every: int) -> None:
    losses = np.random.default_rng(0).random((120, 5, 6))
    losses[..., 2] *= 0.1
    environment = RecordedArray(losses)
    for seed in range(5):
        one, other = (
            play(environment, seed, engine, every=every) for engine in ("vectorised", "summed")
        )
        for name in (
            "rounds",
            "loss",
            "regret",
            "switches",
            "exchanges",
            "uploaded_bytes",
            "broadcast_bytes",
        ):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
        assert np.isnan(other.own_best_regret)


@pytest.mark.parametrize("environment", COUNTED, ids=lambda e: type(e).__name__)
def test_sums_have_the_law_of_added_losses(environment: Any) -> None:
    """By seed: the plan is the same, so the totals of every expert in two spans are compared over
    many chunks of randomness.
    """
    first, second = 11, 29
    for seed in (0, 1):
        start = environment.start(seed)
        means = np.zeros((2, environment.experts))
        for at, (offset, rounds) in enumerate(((0, first), (first, second))):
            drawn = np.array(
                [
                    environment.draw(np.random.default_rng(k), start.plan, offset, rounds)
                    for k in range(400)
                ]
            )
            added = drawn.sum(axis=(1, 2))
            counted = np.array(
                [
                    environment.counts(np.random.default_rng([7, k]), start.plan, offset, rounds)
                    for k in range(400)
                ]
            )
            for expert in range(environment.experts):
                if added[:, expert].std() == 0:
                    assert np.array_equal(added[:, expert], counted[:, expert])
                else:
                    assert p_value(added[:, expert], counted[:, expert]) > 1e-5
                    assert p_value(added[:, expert] * 1.15, counted[:, expert]) < 1e-5
            means[at] = counted.mean(axis=0)
        assert (means.sum(axis=0) <= environment.clients * environment.horizon).all()


def test_spans_go_on_where_the_last_one_ended() -> None:
    environment = Halving(**SMALL)
    state, totals = environment.start(3), np.zeros(4)
    for rounds in (1, 7, 20, 12):
        part, state = environment.sums(state, rounds)
        totals = totals + part
    block, _ = environment.block(environment.start(3), 40, None)
    assert np.array_equal(totals, to_units(block.losses.sum(axis=(0, 1))))
    again, _ = Bernoulli(**SMALL).sums(Bernoulli(**SMALL).start(5), 9)
    once, _ = Bernoulli(**SMALL).sums(Bernoulli(**SMALL).start(5), 9)
    assert np.array_equal(again, once)
    assert (again % UNITS_PER_LOSS == 0).all()


@pytest.mark.long
def test_losses_and_regret_have_the_same_law_on_both_engines() -> None:
    environment = Bernoulli(clients=4, experts=6, horizon=200, mean=0.5, gap=0.4)
    one, other = (
        [play(environment, seed, e, every=5) for seed in range(150)]
        for e in ("vectorised", "summed")
    )
    assert p_value([r.final_regret for r in one], [r.final_regret for r in other]) > 1e-5
    assert p_value([r.loss[-1] for r in one], [r.loss[-1] for r in other]) > 1e-5
    wrong = [play(replace(environment, mean=0.55), seed, "summed", every=5) for seed in range(150)]
    assert p_value([r.loss[-1] for r in one], [r.loss[-1] for r in wrong]) < 1e-5


def test_what_cannot_be_played_by_sums_is_refused_by_name() -> None:
    with pytest.raises(
        Unsupported,
        match=r"hedge cannot be played from sums: .* Omit the engine "
        r".*draw sums: bernoulli, common_coins,",
    ):
        simulate(Hedge().build(COUNTED[0].setting), COUNTED[0], 0, engine="summed")
    own_noise = PhasedSelection(trust="local").build(COUNTED[0].setting)
    with pytest.raises(
        Unsupported,
        match="phased_selection cannot be played from sums: each of its clients adds its own noise",
    ):
        simulate(own_noise, COUNTED[0], 0, engine="summed")
    with pytest.raises(
        Unsupported,
        match="follow_the_leader cannot be played from sums: "
        "it does not name one expert for all clients",
    ):
        simulate(FollowTheLeader().build(COUNTED[0].setting), COUNTED[0], 0, engine="summed")
    uniform = UniformLosses(**SMALL)
    with pytest.raises(Unsupported, match="UniformLosses cannot draw sums"):
        play(uniform, 0, "summed")
    with pytest.raises(Unsupported, match="law='uniform' cannot be drawn directly"):
        play(Realizable(**SMALL), 0, "summed")
    with pytest.raises(Unsupported, match="exact=False can"):
        play(NearRealizable(**SMALL, law="bernoulli"), 0, "summed")
    algorithm = SparseVector().build(COUNTED[0].setting)
    with pytest.raises(Unsupported, match="messages of single clients cannot be kept"):
        simulate(algorithm, COUNTED[0], 0, sinks=[Everything()], engine="summed")


def test_near_realizable_sums_have_the_chosen_loss() -> None:
    environment = NearRealizable(
        clients=1000, experts=3, horizon=100, law="bernoulli", best_loss=5.0, exact=False
    )
    totals, _ = environment.sums(environment.start(0), 100)
    assert abs(totals.min() / UNITS_PER_LOSS / 1000 - 5.0) < 0.5


def test_a_study_that_cannot_be_played_by_sums_says_why_at_once_and_completely() -> None:
    config = StudyConfig(
        "x",
        NearRealizable(**SMALL),
        (Entry("a", Hedge()), Entry("b", SparseVector())),
        seeds=1,
        engine="summed",
    )
    with pytest.raises(
        Unsupported,
        match=r"a: hedge cannot be played .*law='bernoulli' can; .*exact=False can.* b: ",
    ):
        run_study(config, workers=1)

"""Adversaries and their theorems: the streams are as described, the bounds hold for what is played
and are reached where they can be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from math import expm1, log, sqrt
from typing import Any

import numpy as np
import pytest
from scipy import stats

import hedgerow as hr
from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.block import ABSENT, Block
from hedgerow.core.errors import InvalidValue
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Everything
from hedgerow.engines.simulate import simulate
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.environments.hard.columns import (
    ColumnState,
    ConsensusColumns,
)
from hedgerow.environments.hard.lower_bounds import (
    coin_regret,
    consensus_regret,
    hidden_expert_regret,
)
from hedgerow.environments.hard.oblivious import CommonCoins, HiddenExpert
from hedgerow.environments.wrappers.absent import Absent
from hedgerow.studies.study import study_notes
from hedgerow_papers.asi2023.column_subsets import (
    ColumnSubsets,
    column_subsets_regret,
    sign_estimation_regret,
)
from hedgerow_papers.asi2023.sign_estimation import SignEstimation
from support.command import Command
from support.played import regret, regrets

# Fixed in advance


def test_coins_are_fair_and_common() -> None:
    environment = CommonCoins(clients=3, experts=4, horizon=600)
    losses = environment.block(environment.start(1), 600, None)[0].losses
    assert (losses == losses[:, :1]).all()
    assert stats.binomtest(int(losses[:, 0].sum()), 2400, 0.5).pvalue > 1e-4


@pytest.mark.parametrize(
    "spec",
    [Uniform(), FollowTheLeader(), Hedge(), PhasedSelection(epsilon=100.0)],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize("clients", [1, 6])
def test_nobody_beats_common_coins_with_any_number_of_clients(
    spec: AlgorithmSpec, clients: int
) -> None:
    found, exact, alarm = (
        regrets(spec, CommonCoins(clients=clients, experts=8, horizon=64), 60),
        coin_regret(8, 64),
        1e-4 / 8,
    )  # cases
    right, wrong = (stats.ttest_1samp(found, mean).pvalue for mean in (exact, 1.5 * exact))  # pyright: ignore[reportAttributeAccessIssue]
    assert right > alarm > wrong


def test_coin_regret_is_the_mean_of_a_minimum() -> None:
    drawn = np.random.default_rng(0).binomial(60, 0.5, (40_000, 7)).min(axis=1)
    assert coin_regret(7, 60) == pytest.approx(30 - drawn.mean(), abs=0.05)
    assert coin_regret(1, 60) == pytest.approx(0.0, abs=1e-9)
    assert coin_regret(10**4, 10**6) / sqrt(10**6 * log(10**4) / 2) == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize(("clients", "epsilon"), [(1, 0.1), (1, 1.0), (4, 0.1), (4, 0.25)])
def test_private_algorithms_regret_what_they_must_on_the_hidden_expert(
    clients: int, epsilon: float
) -> None:
    environment = HiddenExpert(clients=clients, experts=32, horizon=200)
    least = hidden_expert_regret(environment.setting, epsilon)
    for spec in (PhasedSelection(epsilon=epsilon), SparseVector(epsilon=epsilon)):
        found = regret(spec, environment, 30)
        assert found.mean + found.half_width >= least
    loud = regret(PhasedSelection(epsilon=100.0), environment, 30)
    assert loud.mean + loud.half_width < least


def test_hidden_expert_bound_by_hand() -> None:
    by_hand = sum(
        max(0.0, 1 - np.exp(0.3 * t) / 8 - 1e-3 * (np.exp(0.3 * t) - 1) / (np.exp(0.1) - 1))
        for t in range(50)
    )
    assert hidden_expert_regret(Setting(3, 8, 50), 0.1, 1e-3) == pytest.approx(by_hand)
    assert hidden_expert_regret(Setting(3, 8, 2), 1e-6) == pytest.approx(2 * 7 / 8, rel=1e-4)
    assert (
        hidden_expert_regret(Setting(10**6, 1000, 10**6), 5.0, 1e-6) == 1 - 1 / 1000
    )  # without an overflow
    one, many = (hidden_expert_regret(Setting(m, 1000, 10**6), 0.01) for m in (1, 50))
    assert one / many == pytest.approx(50, rel=0.1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_hidden_expert_bound_where_powers_of_e_leave_the_floats(delta: float) -> None:
    """The first round teaches nobody anything; in the second everything is known, or nothing."""
    assert hidden_expert_regret(Setting(1000, 100, 512), 1.0, delta) == pytest.approx(0.99)
    assert hidden_expert_regret(Setting(1, 100, 512), 800.0, delta) == pytest.approx(0.99)
    assert hidden_expert_regret(Setting(1, 100, 512), 1e-300, delta) == pytest.approx(
        512 * 0.99 - delta * 511 * 256
    )


# Columns


def test_columns_are_charged_as_the_row_says_until_they_are_played() -> None:
    environment = SignEstimation(experts=60, horizon=20, rows=3, coded=6)
    state, plays = environment.start(2), None
    assert state.signs.shape == (3, 30)
    assert (np.abs(state.signs.sum(axis=0)) == 3).sum() >= 24
    gone: set[int] = set()
    for t in range(20):
        block, after = environment.block(state, 1, plays)
        row = state.signs[state.order[t % 3]]
        for column in range(30):
            pair = block.losses[0, 0, 2 * column : 2 * column + 2]
            assert pair.tolist() == (
                [1.0, 1.0] if column in gone else [float(row[column] > 0), float(row[column] < 0)]
            )
        assert not state.gone[list(set(range(30)) - gone)].any()
        plays, state = np.array([(7 * t) % 60]), after
        gone.add(int(plays[0]) // 2)


def test_a_code_disagrees_in_some_columns_and_leaves_an_expert_that_is_never_wrong() -> None:
    for environment in (SignEstimation(), ColumnSubsets()):
        states = [environment.start(seed) for seed in range(40)]
        mixed = [(np.abs(state.signs.sum(axis=0)) < environment.rows).sum() for state in states]
        assert max(mixed) <= environment.coded
        assert np.mean(mixed) > environment.coded / 2
        study = hr.run(environment, {"guessing": Uniform()}, seeds=5)
        for run in study.results:
            assert run.final_regret == run.loss[-1]  # the best expert loses nothing


def test_after_the_active_rounds_nothing_is_lost() -> None:
    environment = SignEstimation(experts=60, horizon=200, coded=3, active=20)
    state, played = environment.start(0), np.array([0])
    for t in range(30):
        block, state = environment.block(state, 1, played)
        assert (block.losses.sum() > 0) == (t < 20)


def test_subsets_are_right_only_with_all_their_signs() -> None:
    environment = ColumnSubsets(experts=4 * 190, horizon=8, subset=2, rows=2, coded=2)
    assert environment.columns == 20
    state = environment.start(0)
    first, state = environment.block(state, 1, None)
    row, subsets = state.signs[state.order[0]], list(combinations(range(20), 2))
    for expert in range(0, 760, 7):
        (a, b), code = subsets[expert // 4], expert % 4
        right = (row[a] > 0) == bool(code & 1) and (row[b] > 0) == bool(code & 2)
        assert first.losses[0, 0, expert] == (0.0 if right else 1.0)
    played = int(first.losses[0, 0].argmin())
    second, _ = environment.block(state, 1, np.array([played]))
    touched = [set(subsets[played // 4]) & set(subset) != set() for subset in subsets]
    assert (second.losses[0, 0].reshape(-1, 4)[touched] == 1).all()
    assert (second.losses[0, 0].reshape(-1, 4)[np.logical_not(touched)].sum(axis=1) == 3).all()


@pytest.mark.parametrize("environment", [SignEstimation(), ConsensusColumns(), ColumnSubsets()])
def test_who_is_absent_uses_up_no_column(environment: SignEstimation) -> None:
    """Nobody plays: nothing is gone; one of two clients plays: what it played is, and nothing else."""
    _, state = environment.block(environment.start(0), 1, None)
    _, state = environment.block(state, 1, np.array([ABSENT, ABSENT]))
    assert not state.gone.any()
    for play in (5, environment.experts - 1):
        _, after = environment.block(state, 1, np.array([play, ABSENT]))
        assert (
            np.flatnonzero(after.gone).tolist()
            == np.unique(environment.columns_of(np.array([play]))).tolist()
        )


def test_a_whole_game_with_absent_clients_uses_up_what_was_played() -> None:
    """Uniform plays, so that the last column, which an absent client would use up if it counted, is
    played late or never.
    """

    @dataclass(frozen=True, kw_only=True)
    class Watched(ConsensusColumns):
        seen: list[np.ndarray] = field(default_factory=list)

        def block(
            self, state: ColumnState, rounds: int, past_plays: np.ndarray | None
        ) -> tuple[Block, ColumnState]:
            made, after = super().block(state, rounds, past_plays)
            self.seen.append(after.gone)
            return made, after

    inner, kept = Watched(clients=2, experts=400, horizon=80), Everything(wants_messages=False)
    simulate(Uniform().build(inner.setting), Absent(of=inner, rate=0.5), 1, sinks=[kept])
    plays = kept.all_plays()
    assert 0.4 < (plays == ABSENT).mean() < 0.6
    for t, gone in enumerate(inner.seen):
        past = plays[:t]
        assert np.flatnonzero(gone).tolist() == np.unique(past[past != ABSENT] // 2).tolist()
    assert not inner.seen[-1][-1]


def test_whoever_may_look_pays_half_as_often() -> None:
    """The leader of all losses so far is right when it is new and pays when it is played again; a
    private choice pays nearly always.
    """
    for environment in (ConsensusColumns(experts=200, horizon=60), ColumnSubsets()):
        assert regret(FollowTheLeader(), environment, 5).mean <= 0.55 * environment.horizon
        assert (
            regret(PhasedSelection(epsilon=0.1), environment, 5).mean >= 0.8 * environment.horizon
        )


@pytest.mark.parametrize("epsilon", [0.05, 0.3])
def test_pure_algorithms_regret_what_they_must_on_consensus_columns(epsilon: float) -> None:
    environment = ConsensusColumns(experts=150, horizon=60)
    least = consensus_regret(60, epsilon)
    assert least > (18 if epsilon < 0.1 else 6)
    for spec in (PhasedSelection(epsilon=epsilon), SparseVector(epsilon=epsilon), Uniform()):
        found = regret(spec, environment, 5)
        assert found.mean + found.half_width >= least


def test_consensus_bound_by_hand() -> None:
    chances = [
        min(1.0, np.exp(0.2 * 12) * stats.binom.sf(12 - lost - 1, 12, 0.5)) for lost in range(12)
    ]
    assert consensus_regret(12, 0.1, clients=2) == pytest.approx(
        sum(1 - chance for chance in chances)
    )
    assert consensus_regret(4000, 0.1) / 4000 == pytest.approx(0.28, abs=0.01)
    assert consensus_regret(4000, 0.7) == 0.0
    for horizon, epsilon in (
        (1100, 0.69),
        (2000, 0.69),
        (20000, 0.1),
    ):  # where chances are below all floats
        exact = _consensus_by_integers(horizon, epsilon)
        assert consensus_regret(horizon, epsilon) == pytest.approx(exact, rel=1e-6)
        assert consensus_regret(horizon, epsilon) <= exact


def test_printed_constants_of_the_fingerprinting_theorems() -> None:
    small = 1 / (200 * 100 * log(10**4))
    assert sign_estimation_regret(10**4, small * 0.999) == 10.0
    assert sign_estimation_regret(10**4, small * 1.1) < 10.0
    assert sign_estimation_regret(10**8, small * 0.999) == pytest.approx(10.0, rel=0.01)
    assert column_subsets_regret(10**4, 4, 0.9 * 2 * small) == 10.0
    assert column_subsets_regret(10**4, 4, 1.1 * 2 * small) == 0.0
    assert sign_estimation_regret(10**4, small * 0.999, 1e-12) == 10.0
    with pytest.raises(InvalidValue, match=r"delta=1e-11 .* Theorem 9"):
        sign_estimation_regret(10**4, small, 1e-11)
    with pytest.raises(InvalidValue, match=r"delta=1e-11 .* Theorem 11"):
        column_subsets_regret(10**4, 4, small, 1e-11)


def _consensus_by_integers(horizon: int, epsilon: float) -> float:
    """The sum of 1 - min(1, e^(epsilon T) Pr(B >= T - l)), with whole numbers for the counts of
    coin sequences.
    """
    total, count, ways = 0.0, 0, 1
    for lost in range(horizon):
        count, ways = count + ways, ways * (horizon - lost) // (lost + 1)
        exponent = epsilon * horizon + log(count) - horizon * log(2)
        if exponent >= 0:
            break
        total -= expm1(exponent)
    return total


@pytest.mark.parametrize(
    ("kind", "bad", "rule"),
    [
        (
            SignEstimation,
            {"clients": 2},
            "horizon=90 <= 45: .* every client.*; 90 rounds with 2 clients need experts >= 400",
        ),
        (SignEstimation, {"experts": 201}, "experts=201 to be even"),
        (SignEstimation, {"horizon": 91}, "horizon=91 <= 90.* with 1 client need experts >= 204"),
        (SignEstimation, {"coded": 0}, r"coded=0 in \[1, 9\]: without a code"),
        (SignEstimation, {"coded": 10}, r"coded=10 in \[1, 9\]"),
        (SignEstimation, {"active": 91}, "active=91 <= horizon=90"),
        (SignEstimation, {"horizon": 500, "active": 91}, "active=91 <= 90: .*experts >= 204"),
        (SignEstimation, {"rows": 0}, "rows=0"),
        (ColumnSubsets, {"experts": 3000}, "experts=3000 to be .* as 2964 or 3120"),
        (ColumnSubsets, {"horizon": 19}, "horizon=19 <= 18.* need experts >= 3612"),
        (ColumnSubsets, {"subset": 9}, "subset=9"),
    ],
)
def test_impossible_matrices_are_named(kind: Any, bad: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidValue, match=rule):
        kind(**bad)


def test_lasting_chases_forgive_nothing() -> None:
    environment = PlayChasing(clients=2, experts=4, horizon=8, lasting=True)
    state = environment.start(0)
    for plays, charged in (
        ([1, 3], [[1], [3]]),
        ([0, 3], [[0, 1], [3]]),
        ([2, 2], [[0, 1, 2], [2, 3]]),
    ):
        block, state = environment.block(state, 1, np.array(plays))
        assert [np.flatnonzero(row).tolist() for row in block.losses[0]] == charged


# Labels


def test_a_budget_too_small_to_learn_from_is_said_with_the_bound() -> None:
    environment = Bernoulli(clients=2, experts=100, horizon=512)
    idle, said = study_notes(PhasedSelection(epsilon=1e-4).build(environment.setting), environment)
    assert "is vacuous here: it is the number of rounds, 512" in idle
    assert "too little to learn from" in said
    assert f"{hidden_expert_regret(environment.setting, 1e-4):.3g}" in said
    assert study_notes(PhasedSelection(epsilon=1.0).build(environment.setting), environment) == []
    assert study_notes(Uniform().build(environment.setting), environment) == []


def test_a_delta_that_hardly_protects_is_said() -> None:
    environment = Bernoulli(clients=2, experts=100, horizon=512)
    (said,) = study_notes(ShrinkingDartboard(delta=1e-3).build(environment.setting), environment)
    assert "delta = 0.001 is large for 1024 loss vectors" in said
    assert study_notes(ShrinkingDartboard(delta=9e-4).build(environment.setting), environment) == []


def test_certify_tells_the_regret_bound_and_its_notes(hedgerow: Command) -> None:
    document = hedgerow(
        "certify", "shrinking_dartboard", "--set", "epsilon=1e-4", "--set", "clients=1", "--json"
    ).document()
    assert document["regret_bound_for"] == "losses fixed in advance"
    assert document["regret_bound"] > 400
    idle, note = document["notes"]
    assert "is vacuous here" in idle
    assert "1 client, 100 experts" in note
    words = hedgerow("certify", "shrinking_dartboard").out
    assert "expected regret per client at most 75" in words
    assert "note:" not in words


def test_runs_print_their_notes(hedgerow: Command, tmp_path: Any) -> None:
    file = tmp_path / "study.toml"
    file.write_text(
        'seeds = 2\n[environment]\nname = "play_chasing"\nclients = 2\nexperts = 4\nhorizon = 20\n'
        '[[algorithms]]\nname = "phased_selection"\nepsilon = 1e-4\n'
    )
    shown = hedgerow("run", str(file), "--out", str(tmp_path / "one"), "--workers", "1")
    assert shown.code == 0
    plain = " ".join(shown.out.split())
    assert (
        "this environment has losses that may react to the plays, for which nothing is proven"
        in plain
    )
    assert "too little to learn from" in plain
    told = hedgerow(
        "run", str(file), "--out", str(tmp_path / "two"), "--workers", "1", "--json"
    ).document()["notes"]
    assert len(told["phased_selection"]) == 3
    assert "better than guessing" in told["phased_selection"][2]

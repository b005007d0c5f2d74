"""The proven regret bounds of `sparse_vector`, `doubling` and `potential`: kept on the worst streams
found, not much above what they cost, rounded outward, and stated only where they are proven.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.sparse_vector.plan import Plan
from hedgerow.algorithms.sparse_vector.recency import RecencySelector
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.engines.simulate import simulate
from hedgerow.environments.adversaries import covered
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.evaluation.recorder import Recorder
from hedgerow.evaluation.statistics import Estimate
from hedgerow.privacy.mechanisms import ExponentialMechanism
from hedgerow.studies.study import study_notes
from hedgerow_papers.asi2023.proven_bounds import (
    COARSE,
    FINE,
    EpochRuns,
    Game,
    Grid,
    Prices,
    Runs,
    chance_of_end,
    epochs_bound,
    loss_bound,
    regret_bound,
    run_cost,
)
from hedgerow_papers.asi2023.proven_doubling import ProvenDoubling
from hedgerow_papers.asi2023.proven_potential import ProvenPotential
from hedgerow_papers.asi2023.proven_sparse_vector import ProvenSparseVector
from support.command import Command
from support.played import seen_in


def proved(epsilon: float, setting: Setting, **choices: Any) -> Algorithm:
    return ProvenSparseVector(epsilon=epsilon, **choices).build(setting)


def regret(algorithm: Algorithm, environment: Environment, seeds: int) -> Estimate:
    found = []
    for seed in range(seeds):
        recorder = Recorder(environment.setting, points=2)
        ended = simulate(algorithm, environment, seed, sinks=[recorder])
        found.append(recorder.result("", seed, ended).final_regret)
    return Estimate.of(found)


def draws(algorithm: Algorithm, environment: Environment, seed: int) -> int:
    """How many experts are drawn in one game."""
    kept = seen_in(algorithm, environment, seed)
    return kept.messages[-1][2].switches


def ladder(setting: Setting, every: int, size: int = 1) -> RecordedArray:
    """One expert after the other starts to lose for good, every `every` rounds; the first never."""
    starts = 1 + every * (np.arange(setting.experts - 1) // size)
    lost = (np.arange(setting.rounds)[:, None] >= starts).astype(np.float64)
    losses = np.concatenate([np.zeros((setting.rounds, 1)), lost], axis=1)
    return RecordedArray(np.repeat(losses[:, None, :], setting.clients, axis=1))


# The value


@pytest.mark.parametrize(
    ("epsilon", "rounds", "target"),
    [
        (10.0, 512, 10.5),
        (1.0, 512, 57.0),
        pytest.param(10.0, 16384, 12.6, marks=pytest.mark.long),
        pytest.param(1.0, 16384, 66.0, marks=pytest.mark.long),
    ],
)
def test_the_bound_says_something(epsilon: float, rounds: int, target: float) -> None:
    setting = Setting(clients=10, experts=100, horizon=rounds)
    assert target / 2 < proved(epsilon, setting).regret_at_most <= target


@pytest.mark.parametrize(
    ("setting", "every", "epsilon"),
    [(Setting(1, 16, 256), 1, 100.0), (Setting(4, 16, 256), 4, 25.0)],
)
def test_the_worst_streams_found_are_below_the_bound_and_near_it(
    setting: Setting, every: int, epsilon: float
) -> None:
    """A third of the bound would fail."""
    algorithm = proved(epsilon, setting, every=every)
    streams = [ladder(setting, step * every, size) for step, size in ((1, 1), (2, 1), (1, 2))]
    found = [regret(algorithm, stream, 60) for stream in streams]
    worst = max(found, key=lambda estimate: estimate.mean)
    assert worst.low <= algorithm.regret_at_most
    assert worst.low > algorithm.regret_at_most / 3


@pytest.mark.long
@pytest.mark.parametrize(("clients", "epsilon"), [(1, 100.0), (1, 10.0), (10, 1.0)])
def test_no_stream_of_a_random_search_is_above_the_bound(clients: int, epsilon: float) -> None:
    """Groups of experts lose in intervals at random times; some die at the end."""
    setting, rng = Setting(clients, 16, 256), np.random.default_rng(7)
    algorithm, worst = proved(epsilon, setting), 0.0
    for _ in range(60):
        intervals, groups, length = (
            rng.choice([1, 2, 4]),
            rng.choice([3, 5, 15]),
            2 ** rng.integers(7),
        )
        group = rng.integers(0, groups, setting.experts)
        begin = (rng.random((groups, intervals)) * setting.rounds).astype(int)[group]
        since = np.arange(setting.rounds)[:, None, None] - begin
        lost = ((since >= 0) & (since < length)).any(axis=2).astype(float)
        if rng.random() < 0.3:
            lost[int(rng.uniform(0.2, 0.9) * setting.rounds) :] = 1.0
        lost[:, 0] = 0.0
        stream = RecordedArray(np.repeat(lost[:, None, :], clients, axis=1))
        found = regret(algorithm, stream, 20)
        assert found.mean - found.half_width <= algorithm.regret_at_most
        worst = max(worst, found.mean)
    assert worst > 0.15 * algorithm.regret_at_most


def test_a_known_best_loss_is_covered() -> None:
    setting, best = Setting(10, 16, 256), 2.0
    algorithm = proved(10.0, setting, best_loss=best)
    assert algorithm.claims.regret_bound is not None
    assert algorithm.claims.regret_bound.best_loss == best
    near = hr.NearRealizable(clients=10, experts=16, horizon=256, best_loss=best, law="bernoulli")
    assert covered(algorithm.claims.regret_bound, near)
    assert not covered(algorithm.claims.regret_bound, replace(near, best_loss=2.5))
    losses = np.array(ladder(setting, 8).losses)
    losses[::128, :, 0] = 1.0
    found = regret(algorithm, RecordedArray(losses), 20)
    assert 0.1 * algorithm.regret_at_most < found.low <= algorithm.regret_at_most < 256


# Epochs that differ

PROVED: dict[str, Any] = {
    "doubling": ProvenDoubling,
    "potential": ProvenPotential,
}


@pytest.mark.parametrize(
    ("name", "epsilon", "target"),
    [
        ("doubling", 10.0, 10.4),
        ("doubling", 1.0, 51.5),
        ("potential", 10.0, 10.7),
        ("potential", 1.0, 52.4),
    ],
)
def test_bounds_of_differing_epochs_say_something(name: str, epsilon: float, target: float) -> None:
    found = PROVED[name](epsilon).build(Setting(clients=10, experts=100, horizon=512))
    assert target / 2 < found.regret_at_most <= target
    assert found.claims.regret_bound.best_loss == 0
    assert (
        found.claims.regret_bound.proof.words()
        == "proofs/sparse_vector_regret.md#epochs-that-differ"
    )


@pytest.mark.parametrize("name", PROVED)
@pytest.mark.parametrize(
    ("setting", "every", "epsilon"),
    [(Setting(1, 16, 256), 1, 100.0), (Setting(4, 16, 256), 4, 25.0)],
)
def test_differing_epochs_keep_their_bound_and_come_near_it(
    name: str, setting: Setting, every: int, epsilon: float
) -> None:
    """A quarter of the bound would fail."""
    algorithm = PROVED[name](epsilon, every=every).build(setting)
    streams = [ladder(setting, step * every, size) for step, size in ((1, 1), (2, 1), (1, 2))]
    worst = max((regret(algorithm, one, 60) for one in streams), key=lambda found: found.mean)
    assert algorithm.regret_at_most / 4 < worst.low <= algorithm.regret_at_most < 256


@pytest.mark.parametrize(("best", "share"), [(0.5, 0.1), (2.0, 0.02)])
def test_doubling_is_covered_whatever_the_best_expert_loses(best: float, share: float) -> None:
    """The best expert loses first, and nobody tells the algorithm how much it may lose."""
    setting, spec = Setting(10, 16, 512), ProvenDoubling(50.0)
    losses = np.array(ladder(setting, 1).losses)
    losses[2:], losses[:2] = losses[:-2].copy(), 0.0
    losses[:2, :, 0] = best / 2
    bound = spec.regret_at_most(setting, best)
    found = regret(spec.build(setting), RecordedArray(losses), 20)
    assert share * bound < found.low <= bound < setting.rounds / 5
    perfect = spec.regret_at_most(setting, 0.0)
    assert perfect == spec.build(setting).regret_at_most < bound
    assert bound < spec.regret_at_most(setting, 4 * best) <= setting.rounds


def test_what_the_bound_of_doubling_does_not_cover_is_refused() -> None:
    with pytest.raises(InvalidValue, match="best_loss"):
        ProvenDoubling().regret_at_most(Setting(2, 4, 100), 101.0)
    with pytest.raises(InvalidValue, match="to be None: the bound"):
        ProvenDoubling(plan=Plan(front=0.5))


GAME = Game(clients=10, experts=50, horizon=512, every=1, exchanges=511)
RUNS = Runs(2.0, 9.0, tuple(8.0 / k for k in range(1, 11)))


def test_equal_epochs_have_about_the_bound_of_equal_epochs() -> None:
    """Later prices are paid by the epochs themselves, and what follows the last is given up."""
    same = epochs_bound(GAME, (EpochRuns(0.0, RUNS),) * 6)
    assert regret_bound(GAME, RUNS) * 0.98 < same < 1.1 * regret_bound(GAME, RUNS)


def test_the_bound_of_epochs_grows_with_what_is_given_up() -> None:
    two = (EpochRuns(0.0, RUNS), EpochRuns(20.0, RUNS))
    found = [epochs_bound(GAME, two[:1]), epochs_bound(GAME, two)]
    assert found[0] > found[1]
    known = [epochs_bound(replace(GAME, best_loss=best), two) for best in (0.0, 0.1, 2.0, 2.1)]
    assert known[0] < known[1] == known[2] < known[3]
    assert known[3] == GAME.horizon  # no epoch is right
    worse, right = replace(GAME, best_loss=2.1), EpochRuns(40.0, RUNS)
    lost = epochs_bound(worse, (*two, right)) - epochs_bound(worse, (two[0], right))
    assert lost == pytest.approx(run_cost(10.0, 2.0, 29.0), rel=1e-3)  # ten runs, ten clients
    assert epochs_bound(replace(GAME, experts=1), two) == 0


def test_an_epoch_ends_no_more_often_than_its_bound() -> None:
    """Few draws, so that epochs do end: a quarter of the bound would fail."""
    setting, spec = Setting(1, 16, 256), ProvenDoubling(40.0, plan=Plan(3, 2.0))
    algorithm = spec.build(setting)
    bound = algorithm.parameters["wrong_doubling_at_most"]
    stream = ladder(setting, 1)
    share = np.mean([draws(algorithm, stream, seed) >= 3 for seed in range(100)])
    assert bound / 4 < share < bound < 0.8


def test_the_recursion_beats_the_mean_of_a_product() -> None:
    """At the proved constants Theorem 3 of `proofs/doubling.md` says nothing, the recursion 0.084."""
    built = ProvenDoubling().build(Setting(10, 100, 512))
    assert 0.05 < built.parameters["wrong_doubling_at_most"] < 0.085
    more = replace(RUNS, weights=tuple(8.0 / k for k in range(1, 20)))
    assert chance_of_end(GAME, more) < chance_of_end(GAME, RUNS) < 1
    assert chance_of_end(GAME, replace(RUNS, margin=0.0)) == 1


# Its parts


@pytest.mark.parametrize(("step", "rate", "threshold"), [(10.0, 2.0, 8.5), (1.0, 0.3, 20.0)])
def test_a_run_costs_at_most_its_bound(step: float, rate: float, threshold: float) -> None:
    """An adversary that knows the threshold: it first loses nearly up to it, then all it can."""
    rng = np.random.default_rng(1)
    stop = max(0.0, np.log(step * rate)) / rate
    gap = threshold + rng.exponential(1 / rate, 20_000)
    lost, alive = np.zeros_like(gap), np.ones_like(gap, bool)
    while alive.any():
        near = gap - stop - lost
        lost[alive] += np.where(near > 1e-9, np.minimum(near, step), step)[alive]
        alive &= lost + rng.exponential(1 / rate, gap.shape) <= gap
    margin, most = 4 * lost.std() / np.sqrt(lost.size), run_cost(step, rate, threshold)
    tight = 0.97 if step * rate > 3 else 0.7
    assert tight * most - margin < lost.mean() <= most + margin


def test_finer_grids_only_lower_the_bound() -> None:
    """Every rounding is outward."""
    game = Game(clients=10, experts=50, horizon=512, every=1, exchanges=511)
    runs = Runs(2.0, 9.0, tuple(8.0 / k for k in range(1, 11)))
    prices = Prices(400.0, 17.0)
    halves = Grid(COARSE.masses * 2, COARSE.ranks * 2, COARSE.levels)
    found = [loss_bound(game, runs, prices, grid) for grid in (COARSE, halves, FINE)]
    assert found[0] > found[1] > found[2] > 0.8 * found[0]


def test_the_bound_falls_with_weights_and_grows_with_the_game() -> None:
    game = Game(clients=10, experts=50, horizon=512, every=1, exchanges=511)
    runs, prices = Runs(2.0, 9.0, tuple(8.0 / k for k in range(1, 11))), Prices(400.0, 17.0)
    base = loss_bound(game, runs, prices, COARSE)
    light = replace(runs, weights=tuple(weight / 2 for weight in runs.weights))
    assert loss_bound(game, light, prices, COARSE) > base
    for change in ({"experts": 100}, {"every": 2}, {"exchanges": 5000}, {"best_loss": 1.0}):
        assert loss_bound(replace(game, **change), runs, prices, COARSE) > base
    one = replace(runs, weights=runs.weights[:1])  # one draw: every run begins a new epoch
    assert loss_bound(game, one, prices, COARSE) == np.inf
    assert regret_bound(replace(game, horizon=50, exchanges=49), one) == 50
    assert regret_bound(replace(game, experts=1), runs) == 0


def test_the_bound_is_of_the_server_that_plays() -> None:
    """Equal weights of a run in all its draws, from the first run on, by the exponential mechanism,
    and more of them with delta.
    """
    found = {}
    for delta in (0.0, 1e-6):
        algorithm = proved(1.0, Setting(10, 20, 200), delta=delta)
        server = algorithm.server
        assert isinstance(server, RecencySelector)
        assert server.weights.opening is None
        assert isinstance(server.selection, ExponentialMechanism)
        assert all(run.own == run.later for run in server.weights.columns[:-1])
        found[delta] = algorithm.regret_at_most
    assert found[1e-6] < found[0.0]


@pytest.mark.parametrize("best_loss", [0.3, 1.7])
def test_the_bound_counts_the_whole_threshold(
    best_loss: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run may lose is the threshold that the server uses, to the last lattice unit."""
    asked: list[tuple[Game, Runs]] = []

    def seen(game: Game, runs: Runs) -> float:
        asked.append((game, runs))
        return 1.0

    monkeypatch.setattr("hedgerow_papers.asi2023.proven_sparse_vector.regret_bound", seen)
    algorithm = proved(10.0, Setting(3, 8, 101), best_loss=best_loss)
    ((game, runs),) = asked
    assert isinstance(algorithm.server, RecencySelector)
    counted = game.clients * game.best_loss + runs.margin
    assert counted == pytest.approx(algorithm.server.threshold, rel=1e-12)


# Where it is stated


def test_other_calibrations_and_games_have_no_bound() -> None:
    setting = Setting(5, 8, 100)
    assert hr.SparseVector().build(setting).claims.regret_bound is None
    algorithm = proved(10.0, setting)
    late = hr.Delayed(of=hr.Realizable(clients=5, experts=8, horizon=100))
    assert algorithm.in_game(late.traits).claims.regret_bound is None
    assert algorithm.claims.regret_bound is not None
    frame: dict[str, Any] = {"clients": 5, "experts": 8, "horizon": 100}
    for perfect in (hr.Realizable(**frame), hr.Halving(**frame), hr.HiddenExpert(**frame)):
        assert covered(algorithm.claims.regret_bound, perfect)
        assert study_notes(algorithm, perfect) == []
        losses = perfect.block(perfect.start(0), 100, None)[0].losses
        assert (losses.sum(axis=(0, 1)) == 0).any()
    asleep = hr.Sleeping(of=hr.Realizable(**frame))
    for other in (hr.Bernoulli(**frame), hr.NearRealizable(**frame), asleep):
        assert not covered(algorithm.claims.regret_bound, other)
    (said,) = study_notes(algorithm, hr.Bernoulli(**frame))
    assert "if one expert never loses; this environment promises no such expert" in said


@pytest.mark.parametrize("name", ["front", "draw"])
def test_choices_outside_the_proof_are_refused(name: str) -> None:
    value: Any = {"front": 0.5, "draw": "permute-and-flip"}[name]
    with pytest.raises(InvalidValue, match="to be None: the bound"):
        ProvenSparseVector(plan=Plan(**{name: value}))


def test_certify_states_the_bounds(hedgerow: Command) -> None:
    def certify(*choices: str, name: str = "sparse_vector") -> tuple[str, dict[str, Any]]:
        set_all = [part for choice in choices for part in ("--set", choice)]
        out = " ".join(hedgerow("certify", name, *set_all).out.split())
        return out, hedgerow("certify", name, *set_all, "--json").document()

    game = ("epsilon=10", "experts=20", "horizon=200")
    words, document = certify(*game, name="proven_sparse_vector")
    assert "for losses fixed in advance if one expert never loses proof of this bound" in words
    assert document["regret_bound_proof"] == "proofs/sparse_vector_regret.md#theorem"
    words, document = certify("epsilon=10")
    assert (
        "no bound on the regret is proven for these choices; proven_sparse_vector has one" in words
    )
    assert (
        "(kappa/m) (m L* + 16 ln(2 T^2/(N^2 rho))/epsilon + 4/eta + m N) = 1,025 (vacuous" in words
    )
    assert document["regret_bound"] is None
    assert document["printed_regret_bound"]["value"] == pytest.approx(1025, abs=1)
    words, document = certify("epsilon=10", name="gao2024_fed_svt")
    assert document["parameters"]["printed_regret_bound"] == pytest.approx(1025, abs=1)
    assert words.count("vacuous") == words.count("1,025") == 1
    assert "printed_regret_bound" not in words
    words, document = certify(name="asi2023_sparse_vector")
    assert document["printed_regret_bound"] is None
    assert "for the printed constants" not in words


@pytest.mark.parametrize(
    ("name", "theorem", "value"),
    [
        # (ln^2 100 + ln(512/0.05) ln(51200/0.05)) ln 512, and ln^2 100 ln 512
        ("doubling", "Theorem 2", 929.51),
        ("potential", "Theorem 6", 132.3),
    ],
)
def test_certify_shows_what_is_printed_for_an_unknown_best_loss(
    name: str, theorem: str, value: float, hedgerow: Command
) -> None:
    document = hedgerow("certify", name, "--json").document()
    assert document["printed_regret_bound"]["value"] == pytest.approx(value, abs=0.1)
    words = " ".join(hedgerow("certify", name).out.split())
    assert f"Asi et al. 2023, {theorem}, for one client" in words
    assert f"= {value:,.0f}, times a hidden constant" in words

"""Regret bounds say truly what they hold for: never below what is known to be unavoidable, kept
where losses react, told with a run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.dartboard.tuning import Plan
from hedgerow.algorithms.registry import variants
from hedgerow.contracts.neighbours import changed
from hedgerow.core.certificate import Observer, Proof
from hedgerow.core.environment import Environment, Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Linear
from hedgerow.core.protocol import Algorithm
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.engines.simulate import simulate
from hedgerow.environments.adversaries import BOUND_HOLDS_FOR, covered
from hedgerow.environments.hard.lower_bounds import (
    coin_regret,
    consensus_regret,
    hidden_expert_regret,
)
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow.evaluation.recorder import Recorder
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.study import study_notes
from support.command import Command

SMALL: dict[str, Any] = {"clients": 3, "experts": 6, "horizon": 2000}


# Upper bounds against lower bounds


def unavoidable(algorithm: Algorithm, environment: Environment) -> float:
    """What this algorithm is known to regret at least, in expectation, for what it is certified to
    be.
    """
    setting, guarantee = algorithm.setting, algorithm.certificate.guarantee(Observer.PUBLIC)
    if isinstance(environment, hr.CommonCoins):
        return coin_regret(setting.experts, setting.rounds)
    epsilon, delta = guarantee.curve.stated()
    if not guarantee.protects or epsilon <= 0:
        return 0.0
    if isinstance(environment, hr.HiddenExpert):
        return hidden_expert_regret(setting, epsilon, delta)
    assert isinstance(environment, hr.ConsensusColumns)
    return consensus_regret(setting.rounds, epsilon, setting.clients) if delta == 0 else 0.0


def too_low(algorithm: Algorithm, environment: Environment) -> bool:
    """Does it say a bound for this environment that cannot be?"""
    bound = algorithm.claims.regret_bound
    return (
        bound is not None
        and covered(bound, environment)
        and bound.value < unavoidable(algorithm, environment)
    )


GAMES: dict[str, Environment] = {
    "coins of one client": hr.CommonCoins(clients=1),
    "coins of two clients": hr.CommonCoins(clients=2),
    "coins of many clients": hr.CommonCoins(clients=1000),
    "many rounds of coins": hr.CommonCoins(clients=30, experts=10, horizon=2**12),
    "hidden expert": hr.HiddenExpert(clients=1),
    "hidden expert of many": hr.HiddenExpert(clients=1000, experts=1000),
    "columns": hr.ConsensusColumns(),
    "columns of three": hr.ConsensusColumns(clients=3, experts=2000, horizon=250),
}


MOVED = (
    "hedgerow_papers.gao2024",
    "hedgerow_papers.ours.heterogeneous",
    "hedgerow_papers.asi2023.hidden_direction",
    "hedgerow_papers.asi2023.sign_estimation",
    "hedgerow_papers.zhang2024.streams",
)  # games that one paper needs

SLOW_TO_BUILD = (
    "cover_dartboard",
    "private_hedge",
    "private_hedge, every 3",
    "shrinking_dartboard, approximate",
    "proven_sparse_vector",
    "proven_doubling",
    "proven_potential",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in SLOW_TO_BUILD else ())
        for name in variants()
    ],
)
def test_no_bound_lies_below_what_nobody_avoids(name: str) -> None:
    spec = variants()[name]
    if not any(issubclass(Linear, kind) for kind in spec.traits.families):
        pytest.skip(f"{name} plays another loss family")
    if spec.build(Setting(3, 4, 20)).claims.regret_bound is None:
        pytest.skip(f"{name} has no regret bound")
    printed = type(spec).__module__.startswith("hedgerow_papers")
    louder = [] if printed else [changed(spec, epsilon=5.0)]
    for game, environment in GAMES.items():
        for one in (spec, *louder):
            assert not too_low(one.build(environment.setting), environment), game


def test_a_bound_that_claims_too_much_is_seen() -> None:
    """The bound of phased selection on coins that many clients have in common, had it been said to
    hold there; half of Hedge's.
    """
    coins = GAMES["coins of many clients"]
    honest = hr.PhasedSelection(epsilon=5.0).build(coins.setting)
    assert honest.regret_at_most == pytest.approx(5.594, abs=1e-3)
    assert unavoidable(honest, coins) == pytest.approx(28.34, abs=0.01)
    proof = Proof("hedge.md", "regret")
    assert too_low(
        replace(
            honest,
            claims=replace(
                honest.claims, regret_bound=RegretBound(honest.regret_at_most, "oblivious", proof)
            ),
        ),
        coins,
    )
    hedge = hr.Hedge().build(coins.setting)
    assert too_low(
        replace(
            hedge,
            claims=replace(
                hedge.claims, regret_bound=RegretBound(hedge.regret_at_most / 2, "adaptive", proof)
            ),
        ),
        coins,
    )
    columns = GAMES["columns"]
    private = hr.ShrinkingDartboard(epsilon=0.1).build(columns.setting)
    assert unavoidable(private, columns) > 20
    assert too_low(
        replace(
            private,
            claims=replace(private.claims, regret_bound=RegretBound(20.0, "adaptive", proof)),
        ),
        columns,
    )


# Losses that react


@pytest.mark.parametrize("every", [1, pytest.param(5, marks=pytest.mark.long)])
@pytest.mark.parametrize("clients", [1, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("lasting", [True, pytest.param(False, marks=pytest.mark.long)])
def test_hedge_keeps_its_bound_where_losses_react(every: int, clients: int, lasting: bool) -> None:
    """A dartboard of the same weights has the same bound for losses fixed in advance; where they
    react it is far above it.
    """
    environment = hr.PlayChasing(clients=clients, experts=12, horizon=300, lasting=lasting)
    hedge = hr.Hedge(every=every).build(environment.setting)
    rate = hedge.parameters["rate"] / clients
    dartboard = hr.ShrinkingDartboard(epsilon=1e3, every=every, plan=Plan(rate, 1e-3)).build(
        environment.setting
    )
    assert hedge.regret_at_most == pytest.approx(dartboard.regret_at_most)
    assert [
        b is not None and covered(b, environment)
        for b in (hedge.claims.regret_bound, dartboard.claims.regret_bound)
    ] == [True, False]
    assert regret(hedge, environment, 5).high <= hedge.regret_at_most
    assert regret(dartboard, environment, 5).low > dartboard.regret_at_most


def regret(algorithm: Algorithm, environment: Any, seeds: int) -> Estimate:
    found = []
    for seed in range(seeds):
        recorder = Recorder(environment.setting, points=2)
        found.append(
            recorder.result(
                "", seed, simulate(algorithm, environment, seed, sinks=[recorder])
            ).final_regret
        )
    return Estimate.of(found)


# Who chooses the losses


@dataclass(frozen=True, kw_only=True)
class Flipping(hr.Bernoulli):
    """Bernoulli losses that are turned round in every other round; nothing is said about who
    chooses them.
    """

    def draw(self, rng: np.random.Generator, plan: Array, first_round: int, rounds: int) -> Array:
        losses = super().draw(rng, plan, first_round, rounds)
        odd = np.arange(first_round, first_round + rounds)[:, None, None] % 2 == 1
        return np.where(odd, 1 - losses, losses)


class Zeros:
    """Not an environment by itself."""

    def draw(self, rng: np.random.Generator, plan: Array, first_round: int, rounds: int) -> Array:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class FlippingByMixin(Zeros, hr.Bernoulli):
    """The way to draw comes from a class that says nothing."""


def test_every_environment_is_named_for_what_it_is() -> None:
    drawn = {
        "bernoulli",
        "class_forecasts",
        "classification",
        "federated_synthetic",
        "gap_ladder",
        "gaussian_softmax",
        "heterogeneous",
        "hidden_direction",
        "hidden_expert",
        "realizable",
        "regression",
        "uniform",
    }
    reacting = {"column_subsets", "consensus_columns", "play_chasing", "sign_estimation"}
    wrappers = {"absent", "combined_forecasts", "delayed", "forecasts", "sleeping", "visits"}
    for name, kind in ENVIRONMENTS.items():
        if kind.__module__.startswith(("hedgerow.", *MOVED)) and name not in wrappers:
            files = ("recorded", "recorded_examples")
            environment = kind("losses.csv") if name in files else kind()
            assert environment.traits.adversary == (
                "stochastic" if name in drawn else "adaptive" if name in reacting else "oblivious"
            )
    assert [hr.CommonCoins(clients=m).traits.adversary for m in (1, 2)] == [
        "stochastic",
        "oblivious",
    ]
    assert hr.RecordedArray(np.zeros((4, 1, 2))).traits.adversary == "oblivious"


def test_a_class_that_draws_in_another_way_does_not_inherit_the_claim() -> None:
    assert Flipping().traits.adversary == "oblivious"
    assert FlippingByMixin().traits.adversary == "oblivious"
    assert hr.GapLadder().traits.adversary == "stochastic"  # another plan, the same way to draw


def test_an_environment_around_another_is_what_the_other_is_unless_experts_sleep() -> None:
    chasing, coins = hr.PlayChasing(**SMALL), hr.CommonCoins(**SMALL)
    for inner, expected in (
        (hr.Bernoulli(**SMALL), "stochastic"),
        (coins, "oblivious"),
        (chasing, "adaptive"),
    ):
        assert hr.Absent(of=inner).traits.adversary == expected
        assert hr.Delayed(of=hr.Absent(of=inner)).traits.adversary == expected
        assert hr.Sleeping(of=inner).traits.adversary == "adaptive"
        assert hr.Absent(of=hr.Sleeping(of=inner)).traits.adversary == "adaptive"


def test_an_unknown_adversary_is_refused_by_name() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Odd(hr.Bernoulli):
        @property
        def traits(self) -> Traits:
            return Traits(adversary="iid")  # pyright: ignore[reportArgumentType]

    with pytest.raises(
        InvalidValue, match=r"Expected adversary='iid' in \('stochastic', 'oblivious', 'adaptive'\)"
    ):
        _ = Odd().traits
    for bad, rule in (
        ((-1.0, "oblivious"), "value=-1.0 >= 0"),
        ((float("nan"), "oblivious"), "value=nan"),
        ((1.0, "iid"), "covers='iid'"),
    ):
        with pytest.raises(InvalidValue, match=rule):
            RegretBound(*bad, Proof("hedge.md", "regret"))  # pyright: ignore


def drawn_anew(environment: Environment) -> bool:
    """Rounds and clients look independent, and means stay: five standard deviations for each of the
    correlations and differences.
    """
    losses = environment.block(environment.start(3), environment.setting.rounds, None)[0].losses
    if losses.shape[1] == 1:
        losses = np.repeat(losses, 2, axis=1)
        losses[:, 1] = np.random.default_rng(0).permutation(losses[:, 1])
    rest = losses - losses.mean(axis=0)
    spread = rest.std(axis=0)
    rest = np.divide(rest, spread, out=np.zeros_like(rest), where=spread > 0)
    rounds = len(rest)
    with_next_client = (rest[:, 0] * rest[:, 1]).mean(axis=0)
    with_next_round, with_next_but_one = ((rest[k:] * rest[:-k]).mean(axis=0) for k in (1, 2))
    moved = (rest[: rounds // 2].mean(axis=0) - rest[rounds // 2 :].mean(axis=0)) / 2
    return all(
        bool((np.abs(found) < 5 / np.sqrt(rounds)).all())
        for found in (with_next_client, with_next_round, with_next_but_one, moved)
    )


FROM_FILES = ("combined_forecasts", "forecasts", "recorded", "recorded_examples")


def test_whoever_says_stochastic_draws_anew_in_every_round_and_independently() -> None:
    made = [
        kind
        for name, kind in ENVIRONMENTS.items()
        if kind.__module__.startswith(("hedgerow.", *MOVED))
        and name not in (*FROM_FILES, "absent", "delayed", "sleeping", "visits")
    ]
    said = [kind for kind in made if kind().traits.adversary == "stochastic"]
    assert len(said) == 12
    for kind in said:
        names = {field.name for field in fields(kind)}
        (width,) = names & {"experts", "features", "classes"}
        small = {width if key == "experts" else key: value for key, value in SMALL.items()}
        assert drawn_anew(kind(**small)), kind.__name__
    assert drawn_anew(hr.NearRealizable(exact=False, best_loss=600.0, **SMALL))
    assert drawn_anew(hr.Absent(of=hr.Bernoulli(**SMALL)))
    for other in (hr.CommonCoins, hr.Switching, hr.Drifting, hr.Halving, Flipping):
        assert not drawn_anew(other(**SMALL)), other.__name__


# What is told


def test_certify_says_for_whom_and_where_it_is_proven(hedgerow: Command) -> None:
    words = " ".join(
        hedgerow(
            "certify", "phased_selection", "--set", "clients=1000", "--set", "epsilon=5"
        ).out.split()
    )
    law = "losses drawn in every round from one law, independently of other rounds and clients"
    assert (
        f"expected regret per client at most 5.594, for {law} proof of this bound: proofs/phased_selection.md#regret"
        in words
    )
    document = hedgerow("certify", "hedge", "--json").document()
    assert document["regret_bound_for"] == BOUND_HOLDS_FOR["adaptive"]
    assert document["regret_bound_proof"] == "proofs/hedge.md#regret"


def test_coins_in_common_are_labelled() -> None:
    (said,) = study_notes(hr.RandomPrefix().build(hr.CommonCoins().setting), hr.CommonCoins())
    assert said.startswith(
        "the regret bound of random_prefix is for losses drawn in every round from one law, "
        "independently of other"
    )
    assert (
        study_notes(
            hr.RandomPrefix().build(hr.CommonCoins(clients=1).setting), hr.CommonCoins(clients=1)
        )
        == []
    )


def test_a_study_tells_its_notes_in_print_and_in_its_folder(
    hedgerow: Command, tmp_path: Path
) -> None:
    study = hr.run(
        hr.PlayChasing(clients=2, experts=4, horizon=20),
        {"dartboard": hr.ShrinkingDartboard(), "not": hr.Hedge()},
        seeds=2,
    )
    said, guess = study.notes()["dartboard"]
    assert "better than guessing" in guess
    assert all("better than guessing" in note for note in study.notes().get("not", []))
    assert f"\ndartboard: note: {said}\ndartboard: note: {guess}\n" in str(study)
    assert "for which nothing is proven" not in str(
        hr.run(
            hr.Bernoulli(clients=2, experts=4, horizon=20),
            {"dartboard": hr.ShrinkingDartboard()},
            seeds=2,
        )
    )
    file = tmp_path / "study.toml"
    file.write_text(
        'seeds = 2\n[environment]\nname = "play_chasing"\nclients = 2\nexperts = 4\nhorizon = 20\n'
        '[[algorithms]]\nname = "shrinking_dartboard"\nlabel = "dartboard"\n[[algorithms]]\nname = "hedge"\n'
    )
    told = hedgerow(
        "run", str(file), "--out", str(tmp_path / "run"), "--workers", "1", "--json"
    ).document()["notes"]
    assert told["dartboard"] == [said, guess]
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["notes"] == told


def test_a_learner_whose_experts_sleep_states_no_bound_for_losses_that_do_not_react() -> None:
    """What is reported of a sleeping expert is the loss of the play: reports react to the plays."""
    kept = {}
    for spec in (hr.ShrinkingDartboard(), hr.PhasedSelection(), hr.RandomPrefix(), hr.Hedge()):
        game: dict[str, Any] = {"clients": 3, "experts": 4, "horizon": 64}
        awake, asleep = (hr.Learner(spec, **game, sleeping=may).algorithm for may in (False, True))
        assert awake.claims.regret_bound is not None
        kept[asleep.name] = asleep.claims.regret_bound == awake.claims.regret_bound
        assert kept[asleep.name] or asleep.claims.regret_bound is None
    assert [name for name, stays in kept.items() if stays] == ["hedge"]  # it is for all reports

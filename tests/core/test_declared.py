"""What environments, specs and mechanisms offer is declared: names of fields are the user's own,
and the defaults hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.sparse_vector.plan import Plan
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.contracts.neighbours import budget_of, changed
from hedgerow.contracts.suite import examine
from hedgerow.core.block import Block
from hedgerow.core.environment import Environment, Feature, Traits, draws_sums
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.registry import Registry
from hedgerow.core.setting import Setting
from hedgerow.environments.adversaries import covered
from hedgerow.environments.drawn.generated import Generated
from hedgerow.environments.drawn.realizable import Realizable
from hedgerow.studies.storage.identity import losses_fingerprint
from hedgerow_papers.asi2023.proven_doubling import ProvenDoubling
from hedgerow_papers.asi2023.proven_sparse_vector import ProvenSparseVector

SETTING = Setting(clients=2, experts=3, horizon=12)


# Environments


@dataclass(frozen=True)
class Market(Environment):
    """Fields with names that say something else here than in `Traits`."""

    fresh: bool = True
    features: tuple[str, ...] = ("price", "volume")
    adversary: str = "competitor"
    adaptive: bool = True
    sees_plays: bool = True
    why_no_sums: str = "closed"

    @property
    def setting(self) -> Setting:
        return SETTING

    def start(self, seed: int) -> int:
        return seed

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        assert past_plays is None
        return Block.of(np.tile([0.0, 0.5, 1.0], (rounds, 2, 1))), state


def test_an_environment_may_call_its_fields_what_it_likes() -> None:
    market = Market()
    assert market.traits == Traits()
    algorithm = SparseVector().build(SETTING)
    assert algorithm.in_game(market.traits) is algorithm
    assert not draws_sums(Market)
    assert market.fingerprint() is None
    assert len(losses_fingerprint(market)) > len("adaptive")
    with pytest.raises(Unsupported, match="Market cannot draw sums of losses directly"):
        market.sums(0, 3)
    study = hr.run(market, {"private": SparseVector(), "open": FollowTheLeader()}, seeds=2)
    assert study.regret("open").mean < 1
    hedge = hr.Hedge().build(SETTING)
    assert hedge.claims.regret_bound is not None
    assert covered(hedge.claims.regret_bound, market)


def test_wrappers_and_drawn_environments_read_traits_alone() -> None:
    around = hr.Absent(of=Market())
    assert around.traits == Traits(features=frozenset({Feature.ABSENT_CLIENTS}))

    @dataclass(frozen=True, kw_only=True)
    class Stall(Generated):
        fresh: str = "fruit"
        adversary: float = 0.5
        features: int = 3

        def draw(
            self, rng: np.random.Generator, plan: None, first_round: int, rounds: int
        ) -> Array:
            return rng.random((rounds, self.clients, self.experts)) * self.adversary

    stall = Stall(clients=2, experts=3, horizon=12)
    assert stall.traits == Traits(fresh=True)
    assert hr.run(stall, {"open": FollowTheLeader()}, seeds=1).results


def test_whoever_sees_the_plays_is_adaptive() -> None:
    assert Traits(adversary="stochastic", sees_plays=True).adversary == "adaptive"
    assert not hr.Sleeping(
        of=Realizable()
    ).traits.sees_plays  # its reports depend on the plays, its losses do not


def test_claims_about_the_draws_are_lost_where_a_subclass_draws_otherwise() -> None:
    class Constant(Realizable):
        def draw(self, rng: np.random.Generator, plan: Any, first_round: int, rounds: int) -> Array:
            return np.zeros((rounds, self.clients, self.experts))

    class Again(Constant):
        pass

    for kind in (Constant, Again):
        lost = replace(Realizable().traits, adversary="oblivious", best_loss=None)
        assert kind().traits == lost
        assert kind(law="bernoulli").traits.why_no_sums is None

    class Anew(Constant):
        @property
        def traits(self) -> Traits:
            return replace(super().traits, adversary="stochastic", best_loss=0.0)

    assert Anew().traits == Realizable().traits

    class Unlucky(hr.Halving):
        """Plans that no expert survives; how losses are drawn from a plan stays the same."""

        def plan(self, rng: np.random.Generator) -> np.ndarray:
            return np.zeros(self.experts)

    assert Unlucky().traits == replace(hr.Halving().traits, best_loss=None)

    class Marked(Realizable):
        """States something else, and draws otherwise: what it takes over from `super()` does not
        count as its own claim.
        """

        @property
        def traits(self) -> Traits:
            return replace(super().traits, features=frozenset({Feature.LATE_REPORTS}))

        def draw(self, rng: np.random.Generator, plan: Any, first_round: int, rounds: int) -> Array:
            return np.zeros((rounds, self.clients, self.experts))

    assert Marked().traits.adversary == "oblivious"
    assert Marked().traits.fresh
    slotted = dataclass(frozen=True, kw_only=True, slots=True)(
        type("Slotted", (hr.Bernoulli,), {"__annotations__": {}})
    )
    assert slotted().traits == hr.Bernoulli().traits


# Specs


@dataclass(frozen=True)
class Explorer(AlgorithmSpec):
    """Its epsilon is no budget, and `every` no interval."""

    traits: ClassVar[SpecTraits] = SpecTraits(epsilon=None, delta=None, interval=None)

    epsilon: float = 0.1
    delta: float = 0.5
    every: str = "day"
    forms: int = 4
    meanings: str = "none"
    exact: bool = True
    features: int = 2
    fresh: bool = False
    adversary: str = "nobody"

    def resolve(self, setting: Setting) -> Algorithm:
        assert (self.epsilon, self.every) == (0.1, "day")
        return SparseVector(epsilon=2.0).build(setting)


@dataclass(frozen=True)
class Renamed(AlgorithmSpec):
    traits: ClassVar[SpecTraits] = SpecTraits(epsilon="privacy", delta="failure", interval="pause")

    privacy: float = 2.0
    failure: float = 1e-6
    pause: int = 3

    def resolve(self, setting: Setting) -> Algorithm:
        return SparseVector(epsilon=self.privacy, delta=self.failure, every=self.pause).build(
            setting
        )


def test_a_spec_may_call_its_fields_what_it_likes() -> None:
    spec = Explorer()
    assert budget_of(spec) == (None, 0.0)
    assert changed(spec, epsilon=24.0, interval=1) is spec
    assert spec.audit_variants() == ()
    assert examine("within the budget", spec).status == "not applicable"
    assert hr.run(Market(), {"explorer": spec}, seeds=1).results


@pytest.mark.long
def test_a_spec_with_its_own_names_plays_a_million_rounds() -> None:
    assert examine("million rounds", Explorer()).status == "holds"


def test_the_budget_and_the_interval_are_in_the_fields_that_the_traits_name() -> None:
    spec = Renamed()
    assert budget_of(spec) == (2.0, 1e-6)
    assert changed(spec, epsilon=24.0, interval=1) == Renamed(privacy=24.0, pause=1)
    assert examine("within the budget", spec).status == "holds"
    assert budget_of(SparseVector(epsilon=3.0, delta=1e-3)) == (3.0, 1e-3)
    assert budget_of(FollowTheLeader()) == (None, 0.0)
    assert changed(FollowTheLeader(), epsilon=3.0, interval=2) == FollowTheLeader(every=2)


# Mechanisms


@dataclass(frozen=True)
class Plain(Mechanism):
    """Nothing but what must be there."""

    purpose: str = "report"
    sensitivity: float = 1.0

    def sample(self, value: Any, noise: Noise) -> Any:
        return value

    def distance(self, value: Any, other: Any) -> float:
        return abs(value - other)

    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        return coin

    def outcomes(self, value: Any) -> None:
        return None

    def probe(self) -> float:
        return 0.0

    def scaled(self, factor: float) -> Plain:
        return self


def test_a_mechanism_has_defaults() -> None:
    plain = Plain()
    assert (plain.exact, plain.curve, plain.noise_scale(), plain.words()) == (
        False,
        None,
        None,
        "not named",
    )
    algorithm = SparseVector().build(SETTING)
    forged = replace(algorithm, certificate=replace(algorithm.certificate, mechanisms=(plain,)))
    with pytest.raises(Unsupported, match="sparse_vector needs Plain, which has no exact sampler"):
        forged.require_exact_noise()


# What does not inherit


class Lookalike:
    """Has the names, and is nothing of it."""

    setting = SETTING

    def resolve(self, setting: Setting) -> Algorithm:
        return FollowTheLeader().build(setting)


def test_what_only_looks_like_one_is_refused_by_name() -> None:
    with pytest.raises(InvalidValue, match="Expected an environment such as"):
        hr.run(Lookalike(), {"a": FollowTheLeader()})
    for wrong in (Lookalike(), FollowTheLeader):
        with pytest.raises(InvalidValue, match="Expected 'a' to be an algorithm such as"):
            hr.run(Market(), {"a": wrong})  # pyright: ignore[reportArgumentType]
    for registry, base in ((hr.ENVIRONMENTS, "Environment"), (hr.ALGORITHMS, "AlgorithmSpec")):
        with pytest.raises(
            InvalidValue,
            match=rf"Expected the \w+ 'lookalike' to be a class that inherits from {base}, got",
        ):
            registry.add("lookalike", Lookalike)
        assert "lookalike" not in registry
    free: Registry[Any] = Registry("thing", {})
    free.add("lookalike", Lookalike)
    assert "lookalike" in free


def test_traits_that_would_be_ignored_are_refused() -> None:
    """A recording that says `fresh = False` in the wrong place would count its seeds as fresh."""
    with pytest.raises(TypeError, match=r"Replayed\.fresh has no effect\. Declare it in `traits`"):

        class Replayed(hr.Bernoulli):
            fresh = False

    with pytest.raises(TypeError, match=r"Chosen\.adversary has no effect"):

        class Chosen(hr.Bernoulli):
            adversary: ClassVar[str] = "adaptive"


def test_a_bound_with_a_good_expert_is_dropped_where_experts_sleep() -> None:
    """A sleeping expert is charged what others lose. Hedge's bound covers that, and stays."""
    asleep, away = (
        Traits(features=frozenset({feature}))
        for feature in (Feature.SLEEPING_EXPERTS, Feature.ABSENT_CLIENTS)
    )
    setting = hr.Setting(10, 20, 100)
    proved = ProvenSparseVector(epsilon=10.0).build(setting)
    assert proved.in_game(away).claims.regret_bound == proved.claims.regret_bound is not None
    assert proved.in_game(asleep).claims.regret_bound is None
    hedge = hr.Hedge().build(setting)
    assert hedge.in_game(asleep).claims.regret_bound == hedge.claims.regret_bound is not None
    assert hr.Sleeping(of=Realizable()).traits.best_loss is None
    assert hr.Absent(of=Realizable()).traits.best_loss == 0.0


def test_an_adaptive_adversary_removes_bounds_that_are_proven_for_fixed_losses() -> None:
    spec = ProvenDoubling(plan=Plan(threshold=100.0))
    built = spec.build(hr.Setting(10, 100, 512))
    assert "wrong_doubling_at_most" in built.parameters
    for traits in (Traits(adversary="adaptive"), Traits(sees_plays=True)):
        assert "wrong_doubling_at_most" not in built.in_game(traits).parameters


def test_setting_and_traits_are_made_once_in_each_class() -> None:
    made: list[str] = []

    @dataclass(frozen=True, kw_only=True)
    class Game(hr.Bernoulli):  # pyright: ignore[reportRedeclaration]
        @property
        def setting(self) -> Setting:
            made.append("setting")
            return super().setting

        @property
        def traits(self) -> Traits:
            made.append("traits")
            return replace(super().traits, features=frozenset({Feature.ABSENT_CLIENTS}))

    first = Game

    @dataclass(frozen=True, kw_only=True)
    class Game(first):  # of the same name
        @property
        def traits(self) -> Traits:
            return replace(super().traits, fresh=False)

    inner, game = first(clients=3), Game(clients=3)
    made.clear()
    for environment, fresh in ((inner, True), (game, False)) * 3:
        assert environment.setting is environment.setting
        assert environment.setting.clients == 3
        assert environment.traits is environment.traits
        assert environment.traits.fresh is fresh
        assert environment.traits.features == {Feature.ABSENT_CLIENTS}
    assert made == ["traits", "traits"]  # a frame reads its setting when it is made
    assert replace(game, clients=4).setting.clients == 4
    assert game == Game(clients=3)
    assert "/" not in repr(game)


def test_a_study_and_a_simulation_refuse_with_one_text() -> None:
    game = hr.Absent(of=hr.Bernoulli(clients=2, experts=3, horizon=8))
    texts = set()
    spec = hr.RunningLeader(epsilon=1.0, delta=1e-6)
    for refused in (
        lambda: hr.run(game, {"a": spec}, seeds=1),
        lambda: hr.simulate(spec.build(game.setting), game, seed=0),
    ):
        with pytest.raises(hr.Unsupported) as caught:
            refused()
        texts.add(str(caught.value))
    (text,) = texts
    assert text.startswith("running_leader does not support absent clients; choose one of ")

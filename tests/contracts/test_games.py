"""Contracts on games that are not of experts, on units beyond an event, and on large totals."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from hedgerow.algorithms.registry import variants
from hedgerow.contracts.games import (
    LONG,
    PLACES,
    SETTING,
    far_pairs,
    from_round,
    games_of,
    pairs,
    possible_places,
    records_between,
    whole,
    with_record,
)
from hedgerow.contracts.outcome import NotApplicable, same
from hedgerow.contracts.suite import CONTRACTS, examine
from hedgerow.contracts.views import nothing_raw_in_a_view
from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.convex import SquaredError
from hedgerow.core.layout import Buffer
from hedgerow.core.losses import Linear
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.core.units import Client, Event, Person, Unit
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.privacy.curves import GaussianDP, PureDP
from support.broken import leaks_late
from support.broken_games import BROKEN_GAMES, Compiled
from support.honest import NoisySums
from support.points import CLIP, Correlated, Correlating, Learning
from support.population import Population
from support.silo import Silo

FIXTURES: dict[str, AlgorithmSpec] = {
    "silo": Silo(),
    "silo, two stays": Silo(about=Person(2, 2)),
    "points": Correlated(),
    "points, compiled": Compiled(),
    "population": Population(),
    "population, whole clients": Population(about=Client()),
}
EXPERTS_ONLY = ("same by sums", "sleeping experts", "absent clients")
NO_CLAIM = (
    *("exact ratio below certificate", "noiseless is reference", "regret below bound"),
    *("uploads are bounded", "closing rules hold"),  # they cannot be deployed
)
NOT_APPLICABLE: dict[str, tuple[str, ...]] = {  # besides those
    "silo": ("within the budget",),
    "silo, two stays": ("within the budget",),
    "points": ("within the budget", "anytime", "public is public", "a lying server"),
    "points, compiled": ("within the budget", "anytime", "public is public", "a lying server"),
    "population": ("anytime",),
    "population, whole clients": ("anytime",),
}


OF_A_UNIT = ("within the budget", "sensitivities hold", "nothing raw in a view", "ledger composes")
OF_A_FAST_PATH = ("same on every engine", "same for every block", "causal", "resumable")
ONLY = {  # in the quick suite; the rest is as in the form before it
    "silo, two stays": OF_A_UNIT,
    "points, compiled": OF_A_FAST_PATH,
    "population, whole clients": OF_A_UNIT,
}


def _cases() -> list[Any]:
    return [
        pytest.param(n, c, marks=() if c in ONLY.get(n, CONTRACTS) else pytest.mark.long)
        for n in FIXTURES
        for c in CONTRACTS
    ]


@pytest.mark.parametrize(("name", "contract"), _cases())
def test_a_game_without_experts_keeps_every_contract(name: str, contract: str) -> None:
    outcome = examine(contract, FIXTURES[name])
    applies = contract not in (*EXPERTS_ONLY, *NO_CLAIM, *NOT_APPLICABLE[name])
    assert outcome.status == ("holds" if applies else "not applicable"), outcome.detail
    assert outcome.detail


REASONS = {
    "a patient pays for one stay": r"a datum enters 2 of mu = 1 \(Gaussian\)",
    "secret side information": "calls side public",
    "who reports is secret": "calls reporting public",
    "a decider that peeks": "depends on records from round",
    "knows when the game ends": "plays differ .* if the horizon is known",
    "start noise that is not declared": "gaussian noise for 'start' is drawn outside",
    "protective noise that is called free": "'report' is declared as noise that protects nothing",
    "free noise that hides data": "the server sees Report.share",
    "an index with a count from data": "the law of a coin depends on data beyond",
    "a uniform coin with a scale from data": "the law of a coin depends on data beyond",
    "free noise with a scale from data": "the law of a coin depends on data beyond",
    "a choice that is called free": "'choose' picks by scores for 'start' is drawn outside",
    "a flip that is called free": "'flip' picks by scores for 'start' is drawn outside",
    "the sign of a zero": "the server sees Flagged.flag",
    "a sum that is not taken": "only the sum of .*Report.share.* but the server gets each",
    "a decider that overwrites its state": "a state was changed in place",
    "plays an unprotected iterate": "the peer sees plays",
    "half the noise on correlated releases": "whose shifts add up to mu = 2|mu = 1.99",
    "secretly half the noise on correlated releases": "do not follow the declared law",
    "counts one of many correlated releases": "whose shifts add up to mu = 1.49",
    "two correlated records pay for one": "at most 2 records at one client, whose shifts add up",
    "two records in one sum pay for separate ones": "2 records across clients moved a .* by 2",
    "sums that are called separate": "2 records across clients moved a released value by 2",
    "never tries two records in one round": "no pair of its games tries .* in the same round",
    "correlated records that are called separate": "depends on two records of one person",
    "two correlated records pay for separate ones": "2 records across .*add up to mu = 1.99",
    "shifts of noise that is not Gaussian": "only the shifts of Gaussian noise add up, not KNorm",
    "leaves the domain": "point outside Ball",
    "compiled, with large errors": "change the run",
    "speaks out of turn": "the server sees Report.losses",
    "one report pays for all of a client": r"a datum enters 6 of epsilon = 1",
}


TWINS = (  # of others in the quick suite
    "secretly half the noise on correlated releases",
    "two correlated records pay for separate ones",
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in TWINS else ()) for name in BROKEN_GAMES],
)
def test_a_broken_version_fails_for_its_reason(name: str) -> None:
    contract, spec = BROKEN_GAMES[name]
    outcome = examine(contract, spec)
    assert outcome.status == "broken", outcome
    assert re.search(REASONS[name], outcome.detail), outcome.detail


@pytest.mark.parametrize(
    ("broken", "kept"),
    [
        ("secret side information", ("nothing raw in a view", "ledger composes")),
        pytest.param(
            *(
                "half the noise on correlated releases",
                ("noise follows its law", "sensitivities hold"),
            ),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *("an index with a count from data", ("noise follows its law", "causal")),
            marks=pytest.mark.long,
        ),
        ("plays an unprotected iterate", ("ledger composes", "sensitivities hold")),
        ("speaks out of turn", ("ledger composes", "sensitivities hold", "public is public")),
        ("a patient pays for one stay", ("sensitivities hold", "nothing raw in a view")),
        ("knows when the game ends", ("causal", "ledger composes")),
    ],
)
def test_a_broken_version_keeps_the_other_contracts(broken: str, kept: tuple[str, ...]) -> None:
    """Each fault is seen by its own contract, not by a side effect."""
    spec = BROKEN_GAMES[broken][1]
    assert [examine(contract, spec).status for contract in kept] == ["holds"] * len(kept)


@dataclass(frozen=True)
class Claims(AlgorithmSpec):
    """An honest algorithm with another unit and curve."""

    traits: ClassVar[SpecTraits] = SpecTraits(families=(Linear, SquaredError))

    inner: AlgorithmSpec
    about: Unit
    curve: PrivacyCurve

    def resolve(self, setting: Setting) -> Algorithm:
        honest = self.inner.build(setting)
        guarantees = tuple(
            replace(g, unit=self.about, curve=self.curve) if g.protects else g
            for g in honest.certificate.guarantees
        )
        return replace(honest, certificate=replace(honest.certificate, guarantees=guarantees))

    def games(self) -> Any:
        return self.inner.games()


MOVES = Person(2, 2)


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        (Claims(NoisySums(), MOVES, PureDP(2.0)), "holds"),
        (Claims(NoisySums(), MOVES, PureDP(1.9)), "broken"),
        (Claims(NoisySums(), Person(3), PureDP(3.0)), "holds"),
        (Claims(NoisySums(), Person(3), PureDP(2.9)), "broken"),
        (Claims(NoisySums("gaussian", cost=0.5), Client(), GaussianDP(0.5 * 39**0.5)), "holds"),
        (Claims(NoisySums("gaussian", cost=0.5), Client(), GaussianDP(0.5 * 38**0.5)), "broken"),
        (Claims(Correlated(), Event(), GaussianDP(1.01)), "holds"),
        (Claims(Correlated(), Event(), GaussianDP(0.98)), "broken"),
        (Claims(Silo(), MOVES, GaussianDP(1.41)), "broken"),
    ],
)
def test_a_unit_costs_what_its_records_cost_together(spec: Claims, status: str) -> None:
    outcome = examine("ledger composes", spec)
    assert outcome.status == status, outcome.detail


def test_two_records_in_one_sum_move_it_twice() -> None:
    """Where losses are summed over rounds, a person's records add up in one release."""
    sums = NoisySums("k-norm", every=20)
    assert examine("sensitivities hold", sums).status == "holds"
    outcome = examine("sensitivities hold", Claims(sums, MOVES, PureDP(2.0)))
    assert outcome.status == "broken"
    assert "2 records across clients moved a released value by 2" in outcome.detail


@dataclass(frozen=True)
class Separate(NoisySums):
    """Says that each record of a person enters a release alone."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = super().resolve(setting)
        return replace(honest, certificate=replace(honest.certificate, separate=True))


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        (Separate(), "holds"),
        (Separate(every=20), "broken"),
        (Separate("gaussian", "server"), "broken"),  # two clients in the same round
    ],
)
def test_separate_records_move_no_release_twice(spec: AlgorithmSpec, status: str) -> None:
    assert examine("sensitivities hold", spec).status == status


@pytest.mark.parametrize(
    ("unit", "rounds", "clients"),
    [
        (Event(), 1, 1),
        (Person(3), 3, 1),
        (Person(4, 4), None, None),
        (Client(), SETTING.rounds, 1),
    ],
)
def test_neighbours_differ_in_one_unit(unit: Unit, rounds: int | None, clients: int | None) -> None:
    spread = set()
    for _, losses, neighbour in pairs(NoisySums(), unit, 30):
        when, who = np.nonzero((losses != neighbour).any(axis=-1))
        assert (np.abs(losses - neighbour)[when, who] == 1.0).all()
        spread.add(len(set(who)))
        if rounds is None:
            assert len(when) == 4
        else:
            assert (len(when), len(set(when)), len(set(who))) == (rounds, rounds, clients)
    assert rounds is not None or max(spread) > 1


@pytest.mark.parametrize("spec", [NoisySums(), Silo(), Correlated()])
def test_a_person_who_moves_is_tried_at_every_place(spec: AlgorithmSpec) -> None:
    """At one client in two rounds, at two clients in one round, and at two in two."""
    games, found = games_of(spec), set()
    for _, one, other in pairs(spec, MOVES, 30):
        when, who = zip(*records_between(games.recorded(one), games.recorded(other)), strict=True)
        found.add((len(set(when)), len(set(who))))
        assert possible_places(games.recorded(one)) == PLACES.keys()
    assert found == {(2, 1), (1, 2), (2, 2)}


def test_places_that_a_game_does_not_have_are_not_demanded() -> None:
    """In the population, one client reports in each round."""
    population = Claims(Population(), MOVES, PureDP(2.0))
    _, one, _ = next(pairs(population, MOVES, 1))
    assert possible_places(games_of(population).recorded(one)) == {(False, False), (False, True)}
    assert examine("sensitivities hold", population).status == "holds"
    for shape, expected in (
        ((1, 3, 2), {(True, False)}),
        ((3, 1, 2), {(False, True)}),
        ((1, 1, 2), set()),
    ):
        assert possible_places(RecordedArray(np.zeros(shape))) == expected


def test_a_game_takes_over_one_record_of_another() -> None:
    for spec in (NoisySums(), Silo(), Correlated()):
        games = games_of(spec)
        _, *streams = next(pairs(spec, MOVES, 1))
        first, second = map(games.recorded, streams)
        cells = records_between(first, second)
        for cell in cells:
            one = with_record(cell, first, second)
            assert records_between(first, one) == [cell]
            assert records_between(one, second) == [other for other in cells if other != cell]


@pytest.mark.parametrize("where", ["timing", "client"])
def test_a_leak_above_a_large_total_is_seen_only_far_from_home(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbours in a tiny game do not show it, nor does another contract on the data."""
    assert examine("nothing raw in a view", leaks_late(where)).status == "broken"
    monkeypatch.setattr("hedgerow.contracts.views._far_apart", lambda spec, setting: "")
    for contract in ("nothing raw in a view", "sensitivities hold", "causal"):
        assert examine(contract, leaks_late(where)).status == "holds"


def test_the_contract_says_which_range_was_tried() -> None:
    outcome = examine("nothing raw in a view", NoisySums(every=100))
    assert outcome.status == "broken"  # an interval beyond the horizon of the small game
    outcome = examine("nothing raw in a view", NoisySums(every=20))
    assert "600 rounds of 200 clients, totals up to 120,000, of one client up to 600" in (
        outcome.detail
    )


@pytest.mark.long
@pytest.mark.parametrize("name", variants())
def test_nothing_raw_in_larger_games(name: str) -> None:
    spec: Any = variants()[name]
    own = games_of(spec).setting
    losses = own.family == Setting(1, 1, 1).family
    setting = replace(own, clients=250, experts=5 if losses else own.experts, horizon=4000)
    algorithm = spec.build(own)
    if not any(guarantee.protects for guarantee in algorithm.certificate.guarantees):
        with pytest.raises(NotApplicable, match="promises no protection"):
            nothing_raw_in_a_view(spec, long=setting)
    else:
        tried = "4,000 rounds of 250 clients" + ", totals up to 1,000,000" * losses
        assert tried in str(nothing_raw_in_a_view(spec, long=setting))


def test_far_pairs_cross_every_total_and_difference() -> None:
    totals, gaps = [], []
    for first, second in far_pairs(games_of(NoisySums()), LONG):
        for losses in (first, second):
            total = losses.sum(axis=(0, 1))
            totals.append(total.max())
            gaps.append(total[0] - total[-1])
    most = LONG.clients * LONG.rounds
    assert (min(totals), max(totals)) == (0, most)
    assert (min(gaps), max(gaps)) == (-most, most)


def test_games_without_far_pairs_are_compared_where_what_is_public_is_the_same() -> None:
    @dataclass(frozen=True)
    class Plain(Correlated):
        def games(self) -> Any:
            return replace(super().games(), far=None, long=None)

    @dataclass(frozen=True)
    class OtherBeds(Silo):
        """Streams differ in the public number of beds."""

        def games(self) -> Any:
            def stream(rng: np.random.Generator, setting: Setting) -> Any:
                drawn = own.stream(rng, setting)
                return replace(drawn, beds=drawn.beds + int(rng.integers(10**6)))

            own = super().games()
            return replace(own, stream=stream, far=None)

    assert "with 400 rounds of 3 clients" in examine("nothing raw in a view", Plain()).detail
    assert "neighbours only" in examine("nothing raw in a view", OtherBeds()).detail


def test_a_game_goes_on_with_the_records_of_another() -> None:
    rng = np.random.default_rng(0)
    for spec in (Silo(), Population(), Correlated()):
        games = games_of(spec)
        first, second = (games.recorded(games.stream(rng, games.setting)) for _ in range(2))
        one, other, both = whole(first), whole(second), whole(from_round(7, first, second))
        assert same(both.losses, np.concatenate([one.losses[:7], other.losses[7:]]))
        assert same(both.reports, np.concatenate([one.reports[:7], other.reports[7:]]))
        assert same((both.side, both.reporting), (one.side, one.reporting))
    losses = RecordedArray(np.ones((4, 2, 3)))
    both = whole(from_round(1, losses, RecordedArray(np.zeros((4, 2, 3)))))
    assert both.reports is both.losses


@pytest.mark.parametrize(
    ("first", "second", "tolerance", "equal"),
    [
        (np.array([1.0]), np.array([1.0 + 1e-12]), 0.0, False),
        (np.array([1.0]), np.array([1.0 + 1e-12]), 1e-9, True),
        (np.array([1.0]), np.array([1.0 + 1e-6]), 1e-9, False),
        (np.array([1.0]), np.array([1.0, 1.0]), 1e-9, False),
        (np.array([1]), np.array([2]), 5.0, False),
        ([1.0, 2], [1.0 + 1e-12, 2], 1e-9, True),
        (PureDP(1.0), PureDP(1.0 + 1e-12), 1e-9, True),
        (Buffer([[1.0]]), Buffer([[1.0 + 1e-12]]), 0.0, False),
        (Buffer([[1.0]]), Buffer([[1.0 + 1e-12]]), 1e-9, True),
        (Buffer([[1.0]]), Buffer([[1.0 + 1e-6]]), 1e-9, False),
        (Buffer([[1.0]]), Buffer([[1.0], [1.0]]), 1e-9, False),
        (PureDP(1.0), GaussianDP(1.0), 1e-9, False),
    ],
)
def test_floats_are_equal_up_to_the_tolerance(
    first: Any, second: Any, tolerance: float, equal: bool
) -> None:
    assert same(first, second, tolerance) is equal


@pytest.mark.parametrize(
    ("first", "second", "equal_values"),
    [
        (0.0, -0.0, True),
        (np.zeros(2), -np.zeros(2), True),
        (Buffer([[0.0]]), Buffer([[-0.0]]), True),
        (PureDP(0.0), PureDP(-0.0), True),
        ([0.0], [-0.0], True),
        (np.zeros(2), np.zeros(2, np.float32), True),
        (np.zeros(2), np.zeros(2, np.int64), True),
        (1, True, True),
        (1, 1.0, True),
        (np.array([np.nan]), np.array([-np.nan]), True),
        (1.0, 2.0, False),
    ],
)
def test_values_are_compared_bit_for_bit(first: Any, second: Any, equal_values: bool) -> None:
    assert not same(first, second)
    assert same(first, first)
    assert same(first, second, by_value=True) is equal_values


@dataclass(frozen=True)
class Referred(Compiled):
    """Compiled, with the plain algorithm as reference."""

    def resolve(self, setting: Setting) -> Algorithm:
        built = super().resolve(setting)
        return replace(built, claims=replace(built.claims, reference=Correlated().build(setting)))


@pytest.mark.parametrize(("error", "status"), [(1e-12, "holds"), (1e-6, "broken")])
def test_the_reference_is_met_up_to_the_tolerance(error: float, status: str) -> None:
    assert examine("noiseless is reference", Referred(error=error)).status == status


@dataclass(frozen=True)
class Batching(Learning):
    """Its points differ a little if all clients are computed at once, as if compiled."""

    error: float = 1e-12

    def play(self, state: Any, context: Context, noise: Noise) -> tuple[np.ndarray, Any]:
        return state.point * (1 - self.error if noise.batch else 1), state


@dataclass(frozen=True)
class Batches(Compiled):
    def resolve(self, setting: Setting) -> Algorithm:
        client = Batching(setting.experts, CLIP, self.error)
        built = super().resolve(setting)
        return replace(built, client=client, shortcuts=replace(built.shortcuts, advance=None))


@pytest.mark.parametrize(("error", "status"), [(1e-12, "holds"), (1e-6, "broken")])
def test_states_survive_up_to_the_tolerance(error: float, status: str) -> None:
    assert examine("states survive", Batches(error=error)).status == status


@dataclass(frozen=True)
class Bare:
    """A server without a state."""

    state: ClassVar[type[Any]] = type(None)

    inner: Correlating

    def open(self, noise: Noise) -> tuple[Any, None]:
        return self.inner.open(noise)[0], None

    def aggregate(self, state: None, uploads: Any, noise: Noise) -> tuple[Any, None]:
        return self.inner.aggregate(self.inner.open(noise)[1], uploads, noise)[0], None


@dataclass(frozen=True)
class Stateless(Correlated):
    def resolve(self, setting: Setting) -> Algorithm:
        honest = super().resolve(setting)
        return replace(honest, server=Bare(Correlating(setting.experts, 0.1, self.noise(setting))))


def test_a_role_without_a_state_is_pure() -> None:
    outcome = examine("pure", Stateless())
    assert outcome.status == "holds", outcome.detail

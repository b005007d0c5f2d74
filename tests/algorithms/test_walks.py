"""Walks: noisy reports, their certificates, and the leader of their sums."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log, sqrt
from typing import Any

import numpy as np
import pytest
from scipy import stats

import hedgerow as hr
from hedgerow.algorithms.walks.reports import MOST_SIZE, Reporter
from hedgerow.algorithms.walks.walk_leader import WalkLeader, regret_bound
from hedgerow.audits.cases.walks import cases
from hedgerow.audits.runner import AuditRow, attack
from hedgerow.contracts.suite import CONTRACTS, ON_BOTH_SOURCES, examine
from hedgerow.core.block import Side
from hedgerow.core.environment import Feature, Traits
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.noise import SeededNoise
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Everything
from hedgerow.core.units import Event, Part, Person
from hedgerow.engines.simulate import EngineName
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.evaluation.recorder import Recorder
from hedgerow.privacy.curves import GaussianDP
from hedgerow_papers.jacobsen2025.walk_batches import WalkBatches

FORMS: dict[str, WalkLeader] = {
    "slot": WalkLeader(reports="slot"),
    "silo": WalkLeader(reports="silo"),
    "silo, sized": WalkLeader(reports="silo", sized=True),
    "silo, two records": WalkLeader(reports="silo", epsilon=1.0, unit="person:2@2"),
    "two records": WalkLeader(epsilon=1.0, unit="person:2@2"),
    "no noise": WalkLeader(mu=inf),
}
QUICK = {
    ("slot", "same for every block"),
    ("slot", "covers every message"),
    ("silo", "regret below bound"),
    ("silo, sized", "same for every block"),
    ("silo, sized", "public is public"),
    ("two records", "states survive"),
    ("two records", "within the budget"),
}
SILO = hr.Setting(3, 3, 100, deciders=1, family=hr.Gains(high=(1.0, 4.0, 2.0)))


def marked(contracts: Any, quick: set[tuple[str, str]]) -> list[Any]:
    found = [(form, contract) for form in FORMS for contract in contracts]
    long = pytest.mark.long
    return [pytest.param(*case, marks=() if case in quick else long) for case in found]


def plays(spec: WalkLeader, game: Any, engine: EngineName = "vectorised", seed: int = 0) -> Any:
    kept = Everything(wants_messages=engine == "in_process")
    algorithm = spec.build(game.setting)
    hr.simulate(algorithm, game, seed, sinks=[kept], engine=engine)
    return kept.all_plays()


def silo_game(gains: np.ndarray, **public: Any) -> hr.Replay:
    reports = gains[..., None]
    if "reporting" in public:
        reports = reports * public["reporting"][..., None]
    high = tuple(np.maximum(gains.max(axis=0), 1.0).tolist())
    return hr.Replay(reports.swapaxes(1, 2), hr.Gains(high=high), reports=reports, **public)


@pytest.mark.parametrize(("form", "contract"), marked(CONTRACTS, QUICK))
def test_every_form_keeps_every_contract(form: str, contract: str) -> None:
    found = examine(contract, FORMS[form])
    assert found.status != "broken", found.detail
    assert (form, contract) not in QUICK or found.status == "holds", found.detail


@pytest.mark.parametrize(("form", "contract"), marked(ON_BOTH_SOURCES, set()))
def test_every_form_keeps_every_contract_on_secure_noise(form: str, contract: str) -> None:
    found = examine(contract, FORMS[form], secure=True)
    assert found.status != "broken", found.detail


# Noise and certificates


def test_the_sensitivity_is_that_of_the_ranges() -> None:
    assert WalkLeader().sensitivity(hr.Setting(2, 9, 100)) == 3.0
    assert WalkLeader(reports="silo").sensitivity(SILO) == 4.0
    gains = hr.Setting(2, 3, 100, family=hr.Gains(low=-1.0, high=(1.0, 4.0, 2.0)))
    assert WalkLeader().sensitivity(gains) == pytest.approx(sqrt(4 + 25 + 9))
    one_fixed = replace(SILO, family=hr.Gains(low=(0.0, 2.0, 0.0), high=(1.0, 2.0, 0.5)))
    assert WalkLeader(reports="silo").sensitivity(one_fixed) == 1.0
    nothing = hr.Setting(2, 2, 100, family=hr.Gains(low=1.0, high=1.0))
    with pytest.raises(InvalidValue, match="range of all losses or gains"):
        WalkLeader().build(nothing)


@pytest.mark.parametrize("records", [1, 2, 7])
@pytest.mark.parametrize("reports", ["each", "silo"])
def test_the_budget_holds_for_all_records_of_a_person(records: int, reports: Any) -> None:
    setting = SILO if reports == "silo" else hr.Setting(3, 5, 100)
    unit = Person(records) if records > 1 else None
    spec = WalkLeader(mu=0.7, reports=reports, unit=unit)
    algorithm = spec.build(setting)
    guarantee = algorithm.certificate.server
    assert isinstance(guarantee.unit, Event if records == 1 else Person)
    assert isinstance(guarantee.curve, GaussianDP)
    assert 0.7 * (1 - 1e-12) < guarantee.curve.mu <= 0.7
    assert algorithm.parameters["report_mu"] == pytest.approx(0.7 / sqrt(records))
    assert algorithm.certificate.separate
    asked = WalkLeader(epsilon=1.0, delta=1e-5, reports=reports, unit=unit)
    epsilon, delta = asked.build(setting).certificate.server.curve.stated()
    assert 1 - 1e-3 < epsilon <= 1.0
    assert delta == 1e-5


def test_shares_of_a_person_at_several_clients_add_up() -> None:
    """Two records at two clients in one round move one sum twice as far: k mu, not sqrt(k) mu."""
    one, two = (
        WalkLeader(trust="distributed", unit=unit).build(hr.Setting(5, 4, 100))
        for unit in (None, "person:2@2")
    )
    scales = [algorithm.certificate.mechanisms[0].noise_scale() for algorithm in (one, two)]
    assert scales[1] == pytest.approx(2 * (scales[0] or 0.0))
    assert scales[0] == pytest.approx(2.0 / sqrt(4))  # sqrt(d) / mu, shared by four of five
    assert not two.certificate.separate
    assert one.certificate.server.colluding == 1


def test_without_noise_nothing_is_promised() -> None:
    algorithm = WalkLeader(mu=inf).build(hr.Setting(2, 3, 10))
    assert algorithm.certificate.trust == "none"
    assert not algorithm.certificate.public.protects
    assert algorithm.claims.regret_bound is None
    with pytest.raises(InvalidValue, match="protects nobody"):
        hr.Learner.private(WalkLeader(mu=inf), clients=2, experts=3, source=hr.SecureNoise())


def test_sizes_are_an_assumption_of_the_certificate() -> None:
    certificate = WalkLeader(reports="silo", sized=True).build(SILO).certificate
    assert "PUBLIC_SIZES" in {assumption.name for assumption in certificate.server.assumes}
    assert "by at most 1/size" in certificate.server.adjacency
    assert isinstance(certificate.server.unit, Part)


def _has_deviation(sample: np.ndarray, deviation: float) -> bool:
    """Whether a normal sample with mean 0 may have this standard deviation."""
    below = stats.chi2.cdf(np.square(sample / deviation).sum(), len(sample))
    return bool(0.005 < below < 0.995)


def _sums(spec: WalkLeader, setting: Any, rounds: int, side: Side | None = None) -> np.ndarray:
    """The noisy sums of zero records after some rounds."""
    algorithm, source = spec.build(setting), SeededNoise(0)
    everyone = source.everyone("client", setting.clients)
    _, server = algorithm.server.open(source.server())
    clients: Any = algorithm.client.start(everyone)
    zeros = np.zeros((setting.clients, spec.width(setting)))
    for _ in range(rounds):
        clients = algorithm.client.observe(clients, zeros, everyone, *([side] if side else []))
        sent, clients = algorithm.client.upload(clients, everyone)
        if not spec.silo:
            sent = type(sent)(sent.values.sum(axis=0), sent.variance.sum(axis=0))
        _, server = algorithm.server.aggregate(server, sent, source.server())
    return server.sums


@pytest.mark.parametrize("trust", ["local", "distributed"])
def test_the_sums_are_a_random_walk(trust: Any) -> None:
    """The start counts as one round; the sum of 6 reports of 4 clients has variance 7 * 4 scale^2.

    The test also rejects sums without a start, and a start with the scale of one client.
    """
    setting = hr.Setting(4, 4000, None)
    spec = WalkLeader(trust=trust)
    scale = spec.build(setting).certificate.mechanisms[0].noise_scale() or 0.0
    sums = _sums(spec, setting, rounds=6)
    assert _has_deviation(sums, scale * sqrt(28))
    assert not _has_deviation(sums, scale * sqrt(24))
    assert not _has_deviation(sums, scale * sqrt(25))


def test_noise_is_scaled_to_the_size_of_each_client() -> None:
    """Sizes above 1024 count as 1024."""
    count = 3000
    setting = hr.Setting(count, count, None, deciders=1, family=hr.Gains())
    sizes = np.resize([2.0, 50.0, 1e6], (count, 1))
    sums = _sums(WalkLeader(mu=0.5, reports="silo", sized=True), setting, 4, Side(sizes))
    for i, size in enumerate((2.0, 50.0, MOST_SIZE)):
        unit = sums[i::3] * size * 0.5 / sqrt(5)
        assert _has_deviation(unit, 1.0)
        assert not _has_deviation(unit, 1.1)


# Plays


@pytest.mark.parametrize("reports", ["each", "slot"])
def test_without_noise_it_follows_the_leader(reports: Any) -> None:
    losses = np.random.default_rng(0).random((40, 1, 4))
    expected = np.cumsum(losses[:-1, 0], axis=0).argmin(axis=1)
    found = plays(WalkLeader(mu=inf, reports=reports), hr.Replay(losses))
    assert (found[1:, 0] == expected).all()
    gains = plays(WalkLeader(mu=inf, reports=reports), hr.Replay(1.0 - losses, hr.Gains()))
    assert (gains[1:] == found[1:]).all()


def test_a_learner_without_a_horizon_finds_the_best_gain() -> None:
    family = hr.Gains(high=8.0)
    learner = hr.Learner(WalkLeader(mu=10.0), clients=2, experts=3, family=family)
    for _ in range(300):
        learner.predict()
        learner.observe([[1, 3, 2], [1, 3, 2]])
    assert learner.predict().tolist() == [1, 1]


@pytest.mark.parametrize("engine", ["vectorised", "in_process"])
def test_a_silo_that_does_not_report_is_not_followed(engine: Any) -> None:
    gains = np.zeros((60, 3))
    gains[:, 2] = 1.0
    reporting = np.ones((60, 3), bool)
    reporting[20:40, 2] = False
    reporting[50] = False  # nobody reports: the leader is followed
    game = silo_game(gains, reporting=reporting)
    found = plays(WalkLeader(mu=50.0, reports="silo"), game, engine)[:, 0]
    assert (found[5:20] == 2).all()
    assert (found[20:40] != 2).all()
    assert (found[40:] == 2).all()


@pytest.mark.parametrize("engine", ["vectorised", "in_process"])
@pytest.mark.parametrize("count", [0, 2])
def test_a_slot_has_one_report(engine: Any, count: int) -> None:
    records, reporting = np.zeros((6, 1, 2)), np.zeros((6, 3), bool)
    reporting[:, 0] = True
    reporting[4, :2] = count == 2
    game = hr.Replay(records, reports=np.zeros((6, 3, 2)), reporting=reporting)
    with pytest.raises(InvalidValue, match=f"one report in each round .* got {count}"):
        plays(WalkLeader(reports="slot"), game, engine)


def test_an_expert_that_never_wakes_is_never_played() -> None:
    class Asleep(hr.Replay):
        @property
        def traits(self) -> Traits:
            return Traits("adaptive", features=frozenset({Feature.SLEEPING_EXPERTS}))

        def block(self, state: int, rounds: int, past_plays: Any) -> Any:
            block, after = super().block(state, rounds, past_plays)
            awake = np.ones(block.losses.shape, bool)
            awake[..., 0] = False
            return replace(block, awake=awake), after

    losses = np.ones((80, 2, 3))
    losses[..., 0], losses[..., 2] = 0.0, 0.5
    found = plays(WalkLeader(mu=100.0), Asleep(losses))
    assert (found != 0).all()
    assert (found[3:] == 2).all()  # the best of those awake


# Regret


def test_the_bound_is_below_the_printed_one() -> None:
    for scale in (0.3, 1.0, 5.0):
        printed = (scale + 2 / scale) * sqrt(2 * 10_000 * log(25))
        ours = regret_bound(10_000, 25, scale)
        assert ours < printed
        assert ours == pytest.approx(
            min(10_000.0, (scale + 1 / (2 * scale)) * sqrt(2 * 10_000 * log(25))), rel=0.01
        )
    assert regret_bound(100, 1, 1.0) == 0.0
    mixed = regret_bound(10**6, 25, 1.0, most=2.0)
    assert regret_bound(10**6, 25, 2.0) < mixed < 5 * regret_bound(10**6, 25, 1.0)


def test_regret_stays_below_a_bound_that_says_something() -> None:
    game = Bernoulli(clients=5, experts=4, horizon=3000, mean=0.8, gap=0.6)
    algorithm = WalkLeader(mu=2.0).build(game.setting)
    assert algorithm.regret_at_most < 0.1 * 3000 * 0.6
    regrets = []
    for seed in range(5):
        recorder = Recorder(game.setting, points=2)
        result = recorder.result("", seed, hr.simulate(algorithm, game, seed, sinks=[recorder]))
        regrets.append(result.final_regret)
    assert 0 < np.mean(regrets) < algorithm.regret_at_most


def test_a_bound_is_claimed_only_where_it_is_proven() -> None:
    some = Traits(features=frozenset({Feature.SOME_REPORT}))
    silo = WalkLeader(reports="silo").build(SILO)
    assert silo.claims.regret_bound is not None
    assert silo.claims.regret_bound.covers == "oblivious"
    assert silo.in_game(some).claims.regret_bound is None
    slot = WalkLeader(reports="slot").build(hr.Setting(4, 3, 100, deciders=1))
    assert slot.in_game(some).claims.regret_bound is not None
    for spec, setting in (
        (WalkLeader(reports="silo", sized=True), SILO),
        (WalkLeader(), hr.Setting(4, 3, 100, deciders=1)),
        (WalkLeader(), hr.Setting(4, 3, None)),
    ):
        assert spec.build(setting).claims.regret_bound is None


# Wrong input


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"mu": 0.0}, "mu=0.0 > 0"),
        ({"mu": float("nan")}, "mu"),
        ({"mu": 1.0, "epsilon": 1.0}, "give mu, or epsilon"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta=0.0 in"),
        ({"reports": "all"}, "reports='all'"),
        ({"reports": "silo", "trust": "distributed"}, "trust='distributed' to be 'local'"),
        ({"sized": True, "trust": "distributed"}, "only with trust='local'"),
    ],
)
def test_wrong_choices_are_refused(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        WalkLeader(**choices)


def test_games_that_do_not_fit_are_refused() -> None:
    plain = hr.Setting(3, 3, 10)
    with pytest.raises(Unsupported, match="needs one decider, and one client for each expert"):
        WalkLeader(reports="silo").build(plain)
    with pytest.raises(Unsupported, match="one client that stands for all"):
        WalkLeader(reports="slot").build(plain)
    with pytest.raises(Unsupported, match="needs public side information"):
        plays(WalkLeader(reports="silo", sized=True), silo_game(np.ones((4, 2))))
    game = hr.Replay(np.zeros((3, 1, 2)), reports=np.zeros((3, 2, 2)))
    with pytest.raises(Unsupported, match="needs rounds in which only some"):
        plays(WalkLeader(reports="slot"), game)


@pytest.mark.parametrize("engine", ["vectorised", "in_process"])
def test_a_hospital_without_beds_must_not_report(engine: Any) -> None:
    beds, reporting = np.full((5, 2, 1), 8.0), np.ones((5, 2), bool)
    beds[2, 1] = 0.0
    spec = WalkLeader(reports="silo", sized=True)
    gains = np.full((5, 2), 0.5)
    with pytest.raises(
        InvalidValue, match=r"public size=0\.0 of a client that reports to be at least"
    ):
        plays(spec, silo_game(gains, side=beds, reporting=reporting), engine)
    reporting[2, 1] = False
    assert len(plays(spec, silo_game(gains, side=beds, reporting=reporting), engine)) == 5


@pytest.mark.parametrize("wrong", [1.5, -0.1, float("nan"), inf])
def test_gains_outside_their_range_are_refused(wrong: float) -> None:
    learner = hr.Learner(
        WalkLeader(reports="silo"), clients=2, experts=2, deciders=1, family=hr.Gains()
    )
    learner.predict()
    with pytest.raises(InvalidValue):
        learner.observe([[0.5], [wrong]])


def test_a_report_has_the_declared_width() -> None:
    reporter = Reporter(2, None)
    state = reporter.start(SeededNoise(0).everyone("client", 3))
    with pytest.raises(InvalidValue, match="2 numbers in a report, got 1"):
        reporter.observe(state, np.zeros((3, 1)), SeededNoise(0).everyone("client", 3))
    with pytest.raises(Unsupported, match="does not play"):
        reporter.play(state, None, SeededNoise(0).server())  # pyright: ignore[reportArgumentType]


# Attacks


def test_an_attack_sees_a_fifth_less_noise() -> None:
    for less in cases(WalkLeader())[2:4]:
        assert AuditRow(less, attack(less)).verdict == "violated"
    assert cases(WalkLeader(mu=inf)) == ()


@pytest.mark.long
@pytest.mark.parametrize(
    "spec",
    [
        WalkLeader(),
        WalkLeader(trust="distributed"),
        WalkLeader(mu=0.3),
        WalkLeader(reports="slot"),
        WalkLeader(reports="silo"),
        WalkLeader(reports="silo", sized=True),
    ],
)
def test_attacks_find_the_certified_shift_and_too_little_noise(spec: WalkLeader) -> None:
    """Records of one person shift by mu, four times as many by 2 mu, and never by more."""
    rows = [AuditRow(case, attack(case)) for case in cases(spec)]
    assert all(row.passed for row in rows), [row.to_dict() for row in rows]
    assert len(rows) == (4 if spec.trust == "distributed" else 8)
    for row in rows[1::4]:
        assert (row.finding.epsilon or 0.0) > 0.95 * row.certified


# What an adversary found


def test_sizes_refuse_late_reports() -> None:
    """A late record would be scaled by the size of another round: 1000 instead of 1."""
    setting = Setting(clients=2, experts=3, horizon=8)
    plain, sized = (hr.WalkLeader(mu=1.0, sized=sized).build(setting) for sized in (False, True))
    assert Feature.LATE_REPORTS in plain.supports
    assert Feature.LATE_REPORTS not in sized.supports


def test_sleeping_experts_need_one_range() -> None:
    """A sleeping expert is charged the gain of the expert that is played."""
    for high, allowed in (((1.0, 1.0, 1.0), True), ((100.0, 1.0, 1.0), False)):
        setting = Setting(clients=2, experts=3, horizon=8, family=hr.Gains(high=high))
        supports = hr.WalkLeader(mu=1.0).build(setting).supports
        assert (Feature.SLEEPING_EXPERTS in supports) == allowed


@pytest.mark.parametrize("spec", [hr.WalkLeader, WalkBatches])
def test_a_silent_silo_does_not_look_good(spec: Any) -> None:
    """Losses .9 and .6; the first is silent in every second round. Silence is no loss of 0."""
    rounds = 400
    losses = np.tile([0.9, 0.6], (rounds, 1))
    reporting = np.ones((rounds, 2), bool)
    reporting[::2, 0] = False
    game = hr.Replay(
        losses[:, None], reports=losses[..., None] * reporting[..., None], reporting=reporting
    )
    study = hr.run(game, {"walk": spec(mu=20.0, reports="silo")}, seeds=3)
    assert study["walk"].regret.mean < 0.05 * rounds
    built = spec(mu=1.0, reports="silo").build(game.setting)
    assert built.in_game(game.traits).claims.regret_bound is None


def test_a_person_at_several_clients_assumes_that_colluders_are_others() -> None:
    setting = Setting(clients=3, experts=3, horizon=8)
    for unit, assumed in ((None, False), ("person:2@2", True)):
        for trust in ("local", "distributed"):
            spec = hr.WalkLeader(mu=1.0, unit=unit, trust=trust)
            names = {a.name for a in spec.build(setting).certificate.server.assumes}
            assert ("OTHER_CLIENTS" in names) == assumed


def test_one_person_moves_a_sized_report_by_at_most_its_sensitivity() -> None:
    """Before and after any change of 1 / size, for sizes from 1 to 5000."""
    setting = Setting(clients=4, experts=4, horizon=8, deciders=1, family=hr.Gains())
    spec = hr.WalkLeader(mu=1.0, reports="silo", sized=True)
    reporter = spec.build(setting).client
    assert isinstance(reporter, Reporter)
    rng, moved = np.random.default_rng(0), 0.0
    for size in (1.0, 2.5, 3.0, 700.0, 1023.9, 1024.0, 5000.0):
        before = rng.random((2000, 1)) * (1 - 1 / size)
        both = [round_to_lattice(x) for x in (before, before + 1 / size)]
        given, _ = reporter.public(Side(np.full((2000, 1), size), None), (2000,))
        low, high = (reporter.scaled(x, given) for x in both)
        moved = max(moved, float(np.abs(high - low).max()))
    assert 1.0 < moved <= spec.sensitivity(setting) < 1.002

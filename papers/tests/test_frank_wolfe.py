"""Frank-Wolfe on trees: batches, gradients and their bounds, certificates, regret, bad input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.audits.cases.releases import less_noise
from hedgerow.audits.runner import AuditRow, attack, cases_of
from hedgerow.contracts.suite import CONTRACTS
from hedgerow.contracts.suite import examine as contract
from hedgerow.core.convex import CrossEntropy, Huber, Logistic, OnSimplex, SquaredError
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family, Gains, Linear, Norm
from hedgerow.core.noise import NoNoise, SeededNoise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.engines.loop import EXCHANGES_AT_ONCE
from hedgerow.engines.simulate import simulate
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.evaluation.recorder import Recorder
from hedgerow.evaluation.statistics import Estimate
from hedgerow.privacy.curves import LaplaceDP, PureDP
from hedgerow.privacy.mechanisms import AdditiveNoise, NoisyMax
from hedgerow_papers.gao2024.certified_frank_wolfe import FrankWolfe
from hedgerow_papers.gao2024.class_forecasts import ClassForecasts
from hedgerow_papers.gao2024.frank_wolfe import FedDPOPEStoch
from hedgerow_papers.gao2024.gradients import BoundedGradients, spread
from hedgerow_papers.gao2024.laplace_max import LaplaceMax
from hedgerow_papers.gao2024.tree_bounds import Excess, scalars
from hedgerow_papers.gao2024.tree_roles import Towards
from hedgerow_papers.gao2024.trees import (
    MOST_TREES,
    Plan,
    first_place,
    largest_move,
    moved,
    plan,
    steps,
)
from support.attacked import attacked
from support.played import plays_of

FAMILIES: tuple[Family, ...] = (
    Linear(),
    CrossEntropy(floor=0.05),
    CrossEntropy(floor=1.0),
    OnSimplex(Huber(threshold=0.02)),
    OnSimplex(SquaredError(feature_norm=2.0)),
    OnSimplex(Logistic(feature_norm=3.0, radius=2.0)),
)
NORMS: tuple[Norm, ...] = ("linf", "l2", "l1")


def test_the_largest_trees_of_a_phase() -> None:
    """As many as the review of the paper lists, for phases of 2^2, 2^4, ... records."""
    table = {2: (1, 2), 4: (2, 4), 6: (3, 8), 8: (4, 16), 10: (5, 64), 14: (9, 512), 18: (12, 4096)}
    for power, (trees, batch) in table.items():
        found = plan(2**power, trees)
        assert found is not None
        assert found.batch >= batch
        assert found.used <= 2**power
        assert trees == MOST_TREES or plan(2**power, trees + 1) is None
    assert [plan(records, 1) for records in (1, 2)] == [None, None]


@pytest.mark.parametrize("of", [Plan(0, 5), Plan(1, 2), Plan(3, 24), Plan(5, 64)])
def test_no_record_is_in_two_batches(of: Plan) -> None:
    taken = [i for step in steps(of) for i in range(step.start, step.start + step.count)]
    assert taken == list(range(of.used))
    assert len(steps(of)) == of.leaves
    if of.trees:
        assert sum(step.count for step in steps(of) if step.tree == 1) == 1.5 * of.batch


def test_engines_allow_the_deepest_trees_and_no_deeper_ones() -> None:
    assert Plan(MOST_TREES, 2**MOST_TREES).leaves <= EXCHANGES_AT_ONCE
    assert Plan(MOST_TREES + 1, 2 ** (MOST_TREES + 1)).leaves > EXCHANGES_AT_ONCE
    with pytest.raises(InvalidValue, match="16382 exchanges before one round"):
        FrankWolfe(trees=13)


def test_points_move_no_farther_than_promised() -> None:
    rng, plans = np.random.default_rng(0), (Plan(4, 16),)
    for _ in range(30):
        place = moved(plans, first_place(5), -1)
        for step in steps(plans[0]):
            if step.level:
                apart = np.abs(place.point - place.corners[step.level - 1]).sum()
                assert apart <= largest_move(step.tree, step.level) + 1e-12
            place = moved(plans, place, int(rng.integers(5)))


def records(rng: Any, family: Family, width: int, count: int) -> Array:
    """Steep records: few features, far targets, sure classes, losses 0 and 1."""
    if isinstance(family, Linear):
        return rng.integers(0, 2, (count, width)).astype(float)
    if isinstance(family, CrossEntropy):
        return np.eye(width)[rng.integers(0, width, count)]
    made = rng.normal(size=(count, width)) * (rng.random((count, width)) < 0.5)
    made *= 10.0
    targets = rng.choice([-1.0, 1.0], count)
    return family.clip(np.concatenate([made, targets[:, None]], axis=1)).records


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_one_record_counts_as_little_as_promised(family: Family, norm: Norm) -> None:
    """Nothing is clipped for true constants, and the bounds are reached within a factor 4."""
    rng, width = np.random.default_rng(1), 4
    gradients, closest = BoundedGradients(family, width, norm), 0.0
    low, high = spread(family, width)
    for _ in range(60):
        pair = records(rng, family, width, 2)
        point, parent = np.eye(width)[rng.integers(0, width, 2)]
        values = [gradients.at(row[None], point) for row in pair]
        exact = family.gradient(pair, point) / gradients.unit
        assert np.abs(values - exact).max() < 2.0**-18  # four steps of the lattice
        inside = [(v * gradients.unit >= low) & (v * gradients.unit <= high) for v in values]
        assert np.all(inside)
        apart = np.linalg.norm(values[0] - values[1], _ORDER[norm])
        assert apart <= gradients.reach * (1 + 1e-12)
        closest = max(closest, apart / gradients.reach)
        if not family.linear:
            bound = gradients.bound(point, parent, 2.0)
            change = gradients.between(pair[:1], point, parent, bound, 1.0)
            assert np.linalg.norm(change, _ORDER[norm]) <= bound * (1 + 1e-12)
            exact = exact[0] - family.gradient(pair[0], parent) / gradients.unit
            assert np.abs(change - exact).max() < 2.0**-18
    assert closest >= 0.25


_ORDER: dict[Norm, Any] = {"linf": np.inf, "l2": 2, "l1": 1}


@pytest.mark.parametrize("noise", ["leaf", "vertex"])
def test_without_noise_equal_records_give_the_steps_of_frank_wolfe(noise: Any) -> None:
    """Then every estimate on every tree is the exact gradient at the current point."""
    family = OnSimplex(SquaredError())
    record = np.array([0.5, -0.4, 0.1, 0.7, 0.2])
    game = Replay(np.broadcast_to(record, (128, 2, 5)), family)
    algorithm = FrankWolfe(trees=2, noise=noise).build(game.setting)
    kept = plays_of(algorithm, game, noise=NoNoise())
    point = np.full(4, 0.25)
    for k in range(1, 7):
        towards = np.eye(4)[int(np.argmin(family.gradient(record, point)))]
        point = point + 2 / (k + 1) * (towards - point)
    np.testing.assert_allclose(kept[-1, 0], point, atol=1e-12)


@pytest.mark.parametrize(
    ("family", "trust", "cost"),
    [
        (Linear(), "local", 10 / 4),
        (CrossEntropy(), "local", 1.0),
        (OnSimplex(Huber(threshold=0.02)), "local", sqrt(10)),
        (Linear(), "central", 0.5),
        (CrossEntropy(), "central", 1.0),
        (OnSimplex(Huber(threshold=0.02)), "central", 2.0),
    ],
)
def test_what_the_printed_noise_really_costs(family: Family, trust: Any, cost: float) -> None:
    setting = Setting(3, 10, 64, family=family)
    built = FedDPOPEStoch(trust=trust, trees=2).build(setting)
    promised = built.certificate.peer
    assert promised.curve.epsilon(0.0) == pytest.approx(cost, rel=1e-9)
    assert promised.claimed == PureDP(1.0)
    assert built.certificate.calibration == "published"


@pytest.mark.parametrize("noise", ["leaf", "vertex"])
@pytest.mark.parametrize("trust", ["central", "distributed", "local"])
def test_certified_noise_keeps_the_budget(trust: Any, noise: Any) -> None:
    delta = 1e-6 if trust == "distributed" else 0.0
    for family in FAMILIES:
        spec = FrankWolfe(0.7, delta, trust, noise, trees=3)
        certificate = spec.build(Setting(4, 6, 300, family=family)).certificate
        assert certificate.trust == trust
        assert certificate.peer.curve.delta(0.7) <= delta
        assert certificate.server.protects is (trust != "central")


VECTORS: tuple[tuple[str, Norm, float], ...] = (
    ("k_norm", "linf", 0.0),
    ("laplace", "l1", 0.0),
    ("gaussian", "l2", 1e-6),
)
SENT: list[tuple[dict[str, Any], Norm]] = [
    ({}, "linf"),
    *(
        ({"trust": "local", "noise": noise, "report": report, "delta": delta}, norm)
        for noise in ("leaf", "vertex")
        for report, norm, delta in VECTORS
    ),
]
TOWARDS = 1 + np.arange(20) % 3  # never towards expert 0


def _sent(client: Any, changed: int, record: Array) -> Array:
    """What a client without noise sends in five phases; one record of the last is not 0."""
    noise, rows, towards = NoNoise().everyone("client", 1), np.zeros((31, 1, 5)), iter(TOWARDS)
    rows[15 + changed] = record
    state, found = client.receive(client.start(noise), Towards(1, -1)), list[Array]()
    for phase, of in enumerate(client.schedule.plans):
        state = client.observe_many(state, rows[2**phase - 1 : 2 ** (phase + 1) - 1], noise)
        for leaf in range(of.leaves):
            sent, state = client.upload(state, noise)
            found.append(sent.gradients[0])
            rounds = 2 ** (phase + 1) if phase < 4 and leaf == of.leaves - 1 else 0
            state = client.receive(state, Towards(rounds, int(next(towards))))
    return np.array(found)


def _opposite(move: Array, point: Array, equal: bool) -> tuple[Array, Array]:
    """Two records whose gradients change in opposite directions along a move of the point."""
    along, records = 0.01 * move / np.square(move).sum(), []
    for sign in (1.0, -1.0):
        features = (np.full(4, 0.5) if equal else np.eye(4)[0]) + sign * along
        features /= np.linalg.norm(features) * (1 + 1e-12)
        records.append(np.append(features, features @ (point - move / 2)))
    return records[0], records[1]


@pytest.mark.parametrize(("choices", "norm"), SENT, ids=[str(sent) for sent, _ in SENT])
def test_a_record_at_a_right_child_moves_what_is_sent_as_far_as_stated(
    choices: dict[str, Any], norm: Norm
) -> None:
    """No farther than the sensitivity of the noise, and at some child nearly as far."""
    setting = Setting(1, 4, 31, family=OnSimplex(Huber(threshold=0.001)))
    built: Any = FrankWolfe(trees=2, **choices).build(setting)
    client, plans = replace(built.client, reporting=None), built.client.schedule.plans
    stated = (built.client.reporting or built.server.adding).sensitivity
    place, before = moved(plans, first_place(4), -1), sum(of.leaves for of in plans[:4])
    for expert in TOWARDS[:before]:
        place = moved(plans, place, int(expert))
    totals = []
    for step, expert in zip(steps(plans[4]), TOWARDS[before:], strict=False):
        if step.level:
            move = place.point - place.corners[step.level - 1]
            pair = _opposite(move, place.point, equal=norm == "l1")
            first, second = (_sent(client, step.start, record) for record in pair)
            sizes = np.linalg.norm(first - second, _ORDER[norm], axis=-1)
            totals.append(np.linalg.norm(sizes) if norm == "l2" else sizes.sum())
        place = moved(plans, place, int(expert))
    assert len(totals) == 4
    assert 0.9 * stated <= max(totals) <= stated


@dataclass(frozen=True)
class Halved(FrankWolfe):
    """The bug: half of the noise."""

    def resolve(self, setting: Setting) -> Algorithm:
        return less_noise(super().resolve(setting), 0.5)


def test_the_ledger_of_moves_catches_half_the_noise() -> None:
    spec = Halved(trust="local", noise="leaf", report="k_norm", trees=2)
    outcome = contract("ledger composes", spec)
    assert outcome.status == "broken"
    assert "a datum enters" in outcome.detail


def test_a_short_move_costs_less() -> None:
    assert AdditiveNoise("x", "laplace", 2.0, 4.0).cost_of_move(1.0) == LaplaceDP(0.5)
    assert NoisyMax("x", "exponential", 3.0, 2.0).cost_of_move(1.0) == PureDP(1.5)
    assert LaplaceMax("x", 3.0, 2.0).cost_of_move(2.0) == PureDP(3.0)


def test_laplace_noisy_max() -> None:
    """Two scores in closed form; the cost is approached where the winner is far behind."""
    choice = LaplaceMax("x", epsilon=1.0, sensitivity=1.0)
    for gap in (0.0, 1.0, 5.0, 50.0):
        found = choice.probabilities([0.0, 2 * gap])
        assert found[1] == pytest.approx((1 + gap / 2) * exp(-gap) / 2, rel=1e-9)
        assert found.sum() == pytest.approx(1.0, abs=1e-12)
    scores = np.full(40, 1000.0)
    scores[0] = 0.0
    ahead, behind = scores.copy(), scores.copy()
    ahead[0], ahead[1], behind[0], behind[1] = 1.0, 999.0, -1.0, 1001.0
    loss = choice.log_probability(ahead, 1) - choice.log_probability(behind, 1)
    assert 1.98 < loss <= 2 + 1e-9  # both scores move by 2, so the cost is that of twice the move
    drawn = SeededNoise(0).server()
    picked = np.mean([choice.sample([0.0, 2.0], drawn) for _ in range(4000)])
    assert abs(picked - choice.probabilities([0.0, 2.0])[1]) < 0.03


@dataclass(frozen=True)
class Steeper(OnSimplex):
    """A family whose gradients are larger than it declares, or not numbers."""

    factor: float = 3.0

    def gradient(self, records: Array, points: Array) -> Array:
        return self.factor * super().gradient(records, points)


def _lying(factor: float) -> tuple[Algorithm, Replay]:
    family = Steeper(Huber(), factor)
    drawn = family.clip(np.random.default_rng(2).normal(size=(40, 3, 5))).records
    game = Replay(drawn, family)
    return FrankWolfe(trust="local", trees=2).build(game.setting), game


def test_gradients_larger_than_declared_are_clipped_and_counted() -> None:
    """A measure counts them. Roles say nothing: a warning would depend on private records."""
    for factor, least, most in ((3.0, 0.2, 1.0), (1.0, 0.0, 0.0)):
        algorithm, game = _lying(factor)
        gradients = algorithm.client.schedule.gradients  # pyright: ignore[reportAttributeAccessIssue]
        rows, corner = game.records[:20].reshape(60, 1, 5), np.eye(4)[0]
        found = np.abs(gradients.at(rows, corner)).max()
        assert bool(found == 0.5) is (factor > 1)
        with catch_warnings():
            simplefilter("error")
            study = hr.run(game, {"lying": FrankWolfe(trust="local", trees=2)}, seeds=1)
        assert least <= float(study["lying"].results[0].figures["clipped"][-1]) <= most
    assert FrankWolfe().build(Setting(3, 4, 40, family=OnSimplex(Huber()))).claims.measures is None


@pytest.mark.parametrize("factor", [np.nan, np.inf, 1e308])
def test_a_gradient_that_is_no_number_counts_as_zero(factor: float) -> None:
    """An error would show which of two neighbouring records there is."""
    algorithm, game = _lying(factor)
    gradients = algorithm.client.schedule.gradients  # pyright: ignore[reportAttributeAccessIssue]
    rows, corners = game.records[:20].reshape(60, 1, 5), np.eye(4)
    assert np.isfinite(gradients.at(rows, corners[0])).all()
    assert np.isfinite(gradients.between(rows, corners[0], corners[1], 0.5, 2.0)).all()
    if np.isnan(factor):
        assert not gradients.at(rows, corners[0]).any()
    with np.errstate(all="ignore"):
        simulate(algorithm, game, 0)
        study = hr.run(game, {"lying": FrankWolfe(trust="local", trees=2)}, seeds=1)
    assert float(study["lying"].results[0].figures["clipped"][-1]) > 0.2


def test_a_batch_is_never_used_twice() -> None:
    algorithm, game = _lying(1.0)
    noise = SeededNoise(0).everyone("client", 3)
    client, (opening, _) = algorithm.client, algorithm.server.open(SeededNoise(0).server())
    state = client.receive(client.start(noise), opening)
    state = client.observe(state, game.records[0], noise)
    _, after = client.upload(state, noise)
    with pytest.raises(InvalidValue, match="records not used before, got records 0 to 0 with 1"):
        client.upload(after, noise)
    with pytest.raises(InvalidValue, match="with 0 used of 0"):
        client.upload(replace(state, seen=0), noise)


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ({"trust": "nobody"}, "trust='nobody' in"),
        ({"noise": "root"}, "noise='root' in"),
        ({"trees": -1}, "trees=-1"),
        ({"report": "laplace"}, "report='laplace' only where vectors are released"),
        ({"trust": "distributed"}, "delta=0.0 > 0"),
        ({"trust": "distributed", "delta": 1e-6, "report": "k_norm"}, "has? no shares|no shares"),
        ({"delta": 1e-6}, "delta=1e-06 to be 0"),
        ({"honest": 1}, "honest=1 only with"),
    ],
)
def test_bad_choices_are_refused(choices: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidValue, match=text):
        FrankWolfe(**choices)


def test_no_shares_of_noise_are_printed() -> None:
    with pytest.raises(InvalidValue, match="trust='distributed' to be central or local"):
        FedDPOPEStoch(trust="distributed")


def test_other_games_are_refused() -> None:
    with pytest.raises(Unsupported, match="Gains"):
        FrankWolfe().build(Setting(2, 3, 8, family=Gains()))
    with pytest.raises(Unsupported, match="Huber"):
        FrankWolfe().build(Setting(2, 3, 8, family=Huber()))
    with pytest.raises(InvalidValue, match=r"radius=0\.5 >= 1"):
        OnSimplex(Huber(radius=0.5))
    with pytest.raises(InvalidValue, match="Expected SquaredError, Huber or Logistic"):
        OnSimplex(CrossEntropy())  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match="honest=4 <= 3"):
        FrankWolfe(trust="distributed", delta=1e-6, honest=4).build(Setting(4, 3, 8))


def test_too_short_for_a_tree_is_one_step() -> None:
    """Phases of 1 and 2 records have no tree, whatever was asked for."""
    for horizon in (1, 2, 3):
        built = FrankWolfe(trees=5).build(Setting(1, 3, horizon))
        assert built.parameters["trees"] == 0
        assert simulate(built, Bernoulli(clients=1, experts=3, horizon=horizon), 0).played > 0


def test_numbers_sent_are_those_of_the_formula() -> None:
    game = ClassForecasts(clients=3, classes=5, horizon=200)
    for trees in (0, 1, 3):
        built = FrankWolfe(trees=trees).build(game.setting)
        counters = simulate(built, game, 0)
        sent = counters.uploaded_scalars + counters.broadcast_scalars
        assert sent == scalars(game.setting, built.server.schedule.plans)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("trust", ["central", "local"])
def test_mean_regret_is_below_the_bound(trust: Any) -> None:
    """On losses of experts, where the bound is far below what guessing costs."""
    game = Bernoulli(clients=10, experts=4, horizon=1000, mean=0.7, gap=0.5)
    built = FrankWolfe(epsilon=4.0, trust=trust).build(game.setting)
    found = []
    for seed in range(12):
        recorder = Recorder(game.setting, points=2)
        counters = simulate(built, game, seed, sinks=[recorder])
        found.append(recorder.result("", seed, counters).final_regret)
    assert built.regret_at_most < 0.75 * 0.5 * 1000
    assert Estimate.of(found).high <= built.regret_at_most


def test_the_excess_of_a_phase() -> None:
    """One step in closed form; with many records, more steps are better where losses are curved."""
    curved, linear = (
        BoundedGradients(family, 5, "linf") for family in (CrossEntropy(1.0), Linear())
    )
    for gradients, bend in ((curved, 0.5), (linear, 0.0)):
        sampling, lattice = sqrt(log(5) / (2 * 700)), 0.0 if gradients is linear else 2.0**-20
        found = Excess(gradients, 7, lambda plan, tree: 3.5)(Plan(0, 100))
        assert found == pytest.approx(sampling + 3.5 / 700 + lattice + 2 * bend, rel=1e-12)
    none = [Excess(g, 10**6, lambda plan, tree: 0.0) for g in (curved, linear)]
    many = [plan(10**6, trees) for trees in range(5)]
    for excess, order in zip(none, (-1, 1), strict=True):
        values = [excess(one) for one in many if one is not None]
        assert values == sorted(values)[::order]


def test_the_certificate_is_attained_and_a_record_in_two_batches_is_caught() -> None:
    """One record reveals all of its epsilon at a root, and more in two batches."""
    _, whole, *_, again = cases_of("frank_wolfe", FrankWolfe(trust="local"))
    rows = [AuditRow(case, attack(case)) for case in (whole, again)]
    assert [row.verdict for row in rows] == ["holds", "violated"]
    assert rows[0].finding.epsilon == pytest.approx(1.0, abs=1e-9)


def test_two_huber_losses_show_that_the_printed_choice_costs_more() -> None:
    *_, certified, claimed = cases_of(PRINTED, FedDPOPEStoch(trust="central"))
    row = AuditRow(claimed, attack(claimed))
    assert (row.verdict, row.certified) == ("violated", 4.0)
    assert certified.certified == PureDP(8.0)


PRINTED = "gao2024_fed_dp_ope_stoch"
ALL: dict[str, Mapping[str, Any]] = {
    "central": {},
    **FrankWolfe.traits.forms,
    "central, vertex": {"noise": "vertex"},
    "distributed, leaf": {"trust": "distributed", "delta": 1e-6, "noise": "leaf"},
    "local, leaf": {"trust": "local", "noise": "leaf"},
    "local, laplace": {"trust": "local", "report": "laplace"},
    "local, leaf, gaussian": {
        "trust": "local",
        "noise": "leaf",
        "report": "gaussian",
        "delta": 1e-6,
    },
}


@pytest.mark.long
@pytest.mark.parametrize("form", ALL)
def test_every_audit_has_the_expected_verdict(form: str) -> None:
    attacked("frank_wolfe", FrankWolfe(**ALL[form]))


@pytest.mark.long
@pytest.mark.parametrize("trust", ["central", "local"])
def test_every_audit_of_the_printed_noise_has_the_expected_verdict(trust: Any) -> None:
    attacked(PRINTED, FedDPOPEStoch(trust=trust))


@pytest.mark.long
@pytest.mark.parametrize("form", [form for form in ALL if form not in FrankWolfe.traits.forms])
def test_further_forms_keep_all_contracts(form: str) -> None:
    found = [contract(name, FrankWolfe(**ALL[form])) for name in CONTRACTS]
    assert [one for one in found if one.status == "broken"] == []
    held = {one.contract for one in found if one.status == "holds"}
    assert {"ledger composes", "sensitivities hold", "noise follows its law"} <= held

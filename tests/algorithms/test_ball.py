"""Private points in a ball: Limited Updates with phased gradient descent, noisy FTRL, and covers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import pi, sqrt
from typing import Any

import numpy as np
import pytest
from scipy import stats

import hedgerow as hr
from hedgerow.algorithms.gradient.clipped import clipped, require_smooth
from hedgerow.algorithms.gradient.limited_updates import (
    Released,
    Report,
    RunPlan,
    blocks,
    reduction,
)
from hedgerow.algorithms.gradient.noisy_ftrl import Leader
from hedgerow.algorithms.gradient.phased_gradient import (
    SLACK,
    Phase,
    phased_gradient,
    plan,
    rounding,
)
from hedgerow.algorithms.gradient.trial_games import huber_games
from hedgerow.audits.cases import ball as cases
from hedgerow.audits.runner import AuditRow, attack, cases_of
from hedgerow.contracts.suite import CONTRACTS
from hedgerow.contracts.suite import examine as keeps
from hedgerow.core.noise import NoNoise, SeededNoise
from hedgerow.evaluation.recorder import Recorder
from hedgerow.evaluation.statistics import Estimate
from hedgerow.privacy.mechanisms import EuclideanNoise
from hedgerow_papers.asi2023.cover_dartboard import CoverDartboard, Scale, ball_cover, finest
from hedgerow_papers.asi2023.hidden_direction import HiddenDirection
from support.played import plays_of

HUBER = hr.Huber()
BUDGET = hr.Budget(1.0, 1e-6)


def method(horizon: int | None = None, **changes: Any) -> Any:
    setting = hr.Setting(clients=2, experts=3, horizon=horizon, family=HUBER)
    return phased_gradient(setting, BUDGET, "central", **changes)


def walk(found: Any, records: np.ndarray, samples: int) -> np.ndarray:
    """The report of one client after one step."""
    public = np.zeros(3)
    memory = found.take(found.empty(public), records, public, samples, 0)
    return found.report(memory, public, samples, 0)


# Phased gradient descent


def test_a_record_moves_a_report_by_less_than_one_and_nearly_by_one() -> None:
    """Theorem 2: (n - 1) / n, attained by the first record; the last one moves nothing."""
    found, rng = method(phases=1), np.random.default_rng(0)
    worst = 0.0
    for trial in range(60):
        records = HUBER.clip(rng.normal(size=(8, 4))).records * (trial % 2)
        other, when = records.copy(), trial % 8
        records[when], other[when] = [1, 0, 0, 1], [1, 0, 0, -1]
        moved = float(np.linalg.norm(walk(found, records, 8) - walk(found, other, 8)))
        assert moved <= (7 - when) / 8 + 1e-5
        worst = max(worst, moved)
    assert worst == pytest.approx(7 / 8, abs=1e-5)


def test_longer_steps_would_expand() -> None:
    """With a rate above 2 / smoothness the bound fails, so the rate is capped there."""
    family = hr.Huber(threshold=100.0, target=1.0)
    setting = hr.Setting(clients=10**6, experts=1, horizon=None, family=family)
    found = phased_gradient(setting, BUDGET, "central", phases=1)
    assert plan(found, 2)[0][0].rate <= 2 / family.smoothness("l2", 1)
    records, points = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.1], [0.2]])
    for rate, expands in ((1.99, False), (2.5, True)):
        ends = points - rate * family.gradient(records, points)
        assert (abs(float(np.diff(ends[:, 0])[0])) > 0.1 + 1e-9) == expands


def test_clipped_steps_of_a_scored_loss_do_not_expand() -> None:
    rng, family = np.random.default_rng(1), hr.Logistic(radius=5.0)
    record = family.clip(np.concatenate([rng.normal(size=(400, 3)), np.ones((400, 1))], 1)).records
    first, second = 5 * rng.normal(size=(2, 400, 3))
    rate = 2 / family.smoothness("l2", 3)
    ends = [
        point - rate * clipped(family.gradient(record, point), 0.2) for point in (first, second)
    ]
    before, after = (np.linalg.norm(a - b, axis=1) for a, b in ((first, second), ends))
    assert (after <= before * (1 + 1e-12)).all()
    longer = [point - 3 * rate * family.gradient(record, point) for point in (first, second)]
    assert (np.linalg.norm(longer[0] - longer[1], axis=1) > before).any()


def test_steps_use_every_sample_once() -> None:
    found = method()
    for samples in (2, 3, 7, 64, 1000, 2**15):
        assert sum(found.steps(samples)) == samples
        assert min(found.steps(samples)) >= 2 or samples == 2
    assert len(found.steps(2**15)) > 1
    assert len(method(phases=3).steps(2**15)) == 3


def test_the_bound_is_that_of_the_proof() -> None:
    """Theorem 3, written out for two phases."""
    found = method(phases=2)
    phases, bound = plan(found, 4096)
    noise = 2 * found.clip * (found.spread + sqrt(3) * 2.0**-21)
    rate, last = phases[0].rate, phases[1]
    assert last.rate == rate / 4
    expected = 1 / (2 * rate * phases[0].samples) + rate * 0.5**2 / 2 + last.rate * 0.5**2 / 2
    expected += (noise * rate) ** 2 / (2 * last.rate * last.samples) + 0.5 * noise * last.rate
    assert bound == pytest.approx(expected)


def test_more_samples_clients_and_budget_help() -> None:
    def excess(clients: int, epsilon: float, samples: int) -> float:
        setting = hr.Setting(clients=clients, experts=3, horizon=None, family=HUBER)
        found = phased_gradient(setting, hr.Budget(epsilon, 1e-6), "central").excess(samples)
        assert found is not None
        return found

    base = excess(2, 1.0, 1024)
    assert base > excess(2, 1.0, 2048)
    assert base > excess(4, 1.0, 1024)
    assert base > excess(2, 2.0, 1024)


def test_rounding_is_bounded_and_limits_blocks() -> None:
    found = method()
    assert found.longest == 2**20
    assert all(rounding(found, phase) <= SLACK for phase in plan(found, 2**20)[0])
    assert rounding(found, Phase(2**20, 1e-9)) > SLACK
    tiny = method(clip=1e-6)
    assert tiny.longest < 2**20
    with pytest.raises(hr.InvalidValue, match="Expected clip=1e-12 to be larger"):
        method(clip=1e-12)


# The reduction


def test_blocks_double_up_to_the_longest() -> None:
    assert blocks(2, 8, 40) == [(2, 4), (4, 8), (8, 8), (8, 8), (8, 8), (8, 2)]
    setting = hr.Setting(clients=2, experts=3, horizon=None, family=HUBER)
    short = replace(method(phases=1), longest=4)
    algorithm = reduction("short", setting, short, "central", delta=1e-6)
    state, lengths = algorithm.server.open(NoNoise().server())[1], []
    for _ in range(4):
        report = Report(np.zeros(3))
        sent, state = algorithm.server.aggregate(state, report, NoNoise().server())
        lengths.append(sent.rounds)
    assert lengths == [4, 4, 4, 4]


def test_the_reduction_makes_no_block_for_which_rounding_is_not_proven() -> None:
    setting = hr.Setting(clients=2, experts=3, horizon=None, family=HUBER)
    tiny = method(clip=1e-6)
    server: Any = reduction("tiny", setting, tiny, "central", delta=1e-6).server
    state, silence = server.open(NoNoise().server())[1], NoNoise().server()
    for _ in range(200):
        state = server.aggregate(state, Report(np.zeros(3)), silence)[1]
    assert state.samples == tiny.longest < 2**20


@pytest.mark.parametrize(
    ("rounds", "samples", "step"),
    [(64, 2, 0), (3, 3, 0), (2, 2, 1), (2, 2, -1), (2**21, 2**21, 0), (0, 0, 0)],
)
def test_clients_refuse_a_step_that_no_block_has(rounds: int, samples: int, step: int) -> None:
    """With 64 rounds called 2, one record would move the report by 31.5."""
    built = hr.LimitedUpdates(trust="local", plan=RunPlan(phases=1)).build(
        hr.Setting(1, 3, 80, family=HUBER)
    )
    for exchange in range(2):
        with pytest.raises(hr.InvalidValue, match=rf"Released\..* of exchange {exchange} to be"):
            built.broadcasts.admit(Released(rounds, np.zeros(3), samples, step), exchange)


def test_a_report_holds_the_records_of_its_step_once() -> None:
    built = hr.LimitedUpdates(trust="local", plan=RunPlan(phases=1)).build(
        hr.Setting(1, 3, 80, family=HUBER)
    )
    client: Any = built.client
    noise = NoNoise().everyone("client", 1)
    state = client.receive(client.start(noise), Released(8, np.zeros(3), 8, 0))
    records = np.broadcast_to([1.0, 0.0, 0.0, 1.0], (9, 1, 4))
    for count in (0, 7, 9):
        off = client.observe_many(state, records[:count], noise)
        with pytest.raises(hr.InvalidValue, match=f"Expected 8 records in a report .* {count}"):
            client.upload(off, noise)
    _, after = client.upload(client.observe_many(state, records[:8], noise), noise)
    with pytest.raises(hr.InvalidValue, match="not sent before, got 0"):
        client.upload(after, noise)


def test_the_point_of_a_block_comes_from_the_block_before() -> None:
    """Records of the last block, and of all but the last, change nothing."""
    algorithm = hr.LimitedUpdates().build(hr.Setting(1, 3, 14, family=HUBER))
    rng = np.random.default_rng(3)
    records = HUBER.clip(rng.normal(size=(14, 1, 4))).records

    def last(changed: int | None) -> np.ndarray:
        given = records.copy()
        if changed is not None:
            given[changed] = [[0.0, 1.0, 0.0, -1.0]]
        return plays_of(algorithm, hr.Replay(given, HUBER))[-1]

    plain = last(None)
    for when in (0, 1, 5, 6, 13):  # the third block is rounds 6 to 13; the last sample of a step
        assert np.array_equal(last(when), plain)
    for when in (2, 3, 4):
        assert not np.array_equal(last(when), plain)


def test_the_bound_is_certified_for_one_client_and_conditional_for_more() -> None:
    """Clients with different laws are stochastic too; the mean of their walks is not near the best.

    Two clients pull to the two sides, one of them harder. The best point is on its side, far from
    the centre, where the mean of the walks stays.
    """
    one, two = (hr.Setting(m, 1, 4096, family=HUBER) for m in (1, 2))
    alone, both = (hr.LimitedUpdates(epsilon=1e6).build(setting) for setting in (one, two))
    assert alone.claims.regret_bound is not None
    assert alone.claims.regret_bound.covers == "stochastic"
    assert both.claims.regret_bound is None
    assert both.parameters["regret_if_alike"] < alone.regret_at_most
    records = np.zeros((4096, 2, 2))
    records[:, 0] = [1.0, 1.0]
    records[:, 1] = [0.5, -1.0]
    recorder, game = Recorder(two, points=2), hr.Replay(records, HUBER)
    found = recorder.result("", 0, hr.simulate(both, game, 0, sinks=[recorder])).final_regret
    assert found > both.parameters["regret_if_alike"]


def test_without_noise_points_approach_the_best_one() -> None:
    game = HiddenDirection(clients=4, features=5, horizon=2000)
    algorithm = hr.LimitedUpdates(epsilon=1e6).build(game.setting)
    recorder = Recorder(game.setting, points=2)
    found = recorder.result("", 0, hr.simulate(algorithm, game, 0, sinks=[recorder]))
    assert found.final_regret < 0.2 * 0.3 * 2000  # the centre loses 0.3 per round


@pytest.mark.parametrize(
    "spec", [hr.LimitedUpdates(), hr.LimitedUpdates(delta=0.0), hr.NoisyFTRL(every=4)], ids=repr
)
def test_regret_stays_below_the_bound_and_above_a_false_one(spec: Any) -> None:
    """The bound could be broken: a twentieth of it is."""
    game = HiddenDirection(clients=2, features=4, horizon=300)
    algorithm = spec.build(game.setting)
    regrets = []
    for seed in range(5):
        recorder = Recorder(game.setting, points=2)
        counters = hr.simulate(algorithm, game, seed, sinks=[recorder])
        regrets.append(recorder.result("", seed, counters).final_regret)
    found, proven = Estimate.of(regrets), algorithm.claims.regret_bound
    bound = algorithm.parameters["regret_if_alike"] if proven is None else proven.value
    assert found.high < bound
    assert found.low > bound / 20


@pytest.mark.parametrize("noise", [None, "laplace", "euclidean"])
def test_pure_budgets_are_kept(noise: Any) -> None:
    setting = hr.Setting(clients=2, experts=3, horizon=20, family=HUBER)
    curve = hr.LimitedUpdates(0.7, 0.0, plan=RunPlan(noise)).build(setting).certificate.peer.curve
    assert curve.stated() == (0.7, 0.0)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"delta": 0.0, "plan": RunPlan("gaussian")}, "Expected delta=0.0 > 0"),
    ({"plan": RunPlan("laplace")}, "Expected delta=1e-06 to be 0 with noise='laplace'"),
    ({"delta": 0.0, "trust": "distributed"}, "Expected delta=0.0 > 0"),
    ({"clip": -1.0}, "Expected clip=-1.0 > 0"),
    ({"plan": "laplace"}, "Expected plan='laplace' to be a RunPlan or None"),
]


@pytest.mark.parametrize(("choices", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_choices_are_refused(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(hr.InvalidValue, match=message):
        hr.LimitedUpdates(**choices)


def test_bad_plans_are_refused() -> None:
    with pytest.raises(hr.InvalidValue, match="Expected phases=0 to be a whole number >= 1"):
        RunPlan(phases=0)


def test_a_clip_is_refused_where_it_breaks_the_proof_and_counted_elsewhere() -> None:
    entropy = hr.Setting(clients=2, experts=3, horizon=20, family=hr.CrossEntropy())
    with pytest.raises(hr.Unsupported, match="not those of a convex loss"):
        hr.LimitedUpdates(clip=0.1).build(entropy)
    assert "regret_if_alike" in hr.LimitedUpdates().build(entropy).parameters
    game = hr.Regression(clients=2, features=3, horizon=40)
    for spec in (hr.LimitedUpdates(clip=0.5), hr.NoisyFTRL(clip=0.5)):
        built = spec.build(game.setting)
        assert built.claims.regret_bound is None
        assert "regret_if_alike" not in built.parameters
        study = hr.run(game, {"clipped": spec}, seeds=2)
        shares = [float(result.figures["clipped"][-1]) for result in study["clipped"].results]
        assert all(0.5 < share <= 1.0 for share in shares)


@dataclass(frozen=True)
class Sharper(hr.Huber):
    """Bends more than it declares."""

    def slope(self, score: Any, target: Any) -> Any:
        return 3 * super().slope(score, target)


@dataclass(frozen=True)
class Jumping(hr.Huber):
    """Has a kink where the score is the target."""

    def slope(self, score: Any, target: Any) -> Any:
        return np.sign(score - target)


@dataclass(frozen=True)
class Softer(hr.Logistic):
    """Bends less than it declares; only labels -1 and 1 have a slope."""

    def slope(self, score: Any, target: Any) -> Any:
        return np.where(np.abs(target) == 1.0, super().slope(score, target) / 2, np.nan)


@dataclass(frozen=True)
class Broken(hr.Huber):
    """Has no slope for one label."""

    def slope(self, score: Any, target: Any) -> Any:
        return np.where(target == 0.3, np.nan, super().slope(score, target))


def test_a_loss_that_bends_more_than_declared_is_refused() -> None:
    require_smooth(HUBER)
    with pytest.raises(hr.InvalidValue, match=r"Expected Sharper to bend by 0 to 1.0, .* by 3 per"):
        hr.LimitedUpdates().build(hr.Setting(2, 3, 20, family=Sharper()))


@pytest.mark.parametrize("target", [0.5, 1.0, 2.0, 1000.0])
def test_a_kink_between_the_largest_targets_is_refused(target: float) -> None:
    with pytest.raises(hr.InvalidValue, match="Expected Jumping to bend by 0 to"):
        hr.LimitedUpdates().build(hr.Setting(2, 3, 20, family=Jumping(target=target)))


@pytest.mark.parametrize("trust", ["central", "distributed", "local"])
def test_constants_of_other_families_are_assumed(trust: Any) -> None:
    for family, expected in ((hr.Logistic(), False), (HUBER, False), (Softer(), True)):
        built = hr.LimitedUpdates(trust=trust).build(hr.Setting(2, 3, 20, family=family))
        protecting = [g for g in built.certificate.guarantees if g.protects]
        assert len(protecting) >= 2
        for guarantee in protecting:
            names = {assumption.name for assumption in guarantee.assumes}
            assert ("DECLARED_SMOOTHNESS" in names) is expected


@pytest.mark.parametrize("spec", [hr.LimitedUpdates(), hr.NoisyFTRL()], ids=repr)
def test_gradients_that_are_nan_count_as_zero(spec: Any) -> None:
    """An error would show which of two neighbouring records there is."""
    wrong, zero = np.random.default_rng(0).uniform(-0.5, 0.5, (2, 20, 1, 3))
    zero[...] = wrong
    wrong[::3, 0, 2] = 0.3  # Broken has no slope there
    zero[::3, 0] = (0.0, 0.0, 0.2)  # without features the gradient is zero
    found = []
    for records in (wrong, zero):
        learner = hr.Learner(spec, clients=1, experts=2, horizon=20, family=Broken())
        plays = []
        for row in records:
            plays.append(learner.predict())
            learner.observe(row)
        study = hr.run(hr.Replay(records, Broken()), {"x": spec}, seeds=1)
        found.append((np.array(plays), float(study["x"].results[0].figures["clipped"][-1])))
    assert np.ptp(found[0][0], axis=0).min() > 0
    assert np.array_equal(found[0][0], found[1][0])
    assert [share for _, share in found] == [pytest.approx(7 / 20), 0.0]


def test_too_many_coordinates_are_refused() -> None:
    with pytest.raises(hr.InvalidValue, match="Expected experts=70000 <= 65536"):
        hr.LimitedUpdates().build(hr.Setting(1, 70_000, 10, family=HUBER))


# Noisy FTRL


def test_without_noise_ftrl_is_the_regularised_leader() -> None:
    game = hr.Regression(clients=3, features=2, horizon=12, loss="huber")
    algorithm = hr.NoisyFTRL().build(game.setting)
    kept = plays_of(algorithm, game, noise=NoNoise())
    records = game.block(game.start(0), 12, None)[0].losses
    family, total = game.family, np.zeros(2)
    for played, shown in zip(kept, records, strict=True):
        expected = family.domain.project(-total / (3 * algorithm.parameters["penalty"]))
        assert np.abs(played - expected).max() < 1e-4  # the lattice, and least squares
        total += family.gradient(shown, played).sum(axis=0)


@pytest.mark.parametrize(("trust", "kept"), [("central", 0), ("local", 10)])
def test_the_server_decodes_and_clients_keep_only_the_filter(trust: Any, kept: int) -> None:
    """All clients play what the server broadcasts; with noise of their own they filter, too."""
    setting = hr.Setting(clients=2, experts=3, horizon=512, family=HUBER)
    client = hr.NoisyFTRL(trust=trust).build(setting).client
    state = client.start(NoNoise().everyone("client", 2))
    assert state.filtered.shape == (2, kept, 3)
    point = np.array([0.1, 0.2, 0.3])
    after: Any = client.receive(state, Leader(1, point))
    assert after.point.tolist() == [point.tolist()] * 2


def test_a_better_factorisation_has_a_smaller_bound() -> None:
    setting = hr.Setting(clients=2, experts=3, horizon=512, family=HUBER)
    found = [
        hr.NoisyFTRL(factorisation=kind).build(setting).regret_at_most
        for kind in ("independent", "tree", "blt", "root")
    ]
    assert found[0] > found[1] > found[2]
    assert found[3] == pytest.approx(found[2], rel=0.01)


def test_ftrl_refuses_what_it_cannot_do() -> None:
    with pytest.raises(hr.InvalidValue, match=r"Expected delta=0\.0 > 0"):
        hr.NoisyFTRL(delta=0.0)
    with pytest.raises(hr.Unsupported, match="NoisyFTRL needs a horizon"):
        hr.NoisyFTRL().build(hr.Setting(1, 2, None, family=HUBER))
    with pytest.raises(hr.InvalidValue, match=r"Expected clip=1e-07 in \[2\^-20"):
        hr.NoisyFTRL(clip=1e-7).build(hr.Setting(1, 2, 10, family=HUBER))


# Covers


@pytest.mark.parametrize(("width", "resolution"), [(1, 0.3), (2, 0.31), (3, 0.6)])
def test_no_point_is_far_from_the_cover(width: int, resolution: float) -> None:
    cover, rng = ball_cover(2.0, width, resolution), np.random.default_rng(2)
    drawn = rng.normal(size=(3000, width))
    points = 2.0 * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    points[::2] *= rng.random((1500, 1)) ** (1 / width)
    far = np.linalg.norm(points[:, None] - cover, axis=-1).min(axis=1).max()
    assert resolution / 2 < far <= resolution
    assert np.linalg.norm(cover, axis=1).max() <= 2.0 + 1e-12


def test_the_cover_is_as_fine_as_wanted_or_as_allowed() -> None:
    assert finest(1.0, 1, 1000, 1 / 32) == pytest.approx(1 / 32)
    allowed = finest(1.0, 2, 100, 1e-3)
    assert len(ball_cover(1.0, 2, allowed)) <= 100 < len(ball_cover(1.0, 2, allowed * 2**-0.25))
    with pytest.raises(hr.InvalidValue, match=r"Expected resolution=0\.01 to be larger"):
        ball_cover(1.0, 6, 0.01)
    assert len(ball_cover(1.0, 50, 2.0)) == 1


@pytest.mark.parametrize(
    "family", [hr.Huber(), hr.SquaredError(), hr.SquaredError(target=9.0), hr.Logistic(radius=3.0)]
)
def test_scaled_losses_are_in_range_and_keep_the_order(family: Any) -> None:
    rng = np.random.default_rng(4)
    records = np.concatenate([rng.normal(size=(50, 2)), rng.choice([-1.0, 1.0], (50, 1))], axis=1)
    records, cover = family.clip(records).records, ball_cover(family.radius, 2, family.radius / 4)
    scale = Scale.of(family, 2)
    losses = scale.losses(family, records, cover)
    charges = family.value(records[:, None], cover)
    assert losses.min() >= 0
    assert losses.max() <= 1
    differences = (charges - charges[:, :1]) / scale.range
    assert np.abs(losses - losses[:, :1] - differences).max() < 2.0**-19
    assert scale.centred == (family == hr.SquaredError(target=9.0))


@dataclass(frozen=True)
class InBall(CoverDartboard):
    """The same, tested by the contracts on games in a ball instead of games of experts."""

    def games(self) -> Any:
        return hr.NoisyFTRL().games()


IN_BALL = ("same on every engine", "covers every message", "within the budget")
IN_BALL_LONG = (
    "same for every block",
    "causal",
    "pure",
    "resumable",
    "states survive",
    "sensitivities hold",
    "nothing raw in a view",
    "noise follows its law",
)


@pytest.mark.parametrize(
    "contract", [*IN_BALL, *(pytest.param(c, marks=pytest.mark.long) for c in IN_BALL_LONG)]
)
def test_the_cover_keeps_contracts_in_a_ball(contract: str) -> None:
    outcome = keeps(contract, InBall(points=30, every=1))
    assert contract in CONTRACTS
    assert outcome.status == "holds", outcome.detail


# Euclidean noise


def test_euclidean_noise_has_its_law_and_no_other() -> None:
    noise, source = EuclideanNoise("report", 2.0), SeededNoise(0).everyone("client", 3000)
    drawn = noise.sample(np.zeros((3000, 3)), source)
    sizes = np.linalg.norm(drawn, axis=1)
    assert stats.kstest(sizes, stats.gamma(3, scale=2.0).cdf).pvalue > 0.01
    assert stats.kstest(sizes, stats.gamma(4, scale=2.0).cdf).pvalue < 1e-6
    heights = drawn[:, 0] / sizes  # uniform on [-1, 1] in three dimensions
    assert stats.kstest(heights, stats.uniform(-1, 2).cdf).pvalue > 0.01
    assert np.square(sizes).mean() == pytest.approx(3 * noise.deviation(3) ** 2, rel=0.05)


def test_the_density_of_euclidean_noise_integrates_to_one_and_loses_epsilon() -> None:
    noise, grid = EuclideanNoise("report", 0.5, 1.0), np.linspace(0, 10, 1001)
    ring = [np.exp(noise.log_density(np.zeros(2), np.array([r, 0.0]))) for r in grid]
    assert np.trapezoid(2 * pi * grid * np.array(ring), grid) == pytest.approx(1.0, abs=1e-3)
    here, there = np.zeros(2), np.array([1.0, 0.0])
    ratio = noise.log_density(there, 5 * there) - noise.log_density(here, 5 * there)
    assert ratio == pytest.approx(2.0) == noise.curve.bound
    assert noise.sample(np.ones(2), NoNoise().server()).tolist() == [1.0, 1.0]


# Audits


def rows_of(name: str, spec: Any) -> dict[str, AuditRow]:
    return {case.name: AuditRow(case, attack(case)) for case in cases_of(name, spec)}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_cover_is_audited(delta: float) -> None:
    rows = rows_of("cover_dartboard", CoverDartboard(delta=delta))
    assert all(row.passed for row in rows.values()), [row.to_dict() for row in rows.values()]
    worst = rows["worst transcripts"]
    assert worst.finding.epsilon is not None
    assert worst.finding.epsilon > 0.97 * worst.certified


def test_the_contract_catches_a_record_used_twice() -> None:
    @dataclass(frozen=True)
    class Twice(hr.LimitedUpdates):
        def games(self) -> Any:
            return huber_games(horizon=7)

        def resolve(self, setting: hr.Setting) -> hr.Algorithm:
            built = super().resolve(setting)
            client: Any = built.client
            parts = (client.subroutine, client.domain, client.coordinates, client.reporting)
            return replace(built, client=cases.UsedTwice(*parts))

    outcome = keeps("ledger composes", Twice())
    assert outcome.status == "broken"
    assert "a datum enters 2 of mu = " in outcome.detail


@pytest.mark.long
@pytest.mark.parametrize("name", ["limited_updates", "noisy_ftrl"])
@pytest.mark.parametrize("trust", ["central", "distributed", "local"])
def test_every_audit_has_the_expected_verdict(name: str, trust: Any) -> None:
    rows = rows_of(name, hr.ALGORITHMS[name](trust=trust))
    assert all(row.passed for row in rows.values()), [row.to_dict() for row in rows.values()]


@pytest.mark.long
def test_a_pure_audit_shows_what_the_proof_says() -> None:
    """The first of 32 records moves a report by 31/32; one used twice, by 31/32 and by 1."""
    rows = rows_of("limited_updates", hr.LimitedUpdates(delta=0.0))
    assert all(row.passed for row in rows.values()), [row.to_dict() for row in rows.values()]
    shown = [row.finding.epsilon for row in rows.values()]
    assert shown == pytest.approx([0.0, 31 / 32, 1.25 * 31 / 32, 31 / 32, 63 / 32], abs=0.01)

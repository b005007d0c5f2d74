"""Walk batches: delays, the law of batch sizes, what is shown, and the guarantee by arrival time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import inf, log, sqrt
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import hedgerow as hr
from hedgerow.algorithms.walks.walk_leader import WalkLeader
from hedgerow.audits.cases.releases import less_noise
from hedgerow.contracts.suite import CONTRACTS, ON_BOTH_SOURCES, examine
from hedgerow.core.certificate import IDEAL_REALS
from hedgerow.core.environment import Traits
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.noise import SeededNoise
from hedgerow.core.transcript import Everything
from hedgerow.engines.broadcasts import broadcasts_of
from hedgerow.engines.simulate import simulate
from hedgerow.privacy.curves import GaussianDP
from hedgerow_papers.jacobsen2025 import figure1 as figure
from hedgerow_papers.jacobsen2025.batch_sizes import gap_survival, size_at_most, size_law
from hedgerow_papers.jacobsen2025.delays import BOUNDS, Delays, Rule, published, reflection
from hedgerow_papers.jacobsen2025.walk_batches import (
    JacobsenWalkBatches,
    WalkBatches,
    batches,
    leads,
)

RULES: tuple[Rule, ...] = ("reflection", "published")
PAPER = Delays(25, 5.0, 1.0, 0.01, "published")
FORMS: dict[str, WalkBatches] = {
    "distributed": WalkBatches(trust="distributed"),
    "slot": WalkBatches(reports="slot", mu=20.0),
    "silo": WalkBatches(reports="silo", mu=20.0),
    "silo, two records": WalkBatches(reports="silo", unit="person:2@2"),
    "no noise": WalkBatches(mu=inf),
}


def _cases(contracts: Any, quick: tuple[tuple[str, str], ...] = ()) -> list[Any]:
    return [
        pytest.param(form, contract, marks=() if (form, contract) in quick else pytest.mark.long)
        for form in FORMS
        for contract in contracts
    ]


QUICK = tuple((form, contract) for form in ("slot", "silo") for contract in ("pure", "resumable"))


@pytest.mark.parametrize(("form", "contract"), _cases(CONTRACTS, QUICK))
def test_every_form_keeps_every_contract(form: str, contract: str) -> None:
    found = examine(contract, FORMS[form])
    assert found.status != "broken", found.detail


@pytest.mark.parametrize(("form", "contract"), _cases(ON_BOTH_SOURCES))
def test_every_form_keeps_every_contract_on_secure_noise(form: str, contract: str) -> None:
    found = examine(contract, FORMS[form], secure=True)
    assert found.status != "broken", found.detail


# Delays


def test_the_bounds_cover_a_simulated_change_of_leader() -> None:
    """Within 20 steps of 5 walks. The sharper bound is closer by far."""
    rng = np.random.default_rng(1)
    walks = np.cumsum(rng.normal(size=(4000, 20, 5)), axis=1)
    behind = (walks[..., 1:].max(axis=2) - walks[..., 0]).max(axis=1)
    for gap in (8.0, 12.0, 15.0, 18.0):
        share, ahead = float((behind >= gap).mean()), gap / sqrt(2 * 20)
        sharp, loose = float(reflection(ahead, 5)), float(published(ahead, 5))
        assert share <= sharp + 4 * sqrt(sharp / 4000)
        assert sharp < loose
    assert float(reflection(15.0 / sqrt(40), 5)) < 0.1 < float(published(15.0 / sqrt(40), 5))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("experts", "tolerance"), [(2, 0.01), (25, 0.01), (1000, 1.0), (5, 1e-9)])
def test_the_table_never_takes_too_small_a_lead(experts: int, tolerance: float, rule: Rule) -> None:
    delays = Delays(experts, 1.0, 1.0, tolerance, rule)
    rng = np.random.default_rng(2)
    rounds = np.unique(
        np.concatenate([np.arange(1, 300), (10 ** rng.uniform(0, 15, 500))]).astype(int)
    )
    lead = (delays.gap_needed(rounds - 1, 1) - 1.0) / sqrt(2)
    allowed = tolerance * np.sqrt(log(experts) / rounds)
    assert (BOUNDS[rule](lead, experts) <= allowed).all()
    assert (np.diff(lead) >= 0).all()
    least = np.maximum(lead - 0.02, 0)  # but hardly more than is needed
    assert ((BOUNDS[rule](least, experts) > allowed) | (lead < 0.02)).mean() > 0.9


@pytest.mark.parametrize("rule", RULES)
def test_the_delay_is_the_largest_that_the_gap_allows(rule: Rule) -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        experts, drift = int(rng.choice([2, 25, 200])), float(10 ** rng.uniform(-1, 1))
        delays = Delays(experts, float(10 ** rng.uniform(-2, 2)), drift, 0.01, rule)
        rounds, gap = int(10 ** rng.uniform(0, 6)), float(10 ** rng.uniform(0, 4))
        delay = delays.at(rounds, gap)
        assert delay == 0 or gap >= delays.gap_needed(rounds, delay) * (1 - 1e-12)
        assert gap < delays.gap_needed(rounds, delay + 1) * (1 + 1e-12)
    assert Delays(2, 0.0, 1.0, 1.0).at(1, 7.5) == 7  # without noise only the records count
    assert Delays(1, 1.0, 1.0, 1.0).at(1, 1e9) == 0


# The law of sizes


@pytest.mark.parametrize("experts", [2, 3, 25, 1000])
def test_the_survival_of_the_gap_is_rounded_down_and_close(experts: int) -> None:
    for gap in (0.013, 0.5, 3.0):
        exact, _ = integrate.quad(
            lambda x, e=gap: (
                experts * np.exp(stats.norm.logpdf(x) + (experts - 1) * stats.norm.logcdf(x - e))
            ),
            -8,
            16,
            limit=400,
            epsabs=1e-12,
        )
        found = float(gap_survival(experts, np.array([gap]))[0])
        assert exact * (1 - 2e-3) < found <= exact
    assert gap_survival(experts, np.array([11.0]))[0] == 0.0


@cache
def _sizes(arrival: int, slope: float, runs: int = 500) -> np.ndarray:
    """The size of the batch of one round in many runs, with gains 0 or growing apart by `slope`."""
    rng, found = np.random.default_rng(4), []
    ladder = slope * np.arange(25) / 24
    for _ in range(runs):
        walk = rng.normal(size=(arrival + 1, 25)) * 5.0
        walk[1:] += ladder
        _, gaps = leads(np.cumsum(walk, axis=0)[1:], gains=True)
        size = 1
        for start, end in batches(PAPER, 0, gaps.tolist()):
            if end + 1 >= arrival > 1:
                size = end - start
                break
        found.append(size)
    return np.array(found)


@pytest.mark.parametrize("slope", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("arrival", [2, 150])
def test_batches_are_not_smaller_than_certified(arrival: int, slope: float) -> None:
    sizes = np.arange(1, 30)
    bound = size_at_most(PAPER, arrival, sizes)
    share = (_sizes(arrival, slope) <= sizes[:, None]).mean(axis=1)
    assert (share <= bound + 4 * np.sqrt(np.maximum(bound * (1 - bound), 1e-3) / 500)).all()
    assert (np.diff(bound) >= -1e-12).all()


def test_the_printed_law_is_caught_and_the_certified_one_is_close() -> None:
    share = float((_sizes(150, 0.0) == 1).mean())
    assert figure.printed_at_most(150, 1) < share - 4 * sqrt(0.25 / 500)
    assert share - 0.06 < figure.certified_at_most(150, "published", 1) < share + 0.1


def test_adaptive_data_break_the_law_of_sizes() -> None:
    """All experts but the one that is played gain 1, so the gap stays small."""
    rng, runs, arrival = np.random.default_rng(5), 150, 300
    sums, left = rng.normal(size=(runs, 25)) * 5.0, np.zeros(runs, int)
    size, leader = np.ones(runs, int), sums.argmax(axis=1)
    for played in range(1, arrival):
        gains = np.ones((runs, 25))
        gains[np.arange(runs), leader] = 0.0
        sums += gains + rng.normal(size=(runs, 25)) * 5.0
        lead, gaps = leads(sums, gains=True)
        for run in np.flatnonzero(left == 0):
            leader[run], left[run] = lead[run], PAPER.at(played, float(gaps[run])) + 1
            size[run] = left[run]
        left -= 1
    bound = float(size_at_most(PAPER, arrival, np.array([1]))[0])
    assert (size == 1).mean() > bound + 4 * sqrt(bound * (1 - bound) / runs)


def test_a_law_of_sizes_is_a_law() -> None:
    for arrival in (1, 2, 65, 66, 1000, 10**6):
        law = size_law(PAPER, arrival)
        assert sum(weight for _, weight in law) == pytest.approx(1.0)
        assert max(size for size, _ in law) <= arrival
    assert size_law(Delays(1, 1.0, 1.0, 0.01), 50) == size_law(Delays(1, 9.0, 1.0, 0.01), 50)
    with pytest.raises(InvalidValue, match="arrival=0"):
        size_law(PAPER, 0)


# The algorithm


def _played(spec: Any, game: Any, *, fused: bool = True, seed: int = 1) -> np.ndarray:
    kept = Everything()
    kept.wants_messages = not fused
    simulate(spec.build(game.setting), game, seed, sinks=[kept], fused=fused)
    return kept.all_plays()[:, 0]


@pytest.mark.parametrize("gains", [False, True])
def test_batches_change_almost_no_play(gains: bool) -> None:
    """Within the tolerance no play differs from the leader's; with a large one many do."""
    rng = np.random.default_rng(6)
    records = (rng.random((4000, 1, 25)) < 0.5).astype(float)
    game = hr.Replay(records, hr.Gains()) if gains else hr.Replay(records)
    leader = _played(WalkLeader(mu=5.0), game)
    for kind in (WalkBatches, JacobsenWalkBatches):
        missed = (_played(kind(mu=5.0), game) != leader).sum()
        assert missed <= 2 * 0.01 * sqrt(4000 * log(25))
    assert (_played(WalkBatches(mu=5.0, tolerance=1e3), game) != leader).sum() > 20


@pytest.mark.parametrize("reports", ["each", "slot", "silo"])
def test_the_fast_path_is_that_of_the_roles_where_batches_are_long(reports: Any) -> None:
    rng = np.random.default_rng(7)
    records = rng.integers(0, 2, (300, 1, 4)).astype(float)
    records[:, :, 0] *= 0.3
    game = hr.Replay(records)
    if reports == "silo":
        game = hr.Replay(records, hr.Gains(), reports=records.swapaxes(1, 2))
    spec = WalkBatches(mu=30.0, reports=reports)
    assert (_played(spec, game) == _played(spec, game, fused=False)).all()
    if reports == "each":
        sums = [
            sent.sums for sent in broadcasts_of(spec.build(game.setting), records, SeededNoise(1))
        ]
        shown = len(np.unique(np.array(sums), axis=0))
        assert shown < 100  # of 300: most broadcasts repeat the sums of the last batch


def _shift(algorithm: Any, mu: float, runs: int = 100) -> np.ndarray:
    """How far the sum of the batch of one record moves, less mu / sqrt(size), in units of noise.

    Computed from what is broadcast. The records are 0, but that of round 8 is 1.
    """
    records, found = np.zeros((18, 1, 2)), []
    records[7] = 1.0
    for seed in range(runs):
        sent = broadcasts_of(algorithm, records, SeededNoise(seed))
        sums = np.array([message.sums for message in sent])
        ends = 1 + np.flatnonzero((np.diff(sums, axis=0) != 0).any(axis=1))  # reports that were in
        after = int(np.searchsorted(ends, 8))
        if after == len(ends):
            continue  # the batch did not end
        size = ends[after] - ends[after - 1]
        moved = (sums[ends[after]] - sums[ends[after - 1]]).sum() / sqrt(2)
        found.append(moved / (sqrt(2) / mu * sqrt(size)) - mu / sqrt(size))
    return np.array(found)


def test_given_its_size_a_batch_shifts_by_mu_over_the_root_of_its_size() -> None:
    """In units of its noise. Half of the noise is caught."""
    algorithm = WalkBatches(mu=2.0, tolerance=5.0).build(hr.Setting(1, 2, 18))
    for audited, holds in ((algorithm, True), (less_noise(algorithm, 0.5), False)):
        rest = _shift(audited, 2.0)
        assert len(rest) > 70
        assert (abs((rest**2).mean() - 1) < 4 * sqrt(2 / len(rest))) == holds
        assert abs(rest.mean()) < 4 / sqrt(len(rest))


# The guarantee by arrival time


def test_a_late_record_is_better_protected_under_stated_assumptions() -> None:
    spec, setting = WalkBatches(), hr.Setting(3, 25, 10_000)
    plain = spec.build(setting).certificate.public
    first = spec.amplified(setting, 1)
    assert first.curve.delta(1.0) == pytest.approx(GaussianDP(1.0).delta(1.0))
    deltas = [spec.amplified(setting, t).curve.delta(1.0) for t in (1, 10, 100, 1000, 10_000)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] < plain.curve.delta(1.0) / 4
    late = spec.amplified(setting, 10_000)
    added = {assumption.name for assumption in late.assumes - plain.assumes}
    assert added == {"OBLIVIOUS_DATA", "ALL_REPORTS"}
    assert IDEAL_REALS in late.assumes
    assert (late.unit, late.view, late.colluding) == (plain.unit, plain.view, 2)
    assert late.proof is not None
    assert "Size law" in late.proof.read()


def test_noise_that_colluding_reporters_know_does_not_count() -> None:
    setting = hr.Setting(5, 25, None, deciders=1)
    spec = WalkBatches(reports="slot")
    none, one, many = (spec.amplified(setting, 1000, known).curve for known in (0, 1, 10**6))
    assert none.delta(1.0) < one.delta(1.0) < many.delta(1.0)
    assert many.delta(1.0) == pytest.approx(GaussianDP(1.0).delta(1.0))
    assert spec.amplified(setting, 1000).colluding == 0


def test_the_certificate_itself_is_the_same_at_all_times() -> None:
    algorithm = WalkBatches().build(hr.Setting(3, 25, 10_000))
    for guarantee in algorithm.certificate.guarantees:
        assert guarantee.curve == GaussianDP(1.0)
    assert algorithm.parameters["late_epsilon_at_most"] < GaussianDP(1.0).epsilon(1e-6)
    adaptive = algorithm.in_game(Traits(adversary="adaptive"))
    assert "late_epsilon_at_most" not in adaptive.parameters
    assert WalkBatches().build(hr.Setting(3, 25, None)).parameters.keys() == {
        "report_mu",
        "report_deviation",
    }


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: WalkBatches(tolerance=0.0), r"tolerance=0\.0 in"),
        (lambda: WalkBatches().amplified(hr.Setting(1, 2, 9), 0), "arrival=0"),
        (lambda: WalkBatches().amplified(hr.Setting(1, 2, 9), 1, -1), "known=-1"),
    ],
)
def test_impossible_choices_are_refused(make: Any, rule: str) -> None:
    with pytest.raises(InvalidValue, match=rule):
        make()


@pytest.mark.parametrize("spec", [WalkBatches(mu=inf), WalkBatches(unit="person:2")])
def test_only_one_record_with_noise_is_better_protected(spec: WalkBatches) -> None:
    with pytest.raises(Unsupported, match="single record"):
        spec.amplified(hr.Setting(1, 5, 100), 50)
    assert spec.build(hr.Setting(1, 5, 100)).parameters.get("late_epsilon_at_most") is None


def test_the_regret_bound_adds_the_plays_that_may_differ() -> None:
    setting = hr.Setting(1, 25, 10_000)
    leader = WalkLeader().build(setting).regret_at_most
    for tolerance in (0.01, 1.0):
        found = WalkBatches(tolerance=tolerance).build(setting).regret_at_most
        assert found == pytest.approx(leader + 2 * tolerance * sqrt(10_000 * log(25)))
    assert WalkBatches(tolerance=1e6).build(setting).regret_at_most == 10_000
    assert replace(WalkBatches(), mu=inf).build(setting).claims.regret_bound is None


def test_a_shuffler_does_not_give_the_server_what_the_public_has() -> None:
    largest, everything = figure.shuffled_delta(1.0)
    assert GaussianDP(0.2).delta(1.0) < 2e-8
    assert 0.026 < largest < everything.high
    assert everything.low > 0.02

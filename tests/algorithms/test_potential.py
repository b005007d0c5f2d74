"""`potential`: its epochs grow and cost the same, its draws are few, and the printed form."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.sparse_vector.growing import Epoch, Growing, largest_cost
from hedgerow.algorithms.sparse_vector.potential import Potential, PotentialTest, plan, printed_cost
from hedgerow.algorithms.sparse_vector.restarting import Restarting
from hedgerow.algorithms.sparse_vector.selector import cost
from hedgerow.audits.runner import AuditRow, cases_of
from hedgerow.audits.runner import examine as audit
from hedgerow.contracts.recording import RecordingNoise
from hedgerow.contracts.suite import examine
from hedgerow.core.certificate import Observer
from hedgerow.core.errors import InvalidValue
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Everything
from hedgerow.engines.simulate import simulate
from hedgerow.environments.drawn.realizable import NearRealizable
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.evaluation.recorder import Recorder
from hedgerow.evaluation.statistics import Estimate
from support.streams import stand_in


def server_of(algorithm: Algorithm) -> Restarting:
    assert isinstance(algorithm.server, Restarting)
    return algorithm.server


def growing(spec: Potential, setting: Setting) -> Growing:
    server = spec.build(setting).server
    assert isinstance(server, Growing)
    return server


# Epochs


def test_every_epoch_doubles_the_draws_and_halves_the_rate() -> None:
    server = growing(Potential(epsilon=4.0), Setting(4, 16, 2000))
    epochs = [Epoch(server.switches, server.threshold, server.selection), *server.later]  # pyright: ignore[reportArgumentType]
    assert len(epochs) >= 5
    quiet = np.log(2000) * server.sparse.query_scale  # A' in the proof
    for first, second in pairwise(epochs):
        assert second.draws == 2 * first.draws
        assert second.selection.epsilon == pytest.approx(first.selection.epsilon / 2, rel=1e-9)
        assert second.threshold - quiet == pytest.approx(2 * (first.threshold - quiet), rel=1e-4)
    used = np.cumsum([epoch.draws for epoch in epochs])
    starts = {0, *used[:-1].tolist(), used[-1], used[-1] + epochs[-1].draws}
    assert {k for k in range(max(starts) + 1) if server.restarts(k)} == starts
    for start, epoch in zip([0, *used[:-1].tolist()], epochs, strict=True):
        for k in (start, start + epoch.draws - 1):
            assert server.limit(k) == epoch.threshold
            assert server.drawing(k) == epoch.selection


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_epoch_costs_the_budget(delta: float) -> None:
    """No epoch costs more, the first and the last come close, and the largest is certified."""
    spec = Potential(epsilon=2.0, delta=delta)
    algorithm = spec.build(Setting(3, 8, 300))
    server = growing(spec, Setting(3, 8, 300))
    curve = algorithm.certificate.guarantee(Observer.PEER).curve
    assert curve.delta(2.0) <= delta
    parts = [(server.switches, server.selection.epsilon)]
    parts += [(epoch.draws, epoch.selection.epsilon) for epoch in server.later]
    assert len(parts) >= 4
    for draws, eta in (parts[0], parts[-1]):
        one = cost(draws, server.sparse, eta, delta)
        assert 1.98 <= one.stated()[0] <= 2.0
        assert all(curve.delta(e) >= one.delta(e) for e in (0.0, 0.5, 1.0, 1.5))
    fast = tuple(replace(epoch, selection=server.selection) for epoch in server.later)
    wrong = largest_cost(replace(server, later=fast), delta)
    assert wrong.stated()[0] > 2.5


@pytest.mark.parametrize("every", [1, 3])
def test_scores_forget_earlier_epochs(every: int) -> None:
    """Each selection sees the losses since the last restart and no others."""
    losses = np.random.default_rng(1).random((90, 2, 4))
    spec = Potential(epsilon=60.0, every=every, switches=2, threshold=2.0, early=False)
    algorithm = spec.build(Setting(2, 4, 90))
    server = server_of(algorithm)
    totals = losses.sum(axis=1)
    for seed in range(5):
        noise = RecordingNoise(SeededNoise(seed))
        simulate(algorithm, RecordedArray(losses), 0, noise=noise, fused=False)
        exchange, start, used = 0, 0, 0
        for release in noise.ledger.releases:
            if release.mechanism.purpose == "threshold":
                assert release.value == server.limit(used)
            elif release.mechanism.purpose == "query":
                exchange += 1
            else:
                assert release.mechanism == server.drawing(used)
                window = totals[start : exchange * every].sum(axis=0)
                assert np.allclose(release.value, window, atol=1e-4)
                used += 1
                start = exchange * every if used in (2, 6, 14) else start
        assert used >= 6


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_budget_is_spent_and_no_more(epsilon: float, delta: float) -> None:
    algorithm = Potential(epsilon=epsilon, delta=delta).build(Setting(10, 50, 300))
    curve = algorithm.certificate.guarantee(Observer.PEER).curve
    assert 0.98 * epsilon <= curve.stated()[0] <= epsilon
    assert curve.delta(epsilon) <= delta
    assert not algorithm.certificate.guarantee(Observer.SERVER).protects


# Learning


def test_draws_and_epochs_stay_below_their_bounds() -> None:
    """Theorems 2 and 3, with the constants that `plan` takes, on a stream where the best expert
    loses often.
    """
    best_loss, clients, experts, rounds = 60.0, 4, 16, 600
    environment = NearRealizable(
        clients=clients,
        experts=experts,
        horizon=rounds,
        mean=0.5,
        law="bernoulli",
        best_loss=best_loss,
    )
    algorithm = Potential(epsilon=20.0).build(environment.setting)
    server = algorithm.server
    assert isinstance(server, Growing)
    rate = server.selection.epsilon / 2
    quiet = np.log(rounds) * server.sparse.query_scale
    theta = rate * (server.threshold - quiet)
    gain, fall = 1 - theta / np.expm1(theta), np.log1p(np.expm1(-theta) / 2)
    inner, ended = [], []
    for seed in range(12):
        everything = Everything()
        simulate(algorithm, environment, seed, sinks=[everything], fused=False)
        used = everything.messages[-1][2].switches
        ends = sum(server.restarts(k) for k in range(1, used + 1))
        inner.append(used - ends)
        ended.append(ends)
    sizes = [server.switches, *(epoch.draws for epoch in server.later)]
    chances = [
        min(1.0, experts * np.exp(rate / 2**e * clients * best_loss + fall * (size - 1)))
        for e, size in enumerate(sizes)
    ]
    at_most = min(e + 0.5 + sum(chances[e:]) for e in range(len(sizes)))
    assert 1 <= np.mean(ended) <= at_most < len(sizes)
    reached = 1 + np.mean(ended)
    most = (reached * (1.5 * theta + np.log(experts)) + rate * clients * best_loss) / gain
    assert np.mean(inner) <= most < rounds  # the bound says something


def test_more_budget_is_better_where_equal_epochs_were_worse() -> None:
    """On a stand-in for air-quality forecasts; a random expert has a regret of about 30 there."""
    streams = [stand_in("days", seed, clients=12, experts=10, rounds=700) for seed in range(8)]

    def regret(epsilon: float, grows: bool) -> Estimate:
        algorithm = Potential(epsilon=epsilon).build(streams[0].setting)
        if not grows:
            assert isinstance(algorithm.server, Growing)
            equal = replace(algorithm.server, later=())
            algorithm = replace(algorithm, server=equal, advance=equal.advance)
        found = []
        for seed, stream in enumerate(streams):
            recorder = Recorder(stream.setting, points=2)
            ended = simulate(algorithm, stream, seed, sinks=[recorder])
            found.append(recorder.result("", seed, ended).final_regret)
        return Estimate.of(found)

    low, high = regret(1.0, grows=True), regret(30.0, grows=True)
    assert high.high < low.low
    assert high.high < regret(30.0, grows=False).low


# Audits


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("spec", [Potential(), Potential(test="potential")])
def test_every_audit_verdict_is_the_expected_one(spec: Potential, delta: float) -> None:
    cases = cases_of("potential", replace(spec, delta=delta))
    rows = [AuditRow(case, audit(case)) for case in cases]
    assert all(row.passed for row in rows), [row.to_dict() for row in rows if not row.passed]
    assert {row.verdict for row in rows} == {"holds", "violated"}
    if not spec.printed:
        worst = [row for row in rows if row.case.name.startswith("worst transcript")]
        near = [row.certified / float(row.finding.epsilon or 0.0) for row in worst]
        assert 1.0 <= min(near) <= 1.1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"delta": 1.0}, r"Expected delta=1.0 in \[0, 1\)"),
        ({"test": "other"}, r"Expected test='other' in"),
        ({"rate": 1.0}, r"Expected rate=1.0 to be None unless test="),
    ],
)
def test_wrong_values_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Potential(**values)


# The printed form


def test_potential_moves() -> None:
    """One datum moves the printed query by 1 in its own run and, because the weights remember it,
    by nearly 2 in a later one.
    """
    setting = Setting(1, 2, 1000)
    server = server_of(
        Potential(test="potential", rate=1.0, switches=2, threshold=1.0).build(setting)
    )
    assert isinstance(server, PotentialTest)
    moved = []
    for datum in ((0, 1), (1, 0)):
        before = np.array(datum) + np.array((20, 0))  # nearly all weight on expert 1
        after = before + np.array((0, 40))  # now on expert 0
        potentials = server.potential(np.stack([before, after]) * 2**20) / 2**20
        moved.append((potentials[0], potentials[1] - potentials[0]))
    own, later = np.abs(np.subtract(*moved))
    assert 0.99 < own <= 1.0
    assert 1.99 < later <= 2.0
    same = printed_cost(1, server.sparse, 2.0, 0.0).bound  # pyright: ignore[reportAttributeAccessIssue]
    both = printed_cost(2, server.sparse, 2.0, 0.0).bound  # pyright: ignore[reportAttributeAccessIssue]
    assert both - same == pytest.approx(2 * (same - 2.0) + 2.0, rel=1e-4)


@pytest.mark.parametrize(
    ("delta", "claim"), [(0.0, "epsilon = 1, delta = 0"), (1e-6, "epsilon = 1, delta = 1e-6")]
)
def test_printed_constants_state_claim_and_truth(delta: float, claim: str) -> None:
    algorithm = Potential(epsilon=1.0, delta=delta, test="potential").build(Setting(10, 100, 512))
    guarantee = algorithm.certificate.guarantee(Observer.PEER)
    assert guarantee.claimed is not None
    assert guarantee.claimed.words() == claim
    assert algorithm.parameters["switches"] == 10
    each = 0.1 if delta == 0 else 1 / np.sqrt(10 * np.log(1e6))
    assert algorithm.parameters["selection_epsilon"] == pytest.approx(2 * each / (56 * np.log(512)))
    assert algorithm.parameters["threshold"] == pytest.approx(2 * 56 * np.log(512) / each, abs=1e-5)
    if delta == 0:
        assert guarantee.curve.stated()[0] == pytest.approx(1.9 + 1 / (28 * np.log(512)), rel=1e-4)
    else:
        assert guarantee.curve.stated()[0] > 1.0


def test_no_claim_is_stated_for_another_rate() -> None:
    algorithm = Potential(test="potential", rate=0.5).build(Setting(10, 100, 512))
    assert algorithm.certificate.guarantee(Observer.PEER).claimed is None


@pytest.mark.long
@pytest.mark.parametrize(
    "contract",
    [
        "same for every block",
        "sensitivities hold",
        "noise follows its law",
        "nothing raw in a view",
    ],
)
def test_the_printed_test_keeps_the_contracts(contract: str) -> None:
    spec = Potential(epsilon=20.0, test="potential", rate=0.5, threshold=3.0)
    assert examine(contract, spec).status == "holds", examine(contract, spec).detail


@pytest.mark.long
def test_the_printed_ratio_stays_below_its_certificate() -> None:
    outcome = examine("exact ratio below certificate", Potential(test="potential"))
    assert outcome.status == "holds", outcome.detail


def test_the_printed_test_stays_with_an_expert_that_loses() -> None:
    """Half of the experts lose in every round, the others never: the potential falls by ln 2 in
    all, and no run ends.
    """
    losses = np.zeros((300, 10, 16))
    losses[..., :8] = 1.0
    lost = {}
    for spec in (Potential(epsilon=10.0, test="potential"), Potential(epsilon=10.0)):
        algorithm, shares = spec.build(Setting(10, 16, 300)), []
        for seed in range(30):
            kept = Everything(wants_messages=False)
            simulate(algorithm, RecordedArray(losses), seed, sinks=[kept])
            shares.append(float((kept.all_plays() < 8).mean()))
        lost[spec.test] = np.mean(shares)
    assert lost["potential"] > 0.3
    assert lost["expert"] < 0.1


def test_plan_is_public_and_follows_its_rule() -> None:
    values = {"clients": 10, "experts": 100, "horizon": 2048, "every": 1, "epsilon": 1.0}
    chosen = plan(**values, delta=0.0)
    assert chosen == plan(**values, delta=0.0)
    assert chosen.switches >= 1 + 2 * np.log(100)
    assert plan(**values, delta=1e-6).threshold < chosen.threshold
    assert plan(**{**values, "experts": 1}, delta=0.0).switches == 1

"""Lazy experts: the certificate against exhaustive enumeration, its audits, the fused path, the comparison with the dartboard."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.dartboard.cost import Choice, TwoChains, regret_bounds, with_chance
from hedgerow.algorithms.dartboard.lazy_experts import LazyExperts, Pair
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.dartboard.tuning import choose
from hedgerow.audits.runner import AuditRow, cases_of, examine
from hedgerow.contracts.suite import ON_BOTH_SOURCES
from hedgerow.contracts.suite import examine as examine_contract
from hedgerow.core.errors import InvalidValue
from hedgerow.core.noise import SeededNoise
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Everything
from hedgerow.engines.broadcasts import broadcasts_of
from hedgerow.engines.learner import Learner
from hedgerow.engines.simulate import simulate
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.environments.drawn.switching import Switching
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.environments.hard.lower_bounds import hidden_expert_regret
from hedgerow.privacy.secure import SecureNoise
from hedgerow.studies.notes import notes


def transcripts(choice: Choice, most: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Chances of all transcripts (x, y and all coins) in two worlds, from the definition; losses (groups, experts)."""
    experts, found = first.shape[1], []

    def go(s: int, x: int, y: int, chances: tuple[float, float]) -> None:
        if s == len(first):
            found.append(chances)
            return
        stay, laws = [], []
        for losses in (first, second):
            stay.append(exp(-choice.rate * (choice.base + 2 * most + losses[s, x] - losses[s, y])))
            weights = np.exp(-choice.rate * losses[: s + 1].sum(axis=0))
            laws.append(weights / weights.sum())
        xs = [(x, stay[0], stay[1]), *((j, (1 - stay[0]) * laws[0][j], (1 - stay[1]) * laws[1][j]) for j in range(experts))]
        p = choice.leave
        ys = [(y, 1 - p, 1 - p), *((j, p * laws[0][j], p * laws[1][j]) for j in range(experts))]
        for a, pa, qa in xs:
            for b, pb, qb in ys:
                go(s + 1, a, b, (chances[0] * pa * pb, chances[1] * qa * qb))

    for x in range(experts):
        for y in range(experts):
            go(0, x, y, (experts**-2.0, experts**-2.0))
    return np.array(found)


@pytest.mark.parametrize(("groups", "rate", "leave", "every"), [(4, 0.05, 0.2, 3), (4, 0.2, 0.3, 2), (3, 0.1, 0.1, 1)])
def test_no_enumerated_delta_is_above_the_certificate(groups: int, rate: float, leave: float, every: int) -> None:
    choice, setting = with_chance(rate, leave, every, None, TwoChains), Setting(1, 2, groups * every)
    curve, closest = choice.cost(setting), 0.0
    for trial in range(6):
        rng = np.random.default_rng(trial)
        first = rng.integers(0, every + 1, (groups - 1, 2)).astype(float)
        second, datum = first.copy(), rng.integers(0, 2, 2)
        base = rng.integers(0, every, 2)
        first[0], second[0] = base + datum, base + 1 - datum
        p, q = transcripts(choice, every, first, second).T
        assert p.sum() == pytest.approx(1)
        assert np.abs(np.log(p / q)).max() <= curve.pure
        for epsilon in (0.0, 0.1, 0.3):
            for a, b in ((p, q), (q, p)):
                exact = float(np.maximum(a - exp(epsilon) * b, 0).sum())
                assert exact <= curve.delta(epsilon)
                closest = max(closest, exact / curve.delta(epsilon))
    assert closest > 0.4


def test_the_law_of_the_expert_is_that_of_exponential_weights() -> None:
    losses = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [1, 0, 1], [1, 0, 0.5]], float)[:, None]
    algorithm = LazyExperts(epsilon=50.0, delta=1e-6, every=2, rate=0.8, leave=0.1).build(Setting(1, 3, 5))
    noise, runs = SeededNoise(3), 2500
    last = [broadcasts_of(algorithm, losses, noise)[-1].expert for _ in range(runs)]
    seen = np.bincount(last, minlength=3) / runs
    right, wrong = (np.exp(-0.8 * losses[:n].sum(axis=(0, 1))) for n in (4, 2))
    assert np.abs(seen - right / right.sum()).max() < 0.03 < np.abs(seen - wrong / wrong.sum()).max()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_dartboard_has_the_smaller_bound(delta: float) -> None:
    for experts, horizon, epsilon in ((10, 200, 0.3), (50, 300, 2.0)):
        setting = Setting(1, experts, horizon)
        one, two = (choose(setting, epsilon, delta, None, kind) for kind in (Choice, TwoChains))
        curve = two.cost(setting)
        assert (curve.pure if delta == 0 else curve.epsilon(delta)) <= epsilon
        assert one.regret_bound(setting) <= two.regret_bound(setting)


def test_the_tail_of_two_binomials_is_bounded() -> None:
    """By simulation of the sum of unequal coins; and below the mean nothing is claimed."""
    setting, rate, p = Setting(1, 2, 201), np.array(0.02), np.array(0.1)
    q = 1 - 0.9 * exp(-3 * 0.02)
    rng = np.random.default_rng(0)
    wanted = rng.binomial(200, q, 20000) + rng.binomial(200, 0.1, 20000)
    plain = float(regret_bounds(TwoChains, setting, 1, rate, p, np.array(400)))
    for cap in (55, 65):
        added = float(regret_bounds(TwoChains, setting, 1, rate, p, np.array(cap))) - plain
        assert 201 * (wanted > cap).mean() <= added * 1.05
    assert float(regret_bounds(TwoChains, setting, 1, rate, p, np.array(10))) - plain == pytest.approx(201)


LOUD = {"epsilon": 1000.0, "rate": 0.3, "leave": 0.3}


@pytest.mark.parametrize(("kind", "second"), [(LazyExperts, True), (ShrinkingDartboard, False)])
@pytest.mark.parametrize("choices", [{"every": 1}, {"every": 7}, {"every": 3, "draws": 70}, {"every": 2, "leave": 0.9}])
def test_the_fused_path_gives_the_same_transcript(kind: Any, second: bool, choices: dict[str, Any]) -> None:
    """In games with many draws of both experts, cut into blocks anyhow, with a cap that is reached."""
    environment = Switching(clients=2, experts=6, horizon=400)
    algorithm = kind(**{**LOUD, **choices}).build(environment.setting)
    kept = Everything()
    simulate(algorithm, environment, 5, sinks=[kept])  # who wants messages gets the plain loop
    last = kept.messages[-1][2]
    assert last.switches > 15
    assert not second or last.refreshes > 5
    found = {"messages": (kept.all_plays().tobytes(), len(kept.messages))}
    for block in (None, 7, 150):
        for fused in (True, False):
            plays = Everything(wants_messages=False)
            counters = simulate(algorithm, environment, 5, sinks=[plays], block_rounds=block, fused=fused)
            found[f"{block} {fused}"] = (plays.all_plays().tobytes(), counters.exchanged)
    assert len(set(found.values())) == 1, [name for name in found if found[name] != found["messages"]]


@pytest.mark.parametrize("contract", ["same on every engine", "same for every block", "causal", "pure", "resumable", "sensitivities hold"])
def test_groups_keep_the_contracts(contract: str) -> None:
    outcome = examine_contract(contract, LazyExperts(every=3, epsilon=20.0, delta=1e-6))
    assert outcome.status == "holds", outcome.detail


@pytest.mark.parametrize("contract", ON_BOTH_SOURCES)
def test_contracts_on_secure_noise(contract: str) -> None:
    outcome = examine_contract(contract, LazyExperts(delta=1e-6), secure=True)
    if outcome.status == "not applicable":
        pytest.skip(f"not applicable: {outcome.detail}")
    assert outcome.status == "holds", outcome.detail


def test_a_learner_on_real_data() -> None:
    learner = Learner.private(LazyExperts(epsilon=8.0), clients=2, experts=4, horizon=40, source=SecureNoise())
    plays = []
    for _ in range(40):
        plays.append(learner.predict())
        learner.observe(np.tile([0.0, 1.0, 1.0, 1.0], (2, 1)))
    assert np.shape(plays) == (40, 2)
    assert all("IDEAL_REALS" not in str(guarantee.assumes) for guarantee in learner.algorithm.certificate.guarantees)


def exact_rows(spec: LazyExperts) -> dict[str, AuditRow]:
    return {case.name: AuditRow(case, examine(case)) for case in cases_of("lazy_experts", spec) if case.method == "exact ratio"}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("epsilon", "every"), [(0.8, None), (0.05, None), (10.0, 1), (0.8, 8)])
def test_exact_audits(epsilon: float, delta: float, every: int | None) -> None:
    """The certificate is all but attained and never passed, and every planted bug is caught, whatever the budget and the groups."""
    rows = exact_rows(LazyExperts(epsilon=epsilon, delta=delta, every=every))
    assert all(row.passed for row in rows.values()), [row.to_dict() for row in rows.values() if not row.passed]
    worst = [row for name, row in rows.items() if name.startswith("worst transcripts")]
    assert 1.0 <= worst[-1].certified / (worst[-1].finding.epsilon or 0) <= 1.02
    caught = {name for name, row in rows.items() if row.verdict == "violated"}
    assert caught == {
        "half the selection noise",
        "never leaves without a reason (p -> 0)",
        "one draw too many (K off by one)",
        "a companion that looks at the data",
        "a datum in two groups",
        "groups that overlap by one round",
    }


@pytest.mark.long
def test_sampled_audits() -> None:
    for case in cases_of("lazy_experts", LazyExperts(delta=1e-6)):
        if case.method != "exact ratio":
            row = AuditRow(case, examine(case))
            assert row.passed, row.to_dict()


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ({"rate": 5.0, "leave": 0.1}, r"Expected rate=5.0, leave=0.1 within epsilon=1.0, delta=0.0: this choice costs epsilon"),
        ({"rate": 5.0, "draws": 1000}, r"Expected rate=5.0, draws=1000 within epsilon=1.0, .*; take a smaller rate, fewer draws or"),
        ({"leave": 0.0}, r"Expected leave=0.0 in \[1e-09, "),
        ({"draws": 0}, r"Expected draws=0 to be a whole number >= 1"),
        ({"every": 0}, r"Expected every=0 to be a whole number >= 1"),
        ({"every": 11}, r"Expected every=11 <= horizon=10"),
        ({"delta": 1.0}, r"Expected delta=1.0 in \[0, 1\)"),
        ({"epsilon": 0.0}, r"Expected epsilon=0.0 > 0"),
    ],
)
def test_errors_name_the_value_and_the_rule(choices: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidValue, match=text):
        LazyExperts(**choices).build(Setting(1, 5, 10))


def test_a_run_says_what_cannot_be_hoped_for() -> None:
    """A budget too small to learn from, with the regret that no algorithm avoids; losses that react, which run all the same."""
    small = Bernoulli(clients=1, experts=50, horizon=100)
    idle, told = notes(LazyExperts(epsilon=1e-4).build(small.setting), small)
    assert "says nothing here" in idle
    least = hidden_expert_regret(small.setting, 1e-4)
    assert "is too little to learn from: even where one expert is never wrong and all others always are" in told
    assert f"with this guarantee regrets at least {least:.3g}, and guessing 98" in told
    adaptive = PlayChasing(clients=1, experts=4, horizon=60)
    algorithm = LazyExperts(epsilon=5.0).build(adaptive.setting)
    assert simulate(algorithm, adaptive, 0).exchanged == 59 // algorithm.parameters["every"] > 0
    (told,) = notes(algorithm, adaptive)
    assert told.endswith("here are losses that may react to the plays, for which nothing is proven")


def test_the_companion_is_drawn_as_often_as_the_certificate_says() -> None:
    for spec in (LazyExperts(), LazyExperts(delta=1e-6), LazyExperts(epsilon=1, delta=1e-6, every=4)):  # a whole number is a budget, too
        algorithm = spec.build(Setting(10, 100, 512))
        server = algorithm.server
        assert isinstance(server, Pair)
        assert server.refresh.probability(0.0) == pytest.approx(1 - algorithm.parameters["leave"], rel=1e-12)


@pytest.mark.parametrize("kind", [LazyExperts, ShrinkingDartboard])
def test_the_regret_bound_is_never_above_the_horizon(kind: type[LazyExperts] | type[ShrinkingDartboard]) -> None:
    assert kind(epsilon=1e-4).build(Setting(1, 100, 512)).regret_at_most == 512.0
    assert kind().build(Setting(1, 1, 512)).regret_at_most == 0.0

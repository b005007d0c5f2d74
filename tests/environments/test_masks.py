"""Sleeping experts and absent clients: masks and their laws, regret against awake comparators, what
is certified, bad masks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.algorithms.mixture.private_mixture import PrivateMixture
from hedgerow.algorithms.sparse_vector.plan import Plan
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.contracts.outcome import same
from hedgerow.contracts.recording import Ledger, RecordingNoise
from hedgerow.core.block import ABSENT, Block, check
from hedgerow.core.certificate import PUBLIC_DELAYS, PUBLIC_PRESENCE, PUBLIC_SLEEP
from hedgerow.core.environment import Environment, Feature, Traits
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.noise import SeededNoise
from hedgerow.core.people import who_came
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Everything, Plays
from hedgerow.core.units import Event
from hedgerow.engines.simulate import simulate
from hedgerow.environments.drawn.stochastic import Bernoulli, UniformLosses
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.environments.recorded.combining import Combining
from hedgerow.environments.recorded.forecast_table import ForecastTable
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.environments.wrappers.absent import Absent
from hedgerow.environments.wrappers.delayed import Delayed
from hedgerow.environments.wrappers.sleeping import Sleeping
from hedgerow.environments.wrappers.visits import Visits
from hedgerow.evaluation.recorder import Recorder, RunResult
from hedgerow.studies.config import Entry, StudyConfig, study_from_table
from hedgerow.studies.run import run_study
from hedgerow_papers.asi2023.proven_doubling import ProvenDoubling
from support.played import plays_of

SMALL = UniformLosses(clients=3, experts=4, horizon=200)


def _whole(environment: Any, seed: int = 0, block: int | None = None) -> Block:
    """All rounds of an environment, asked for in blocks."""
    horizon = environment.setting.horizon
    state, made = environment.start(seed), []
    for first in range(0, horizon, block or horizon):
        part, state = environment.block(state, min(block or horizon, horizon - first), None)
        made.append(part)

    def join(name: str) -> Any:
        pieces = [getattr(part, name) for part in made]
        return None if pieces[0] is None else np.concatenate(pieces)

    return Block(join("losses"), join("reports"), join("awake"), join("present"))


@dataclass(frozen=True)
class Masked(Environment):
    """Given losses and masks, as an environment of somebody else may hand them out."""

    losses: np.ndarray
    awake: np.ndarray | None = None
    present: np.ndarray | None = None
    features: frozenset[Feature] = frozenset({Feature.SLEEPING_EXPERTS, Feature.ABSENT_CLIENTS})
    reports: np.ndarray | None = None

    @property
    def traits(self) -> Traits:
        return Traits(features=self.features)

    @property
    def setting(self) -> Setting:
        return Setting(self.losses.shape[1], self.losses.shape[2], len(self.losses))

    def start(self, seed: int) -> int:
        return 0

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        part = slice(state, state + rounds)
        losses = self.losses[part]
        awake, present = (
            None if mask is None else mask[part] for mask in (self.awake, self.present)
        )
        return Block(
            losses, losses if self.reports is None else self.reports[part], awake, present
        ), state + rounds


# Masks


@pytest.mark.parametrize(
    "make",
    [
        Absent,
        Sleeping,
        lambda of: Sleeping(of=of, common=True),
        lambda of: Absent(of=Sleeping(of=of)),
    ],
)
def test_masks_follow_the_seed_and_not_the_blocks(make: Any) -> None:
    environment = make(of=SMALL)
    whole = _whole(environment)
    for block in (1, 7, 150):
        assert same(_whole(environment, block=block), whole)
    assert not same(_whole(environment, seed=1), whole)


def test_masks_have_their_rates_and_leave_losses_alone() -> None:
    plain, absent, sleeping = (
        _whole(e) for e in (SMALL, Absent(of=SMALL, rate=0.3), Sleeping(of=SMALL, rate=0.3))
    )
    assert absent.present is not None
    assert sleeping.awake is not None
    assert np.array_equal(absent.losses[absent.present], plain.losses[absent.present])
    assert not absent.losses[~absent.present].any()
    assert absent.reports is not None
    assert np.array_equal(sleeping.losses, plain.losses)
    asleep = 0.3 - 0.3**4  # where all would sleep, all are awake
    for mask, rate in ((absent.present, 0.3), (sleeping.awake, asleep)):
        missing = int((~mask).sum())
        assert stats.binomtest(missing, mask.size, rate).pvalue > 1e-3
        assert stats.binomtest(missing, mask.size, rate * 1.3).pvalue < 1e-3
    assert abs(np.corrcoef(absent.present[:-1].ravel(), absent.present[1:].ravel())[0, 1]) < 0.15
    common = _whole(Sleeping(of=SMALL, rate=0.3, common=True)).awake
    assert common is not None
    assert (common == common[:, :1]).all()


def test_where_all_experts_would_sleep_all_are_awake() -> None:
    awake = _whole(Sleeping(of=SMALL, rate=0.95)).awake
    assert awake is not None
    count = awake.sum(axis=-1)
    assert count.min() == 1
    assert (count == 4).mean() > 0.7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Absent(of=SMALL, rate=1.0), r"Expected rate=1\.0 in \[0, 1\)"),
        (lambda: Sleeping(of=SMALL, rate=-0.1), r"Expected rate=-0\.1 in \[0, 1\)"),
        (
            lambda: Absent(of=Absent(of=SMALL)),
            "Absent cannot wrap an environment with absent clients",
        ),
        (
            lambda: Sleeping(of=Absent(of=Sleeping(of=SMALL))),
            "Sleeping cannot wrap an environment with sleeping experts",
        ),
    ],
)
def test_impossible_masks_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        make()


LOSSES = round_to_lattice(np.random.default_rng(0).random((12, 2, 3)))
ALL = np.ones((12, 2, 3), bool)
BOTH = np.ones((12, 2), bool)


def _changed(mask: np.ndarray, *where: Any) -> np.ndarray:
    made = mask.copy()
    made[where] = False
    return made


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            Masked(LOSSES, awake=_changed(ALL, 7, 1)),
            r"All experts sleep \(round 7, client 1\)\. Every present client needs an awake expert",
        ),
        (
            Masked(LOSSES, awake=ALL[:, :1]),
            r"Expected awake to be boolean of shape \(12, 2, 3\), got bool of shape \(12, 1, 3\)",
        ),
        (Masked(LOSSES, awake=ALL.astype(float)), "Expected awake to be boolean .* got float64"),
        (Masked(LOSSES, present=ALL), "Expected present to be boolean of shape"),
        (
            Masked(LOSSES, present=_changed(BOTH, 5, 0)),
            r"Expected zero losses for an absent client \(round 5, client 0\)",
        ),
        (
            Masked(LOSSES, awake=ALL, reports=LOSSES.copy()),
            "Where experts sleep, every client must see its own losses at once",
        ),
        (
            Masked(LOSSES, awake=ALL, features=frozenset()),
            "Masked has sleeping experts that its traits do not declare",
        ),
        (
            Masked(LOSSES, present=BOTH, features=frozenset()),
            "Masked has absent clients that its traits do not declare",
        ),
    ],
)
def test_bad_masks_are_named(environment: Masked, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        simulate(Uniform().build(environment.setting), environment, 0)


def test_the_experts_of_an_absent_client_may_all_sleep() -> None:
    losses = LOSSES.copy()
    losses[4, 1] = 0.0
    environment = Masked(losses, awake=_changed(ALL, 4, 1), present=_changed(BOTH, 4, 1))
    for spec in (Uniform(), Hedge(), FollowTheLeader(), SparseVector()):
        plays = plays_of(spec, environment)
        assert plays[4, 1] == ABSENT
        assert (np.delete(plays.ravel(), 9) != ABSENT).all()


# Play and regret


def _result(spec: Any, environment: Any, seed: int = 0, **options: Any) -> RunResult:
    recorder = Recorder(environment.setting, 20, (2,))
    return recorder.result(
        "x",
        seed,
        simulate(spec.build(environment.setting), environment, seed, sinks=[recorder], **options),
    )


@pytest.mark.parametrize(
    "make", [Absent, Sleeping, lambda of: Sleeping(of=Absent(of=of), rate=0.5)]
)
@pytest.mark.parametrize(
    "spec",
    [Hedge(every=3), SparseVector(epsilon=8.0, every=2), Uniform()],
    ids=lambda spec: type(spec).__name__,
)
def test_regret_is_against_each_expert_while_it_is_awake_and_clients_while_they_are_there(
    spec: Any, make: Any
) -> None:
    """The definition, in loops; and it does not depend on blocks or engines."""
    environment = make(of=UniformLosses(clients=3, experts=4, horizon=60))
    block, plays = _whole(environment), plays_of(spec, environment)
    result = _result(spec, environment)
    awake = np.ones((60, 3, 4), bool) if block.awake is None else block.awake
    present = np.ones((60, 3), bool) if block.present is None else block.present
    excess = np.zeros((3, 4))
    for at, loss, regret in zip(result.rounds, result.loss, result.regret, strict=True):
        excess, paid = np.zeros((3, 4)), 0.0
        for t in range(at):
            for i in np.flatnonzero(present[t]):
                charge = block.losses[t, i, plays[t, i]]
                paid += charge
                excess[i] += np.where(awake[t, i], charge - block.losses[t, i], 0.0)
        assert loss == pytest.approx(paid / 3, abs=1e-9)
        assert regret == pytest.approx(excess.sum(axis=0).max() / 3, abs=1e-9)
    assert result.own_best_regret == pytest.approx(excess.max(axis=1).sum() / 3, abs=1e-9)
    changes = sum(int((np.diff(plays[present[:, i], i]) != 0).sum()) for i in range(3))
    assert result.switches == pytest.approx(changes / 3)
    means = sum(float(block.losses[t, i, awake[t, i]].mean()) for t in range(60) for i in range(3))
    assert result.comparators["a random expert"] == pytest.approx(means / 3)
    assert result.comparators["best expert"] == pytest.approx(result.loss[-1] - result.final_regret)
    assert result.comparators["best with 2 switches"] <= result.comparators["best expert"]
    others: tuple[dict[str, Any], ...] = (
        {"block_rounds": 1},
        {"block_rounds": 7},
        {"engine": "in_process"},
    )
    for options in others:
        assert same(_result(spec, environment, **options), result)


@pytest.mark.parametrize(
    "spec",
    [Hedge(), FollowTheLeader(), SparseVector(), Uniform()],
    ids=lambda spec: type(spec).__name__,
)
def test_masks_that_hide_nothing_change_nothing(spec: Any) -> None:
    losses = _whole(SMALL).losses
    plain = _result(spec, RecordedArray(losses))
    for environment in (
        Masked(losses, awake=np.ones(losses.shape, bool)),
        Masked(losses, present=np.ones(losses.shape[:2], bool)),
    ):
        masked = _result(spec, environment)
        for name in ("loss", "regret", "switches", "own_best_regret", "exchanges"):
            assert np.array_equal(getattr(masked, name), getattr(plain, name)), name
        assert {k: pytest.approx(v) for k, v in masked.comparators.items()} == plain.comparators


def test_a_client_that_never_takes_part_and_a_round_without_anybody() -> None:
    losses, present = LOSSES.copy(), BOTH.copy()
    present[:, 0] = False
    present[3] = False
    losses[~present] = 0.0
    for spec in (Hedge(), FollowTheLeader(), SparseVector(), Uniform()):
        result, plays = (
            _result(spec, Masked(losses, present=present)),
            plays_of(spec, Masked(losses, present=present)),
        )
        assert (plays[:, 0] == ABSENT).all()
        assert (plays[3] == ABSENT).all()
        here = present[:, 1]
        paid = losses[here, 1, plays[here, 1]].sum()
        assert result.loss[-1] == pytest.approx(paid / 2)
        assert result.own_best_regret == pytest.approx((paid - losses[:, 1].sum(axis=0).min()) / 2)


def test_an_adversary_chases_only_who_played() -> None:
    environment = Absent(of=PlayChasing(clients=2, experts=3, horizon=60), rate=0.5)
    kept: list[Block] = []

    class Watch(Everything):
        def rounds(self, first_round: int, block: Block, plays: Any) -> None:
            super().rounds(first_round, block, plays)
            kept.append(block)

    watch = Watch(wants_messages=False)
    simulate(Hedge().build(environment.setting), environment, 0, sinks=[watch])
    plays, losses = watch.all_plays(), np.concatenate([block.losses for block in kept])
    present = _whole(environment).present
    assert present is not None
    for t in range(1, 60):
        for i in range(2):
            chased = present[t, i] and present[t - 1, i]
            assert losses[t, i].sum() == float(chased)
            assert not chased or losses[t, i, plays[t - 1, i]] == 1.0


def test_uniform_and_hedge_draw_from_those_awake_by_their_weights() -> None:
    """Chi-square tests that also reject the weights of all experts."""
    losses = np.zeros((4001, 1, 3))
    losses[0, 0] = (0.0, 0.5, 1.0)
    awake = np.ones(losses.shape, bool)
    awake[1:, 0, 0] = False  # from the second round on only the two worse ones
    environment = Masked(losses, awake=awake)
    rate = 1.0
    for spec, odds in (
        (Uniform(), (1.0, 1.0)),
        (Hedge(rate=rate), (np.exp(-0.5 * rate), np.exp(-1.0 * rate))),
    ):
        plays = plays_of(spec, environment)[1:, 0]
        counts = np.bincount(plays, minlength=3)
        assert counts[0] == 0
        expected = np.array(odds) / sum(odds) * 4000
        assert stats.chisquare(counts[1:], expected).pvalue > 1e-3
        assert stats.chisquare(counts[1:], np.array([0.45, 0.55]) * 4000).pvalue < 1e-3


def test_sparse_vector_replaces_a_sleeping_expert_by_the_next_one_awake() -> None:
    losses = np.zeros((6, 1, 4))
    plain = plays_of(SparseVector(), RecordedArray(losses))[0, 0]
    for asleep, expected in (((0,), 1), ((0, 1), 2), ((0, 1, 2), 3), ((1, 2), 0)):
        awake = np.ones(losses.shape, bool)
        awake[..., [(plain + k) % 4 for k in asleep]] = False
        assert (
            plays_of(SparseVector(), Masked(losses, awake=awake)) == (plain + expected) % 4
        ).all()


def test_hedge_keeps_its_bound_against_experts_while_awake() -> None:
    """Mean over seeds below the bound, on a stream where following everybody alike is far above it."""
    environment = Sleeping(
        of=Bernoulli(clients=1, experts=5, horizon=1500, mean=0.8, gap=0.8), rate=0.5
    )
    bound = Hedge().build(environment.setting).regret_at_most
    regrets = [_result(Hedge(), environment, seed).final_regret for seed in range(8)]
    assert np.mean(regrets) + 3 * np.std(regrets) / np.sqrt(8) < bound
    assert _result(Uniform(), environment).final_regret > 2 * bound


def test_fast_paths_are_taken_with_absent_clients_and_not_with_sleeping_experts() -> None:
    algorithm = SparseVector().build(SMALL.setting)
    taken: list[bool] = []
    honest = algorithm.shortcuts.advance
    assert honest is not None

    def watched(run: Any, block: Block, source: Any) -> Any:
        taken.append(block.present is not None)
        return honest(run, block, source)

    for environment, expected in (
        (SMALL, [False]),
        (Absent(of=SMALL), [True]),
        (Sleeping(of=SMALL), []),
    ):
        taken.clear()
        simulate(
            replace(algorithm, shortcuts=replace(algorithm.shortcuts, advance=watched)),
            environment,
            0,
        )
        assert taken == expected


# Certificates


def test_who_does_not_support_a_mask_refuses_it_by_name_before_it_plays() -> None:
    entries = (Entry("a", _Plain()),)
    for environment, name in (
        (Absent(of=SMALL), "absent clients"),
        (Sleeping(of=SMALL), "sleeping experts"),
    ):
        with pytest.raises(
            Unsupported,
            match=f"follow_the_leader does not support {name}; "
            "choose one of .*doubling, follow_the_leader, .*hedge",
        ):
            run_study(StudyConfig("x", environment, entries))
        with pytest.raises(
            Unsupported,
            match=f"follow_the_leader does not support {name}; "
            "choose one of .*doubling, follow_the_leader, .*hedge",
        ):
            simulate(_Plain().build(SMALL.setting), environment, 0)


@dataclass(frozen=True)
class _Plain(AlgorithmSpec):
    def resolve(self, setting: Setting) -> Any:
        return replace(FollowTheLeader().build(setting), supports=frozenset())


@pytest.mark.parametrize(
    ("environment", "assumed"),
    [
        (SMALL, set()),
        (Absent(of=SMALL), {PUBLIC_PRESENCE}),
        (Sleeping(of=SMALL), {PUBLIC_SLEEP}),
        (Absent(of=Sleeping(of=SMALL)), {PUBLIC_PRESENCE, PUBLIC_SLEEP}),
        (Delayed(of=Absent(of=SMALL), rounds=2), {PUBLIC_PRESENCE, PUBLIC_DELAYS}),
    ],
    ids=["plain", "absent", "sleeping", "both", "late"],
)
def test_the_certificate_says_that_masks_are_not_protected(
    environment: Any, assumed: set[Any]
) -> None:
    entry = Entry("a", SparseVector())
    plain = SparseVector().build(SMALL.setting).certificate
    certificate = StudyConfig("x", environment, (entry,)).build(entry).certificate
    for guarantee, before in zip(certificate.guarantees, plain.guarantees, strict=True):
        assert guarantee.assumes - before.assumes == (assumed if guarantee.protects else set())
        assert guarantee.curve == before.curve
        stays = "; participation stays the same" if PUBLIC_PRESENCE in assumed else ""
        assert guarantee.adjacency == Event().adjacency() + stays
    if not assumed:
        assert certificate == plain


@pytest.mark.parametrize("trial", range(6))
def test_with_masks_neighbours_differ_by_one_vector_in_what_is_released(trial: int) -> None:
    """Queries and scores on the same outputs differ by at most their sensitivity; two replaced
    vectors would be noticed.
    """
    rng = np.random.default_rng(trial)
    losses = rng.integers(0, 2, (30, 3, 4)).astype(float)
    present = rng.random((30, 3)) < 0.7
    present[3, 1] = True
    awake = rng.random((30, 3, 4)) < 0.6
    awake |= ~awake.any(axis=-1, keepdims=True)
    losses[~present] = 0.0
    losses[3] = 0.0
    worlds = [losses, losses.copy(), losses.copy()]
    worlds[1][3, 1] = worlds[2][3, 1] = 1.0
    worlds[2][3, present[3]] = 1.0
    algorithm = SparseVector(epsilon=30.0, plan=Plan(4, 2.0)).build(Setting(3, 4, 30))
    ledgers: list[Ledger] = []
    for world in worlds:
        noise = RecordingNoise(SeededNoise(trial), ledgers[0] if ledgers else None)
        simulate(algorithm, Masked(world, awake, present), 0, noise=noise, fused=False)
        ledgers.append(noise.ledger)
    one, many = (_largest_difference(ledgers[0], other) for other in ledgers[1:])
    assert 0 < one <= 1.0
    assert present[3].sum() == 1 or many > 1.0


def _largest_difference(one: Ledger, other: Ledger) -> float:
    pairs = zip(one.releases, other.releases, strict=True)
    return max(
        float(np.max(np.abs(np.subtract(a.value, b.value)))) / a.mechanism.sensitivity
        for a, b in pairs
        if np.all(np.isfinite(a.value))
    )


# Studies


def test_masks_in_a_study_file() -> None:
    inner = {"name": "bernoulli", "clients": 2, "experts": 3, "horizon": 20}
    table: dict[str, Any] = {
        "seeds": 2,
        "environment": {"name": "absent", "rate": 0.5, "of": {"name": "sleeping", "of": inner}},
        "algorithms": [
            {"name": "hedge"},
            {"name": "uniform", "environment": {"of": {"of": {"clients": 1}}}},
        ],
    }
    config = study_from_table(table)
    bernoulli = Bernoulli(clients=2, experts=3, horizon=20)
    assert config.environment == Absent(rate=0.5, of=Sleeping(of=bernoulli))
    assert config.algorithms[1].environment == Absent(
        rate=0.5, of=Sleeping(of=replace(bernoulli, clients=1))
    )
    study = run_study(config, workers=1)
    assert list(study.streams()) == [
        "hedge",
        "uniform",
    ]  # what sleeps is charged what is paid, so each has comparators of its own
    for path, message in (
        ({"name": "absent"}, r"environment\.of is missing\. Give it a value\."),
        (
            {"name": "absent", "of": 3},
            r"Expected \[environment\.of\] to be a table with a name, got 3",
        ),
        (
            {"name": "absent", "of": {"name": "bernouli"}},
            "Unknown environment 'bernouli'; did you mean 'bernoulli'",
        ),
        (
            {"name": "absent", "of": {**inner, "clint": 2}},
            r"Unknown key environment\.of\.clint of \w+; did you mean 'clients'",
        ),
    ):
        with pytest.raises(InvalidValue, match=message):
            study_from_table({**table, "environment": path})


def test_what_differs_inside_names_a_stream() -> None:
    absent = Absent(of=SMALL)
    entries = (
        Entry("a", Uniform()),
        Entry("b", Uniform(), replace(absent, of=replace(SMALL, clients=1), rate=0.5)),
    )
    study = run_study(StudyConfig("x", absent, entries, 1), workers=1)
    assert list(study.streams()) == ["", "clients = 1, rate = 0.5"]


def test_a_checked_block_sums_what_is_answered_by_segments() -> None:
    awake = np.random.default_rng(1).random(LOSSES.shape) < 0.6
    awake |= ~awake.any(axis=-1, keepdims=True)
    plays = awake.argmax(axis=-1)
    block = check(Block(LOSSES, LOSSES, awake), Setting(2, 3, 12), 0, 12, (4, 5, 9))
    answered = block.answered(plays)
    assert np.array_equal(answered[awake], LOSSES[awake])
    paid = np.broadcast_to(np.take_along_axis(LOSSES, plays[..., None], axis=-1), LOSSES.shape)
    assert np.array_equal(answered[~awake], paid[~awake])
    parts = [answered[a:b].sum(axis=0) for a, b in ((0, 4), (4, 5), (5, 9), (9, 12))]
    assert np.array_equal(block.sums(plays) / 2**20, parts)


@pytest.mark.parametrize(
    "environment",
    [
        Sleeping(of=SMALL),
        Delayed(of=SMALL, rounds=2),
        PlayChasing(clients=3, experts=4, horizon=30),
    ],
)
def test_bounds_for_losses_fixed_in_advance_are_not_stated_elsewhere(environment: Any) -> None:
    """Where experts sleep, reports depend on the play: an expert that never loses can look bad, and
    a right guess is doubled.
    """
    spec = ProvenDoubling(plan=Plan(threshold=100.0))
    entry = Entry("a", spec)
    assert "wrong_doubling_at_most" in spec.build(environment.setting).parameters
    assert (
        "wrong_doubling_at_most"
        not in StudyConfig("x", environment, (entry,)).build(entry).parameters
    )


def test_late_reports_must_be_declared() -> None:
    @dataclass(frozen=True)
    class Secretly(Environment):
        of: Any

        @property
        def setting(self) -> Setting:
            return self.of.setting

        def start(self, seed: int) -> Any:
            return self.of.start(seed)

        def block(self, state: Any, rounds: int, past_plays: Any) -> Any:
            made, after = self.of.block(state, rounds, past_plays)
            return replace(made, reports=np.zeros_like(made.losses)), after

    with pytest.raises(
        InvalidValue, match="Secretly has late reports that its traits do not declare"
    ):
        simulate(SparseVector().build(SMALL.setting), Secretly(SMALL), 0)


def test_points_and_sleeping_experts_are_refused_with_what_to_do() -> None:
    """Nobody knows what a weight of an expert that sleeps would have cost."""
    told = (
        r"To combine forecasts, fill gaps instead: `hr\.Combining` takes the median of the others\."
    )
    forecasts = np.random.default_rng(1).random((6, 3, 4))
    table = ForecastTable(forecasts, np.ones((6, 3)))
    game = Sleeping(of=Combining(table))
    with pytest.raises(Unsupported, match=f"private_mixture does not support sleeping .*{told}"):
        simulate(PrivateMixture().build(game.setting), game, 1)
    awake = np.ones((2, 3, 4), bool)
    with pytest.raises(InvalidValue, match=f"this one plays points. {told}"):
        Block(forecasts[:2], forecasts[:2], awake).answered(Plays.of(forecasts[:2]))
    filled = table.forecasts.copy()
    filled[:, :, 0] = np.nan
    gaps = Combining(ForecastTable(filled, np.ones((6, 3))))
    simulate(PrivateMixture().build(gaps.setting), gaps, 1)  # as it says


def test_people_come_often_or_rarely_and_never_together() -> None:
    """The same visits whatever the blocks; the law of their number; losses seen only then."""
    plain = Bernoulli(clients=4, experts=3, horizon=20_000)
    game = Visits(of=plain, people=500, most=50)
    made = _whole(game)
    assert np.array_equal(made.reports, _whole(game, block=777).reports)
    assert np.array_equal(made.losses, _whole(plain).losses)
    seen, who = who_came(made.reports)
    assert np.array_equal(seen[who >= 0], made.losses[who >= 0])
    assert not seen[who < 0].any()
    often = np.stack([np.bincount(who[:, i][who[:, i] >= 0], minlength=500) for i in range(4)])
    assert (often.min(), often.max(), often.shape) == (2, 50, (4, 500))
    for more in (2, 4, 9, 20):  # 2 + k visits or more: a chance of 1 / (1 + k)
        count = int((often >= more + 2).sum())
        assert stats.binomtest(count, often.size, 1 / (1 + more)).pvalue > 1e-4
    crowded = _whole(Visits(of=SMALL, people=300, most=100))
    assert (who_came(crowded.reports)[1] >= 0).all()  # more visits than rounds: some are left out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"of": SMALL, "people": 0}, "people=0"),
        ({"of": SMALL, "most": 1}, "most=1"),
        ({"of": Absent(of=SMALL)}, "cannot wrap an environment with absent clients"),
        ({"of": Visits(of=SMALL)}, "cannot wrap an environment with people behind records"),
    ],
)
def test_games_in_which_nobody_can_come(given: Any, words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        Visits(**given)

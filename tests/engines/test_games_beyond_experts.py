"""Games without a horizon, with side information, with some reporters, and learners after their end."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.baselines.gradient_descent import Descent
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.core.block import Block, Side
from hedgerow.core.certificate import Channel, not_private
from hedgerow.core.environment import Feature
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.limits import Broadcasts, Uploads
from hedgerow.core.messages import Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.engines.simulate import simulate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.run import run_study
from support.followers import Decider, Leader, Reporting, Told, Totals
from support.played import plays_of, seen_in

RNG = np.random.default_rng(0)


def test_an_anytime_algorithm_plays_the_same_with_and_without_a_horizon() -> None:
    game = hr.Bernoulli(clients=3, experts=4, horizon=50)
    open_ended = hr.FollowTheLeader().build(replace(game.setting, horizon=None))
    assert open_ended.setting.horizon is None
    plays = []
    for algorithm in (hr.FollowTheLeader().build(game.setting), open_ended):
        kept = seen_in(algorithm, game, 3)
        plays.append(kept.all_plays())
    assert np.array_equal(*plays)


def test_an_algorithm_that_needs_a_horizon_says_so() -> None:
    with pytest.raises(Unsupported, match="SparseVector needs a horizon"):
        hr.SparseVector().build(Setting(2, 3, None))
    with pytest.raises(Unsupported, match="Hedge needs a horizon"):
        hr.Learner(hr.Hedge(), clients=2, experts=3)
    with pytest.raises(InvalidValue, match="no horizon"):
        _ = Setting(2, 3, None).rounds


def test_a_part_of_a_game_can_be_played() -> None:
    game = hr.Bernoulli(clients=3, experts=4, horizon=50)
    algorithm = hr.FollowTheLeader().build(game.setting)
    assert simulate(algorithm, game, 0, rounds=20).played == 20
    with pytest.raises(InvalidValue, match="rounds=51"):
        simulate(algorithm, game, 0, rounds=51)


def test_a_game_without_a_horizon_needs_a_number_of_rounds() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Endless(hr.Bernoulli):
        @property
        def setting(self) -> Setting:
            return Setting(self.clients, self.experts, None)

    game = Endless(clients=2, experts=3, horizon=10**6)
    algorithm = hr.FollowTheLeader().build(game.setting)
    with pytest.raises(InvalidValue, match="no horizon"):
        simulate(algorithm, game, 0)
    assert simulate(algorithm, game, 0, rounds=30).played == 30


def test_a_learner_without_a_horizon_goes_on() -> None:
    learner = hr.Learner(hr.FollowTheLeader(), clients=1, experts=2)
    for _ in range(100):
        learner.predict()
        learner.observe([[1.0, 0.0]])
    assert not learner.over
    assert learner.predict().tolist() == [1]


@pytest.mark.parametrize("private", [False, True])
def test_a_learner_goes_on_after_its_horizon_with_its_last_plays(private: bool) -> None:
    size: dict[str, Any] = {"clients": 2, "experts": 3, "horizon": 4}
    learner = (
        hr.Learner.private(hr.SparseVector(), **size, source=hr.SecureNoise())
        if private
        else hr.Learner(hr.Uniform(), **size)
    )
    last = np.zeros(0)
    for _ in range(4):
        last = learner.predict()
        learner.observe(np.ones((2, 3)))
    assert learner.over
    assert "over" in repr(learner)
    state = learner._at.run
    with pytest.warns(UserWarning, match=r"reached its horizon \(4 rounds\)"):
        learner.predict()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        for _ in range(20):
            assert np.array_equal(learner.predict(), last)
            learner.observe(RNG.random((2, 3)))
    assert learner.round == 4
    assert learner._at.run is state  # no release was made and nothing was learned


def test_a_learner_before_its_end_does_not_warn() -> None:
    learner = hr.Learner(hr.Uniform(), clients=2, experts=3, horizon=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            learner.predict()
            learner.observe(np.ones((2, 3)))


def test_a_learner_of_points_takes_records_of_its_family() -> None:
    learner = hr.Learner(hr.GradientDescent(), clients=2, experts=3, family=hr.Logistic(radius=2.0))
    assert learner.predict().shape == (2, 3)
    with pytest.raises(InvalidValue, match=r"records of shape \(2, 4\), one for each client"):
        learner.observe(np.zeros((2, 3)))
    with pytest.raises(InvalidValue, match="client 1"):
        learner.observe([[0.5, 0, 0, 1], [0.5, 0, 0, 0.5]])
    learner.observe([[0.5, 0, 0, 1], [0.5, 0, 0, -1]])
    assert np.isfinite(learner.predict()).all()


# An algorithm that uses what is public: clients report their number scaled by a public size.


@dataclass(frozen=True)
class Scaled(Upload):
    number: np.ndarray


@dataclass(frozen=True)
class Seen:
    number: np.ndarray


@dataclass(frozen=True)
class Hospital(Reporting):
    state: ClassVar[type[Any]] = Seen

    def start(self, noise: Noise) -> Seen:
        return Seen(np.zeros((*noise.batch, 1)))

    def observe(
        self, state: Seen, reports: np.ndarray, noise: Noise, side: Side | None = None
    ) -> Seen:
        assert side is not None
        number = reports
        if side.values is not None:
            number = number * side.values[..., :1]
        if side.reporting is not None:
            number = np.where(np.asarray(side.reporting)[..., None], number, 0.0)
        return Seen(number)

    def upload(self, state: Seen, noise: Noise) -> tuple[Scaled, Seen]:
        return Scaled(state.number), state


@dataclass(frozen=True)
class Office:
    state: ClassVar[type[Any]] = Totals

    hospitals: int

    def open(self, noise: Noise) -> tuple[Leader, Totals]:
        return Leader(1, 0), Totals(np.zeros(self.hospitals))

    def aggregate(self, state: Totals, uploads: Scaled, noise: Noise) -> tuple[Leader, Totals]:
        totals = state.totals + uploads.number[:, 0]
        return Leader(1, int(np.argmax(totals))), Totals(totals)


@dataclass(frozen=True)
class Ministry(Decider):
    def play(self, state: Told, context: Context, noise: Noise) -> tuple[np.ndarray, Told]:
        assert context.side is not None  # public to everybody
        return super().play(state, context, noise)


@dataclass(frozen=True)
class Silo(AlgorithmSpec):
    traits: ClassVar[SpecTraits] = SpecTraits(anytime=True, families=(hr.Gains,))

    def resolve(self, setting: Setting) -> Algorithm:
        return Algorithm(
            "silo",
            setting,
            Hospital(),
            Office(setting.clients),
            not_private(
                "exact",
                {
                    "Scaled.number": Channel.UPLOADS,
                    "Leader.rounds": Channel.TIMING,
                    "Leader.expert": Channel.BROADCASTS,
                },
            ),
            uploads=Uploads(Scaled, combine="each"),
            broadcasts=Broadcasts(Leader),
            decider=Ministry(),
            supports=frozenset({Feature.SIDE_INFORMATION, Feature.SOME_REPORT}),
        )


def _silo(rounds: int = 30, hospitals: int = 4) -> hr.Replay:
    rng = np.random.default_rng(1)
    gains = rng.integers(0, 5, (rounds, hospitals)).astype(float)
    beds = rng.integers(1, 9, (rounds, hospitals, 1)).astype(float)
    reporting = rng.random((rounds, hospitals)) < 0.6
    return hr.Replay(
        gains[:, None, :],
        hr.Gains(high=4.0),
        reports=np.where(reporting, gains, 0.0)[..., None],
        side=beds,
        reporting=reporting,
    )


def test_side_information_and_reporters_reach_clients_and_deciders() -> None:
    game = _silo()
    algorithm = Silo().build(game.setting)
    plays = []
    for engine in ("vectorised", "in_process"):
        for block in (None, 7):
            kept = seen_in(algorithm, game, engine=engine, block_rounds=block)
            plays.append(kept.all_plays())
    assert all(np.array_equal(plays[0], other) for other in plays[1:])
    assert game.reports is not None
    assert game.side is not None
    totals = np.cumsum(game.reports[..., 0] * game.side[..., 0], axis=0)
    expected = np.append(0, np.argmax(totals, axis=1)[:-1])
    assert np.array_equal(plays[0][:, 0], expected)


def test_a_study_of_a_silo_has_regret_gain_and_a_picture(tmp_path: Any) -> None:
    game = _silo()
    study = hr.run(game, {"office": Silo()}, seeds=1)
    result = study["office"].results[0]
    gains = game.records[:, 0]
    kept = seen_in(Silo(), game)
    earned = gains[np.arange(len(gains)), kept.all_plays()[:, 0]].sum()
    assert result.figures["gain"][-1] == pytest.approx(earned)
    assert result.final_regret == pytest.approx(gains.sum(axis=0).max() - earned)
    assert "gain" in str(study)
    study.plot(tmp_path / "regret.png")
    assert (tmp_path / "regret.png").stat().st_size > 10_000


def test_a_learner_of_a_silo_is_told_what_is_public() -> None:
    learner = hr.Learner(Silo(), clients=2, experts=2, deciders=1, family=hr.Gains(high=4.0))
    for _ in range(3):
        learner.predict(side=[[1.0], [8.0]], reporting=[True, True])
        learner.observe([[3.0], [1.0]])
    assert learner.predict(side=[[1.0], [8.0]], reporting=[True, False]).tolist() == [1]
    with pytest.raises(InvalidValue, match="Client 1 does not report"):
        learner.observe([[3.0], [1.0]])
    learner.observe([[3.0], [0.0]])


def test_public_information_that_an_algorithm_does_not_use_is_refused() -> None:
    learner = hr.Learner(hr.FollowTheLeader(), clients=2, experts=2)
    with pytest.raises(Unsupported, match="public side information"):
        learner.predict(side=[[1.0], [2.0]])


def test_mismatches_are_refused_when_a_study_is_built() -> None:
    silo, game = _silo(), hr.Bernoulli(clients=3, experts=4, horizon=20)
    played: list[Any] = []
    cases = (
        (game, Silo(), "Silo does not support the loss family Linear"),
        (silo, hr.Hedge(), "Hedge does not support the loss family Gains"),
        (hr.Regression(horizon=9), hr.SparseVector(), "SparseVector does not support the loss"),
        (silo, hr.Uniform(), "uniform lets the clients play"),
    )
    for environment, spec, text in cases:
        entries = (Entry("fits", hr.Uniform(), game), Entry("does not fit", spec))
        config = StudyConfig("mixed", environment, entries, seeds=2)
        with pytest.raises(Unsupported, match=text):
            run_study(config, progress=lambda done, total: played.append(done))
    assert not played


def test_a_game_is_checked_when_it_is_built() -> None:
    game, gains = _silo(), hr.Gains(high=4.0)
    given: dict[str, Any] = {
        "reports": game.reports,
        "side": game.side,
        "reporting": game.reporting,
    }
    for wrong, text in (
        ({"reports": np.ones_like(game.reports)}, "does not report"),
        ({"side": np.full_like(game.side, np.nan)}, "finite side information"),
        ({"side": np.ones((30, 3, 1))}, "side of shape"),
        ({"side": np.ones((29, 4, 1))}, "side of 30 rounds"),
        ({"reporting": np.ones((30, 4))}, "reporting to be boolean"),
        ({"reports": np.ones((30, 4))}, "reports of shape"),
        ({"reports": 9 * np.ones_like(game.reports), "reporting": None}, r"in \[0.0, 4.0\]"),
    ):
        with pytest.raises(InvalidValue, match=text):
            hr.Replay(game.records, gains, **{**given, **wrong})
    with pytest.raises(InvalidValue, match=r"in \[0.0, 3.0\]"):
        hr.Replay(game.records, hr.Gains(high=3.0), **given)
    with pytest.raises(InvalidValue, match="no empty axis"):
        hr.Replay(np.zeros((0, 1, 2)))
    for family in ("logistic", hr.Logistic):
        with pytest.raises(InvalidValue, match="a loss family such as"):
            hr.Replay(game.records, family)  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidValue, match="a loss family such as"):
            Setting(2, 3, 4, family=family)  # pyright: ignore[reportArgumentType]


def test_clients_that_play_may_report_only_sometimes() -> None:
    """Reports that are zero because a client does not report are not late."""
    rng = np.random.default_rng(4)
    losses, reporting = rng.random((12, 2, 3)), rng.random((12, 2)) < 0.5

    class Game(hr.Replay):
        def block(self, state: int, rounds: int, past_plays: Any) -> tuple[Block, int]:
            block, after = super().block(state, rounds, past_plays)
            assert block.reporting is not None
            own = np.where(block.reporting[..., None], block.losses, 0.0)
            return replace(block, reports=own), after

    game = Game(losses, reporting=reporting)
    algorithm = hr.FollowTheLeader().build(game.setting)
    plain = replace(algorithm, shortcuts=replace(algorithm.shortcuts, advance=None))
    able = replace(plain, supports=algorithm.supports | {Feature.SOME_REPORT})
    with pytest.raises(TypeError, match="observe"):  # it reaches clients that do not take it
        simulate(able, game, 0)


def test_what_an_algorithm_needs_is_named() -> None:
    silo = _silo()
    plain = hr.Replay(silo.records, hr.Gains(high=4.0), reports=silo.reports)
    needy = replace(Silo().build(plain.setting), needs=frozenset({Feature.SIDE_INFORMATION}))
    with pytest.raises(Unsupported, match="silo needs public side information"):
        simulate(needy, plain, 0)


def test_deciders_that_an_algorithm_does_not_have_are_refused() -> None:
    size: dict[str, Any] = {"clients": 2, "experts": 3, "horizon": 5}
    with pytest.raises(Unsupported, match="lets the clients play"):
        hr.Learner.private(hr.SparseVector(), **size, deciders=7, source=hr.SecureNoise())
    with pytest.raises(Unsupported, match="needs separate deciders"):
        hr.Learner(Silo(), clients=2, experts=2, family=hr.Gains())


def test_wrong_public_information_does_not_stop_a_learner() -> None:
    learner = hr.Learner(Silo(), clients=2, experts=2, deciders=1, family=hr.Gains(high=4.0))
    for side, text in (
        ([[1.0]], r"side of shape \(2, k\)"),
        ([1.0, 2.0], r"side of shape \(2, k\)"),
        ([[1.0], [np.nan]], "finite"),
    ):
        with pytest.raises(InvalidValue, match=text):
            learner.predict(side=side)
    with pytest.raises(InvalidValue, match="True or False"):
        learner.predict(reporting=[0.5, 1.0])
    good = [[1.0], [8.0]]
    learner.predict(side=good)
    learner.predict()  # the same round again
    learner.predict(side=good)
    with pytest.raises(InvalidValue, match="already played with other public information"):
        learner.predict(side=[[2.0], [8.0]])
    learner.observe([[3.0], [1.0]])
    learner.predict(side=good)
    with pytest.raises(InvalidValue, match=r"records of shape \(2, 1\)"):
        learner.observe([[3.0, 1.0], [1.0, 2.0]])


def test_a_learner_states_what_is_public() -> None:
    learner = hr.Learner(Silo(), clients=2, experts=2, deciders=1, family=hr.Gains(high=4.0))
    assert "deciders=1" in repr(learner)
    assert "Gains" in repr(learner)
    kept = learner.algorithm.in_game(_silo().traits).certificate
    assert learner.certificate == kept


def test_a_private_learner_shows_no_record_in_errors() -> None:
    learner = hr.Learner.private(
        hr.SparseVector(), clients=1, experts=2, horizon=4, source=hr.SecureNoise()
    )
    learner.predict()
    with pytest.raises(InvalidValue) as caught:
        learner.observe([[0.1, "secret"]])
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_game_that_ends_early_has_curves_of_one_length() -> None:
    from hedgerow.evaluation.recorder import Recorder

    game = hr.Bernoulli(clients=2, experts=3, horizon=40)
    recorder = Recorder(game.setting)
    algorithm = hr.FollowTheLeader().build(game.setting)
    counters = simulate(algorithm, game, 0, sinks=[recorder], rounds=10)
    result = recorder.result("x", 0, counters)
    assert len(result.rounds) == len(result.loss) == len(result.regret) == 10
    open_ended = Recorder(replace(game.setting, horizon=None), rounds=10)
    assert open_ended.marks == tuple(range(1, 11))


def test_reports_are_checked_where_a_decider_is_absent() -> None:
    from hedgerow.core.block import check

    setting = Setting(3, 3, 1, deciders=1, family=hr.Gains(high=4.0))
    wrong = Block(np.zeros((1, 1, 3)), np.full((1, 3, 1), 99.0), present=np.zeros((1, 1), np.bool_))
    with pytest.raises(InvalidValue, match=r"in \[0.0, 4.0\]"):
        check(wrong, setting, 0, 1)


def test_a_block_of_a_million_clients_is_short() -> None:
    """One decider does not make blocks long where many clients report."""
    assert Setting(10**6, 10, 50, deciders=1).numbers == 10**7


def test_public_information_must_be_declared() -> None:
    class Secretly(hr.Replay):
        @property
        def traits(self) -> Any:
            return replace(super().traits, features=frozenset())

    game = _silo()
    hidden = Secretly(game.records, hr.Gains(high=4.0), reports=game.reports, side=game.side)
    with pytest.raises(InvalidValue, match="public side information that its traits"):
        simulate(Silo().build(hidden.setting), hidden, 0)


def test_points_outside_their_domain_are_refused() -> None:
    game = hr.Regression(clients=2, features=3, horizon=9, radius=1.0)
    algorithm = hr.GradientDescent().build(game.setting)
    wide = Descent(3, 2, Schedule(1), 90.0, hr.SquaredError(radius=50.0, target=4.0))
    with pytest.raises(InvalidValue, match=r"a point of Ball\(radius=1.0\)"):
        simulate(replace(algorithm, server=wide), game, 0)


def test_fast_paths_for_points_agree_with_the_plain_loop() -> None:
    game = hr.Classification(clients=3, features=4, horizon=60)
    for every in (1, 7):
        algorithm = hr.GradientDescent(every=every, early=False).build(game.setting)
        plays = []
        for fused, block in ((True, None), (False, None), (True, 11)):
            plays.append(plays_of(algorithm, game, fused=fused, block_rounds=block))
        assert np.array_equal(plays[0], plays[1])
        assert np.array_equal(plays[0], plays[2])
        assert len(np.unique(plays[0][:, 0], axis=0)) == -(-60 // every)


def test_a_block_of_silos_may_be_advanced_at_once() -> None:
    """A fused path gets whole blocks also where the deciders are not the clients."""
    game, seen = _silo(), list[Block]()
    algorithm = Silo().build(game.setting)

    def advance(run: Any, block: Block, source: Any) -> Any:
        seen.append(block)
        raise InvalidValue("reached")

    with pytest.raises(InvalidValue, match="reached"):
        simulate(
            replace(algorithm, shortcuts=replace(algorithm.shortcuts, advance=advance)), game, 0
        )
    assert seen[0].side is not None

"""Regret of points against the best point of the whole game, and regret of gains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from hedgerow.core.block import Block, check
from hedgerow.core.convex import CrossEntropy, Huber, Logistic, SquaredError
from hedgerow.core.environment import Environment, Feature, Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array, round_to_lattice, to_units
from hedgerow.core.losses import Family, Gains
from hedgerow.core.protocol import Claims
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Counters, Plays, Traffic
from hedgerow.evaluation.best_point import best_point
from hedgerow.evaluation.recorder import Recorder, RunResult
from hedgerow.studies import run as module
from support.played import run_one

COUNTERS = Counters(2, 2, Traffic(3, 40, 1, 30))
FAMILIES: tuple[Family, ...] = (
    SquaredError(radius=0.5),
    Huber(radius=3.0, threshold=0.1),
    Logistic(radius=2.0),
    CrossEntropy(floor=0.1),
)


def _game(family: Family, rounds: int = 23, clients: int = 3) -> tuple[Array, Array]:
    """Records and plays of three coordinates."""
    rng = np.random.default_rng(rounds)
    if isinstance(family, CrossEntropy):
        return (rng.dirichlet(np.ones(3), size=(rounds, clients)) for _ in range(2))  # pyright: ignore[reportReturnType]
    records = rng.normal(size=(rounds, clients, 4))
    if isinstance(family, Logistic):
        records[..., -1] = np.sign(records[..., -1] + records[..., 0])
    plays = family.domain.project(rng.normal(size=(rounds, clients, 3)))
    return family.clip(records).records, plays


def _recorded(
    family: Family, records: Array, plays: np.ndarray, block: int, present: Any = None, **more: Any
) -> RunResult:
    setting = Setting(records.shape[1], 3, len(records))
    recorder = Recorder(replace(setting, family=family), **more)
    for first in range(0, len(records), block):
        here = slice(first, first + block)
        part = Block(
            records[here], records[here], None, present if present is None else present[here]
        )
        recorder.rounds(first, part, Plays.of(plays[here]))
    return recorder.result("x", 0, COUNTERS)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize("block", [1, 4, 23])
@pytest.mark.parametrize("points", [1, 5, 500])
def test_regret_is_the_loss_less_that_of_the_best_point(
    family: Family, block: int, points: int
) -> None:
    records, plays = _game(family)
    result = _recorded(family, records, plays, block, points=points)
    best = best_point(family, 3, lambda: [records])
    rival = np.broadcast_to(best.point, (23, 3, 3))
    paid = family.value(records, plays).sum(axis=1).cumsum() / 3
    other = family.value(records, rival).sum(axis=1).cumsum() / 3
    at = result.rounds - 1
    assert len(at) == min(points, 23)
    assert result.loss == pytest.approx(paid[at], rel=1e-12)
    assert result.regret == pytest.approx((paid - other)[at], rel=1e-9, abs=1e-9)
    assert result.regret_error == pytest.approx(best.gap / 3, rel=1e-3, abs=1e-12)
    assert 0 < result.regret_error <= 1e-6 * 23
    assert list(result.comparators) == ["best point"]
    assert result.comparators["best point"] == pytest.approx(other[-1], rel=1e-9)
    assert np.isnan(result.own_best_regret)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_no_point_regrets_less_than_nothing_and_the_best_regrets_nothing(family: Family) -> None:
    records, _ = _game(family)
    best = best_point(family, 3, lambda: [records]).point
    for play, regrets in ((best, False), (family.domain.linear_minimum(best)[0], True)):
        result = _recorded(family, records, np.broadcast_to(play, (23, 3, 3)), 7)
        assert result.final_regret + result.regret_error >= 0
        assert (result.final_regret > 1e-3) == regrets
        assert regrets or abs(result.final_regret) < 1e-12 * 23


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_absent_clients_pay_nothing_and_are_not_compared(family: Family) -> None:
    records, plays = _game(family)
    present = np.random.default_rng(0).random((23, 3)) < 0.6
    plays = np.where(present[..., None], plays, np.nan)
    masked = np.where(present[..., None], records, 0.0)
    result = _recorded(family, masked, plays, 4, present)
    paid = family.value(records[present], plays[present]).sum() / 3
    best = best_point(family, 3, lambda: [records[present]])
    assert result.loss[-1] == pytest.approx(paid)
    assert result.final_regret == pytest.approx(paid - best.total / 3, abs=1e-9)


@pytest.mark.parametrize("size", [1, 6, 23])
def test_a_replay_gives_the_same_result_as_kept_records(size: int) -> None:
    family = Logistic(radius=2.0)
    records, plays = _game(family)
    calls = 0

    def replay() -> Iterator[Block]:
        nonlocal calls
        calls += 1
        yield from (Block.of(records[s : s + size]) for s in range(0, 23, size))

    kept = _recorded(family, records, plays, 4)
    played = _recorded(family, records, plays, 4, replay=replay)
    assert calls > 1
    assert played.regret == pytest.approx(kept.regret, rel=1e-9)
    assert played.comparators == pytest.approx(kept.comparators, rel=1e-12)
    # and it is truly what the regret is measured with
    faint = records * [0.1, 0.1, 0.1, 1.0]
    other = _recorded(family, records, plays, 4, replay=lambda: [Block.of(faint)])
    assert abs(other.final_regret - kept.final_regret) > 0.1


def test_only_the_rounds_that_were_played_are_compared() -> None:
    family = SquaredError(radius=0.5)
    records, plays = _game(family)
    recorder = Recorder(Setting(3, 3, 23, family=family), replay=lambda: [Block.of(records)])
    recorder.rounds(0, Block.of(records[:9]), Plays.of(plays[:9]))
    best = best_point(family, 3, lambda: [records[:9]])
    assert recorder.comparators()["best point"] == pytest.approx(best.total / 3)
    result = recorder.result("x", 0, COUNTERS)
    assert len(result.regret) == 9
    empty = Recorder(Setting(3, 3, 23, family=family)).result("x", 0, COUNTERS)
    assert (empty.comparators, len(empty.regret), empty.regret_error) == ({}, 0, 0.0)


def test_linear_losses_have_no_error() -> None:
    losses = round_to_lattice(np.random.default_rng(0).random((8, 2, 3)))
    block = check(Block.of(losses), Setting(2, 3, 8), 0, 8, range(1, 9))
    recorder = Recorder(Setting(2, 3, 8))
    recorder.rounds(0, block, np.zeros((8, 2), int))
    assert recorder.result("x", 0, COUNTERS).regret_error == 0.0


# Gains


def _earned(gains: Array, plays: np.ndarray, family: Gains, awake: Any = None) -> RunResult:
    rounds, clients, experts = gains.shape
    recorder = Recorder(
        Setting(clients, experts, rounds, family=family), points=rounds, switches=(2,)
    )
    segments, cuts = to_units(gains), tuple(range(1, rounds + 1))
    block = Block(gains, gains, awake, segments=segments, cuts=cuts)
    recorder.rounds(0, block, Plays.of(plays) if plays.ndim == 3 else plays)
    return recorder.result("x", 0, COUNTERS)


def test_the_regret_of_gains_is_what_the_best_expert_earned_more() -> None:
    rng = np.random.default_rng(1)
    family = Gains(low=-2.0, high=(1.0, 8.0, 3.0))
    gains = family.clip(rng.uniform(-3, 9, size=(11, 2, 3))).records
    plays = rng.integers(3, size=(11, 2))
    result = _earned(gains, plays, family)
    own = np.take_along_axis(gains, plays[..., None], axis=2).sum(axis=(1, 2)).cumsum()
    best = gains.sum(axis=1).cumsum(axis=0).max(axis=1)
    assert result.loss.tolist() == (-own / 2).tolist()
    assert result.regret.tolist() == ((best - own) / 2).tolist()  # exact
    assert result.own_best_regret == (gains.sum(axis=0).max(axis=1).sum() - own[-1]) / 2
    assert result.comparators["best expert"] == -best[-1] / 2
    assert result.comparators["a random expert"] == pytest.approx(-gains.mean(axis=2).sum() / 2)
    assert result.comparators["best with 2 switches"] <= result.comparators["best expert"]
    assert result.regret_error == 0.0


def test_gains_are_losses_with_the_sign_turned() -> None:
    """gain = 1 - loss: the same regrets, also where experts sleep and points are played."""
    rng = np.random.default_rng(2)
    losses = round_to_lattice(rng.random((9, 2, 4)))
    awake = rng.random((9, 2, 4)) < 0.7
    awake[..., 0] = True
    plays = np.argmax(awake * rng.random(awake.shape), axis=-1)
    setting = Setting(2, 4, 9)
    for mask, played in (
        (None, plays),
        (awake, plays),
        (None, rng.dirichlet(np.ones(4), size=(9, 2))),
    ):
        recorder = Recorder(setting, points=9, switches=(2,))
        block = check(Block(losses, losses, mask), setting, 0, 9, range(1, 10))
        recorder.rounds(0, block, Plays.of(played) if played.ndim == 3 else played)
        lost = recorder.result("x", 0, COUNTERS)
        earned = _earned(1.0 - losses, played, Gains(), mask)
        assert earned.regret == pytest.approx(lost.regret, abs=1e-12)
        assert earned.own_best_regret == pytest.approx(lost.own_best_regret, abs=1e-12)
        for name, loss in lost.comparators.items():
            assert earned.comparators[name] == pytest.approx(loss - 9, abs=1e-6)


def test_sums_of_gains_arrive_in_spans() -> None:
    recorder = Recorder(Setting(2, 3, 6, family=Gains(0.0, 4.0)), points=1)
    recorder.span(0, 6, 1, to_units(np.array([8.0, 24.0, 30.0])))
    result = recorder.result("x", 0, COUNTERS)
    assert (result.loss.tolist(), result.final_regret) == ([-12.0], 3.0)


def test_games_too_long_for_exact_sums_of_gains_are_refused() -> None:
    Recorder(Setting(2**10, 3, 2**22, family=Gains(0.0, 1024.0)), points=2)
    with pytest.raises(InvalidValue, match=r"clients \* horizon \* largest gain"):
        Recorder(Setting(2**10, 3, 2**23, family=Gains(0.0, 1024.0)), points=2)


# In a study


@dataclass(frozen=True)
class Stream(Environment):
    """Fresh records of one client, drawn round by round."""

    of: Family
    sees: bool = False

    @property
    def setting(self) -> Setting:
        return Setting(2, 3, 40, family=self.of)

    @property
    def traits(self) -> Traits:
        return Traits(sees_plays=self.sees, features=frozenset({Feature.LATE_REPORTS}))

    def start(self, seed: int) -> tuple[int, int]:
        return seed, 0

    def block(
        self, state: tuple[int, int], rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, tuple[int, int]]:
        seed, first = state
        records, _ = _game(self.family, 40 + seed, 2)
        return Block.of(records[first : first + rounds]), (seed, first + rounds)


@pytest.mark.parametrize("sees", [False, True])
def test_a_study_replays_the_stream_where_it_can(
    sees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = Stream(Logistic(radius=2.0), sees)
    given: list[Any] = []

    def played(players: Any, environment: Any, seeds: Any, **more: Any) -> list[list[Counters]]:
        """Plays zeros."""
        (((player,),), (seed,)) = (players, seeds)
        sinks = player.sinks
        records = _game(environment.family, 40 + seed, 2)[0]
        sinks[0].rounds(0, Block.of(records[:40]), Plays.of(np.zeros((40, 2, 3))))
        given.append(sinks[0]._replay)
        return [[COUNTERS]]

    monkeypatch.setattr(module, "simulate_together", played)
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", 60)

    class Built:
        setting = environment.setting
        measures = None
        claims = Claims()

    result, _ = run_one(Built(), environment, "zeros", 3)  # pyright: ignore[reportArgumentType]
    assert (given[0] is None) == sees
    records, _ = _game(environment.family, 43, 2)
    best = best_point(environment.family, 3, lambda: [records[:40]])
    assert result.loss[-1] == pytest.approx(np.log(2) * 40)
    assert result.final_regret == pytest.approx(np.log(2) * 40 - best.total / 2)
    assert result.comparators["best point"] == pytest.approx(best.total / 2)

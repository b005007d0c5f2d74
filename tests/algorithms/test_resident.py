"""Whole games on the device play what the plain loop plays with the same counted noise."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.learning import playing, resident
from hedgerow.algorithms.learning.online_sgd import OnlineSGD
from hedgerow.algorithms.learning.plan import Plan
from hedgerow.algorithms.learning.rounds import margin, norm
from hedgerow.core.block import Block
from hedgerow.core.counted import lanes_of_row, words
from hedgerow.core.extras import need_jax
from hedgerow.core.noise import COUNTED, NoNoise, SeededNoise
from hedgerow.core.transcript import Everything, Sink, charges
from hedgerow.engines.loop import Engine, WholeGame
from hedgerow.engines.simulate import Player, make_engine, simulate_together
from hedgerow.evaluation.recorder import Recorder

ROUNDS, CLIENTS, SIZE = 23, 3, 2
CLOSE = 3e-6  # of what is paid, and of the largest weight: some rounding errors of 24 bits
# Local steps, and clips that hardly clip, carry rounding errors of one gradient on to the next.
# A step of the lattice, to which a product is not rounded, is larger beside a short clip.
FAR = 2e-5

CHOICES: dict[str, dict[str, Any]] = {
    "blt": {},
    **{
        kind: {"plan": Plan(factorisation=kind)}
        for kind in ("independent", "tree", "naive_tree", "banded", "epochs", "root", "dense")
    },
    "matched, average": {"plan": Plan(factorisation="matched"), "average": 0.8},
    "central": {"trust": "central"},
    "central, tree": {"trust": "central", "plan": Plan(factorisation="tree")},
    "distributed": {"trust": "distributed"},
    "average, momentum": {"average": 0.8, "plan": Plan(momentum=0.5)},
    "no noise": {"epsilon": inf, "plan": Plan(momentum=0.5)},
    "clipped": {"plan": Plan("clipped"), "average": 0.8},
    "long gradients": {"clip": 300.0, "step": 1e-3},
    "short clip": {"clip": 0.05, "step": 5.0},
}


def squares(params: Any, pair: Any) -> Any:
    """A small network whose gradients are not bounded."""
    features, target = pair
    hidden = (features @ params["in"]).clip(0)
    return 100.0 * (hidden @ params["out"] - target) ** 2


def game_of(kind: str, rounds: int = ROUNDS) -> hr.Replay:
    rng = np.random.default_rng(1)
    records = rng.normal(size=(rounds, CLIENTS, SIZE, 5))
    if kind == "network":
        params = {"in": rng.normal(size=(4, 3)), "out": rng.normal(size=3)}
        family: Any = hr.Model(squares, params, features=(4,))
    else:
        family = hr.Logistic(radius=2.0)
        records[..., :-1] /= np.linalg.norm(records[..., :-1], axis=-1, keepdims=True)
        records[..., -1] = np.sign(records[..., 0])
    return hr.Replay(records.reshape(rounds, CLIENTS, -1), hr.Batch(family, SIZE))


class Shuffled(hr.Replay):
    """The same rounds in another order for every seed."""

    def __init__(self, game: hr.Replay) -> None:
        super().__init__(game.records, game.family)

    def start(self, seed: int) -> Any:
        return 0, np.random.default_rng(seed).permutation(len(self.records))

    def block(self, state: Any, rounds: int, past_plays: Any) -> Any:
        at, order = state if state else (0, np.arange(rounds))  # 0: when it is made
        return Block.of(self.records[order[at : at + rounds]]), (at + rounds, order)


class Watched(Sink):
    """What is paid and played in every round."""

    def __init__(self, family: Any) -> None:
        self.family, self.paid, self.plays = family, np.zeros(0), list[np.ndarray]()

    def rounds(self, first_round: int, block: Any, plays: Any) -> None:
        self.paid = np.append(self.paid, charges(self.family, block.losses, plays))
        self.plays += [plays.at(k)[0] for k in range(plays.rounds)]


def played(spec: Any, game: hr.Replay, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    watched = Watched(game.setting.family)
    hr.simulate(spec.build(game.setting), game, 3, sinks=[watched], **options)
    return watched.paid, np.array(watched.plays)


NETWORK = ("blt", "dense", "central", "average, momentum", "clipped", "long gradients")
LONG = {  # each compiles a game whose filter is of the kind of another one
    *(("logistic", name) for name in ("independent", "naive_tree", "root", "central, tree")),
    *(("network", name) for name in ("blt", "dense", "central")),
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(*case, marks=pytest.mark.long if case in LONG else ())
        for case in [("logistic", x) for x in CHOICES] + [("network", x) for x in NETWORK]
    ],
)
def test_a_resident_game_agrees_with_the_plain_loop(kind: str, name: str) -> None:
    """The stated tolerance, for every factorisation, trust, average, momentum and kind of step."""
    game, choices = game_of(kind), CHOICES[name]
    spec = OnlineSGD(**{"epsilon": 30.0, "delta": 1e-3, "step": 0.5, **choices})
    (paid, points), (fast, models) = (played(spec, game, fused=fused) for fused in (False, True))
    far = name == "short clip" or (kind == "network" and name in ("clipped", "long gradients"))
    tolerance = FAR if far else CLOSE
    assert np.abs(fast - paid).max() < tolerance * np.abs(paid).max()
    assert np.abs(models - points).max() < tolerance * np.abs(points).max()
    assert np.abs(np.diff(points, axis=0)).max() > 1e-4


def test_a_clip_of_few_steps_of_the_lattice_takes_the_plain_loop() -> None:
    setting = game_of("logistic").setting
    built = [OnlineSGD(clip=clip).build(setting).shortcuts.resident for clip in (0.002, 0.0019)]
    assert [one is None for one in built] == [False, True]


@pytest.mark.parametrize("steps", ["start", "clipped"])
def test_the_sums_of_a_round_are_those_of_the_clients_bit_for_bit(steps: Any) -> None:
    game = game_of("network")
    client: Any = OnlineSGD(plan=Plan(steps), step=0.1).build(game.setting)
    whole = client.shortcuts.resident
    numbers, form = whole.numbers(SeededNoise(0)), replace(whole.form, rounds=4)
    units, odd, _ = resident.gradients(form)(
        numbers.limit,
        numbers.local,
        numbers.first,
        playing._SENT.to_device(game.records[:4], form)[2],
    )
    sums, count = client.client.work.sums(numbers.first, game.records[2])
    assert (np.asarray(units[0], float) / 2**20 == sums.sum(axis=0)).all()
    assert int(odd) == count.sum()


@pytest.mark.parametrize("size", [1, 4, 7])
def test_blocks_change_nothing(size: int) -> None:
    game, spec = game_of("network"), OnlineSGD(epsilon=30.0, step=0.5, average=0.8)
    whole, parts = (played(spec, game, block_rounds=each) for each in (None, size))
    assert all(np.allclose(a, b, rtol=1e-6, atol=1e-7) for a, b in zip(whole, parts, strict=True))


def test_examples_of_large_models_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    game, spec = game_of("network"), OnlineSGD(epsilon=30.0, step=0.5)
    whole = played(spec, game)
    monkeypatch.setattr(resident, "AT_ONCE", {"cpu": 2 * game.setting.experts})
    resident.compiled.cache_clear()
    parts = played(spec, game)
    resident.compiled.cache_clear()
    assert all(np.allclose(a, b, rtol=1e-6, atol=1e-7) for a, b in zip(whole, parts, strict=True))


def test_sums_beyond_32_bits_are_exact() -> None:
    """Forty gradients of norm 60 in one direction: more than 2^31 units together."""
    records = np.zeros((3, 40, 2))
    records[..., 0], records[..., 1] = 60.0, 1e4
    game = hr.Replay(records, hr.SquaredError(feature_norm=60.0, radius=1e6, target=1e4))
    spec = OnlineSGD(epsilon=inf, clip=60.0, step=1.0, plan=Plan("clipped"))
    built: Any = spec.build(game.setting).shortcuts.resident
    assert built.form.wide
    plain, fast = (played(spec, game, fused=fused)[1] for fused in (False, True))
    assert np.allclose(plain, fast, rtol=3e-7, atol=0)
    assert plain[-1, 0] == pytest.approx(120.0, rel=1e-4)
    units = np.array([[30_000_001, -30_000_001], [5_000_003, 5_000_003]], np.int32)  # above 2^24
    total = resident._added((np.zeros(2, np.float32), np.zeros(2, np.float32)), tuple(units))
    assert (np.sum(total, axis=0, dtype=float) == units[0] * 2.0**12 + units[1]).all()
    many = hr.Setting(2**19, 1, 3, family=game.family)
    assert spec.build(many).shortcuts.resident is None


def test_models_are_brought_only_when_somebody_looks() -> None:
    class Silent(Sink):
        seen: bool = False

        def rounds(self, first_round: int, block: Any, plays: Any) -> None:
            assert plays.paid is not None
            _ = plays.at(0), plays.last
            Silent.seen = "values" not in plays.__dict__

    game, spec = game_of("network"), OnlineSGD(step=0.5, average=0.9)
    recorder = Recorder(game.setting)
    hr.simulate(spec.build(game.setting), game, 0, sinks=[recorder, Silent()])
    assert Silent.seen


def test_the_plain_loop_serves_what_a_resident_game_cannot() -> None:
    """Messages, other noise, and engines that keep every client apart."""
    game = game_of("logistic")
    built, source = OnlineSGD().build(game.setting), SeededNoise(0)
    assert isinstance(make_engine("vectorised", built, source), WholeGame)
    assert isinstance(make_engine("vectorised", built, NoNoise()), Engine)
    assert isinstance(make_engine("vectorised", built, source, fused=False), Engine)
    assert isinstance(make_engine("vectorised", built, source, sinks=[Everything()]), Engine)
    assert isinstance(make_engine("in_process", built, source), Engine)
    plain, fast = (
        played(OnlineSGD(epsilon=30.0, step=0.5), game, engine=engine)[1]
        for engine in ("in_process", "vectorised")
    )
    assert np.abs(plain - fast).max() < CLOSE


def test_a_model_that_is_no_number_is_refused() -> None:
    def steep(params: Any, pair: Any) -> Any:
        return pair[1] * params["x"].sum()

    game = hr.Replay(np.ones((4, 1, 2)), hr.Model(steep, {"x": np.zeros(2)}, features=(1,)))
    spec = OnlineSGD(epsilon=inf, step=3e38, clip=1000.0)
    with pytest.raises(hr.InvalidValue, match="played a point outside"):
        hr.simulate(spec.build(game.setting), game, 0)


def test_counted_noise_is_independent_and_its_sum_is_one_lane() -> None:
    """2000 rows of five clients: variances 1, no correlation, and the sum that one lane gives."""
    key = words(5, "stream")
    rows = np.array([lanes_of_row(key, k, 5, 8) for k in range(400)])
    each = rows.transpose(1, 0, 2).reshape(5, -1)
    assert np.abs(np.cov(each) - np.eye(5)).max() < 0.1
    one = np.array([lanes_of_row(key, k, 1, 8)[0] for k in range(400)])
    assert np.abs(rows.sum(axis=1) - np.sqrt(5) * one).max() < 1e-5


def test_counted_noise_is_the_same_for_one_client_or_all_and_after_a_restart() -> None:
    source, other = SeededNoise(3), SeededNoise(3)
    everyone = source.everyone("client", 4)
    drawn = everyone.draw("gaussian", COUNTED, (5,), rounds=2, scale=2.0)
    alone = [
        other.single("client", i, 4).draw("gaussian", COUNTED, (5,), rounds=2, scale=2.0)
        for i in range(4)
    ]
    assert np.array_equal(drawn, np.stack(alone, axis=1))
    again = SeededNoise.restore(source.snapshot()).everyone("client", 4)
    assert np.array_equal(
        again.draw("gaussian", COUNTED, (5,)), everyone.draw("gaussian", COUNTED, (5,))
    )
    plain = source.everyone("client", 4).draw("gaussian", "other", (5,))
    assert not np.array_equal(
        plain, SeededNoise(4).everyone("client", 4).draw("gaussian", "other", (5,))
    )


def test_settings_that_differ_in_numbers_are_compiled_once() -> None:
    game = game_of("logistic", 8)
    spec = OnlineSGD(epsilon=2.0, step=0.5, average=0.5)
    resident.compiled.cache_clear()
    for one in (
        spec,
        replace(spec, epsilon=1.0, step=2.0, clip=0.1, average=0.9, plan=Plan(momentum=0.3)),
    ):
        hr.simulate(one.build(game.setting), game, 0)
    assert resident.compiled.cache_info().misses == 1


def test_a_norm_is_added_up_in_levels() -> None:
    """One after the other, the squares of the ones would be lost beside the first."""
    x = np.ones(2**20 + 77, np.float32)
    x[0] = 2.0**12
    exact = np.sqrt(2.0**24 + len(x) - 1)
    for found in (norm(x), need_jax().jit(norm)(x)):
        assert abs(float(found) / exact - 1) < margin(len(x)) / 4


@pytest.mark.parametrize(
    ("kind", "size", "few"),
    [
        ("logistic", 9, True),
        *(
            pytest.param(kind, size, False, marks=pytest.mark.long)
            for kind in ("logistic", "network")
            for size in (None, 9)
        ),
    ],
)
def test_games_of_a_kind_are_played_together(
    kind: str, size: int | None, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on an accelerator: seeds and settings in one program, and each as if it were alone."""
    records = game_of(kind)
    game = Shuffled(records)
    plans = (Plan(), Plan(factorisation="tree"), Plan(factorisation="dense", momentum=0.5))
    plans = plans[:: 2 if few else 1]
    specs = [
        OnlineSGD(epsilon=30.0, step=0.1 * k, plan=plan, average=average)
        for average in (None, 0.8)
        for k, plan in enumerate(plans, start=1)
    ]
    specs.append(OnlineSGD(epsilon=inf, step=0.1))

    def together(seeds: list[int]) -> list[list[Watched]]:
        built = [spec.build(game.setting) for spec in specs]
        watched = [[Watched(game.setting.family) for _ in built] for _ in seeds]
        players = [
            [Player(one, [sink]) for one, sink in zip(built, row, strict=True)] for row in watched
        ]
        simulate_together(players, game, seeds, block_rounds=size)
        return watched

    alone = [together([seed])[0] for seed in (3, 4)]
    calls: list[int] = []
    actual = playing.Resident.together

    def counted(games: Any, runs: Any, blocks: Any) -> Any:
        calls.append(sum(map(len, games)))
        return actual(games, runs, blocks)

    monkeypatch.setattr(playing, "accelerated", lambda: True)
    monkeypatch.setattr(playing.Resident, "together", staticmethod(counted))
    found = together([3, 4])
    # two seeds of all settings, and averages are a program of their own
    assert set(calls) == {2 * len(plans), 2 * len(plans) + 2}
    calls.clear()
    monkeypatch.setattr(playing, "TOGETHER", 4 * game.setting.experts * ROUNDS)
    pieces = together([3, 4])
    assert set(calls) == {3, 4}
    for row, others, parts in zip(alone, found, pieces, strict=True):
        for one, other, part in zip(row, others, parts, strict=True):
            for own in (other, part):
                assert np.abs(own.paid - one.paid).max() < FAR * np.abs(one.paid).max()
                points = np.array(one.plays)
                assert np.abs(np.array(own.plays) - points).max() < FAR * np.abs(points).max()
    assert np.abs(alone[0][0].paid - alone[1][0].paid).max() > 1e-3


def test_records_that_nobody_can_write_are_sent_and_checked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    game, other = game_of("network"), game_of("network")
    sent = playing._Sent()
    form = replace(OnlineSGD().build(game.setting).shortcuts.resident.form, rounds=ROUNDS)  # pyright: ignore
    first = sent.to_device(game.block(0, ROUNDS, None)[0].reports, form)
    sent.to_device(other.block(0, ROUNDS, None)[0].reports, form)
    assert sent.to_device(game.block(0, ROUNDS, None)[0].reports, form) is first
    mine = game.records.copy()
    before = sent.to_device(mine, form)
    sent.to_device(other.records, form)
    mine[:] = 0
    assert not np.asarray(sent.to_device(mine.view(), form)).any()
    assert np.asarray(before).any()
    with pytest.raises(ValueError, match="read-only"):
        game.records[0] = np.nan

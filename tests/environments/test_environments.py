"""Environments: the same losses whatever the blocks, on the lattice, with the stated laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import UNITS_PER_LOSS
from hedgerow.environments.drawn import generated
from hedgerow.environments.drawn.drifting import Drifting
from hedgerow.environments.drawn.generated import generator
from hedgerow.environments.drawn.realizable import Halving, NearRealizable, Realizable
from hedgerow.environments.drawn.stochastic import (
    Bernoulli,
    GapLadder,
    UniformLosses,
)
from hedgerow.environments.drawn.switching import Switching
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow_papers.gao2024.gaussian_softmax import GaussianSoftmax
from hedgerow_papers.ours.heterogeneous import Heterogeneous

FRAME: dict[str, Any] = {"clients": 3, "experts": 5, "horizon": 64}
AROUND = ("absent", "delayed", "sleeping", "visits")
# points, not experts: test_examples.py, test_learning_streams.py
EXAMPLES = (
    "class_forecasts",
    "classification",
    "different_places",
    "drawn_quantiles",
    "hidden_direction",
    "regression",
)
LEARNING = ("drifting_examples", "federated_synthetic", "mnist", "recorded_examples")
FILES = (
    "combined_forecasts",
    "flu_combination",
    "flusight",
    "forecasts",
    "hospital_shares",
    "hospitals",
    "movielens_genres",
    "recorded",
)
NOT_DRAWN = (*FILES, *AROUND, *EXAMPLES, *LEARNING)
DRAWN = [
    name
    for name, kind in ENVIRONMENTS.items()
    if name not in NOT_DRAWN and not kind().traits.sees_plays
]


def _losses(environment: Any, seed: int = 0, block: int | None = None) -> np.ndarray:
    horizon = environment.setting.horizon
    size, state, pieces = block or horizon, environment.start(seed), []
    for first in range(0, horizon, size):
        made, state = environment.block(state, min(size, horizon - first), None)
        assert made.reports is made.losses
        pieces.append(made.losses)
    return np.concatenate(pieces)


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("chunk", [1, 100, 2**17])
def test_losses_do_not_depend_on_the_blocks(
    name: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated, "CHUNK_ELEMENTS", chunk)
    environment = ENVIRONMENTS[name](**FRAME)
    whole = _losses(environment)
    for block in (1, 7):
        assert np.array_equal(_losses(environment, block=block), whole)


@pytest.mark.parametrize("name", DRAWN)
def test_blocks_are_pure(name: str) -> None:
    environment = ENVIRONMENTS[name](**FRAME)
    _, state = environment.block(environment.start(0), 10, None)
    once, twice = (environment.block(state, 20, None)[0].losses for _ in range(2))
    assert np.array_equal(once, twice)


@pytest.mark.parametrize("name", DRAWN)
def test_losses_have_their_shape_range_and_lattice_and_follow_the_seed(name: str) -> None:
    environment = ENVIRONMENTS[name](**FRAME)
    losses = _losses(environment)
    assert losses.shape == (64, 3, 5)
    assert losses.dtype == np.float64
    assert losses.min() >= 0
    assert losses.max() <= 1
    assert (losses * UNITS_PER_LOSS % 1 == 0).all()
    assert np.array_equal(losses, _losses(environment, 0))
    assert any(not np.array_equal(losses, _losses(environment, seed)) for seed in (1, 2, 3))


@pytest.mark.parametrize("name", [n for n in ENVIRONMENTS if n not in NOT_DRAWN])
@pytest.mark.parametrize("key", ["clients", "experts", "horizon"])
def test_an_empty_frame_is_refused(name: str, key: str) -> None:
    with pytest.raises(InvalidValue, match=f"{key}=0"):
        ENVIRONMENTS[name](**{**FRAME, key: 0})


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (Bernoulli, {"mean": 1.5}),
        (Bernoulli, {"mean": 0.2, "gap": 0.3}),
        (Bernoulli, {"mean": np.nan}),
        (GapLadder, {"gap": 0.5}),
        (GapLadder, {"gap": 0.0}),
        (GapLadder, {"widest": 0.6}),
        (Realizable, {"mean": 0.6}),
        (Realizable, {"law": "gaussian"}),
        (NearRealizable, {"best_loss": 65.0}),
        (NearRealizable, {"best_loss": -1.0}),
        (NearRealizable, {"horizon": 10**9}),
        (GaussianSoftmax, {"cap": 0.0}),
        (Drifting, {"mean": -0.1}),
        (Drifting, {"mean": 0.5, "swing": 0.6}),
        (Drifting, {"cycles": 0.0}),
        (Heterogeneous, {"heterogeneity": 1.1}),
        (Heterogeneous, {"clusters": 0}),
        (Heterogeneous, {"clusters": 4}),
        (Heterogeneous, {"gap": 0.6}),
        (Switching, {"segments": 65}),
        (Switching, {"segments": 0}),
        (Switching, {"gap": 0.6}),
    ],
)
def test_impossible_parameters_are_named(kind: Any, bad: dict[str, Any]) -> None:
    name, value = list(bad.items())[-1]
    with pytest.raises(InvalidValue, match=f"Expected {name}={value!r}"):
        kind(**{**FRAME, **bad})


# The stated laws


def _mean_fits(sample: np.ndarray, mean: float) -> bool:
    """A two-sided binomial test at 1 in 10,000."""
    return bool(stats.binomtest(int(sample.sum()), sample.size, mean).pvalue > 1e-4)


def test_bernoulli_has_its_mean_and_gap() -> None:
    losses = _losses(Bernoulli(clients=4, experts=6, horizon=2000, mean=0.5, gap=0.2), seed=3)
    assert set(np.unique(losses)) == {0.0, 1.0}
    best = int(losses.mean(axis=(0, 1)).argmin())
    for expert in range(6):
        assert _mean_fits(losses[:, :, expert], 0.3 if expert == best else 0.5)
        assert not _mean_fits(losses[:, :, expert], 0.4)


def test_uniform_is_uniform() -> None:
    values = _losses(UniformLosses(clients=2, experts=5, horizon=400)).ravel()
    assert stats.kstest(values, "uniform").pvalue > 1e-4
    assert stats.kstest(values**1.5, "uniform").pvalue < 1e-6


def test_the_ladder_has_gaps_at_every_scale() -> None:
    environment = GapLadder(clients=50, experts=6, horizon=4000, mean=0.5, gap=0.025, widest=0.4)
    means = np.sort(_losses(environment, seed=3).mean(axis=(0, 1)))
    np.testing.assert_allclose(means - 0.1, [0.0, 0.025, 0.05, 0.1, 0.2, 0.4], atol=0.006)
    assert GapLadder(experts=1).plan(np.random.default_rng(0)).tolist() == pytest.approx([0.1])
    assert environment.traits.adversary == "stochastic"


def test_an_exact_best_loss_is_not_drawn_anew_in_every_round() -> None:
    assert [NearRealizable(exact=exact).traits.adversary for exact in (True, False)] == [
        "oblivious",
        "stochastic",
    ]


@pytest.mark.parametrize(
    ("law", "mean"), [("uniform", 0.5), ("uniform", 0.1), ("bernoulli", 0.1), ("bernoulli", 1.0)]
)
def test_realizable_has_one_expert_without_loss(law: Any, mean: float) -> None:
    losses = _losses(Realizable(clients=4, experts=6, horizon=1000, mean=mean, law=law))
    never = np.flatnonzero(losses.sum(axis=(0, 1)) == 0)
    assert len(never) == 1
    others = np.delete(losses, never, axis=2)
    if law == "bernoulli":
        assert _mean_fits(others, mean)
    else:
        assert stats.kstest(others.ravel() / (2 * mean), "uniform").pvalue > 1e-4


def _losses_of_the_best(environment: NearRealizable, seed: int = 0) -> np.ndarray:
    """(rounds, clients)."""
    return _losses(environment, seed)[:, :, environment.start(seed).plan[0]]


@pytest.mark.parametrize("chunk", [1, 100, 2**17])
@pytest.mark.parametrize("best_loss", [0.0, 0.375, 1.0, 7.0, 12.25, 63.5, 64.0])
def test_near_realizable_loses_exactly_as_said(
    best_loss: float, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated, "CHUNK_ELEMENTS", chunk)
    best = _losses_of_the_best(NearRealizable(**FRAME, best_loss=best_loss))
    assert (best.sum(axis=0) == best_loss).all()
    assert ((best > 0).sum(axis=0) == np.ceil(best_loss)).all()


def test_near_realizable_loses_in_random_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every set of rounds is equally likely, also across chunks of uneven size, and clients differ."""
    monkeypatch.setattr(generated, "CHUNK_ELEMENTS", 4000)  # two rounds to a chunk: 0 1 | 2 3 | 4
    lost = _losses_of_the_best(
        NearRealizable(clients=1000, experts=2, horizon=5, best_loss=2.0), seed=5
    )
    first, second = (np.argsort(-lost, axis=0, kind="stable")[i] for i in (0, 1))
    pairs = np.bincount(5 * first + second, minlength=25).reshape(5, 5)
    seen = pairs[np.triu_indices(5, 1)]
    assert seen.sum() == 1000
    assert stats.chisquare(seen).pvalue > 1e-4
    later = np.array([3, 3, 3, 3, 1, 1, 1, 1, 1, 1]) / 18  # a wrong law: round 0 too often
    assert stats.chisquare(seen, later * 1000).pvalue < 1e-6


def test_what_is_left_of_the_best_loss_falls_into_any_of_the_losing_rounds() -> None:
    lost = _losses_of_the_best(
        NearRealizable(clients=900, experts=2, horizon=40, best_loss=2.25), seed=2
    )
    order = ((lost > 0) & (np.arange(40)[:, None] < np.argmax(lost == 0.25, axis=0))).sum(
        axis=0
    )  # losing rounds before it
    assert stats.chisquare(np.bincount(order, minlength=3)).pvalue > 1e-4


def test_near_realizable_loses_about_as_said_where_it_need_not_be_exact() -> None:
    best = _losses_of_the_best(
        NearRealizable(clients=50, experts=4, horizon=400, best_loss=8.0, mean=0.5, exact=False)
    )
    assert np.ptp(best.sum(axis=0)) > 0
    assert _mean_fits(best, 8.0 / 400)
    for wrong in (6.0, 10.0):
        assert not _mean_fits(best, wrong / 400)


@pytest.mark.parametrize("exact", [True, False])
def test_near_realizable_without_loss_is_realizable(exact: bool) -> None:
    assert (
        _losses(NearRealizable(**FRAME, best_loss=0.0, exact=exact)).sum(axis=(0, 1)) == 0
    ).any()


@pytest.mark.parametrize(("experts", "horizon"), [(100, 512), (5, 64), (1, 8), (3, 100)])
def test_halving_kills_half_of_the_survivors_at_every_eighth(experts: int, horizon: int) -> None:
    losses = _losses(Halving(clients=3, experts=experts, horizon=horizon))
    assert np.array_equal(losses, np.repeat(losses[:, :1], 3, axis=1))
    alive = experts
    for part in range(8):
        rounds = losses[part * horizon // 8 : (part + 1) * horizon // 8, 0]
        assert (rounds == rounds[0]).all()
        assert (rounds[0] == 0).sum() == alive
        alive -= alive // 2
    assert (np.diff(losses, axis=0) >= 0).all()


def test_switching_changes_its_best_expert_at_every_segment_and_only_there() -> None:
    environment = Switching(clients=40, experts=4, horizon=240, segments=3, mean=0.5, gap=0.4)
    parts = _losses(environment).reshape(3, 2, 40, 40, 4)  # each segment in two halves
    best = parts.mean(axis=(2, 3)).argmin(axis=-1)
    assert (best[:, 0] == best[:, 1]).all()
    assert (np.diff(best[:, 0]) != 0).all()
    for segment in range(3):
        assert _mean_fits(parts[segment, ..., best[segment, 0]], 0.1)
        assert _mean_fits(np.delete(parts[segment], best[segment, 0], axis=-1), 0.5)


def test_neighbouring_segments_never_share_their_best_expert() -> None:
    environment = Switching(clients=1, experts=2, horizon=500, segments=500)
    plan = environment.start(1).plan
    assert (np.diff(plan) != 0).all()
    assert Switching(clients=1, experts=1, horizon=9, segments=3).start(0).plan.tolist() == [
        0,
        0,
        0,
    ]


def test_drifting_means_follow_their_waves() -> None:
    environment = Drifting(clients=400, experts=3, horizon=60, mean=0.5, swing=0.4, cycles=1.5)
    losses, phases = _losses(environment, seed=4), environment.start(4).plan
    right = environment.means(phases, 0, 60)
    assert np.allclose(
        environment.means(phases, 37, 5), right[37:42]
    )  # any place, without the rounds before it
    for t, expert in ((0, 0), (7, 1), (30, 2), (59, 0)):
        assert right[t, expert] == pytest.approx(
            0.5 + 0.4 * np.sin(2 * np.pi * (1.5 * t / 60 + phases[expert]))
        )
    assert np.abs(np.diff(right, axis=0)).max() <= 2 * np.pi * 0.4 * 1.5 / 60

    def fits(means: np.ndarray) -> bool:
        squared = (losses.sum(axis=1) - 400 * means) ** 2 / (400 * means * (1 - means))
        return bool(stats.chi2.sf(squared.sum(), squared.size) > 1e-4)

    assert set(np.unique(losses)) == {0.0, 1.0}
    assert fits(right)
    assert not fits(np.roll(right, 1, axis=0))
    assert not fits(0.5 + (right - 0.5) * 0.9)
    assert len(np.unique(right.argmin(axis=1))) > 1  # the best expert changes


def test_heterogeneous_clients_have_the_stated_means() -> None:
    environment = Heterogeneous(
        clients=6, experts=8, horizon=4000, heterogeneity=0.5, mean=0.4, gap=0.3
    )
    losses, best = _losses(environment, seed=1), environment.start(1).plan
    own = losses[:, np.arange(6), best]
    others = np.ma.array(
        losses, mask=np.broadcast_to(np.arange(8) == best[:, None], losses.shape)
    ).compressed()
    assert _mean_fits(own, 0.1)
    assert _mean_fits(others, 0.4)
    assert not _mean_fits(own, 0.12)
    assert not _mean_fits(others, 0.38)


@pytest.mark.parametrize(("heterogeneity", "own"), [(0.0, 0), (0.1, 1), (0.5, 5), (1.0, 10)])
def test_heterogeneity_is_the_part_of_clients_with_an_expert_of_their_own(
    heterogeneity: float, own: int
) -> None:
    for seed in range(5):
        best = Heterogeneous(clients=10, experts=30, heterogeneity=heterogeneity).start(seed).plan
        experts, count = np.unique(best, return_counts=True)
        assert (count == 1).sum() == own + (own == 9)
        assert len(experts) == own + (own < 10)


def test_a_part_that_is_not_whole_is_right_on_average() -> None:
    environment = Heterogeneous(clients=10, experts=30, heterogeneity=0.23)
    own = np.array([len(np.unique(environment.start(seed).plan)) - 1 for seed in range(500)])
    assert set(own) == {2, 3}
    assert _mean_fits(own - 2, 0.3)
    assert not _mean_fits(own - 2, 0.5)


def test_clusters_share_their_best_expert() -> None:
    best = (
        Heterogeneous(clients=12, experts=30, heterogeneity=1.0, clusters=3)
        .start(0)
        .plan.reshape(3, 4)
    )
    assert (best == best[:, :1]).all()
    assert len(np.unique(best)) == 3
    few = (
        Heterogeneous(clients=12, experts=3, heterogeneity=1.0).start(0).plan
    )  # too few experts: still not the shared one
    assert sorted(np.unique(few, return_counts=True)[1]) == [6, 6]
    assert (Heterogeneous(clients=4, experts=1, heterogeneity=1.0).start(0).plan == 0).all()


def test_a_larger_heterogeneity_keeps_those_who_already_differ() -> None:
    plans = [
        Heterogeneous(clients=20, experts=30, heterogeneity=h).start(3).plan
        for h in (0.0, 0.2, 0.6)
    ]
    shared = plans[0][0]
    assert ((plans[1] == shared) | (plans[1] == plans[2])).all()


def test_gaussian_softmax_charges_the_cross_entropy() -> None:
    environment = GaussianSoftmax(clients=3, experts=6, horizon=3000)
    losses = _losses(environment)
    chance = np.exp(-losses * environment.cap)
    assert (
        np.abs(chance.sum(axis=-1) - 1).max() < 1e-4
    )  # the losses of one round are -log of one distribution
    means, deviations = environment.start(0).plan
    scores = losses[..., :1] - losses  # differences of scores are normal
    for expert in range(1, 6):
        sample = scores[..., expert].ravel() * environment.cap
        right = stats.norm(means[expert] - means[0], np.hypot(deviations[0], deviations[expert]))
        assert stats.kstest(sample, right.cdf).pvalue > 1e-4
        assert stats.kstest(sample * 1.5, right.cdf).pvalue < 1e-6
    assert np.ptp(losses.mean(axis=(0, 1))) > 0.01
    capped = _losses(GaussianSoftmax(**FRAME, cap=0.5))
    assert (capped == 1).any()


def test_play_chasing_charges_exactly_the_past_play() -> None:
    environment = PlayChasing(clients=3, experts=4, horizon=8)
    first, state = environment.block(environment.start(0), 1, None)
    assert not first.losses.any()
    for plays in ([1, 3, 3], [0, 0, 2]):
        block, state = environment.block(state, 1, np.array(plays))
        assert np.array_equal(block.losses[0], np.eye(4)[plays])


def test_parts_of_an_environment_have_generators_of_their_own() -> None:
    draws = [
        generator(seed, *key).random(4).tolist()
        for seed, *key in ((0, 1), (0, 2), (0, 2, 1), (1, 1))
    ]
    assert len({tuple(draw) for draw in draws}) == 4

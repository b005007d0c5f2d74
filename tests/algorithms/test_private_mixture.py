"""Private combination: exact privacy against a lying server, weights, regret, gaps and delays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import product
from math import log, sqrt
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.mixture.games import FAMILY, combination_games
from hedgerow.algorithms.mixture.private_mixture import PrivateMixture
from hedgerow.algorithms.mixture.roles import (
    PRIOR,
    Answer,
    Answering,
    ClientState,
    Learning,
    Weights,
)
from hedgerow.audits.runner import AuditRow, attack, cases_of
from hedgerow.contracts import views
from hedgerow.contracts.outcome import BrokenContract
from hedgerow.core.certificate import Observer
from hedgerow.core.combination import Combination, PublicForecasts, QuantileCombination
from hedgerow.core.convex import AbsoluteError, Huber, Pinball, SquaredError
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.noise import NoNoise, SeededNoise
from hedgerow.core.protocol import AlgorithmSpec, Context
from hedgerow.privacy import RandomisedResponse
from support.played import plays_of, seen_in

BITS = (-1.0, 1.0)


# Privacy, by enumeration


class Scripted:
    """Noise whose releases are written down in advance; it keeps their log-probability."""

    batch: tuple[int, ...] = ()

    def __init__(self, bits: tuple[float, ...]) -> None:
        self.bits, self.used, self.log = bits, 0, 0.0

    def release(self, mechanism: RandomisedResponse, value: Any) -> Any:
        shown = self.bits[self.used]
        self.used += 1
        self.log += mechanism.log_density(float(value), shown)
        return np.array(shown)

    def draw(self, law: str, purpose: str, *_: Any, **__: Any) -> Any:
        raise AssertionError(f"{law} noise for {purpose} in a game of signs")

    flip = index = choose = lattice = draw


def _client(family: PublicForecasts = FAMILY, epsilon: float = 1.0) -> Answering:
    return Answering(3, family, RandomisedResponse("answer", epsilon))


class FreshCoin(Answering):
    """The bug: the target is kept, and a retry tosses another coin."""

    def upload(self, state: ClientState, noise: Any) -> tuple[Answer, ClientState]:
        sign = np.where(state.middle > 0, 1.0, -1.0)  # a place where the raw sign was left
        return Answer(noise.release(self.response, sign), state.forecasts, state.middle), state

    def _sent(self, share: Array, noise: Any) -> Array:
        self.__dict__["raw"] = np.where(share > 0, 1.0, -1.0)
        return super()._sent(share, noise)

    def observe(self, state: ClientState, reports: Array, noise: Any) -> ClientState:
        return replace(super().observe(state, reports, noise), middle=self.__dict__["raw"])


def _largest_ratio(client: Answering, asks: int, seed: int) -> float:
    """The largest log-ratio of all that a server sees which answers with any weights it likes.

    It asks `asks` times in each of three rounds, by naming 0 rounds, and its weights depend on all
    signs before. One target differs between the two worlds.
    """
    rng = np.random.default_rng(seed)
    first = FAMILY.clip(rng.normal(size=(3, 4)) * 2).records
    second = first.copy()
    second[1, -1] += 9.0 * rng.choice([-1.0, 1.0])
    weights: dict[tuple[float, ...], Array] = {}
    worst = 0.0
    released = 3 + (3 * asks if isinstance(client, FreshCoin) else 0)
    for bits in product(BITS, repeat=released):
        logs = []
        for records in (first, second):
            noise: Any = Scripted(bits)
            state, seen = client.start(noise), list[float]()
            for record in records:
                key = tuple(seen)
                if key not in weights:
                    weights[key] = rng.normal(size=3) * 3  # no point of the simplex
                state = client.receive(state, Weights(1, weights[key]))
                _, state = client.play(state, Context(0), noise)
                state = client.observe(state, record, noise)
                for _ in range(asks):
                    answer, state = client.upload(state, noise)
                    seen.append(float(answer.sign))
                    state = client.receive(state, Weights(0, weights[key]))
            logs.append(noise.log)
        worst = max(worst, abs(logs[0] - logs[1]))
    return worst


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("asks", [1, 2])
def test_a_lying_server_learns_epsilon_and_no_more(epsilon: float, asks: int) -> None:
    found = [_largest_ratio(_client(epsilon=epsilon), asks, seed) for seed in range(12)]
    assert max(found) == pytest.approx(epsilon, rel=1e-12)
    assert max(found) <= epsilon


def test_a_fresh_coin_on_retry_is_caught() -> None:
    broken = FreshCoin(3, FAMILY, RandomisedResponse("answer", 1.0))
    assert max(_largest_ratio(broken, 1, seed) for seed in range(6)) == pytest.approx(2.0)


def test_nothing_of_a_target_is_kept() -> None:
    client, noise = _client(), SeededNoise(0).everyone("client", 2)
    state = client.start(noise)
    record = np.array([[1.0, 2.0, 3.0, 1.234567], [1.0, 2.0, 3.0, -4.5]])
    after = client.observe(state, record, noise)
    kept = np.concatenate([np.ravel(getattr(after, name)) for name in vars(after)])
    assert not np.isin([1.234567, -4.5], kept).any()
    assert set(after.sign) <= {-1.0, 1.0}
    assert after.forecasts.tolist() == [[-1.0, 0.0, 1.0]] * 2


def test_any_weights_of_a_server_give_a_sign_and_no_error() -> None:
    client = _client()
    for point in (np.zeros(3), np.full(3, 1e300), np.array([-1e308, 1e308, 0.0])):
        for target in (-15.0, 15.0):
            noise = SeededNoise(1).single("client", 0, 1)
            state = client.receive(client.start(noise), Weights(1, point))
            after = client.observe(state, np.array([1.0, -2.0, 3.0, target]), noise)
            assert abs(float(after.sign)) == 1.0


def test_the_certificate_protects_the_target_from_everybody() -> None:
    for horizon in (None, 10):
        setting = hr.Setting(5, 4, horizon, family=FAMILY)
        certificate = PrivateMixture(epsilon=0.7).build(setting).certificate
        assert (certificate.trust, certificate.entered) == ("local", 1)
        for observer in Observer:
            guarantee = certificate.guarantee(observer)
            assert guarantee.curve.stated() == (0.7, 0.0)
            assert guarantee.horizon == horizon
            assert "forecasts are public" in guarantee.words()
            assert guarantee.proof is not None
            assert "lies" in guarantee.proof.read() or "collude" in guarantee.proof.read()


def test_audits_come_out_as_expected() -> None:
    """Also the planted bugs: less noise, and a target that is answered in two rounds."""
    found = cases_of("private_mixture", PrivateMixture())
    rows = [AuditRow(case, attack(case)) for case in found]
    assert [row.verdict for row in rows] == [case.expected for case in found]
    assert [row.verdict for row in rows].count("violated") == 3


# Weights


def _combined(spec: AlgorithmSpec, game: Environment, seeds: int = 1) -> Array:
    """The weights (seeds, rounds, clients, experts) that are played."""
    algorithm = spec.build(game.setting).in_game(game.traits)
    found = []
    for seed in range(seeds):
        seen = seen_in(algorithm, game, seed)
        plays: Any = seen.all_plays()
        found.append(plays if isinstance(plays, np.ndarray) else plays.dense())
    return np.array(found)


def _error(spec: AlgorithmSpec, game: Any, seeds: int = 1) -> Array:
    """Errors in percent of the scale, cut off at 1, by seed; as in the demo."""
    of: Any = game.of if isinstance(game, hr.Delayed) else game
    present, records = of.table.present, of.records
    played = np.einsum("stid,tid->sti", _combined(spec, game, seeds), records[..., :-1])
    return 100 * np.minimum(np.abs(played - records[..., -1]), 1.0)[:, present].mean(axis=1)


FLU = hr.Combining(hr.FluSight().combination)
SLEEPING = hr.Combining(hr.FluSight(missing="sleep", coverage=0.0).combination)


def _by_first_weeks() -> hr.Combining:
    table = SLEEPING.table
    kept = np.flatnonzero(table.awake[:4].mean(axis=(0, 1)) >= 0.8)
    assert len(kept) == 20
    return hr.Combining(hr.ForecastTable(table.forecasts[..., kept], table.targets, table.scale))


@pytest.mark.parametrize(
    ("game", "plain", "most"),
    [
        pytest.param(FLU, 15.724, 15.42, id="12 models"),
        pytest.param(
            _by_first_weeks(), 15.729, 15.56, id="20 by the first weeks", marks=pytest.mark.long
        ),
        pytest.param(SLEEPING, 15.757, 15.65, id="42 with gaps"),
    ],
)
def test_flu_forecasts_are_combined_better_than_by_the_plain_average(
    game: hr.Combining, plain: float, most: float
) -> None:
    equal = 100 * np.minimum(np.abs(game.records[..., -1]), 1.0).mean()
    assert equal == pytest.approx(plain, abs=0.001)
    errors = _error(PrivateMixture(epsilon=1.0), game, seeds=200)
    assert errors.mean() + 2 * errors.std() / sqrt(200) <= most
    assert _error(hr.Mixture(), game)[0] < errors.mean()
    for epsilon in (0.5, 2.0):
        assert _error(PrivateMixture(epsilon=epsilon), game, seeds=30).mean() <= plain + 0.05


def test_without_a_signal_the_weights_stay_equal() -> None:
    rng = np.random.default_rng(2)
    records = np.concatenate([rng.normal(size=(60, 30, 8)), rng.normal(size=(60, 30, 1)) * 9], -1)
    game = hr.Replay(records, Combination(AbsoluteError(feature_norm=64.0, target=64.0)))
    weights = _combined(PrivateMixture(epsilon=0.1), game, seeds=10)
    assert np.abs(weights - 1 / 8).mean() < 0.01
    good = records.copy()
    good[..., 0] = good[..., -1] + rng.normal(size=(60, 30)) * 0.1  # a model that is nearly right
    game = hr.Replay(good, Combination(AbsoluteError(feature_norm=64.0, target=64.0)))
    assert _combined(PrivateMixture(epsilon=1.0), game, seeds=10)[:, -1, 0, 0].mean() > 0.5


def test_weights_do_not_depend_on_units() -> None:
    rng = np.random.default_rng(4)
    target = rng.normal(size=(30, 10))
    forecasts = target[..., None] + rng.normal(size=(30, 10, 5)) * np.arange(1, 6)
    one, other = (
        _combined(
            PrivateMixture(), hr.Combining(hr.ForecastTable(a * forecasts + b, a * target + b))
        )
        for a, b in ((1.0, 0.0), (1e4, -7e4))
    )
    assert np.allclose(one, other, atol=1e-9)


# Regret


def _bound(game: hr.Replay, spec: PrivateMixture, seed: int) -> tuple[float, float]:
    """What is lost to the plain average, and the bound of Theorem 2 on it, for one run."""
    algorithm = spec.build(game.setting)
    kept: list[Any] = []
    server: Any = algorithm.server

    class Watched(Learning):
        def aggregate(self, state: Any, uploads: Any, noise: Any) -> Any:
            broadcast, after = super().aggregate(state, uploads, noise)
            kept.append(after)
            return broadcast, after

    watched = Watched(**{part.name: getattr(server, part.name) for part in fields(server)})
    seen = seen_in(replace(algorithm, server=watched), game, seed)
    plays: Any = seen.all_plays()
    weights = plays if isinstance(plays, np.ndarray) else plays.dense()
    family, records = game.setting.family, game.records
    equal = np.full_like(weights, 1 / weights.shape[-1])
    lost = (family.value(records, weights) - family.value(records, equal)).mean(axis=1).sum()
    last, gain = kept[-1], algorithm.parameters["gain"]
    total, largest = last.total, last.largest
    bound = (
        log(1 / PRIOR[2]) / sqrt(2 * log(3)) * sqrt(total + largest)
        + 4 * sqrt(total * log(3))
        + 6.71 * gain * sqrt(largest)
    )
    return float(lost), bound


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("kind", ["drawn", "one client matters", "turning"])
def test_little_is_lost_to_the_plain_average(epsilon: float, kind: str) -> None:
    rng = np.random.default_rng(6)
    target = rng.normal(size=(150, 6))
    forecasts = target[..., None] + rng.normal(size=(150, 6, 4))
    if kind == "one client matters":
        forecasts *= np.array([20.0, 0.1, 0.1, 0.1, 0.1, 0.1])[:, None]
    if kind == "turning":  # the best model becomes the worst, again and again
        for start in range(0, 150, 25):
            forecasts[start : start + 25, :, (start // 25) % 4] = target[start : start + 25] + 3.0
    records = np.concatenate([forecasts, target[..., None]], axis=-1)
    game = hr.Replay(records, Combination(AbsoluteError(feature_norm=512.0, target=512.0)))
    runs = [_bound(game, PrivateMixture(epsilon=epsilon), seed) for seed in range(12)]
    lost, bound = np.mean(runs, axis=0)
    assert lost <= bound


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 5.0])
def test_moments_of_an_answer_are_as_in_the_lemma(epsilon: float) -> None:
    answer = RandomisedResponse("answer", epsilon)
    gain, turned = answer.gain, answer.turned
    x = np.concatenate([-np.geomspace(1e-3, 300, 2000), np.geomspace(1e-3, 300, 2000)])
    logs = np.logaddexp(np.log(turned) - x * gain, np.log1p(-turned) + x * gain) - x
    assert (logs / (x * x / 2)).max() <= 2 * gain / epsilon * (1 + 1e-9)
    assert (logs / (x * x / 2)).max() >= 0.99 * 2 * gain / epsilon  # and it is sharp
    assert 2 * gain / epsilon <= gain**2


# Personal play


def test_at_home_plays_are_between_the_public_combination_and_the_own_one() -> None:
    """A client plays alone as it plays among others: they do not change it."""
    game, spec = FLU, PrivateMixture(at_home=True)
    alone = replace(game.setting, clients=1)
    seen = plays_of(hr.Mixture().build(alone), game, alone=True)
    client: Any = spec.build(game.setting).client
    every, one = SeededNoise(0).everyone("client", 53), SeededNoise(0).single("client", 7, 53)
    together, single = client.start(every), client.start(one)
    for t, own in enumerate(seen):
        assert np.allclose(client._all(together)[3], own, atol=1e-14)
        play = client.play(single, Context(t), one)[0]
        assert np.array_equal(client.play(together, Context(t), every)[0][7], play)
        low, high = np.min(client._all(single), axis=0), np.max(client._all(single), axis=0)
        assert ((low - 1e-12 <= play) & (play <= high + 1e-12)).all()
        together = client.observe(together, game.records[t], every)
        single = client.observe(single, game.records[t, 7], one)


def test_what_is_sent_does_not_depend_on_personal_play() -> None:
    sent = []
    for spec in (PrivateMixture(), PrivateMixture(at_home=True)):
        seen = seen_in(spec, FLU)
        sent.append([(upload.sign.tolist(), b.point.tolist()) for _, upload, b in seen.messages])
    assert sent[0] == sent[1]


def test_published_personal_plays_break_the_contract() -> None:
    """Such plays show targets: with them in a view, the certificate would be wrong."""

    @dataclass(frozen=True)
    class Published(PrivateMixture):
        at_home: bool = True

        def resolve(self, setting: hr.Setting) -> Any:
            found = super().resolve(setting)
            public = replace(self, at_home=False)
            return replace(found, certificate=PrivateMixture.resolve(public, setting).certificate)

    views.nothing_raw_in_a_view(PrivateMixture(at_home=True))
    with pytest.raises(BrokenContract, match="plays"):
        views.nothing_raw_in_a_view(Published())


# Losses


@pytest.mark.parametrize(
    "family",
    [
        Combination(AbsoluteError(feature_norm=16.0, target=16.0)),
        Combination(Pinball(feature_norm=16.0, target=16.0, quantile=0.8)),
        Combination(SquaredError(feature_norm=4.0, target=4.0)),
        Combination(Huber(feature_norm=16.0, target=16.0, threshold=0.5)),
        QuantileCombination((0.1, 0.5, 0.9), feature_norm=16.0, target=16.0),
    ],
    ids=repr,
)
def test_reports_are_unbiased_gradients(family: PublicForecasts) -> None:
    rng = np.random.default_rng(8)
    width, count = 3, 200_000
    record = family.clip(rng.normal(size=family.record_width(width)) * 3).records
    point = np.array([0.2, 0.5, 0.3])
    spec = PrivateMixture(epsilon=1.0).build(hr.Setting(count, width, None, family=family))
    client: Any = spec.client
    server: Any = spec.server
    noise = SeededNoise(0).everyone("client", count)
    state = client.receive(client.start(noise), Weights(1, point))
    sent, _ = client.upload(client.observe(state, np.tile(record, (count, 1)), noise), noise)
    assert set(np.unique(sent.sign)) == {-1.0, 1.0}
    reports = (sent.middle + server.half * server.gain * sent.sign)[:, None] * sent.forecasts
    exact = family.gradient(record, point)
    exact = exact - exact.mean()
    off = np.abs(reports.mean(axis=0) - exact) / (reports.std(axis=0) / sqrt(count) + 1e-300)
    assert off.max() < 5
    wrong = (sent.middle + 1.3 * server.half * server.gain * sent.sign)[:, None] * sent.forecasts
    off = np.abs(wrong.mean(axis=0) - exact) / (wrong.std(axis=0) / sqrt(count))
    assert off.max() > 5  # a wrong gain is seen
    spread = sent.forecasts.max(axis=1) - sent.forecasts.min(axis=1)
    assert server.steepest >= np.abs(sent.middle).max() + server.half - 1e-12
    assert (spread <= 2 * family.longest).all()


@pytest.mark.parametrize("name", ["pinball", "squared"])
def test_other_losses_are_learned(name: Any) -> None:
    table = FLU.table
    choices: dict[str, Any] = {"quantile": 0.8} if name == "pinball" else {"largest_error": 0.25}
    game = hr.Combining(table, loss=name, **choices)
    study = hr.run(game, {"private": PrivateMixture(), "not": hr.Mixture()}, seeds=10)
    family = game.setting.family
    equal = np.broadcast_to(np.full(12, 1 / 12), (*table.targets.shape, 12))
    plain = family.value(game.records, equal).mean(axis=1).sum()
    private, exact = (
        np.mean([run.loss[-1] for run in study[k].results]) for k in ("private", "not")
    )
    assert exact < plain
    assert private < plain


def test_quantiles_of_several_levels_are_learned() -> None:
    rng = np.random.default_rng(9)
    levels = (0.1, 0.5, 0.9)
    target = rng.normal(size=(80, 30))
    offsets = np.array([-1.28, 0.0, 1.28])
    quality = np.array([0.2, 2.0, 2.0, 2.0])
    centre = target[..., None] + rng.normal(size=(80, 30, 4)) * quality
    forecasts = centre[..., None, :] + offsets[:, None] * quality  # levels, then models
    records = np.concatenate([forecasts.reshape(80, 30, 12), target[..., None]], axis=-1)
    family = QuantileCombination(levels, feature_norm=64.0, target=64.0)
    game = hr.Replay(records, family)
    weights = _combined(PrivateMixture(epsilon=1.0), game, seeds=5)
    assert weights[:, -1, 0, 0].mean() > 0.8
    paid = family.value(records, weights[0]).mean()
    assert paid < 0.7 * family.value(records, np.full((80, 30, 4), 0.25)).mean()


# Gaps, absence and delay


def test_an_absent_client_changes_nothing() -> None:
    rng = np.random.default_rng(10)
    target = rng.normal(size=(20, 4))
    forecasts = target[..., None] + rng.normal(size=(20, 4, 3)) * np.array([0.1, 1.0, 1.0])
    more_target = np.concatenate([target, np.full((20, 2), np.nan)], axis=1)
    more = np.concatenate([forecasts, rng.normal(size=(20, 2, 3))], axis=1)
    one = hr.Combining(hr.ForecastTable(forecasts, target))
    other = hr.Combining(hr.ForecastTable(more, more_target))
    algorithms = [hr.Mixture().build(game.setting).in_game(game.traits) for game in (one, other)]
    states = []
    for algorithm, game in zip(algorithms, (one, other), strict=True):
        seen = seen_in(algorithm, game)
        states.append([broadcast.point for _, _, broadcast in seen.messages])
    assert np.allclose(states[0], states[1], atol=1e-14)


@pytest.mark.parametrize("late", [1, 3])
def test_late_targets_are_learned_from(late: int) -> None:
    game = hr.Delayed(of=FLU, rounds=late)
    assert _error(PrivateMixture(), game, seeds=20).mean() < 15.65
    certificate = PrivateMixture().build(game.setting).in_game(game.traits).certificate
    assert "PUBLIC_DELAYS" in certificate.public.words()


def test_equal_forecasts_teach_nothing() -> None:
    records = np.zeros((10, 3, 5))
    records[..., -1] = 2.0
    game = hr.Replay(records, FAMILY)
    assert np.array_equal(_combined(PrivateMixture(), game), np.full((1, 10, 3, 4), 0.25))


@pytest.mark.parametrize("family", [hr.OnSimplex(hr.Huber()), hr.Linear(), hr.Huber()], ids=repr)
def test_secret_forecasts_are_refused(family: Any) -> None:
    with pytest.raises(Unsupported, match="Combination"):
        PrivateMixture().build(hr.Setting(2, 3, 4, family=family))
    with pytest.raises(InvalidValue, match="epsilon"):
        PrivateMixture(epsilon=0.0)


def test_without_noise_it_is_the_mixture_that_is_not_private() -> None:
    games = combination_games()
    game = games.recorded(games.stream(np.random.default_rng(0), games.setting))
    private = PrivateMixture(epsilon=1e5).build(game.setting)  # nothing is turned
    exact = hr.Mixture().build(game.setting)
    plays = []
    for algorithm in (private, exact):
        seen = seen_in(algorithm, game, noise=NoNoise())
        found: Any = seen.all_plays()
        plays.append(found if isinstance(found, np.ndarray) else found.dense())
    assert np.allclose(plays[0], plays[1], atol=1e-5)

"""Combination in vector mode: what is released, the noise of sums, weights, certificates, attacks."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.noise import SeededNoise
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.deployment.masks import Masked
from hedgerow.engines.broadcasts import broadcasts_of
from hedgerow_papers.ours.vector_mixture import Summing, VectorMixture, centred
from support.attacked import attacked

TRUSTS: tuple[Any, ...] = ("central", "distributed", "local")
FAMILY = hr.Combination(hr.AbsoluteError(feature_norm=8.0, target=16.0))
SETTING = Setting(clients=6, experts=3, horizon=5, family=FAMILY)


def records(target: float = 0.0) -> np.ndarray:
    """Forecasts around 0 that are right, too low and too high, and one target."""
    found = np.zeros((SETTING.rounds, SETTING.clients, 4))
    found[..., 1], found[..., 2] = -1.0, 1.0
    found[..., -1] = target
    return found


@pytest.mark.parametrize("trust", TRUSTS)
def test_attacks_show_nearly_all_that_is_certified(trust: Any) -> None:
    rows = attacked("vector_mixture", VectorMixture(trust=trust), real=False)
    assert [row.case.expected for row in rows].count("violated") == 3


@pytest.mark.parametrize("clip", [0.125, 4.0])
def test_a_target_moves_one_vector_by_at_most_twice_the_clip(clip: float) -> None:
    client, moves = Summing(3, FAMILY, clip), []
    for target in (-9.0, -0.5, 0.5, 9.0):
        noise = SeededNoise(0).single("client", 0, 1)
        after = client.observe(client.start(noise), records(target)[0, 0], noise)
        moves.append(after.gradients)
        assert np.linalg.norm(moves[-1]) <= clip
        assert moves[-1].sum() == pytest.approx(0.0, abs=3 * 2**-20)
    most = max(float(np.linalg.norm(a - b)) for a in moves for b in moves)
    assert 1.9 * min(clip, sqrt(2)) < most <= 2 * clip


def test_what_is_not_finite_counts_as_nothing() -> None:
    given = np.array([[np.nan, 1.0], [np.inf, -np.inf], [1e308, -1e308], [1e308, 1e308]])
    assert centred(given).tolist() == [[0, 0], [0, 0], [1e308, -1e308], [0, 0]]


@pytest.mark.parametrize("trust", TRUSTS)
def test_the_certificate_is_that_of_the_noise_on_all_releases(trust: Any) -> None:
    built = VectorMixture(trust=trust).build(SETTING)
    certificate = built.certificate
    assert certificate.trust == trust
    epsilon, delta = certificate.public.curve.stated()
    assert (0.999 < epsilon <= 1.0, delta) == (True, 1e-6)
    assert certificate.public.unit.words() == (
        "one target of one client in one round (forecasts are public)"
    )
    assert (certificate.server.curve.stated()[0] <= 1.0) == (trust != "central")


@pytest.mark.parametrize(
    ("trust", "honest"), [("central", None), ("distributed", 4), ("local", None)]
)
def test_decoded_sums_have_the_stated_noise(trust: Any, honest: int | None) -> None:
    """Without charges the sums are noise: its variance is as stated, up to 6 %."""
    flat = hr.Combination(hr.AbsoluteError(feature_norm=8.0, target=16.0))
    setting = Setting(clients=6, experts=2000, horizon=5, family=flat)
    built = VectorMixture(trust=trust, honest=honest).build(setting)
    server: Any = built.server
    noise = SeededNoise(3)
    state, found = server.open(noise.single("server", 0, 1))[1], []
    clients = built.client.start(noise.everyone("client", 6))
    for _ in range(setting.rounds):
        sent, clients = built.client.upload(clients, noise.everyone("client", 6))
        total = sent.gradients.sum(axis=0)
        sums, state = server.running_sums(state, total, noise.single("server", 0, 1))
        found.append(float(sums.std()))
    ratios = np.array(found) / np.array(server.deviations[: setting.rounds])
    assert ratios == pytest.approx(np.ones(setting.rounds), abs=0.06)
    if trust == "distributed":
        central: Any = VectorMixture().build(setting).server
        assert server.deviations[0] / central.deviations[0] == pytest.approx(sqrt(6 / 4), rel=1e-3)


def test_weights_stay_equal_while_sums_may_be_noise_and_find_the_best() -> None:
    few = hr.run(Replay(records(), FAMILY), {"a": VectorMixture(0.01)}, seeds=1)
    assert few.regret("a").mean > 0
    game = Setting(clients=400, experts=3, horizon=40, family=FAMILY)
    stream = np.zeros((40, 400, 4))
    stream[..., 1], stream[..., 2], stream[..., 3] = 1.0, -1.0, 1.0
    server = VectorMixture().build(game)
    last = broadcasts_of(server, stream, SeededNoise(1))[-1].point
    assert last.argmax() == 1
    assert last[1] > 0.9
    weak = broadcasts_of(VectorMixture(1e-4).build(game), stream, SeededNoise(1))
    assert np.mean([(one.point == one.point[0]).all() for one in weak]) > 0.4


def test_what_is_refused() -> None:
    for wrong in ({"clip": 0.0}, {"clip": 1e-7}, {"delta": 0.0}, {"honest": 2}, {"trust": "none"}):
        with pytest.raises(InvalidValue):
            VectorMixture(**wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(Unsupported):
        VectorMixture().build(Setting(3, 4, 5))


def test_a_deployment_can_hide_its_uploads_under_masks() -> None:
    built = VectorMixture(trust="distributed", honest=4).build(SETTING)
    masked = Masked.of(built)
    assert (masked.field, masked.width, dict(masked.known)) == ("gradients", 3, {})

"""Audits never see what is not there, come close to what is, and say so when they cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.core.errors import InvalidValue
from hedgerow.privacy.audit import black_box, gaussian, glass_box, largest_ratio
from hedgerow.privacy.curves import GaussianDP
from hedgerow.privacy.mechanisms import ExponentialMechanism


def test_null_audits_raise_no_false_alarm() -> None:
    """Identical worlds, 1,500 audits of each kind at 99.9 %: with fixed seeds, not one."""
    rng = np.random.default_rng(1)
    for _ in range(1500):
        first, second = rng.integers(0, 6, (2, 600)).tolist()
        assert black_box(first, second).epsilon is None
        shifted, still = rng.normal(size=(2, 400))
        assert gaussian(shifted, still, 1e-3).epsilon is None
    assert glass_box(np.zeros(1000), np.zeros(1000), 1e-3).epsilon is None


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_black_box_is_within_three_percent(epsilon: float) -> None:
    """Randomised response, whose events have probability at least 0.05 in one world: the bound is below epsilon, and close."""
    rng = np.random.default_rng(int(10 * epsilon))
    mechanism = ExponentialMechanism("audit", 2 * epsilon)
    laws = [mechanism.probabilities(scores) for scores in ([0.0, 1.0], [1.0, 0.0])]
    truth = float(np.log(laws[0][0] / laws[1][0]))
    assert truth == pytest.approx(epsilon)
    samples = [rng.choice(2, 10**6, p=law).tolist() for law in laws]
    found = black_box(samples[0], samples[1]).epsilon
    assert found is not None
    assert 0.97 * truth <= found <= truth


def test_half_the_noise_is_caught() -> None:
    rng = np.random.default_rng(3)
    mechanism = ExponentialMechanism("audit", 1.0)
    laws = [mechanism.scaled(0.5).probabilities(scores) for scores in ([0.0, 8.0, 8.0], [1.0, 7.0, 7.0])]
    samples = [rng.choice(3, 10**6, p=law).tolist() for law in laws]
    found = black_box(samples[0], samples[1]).epsilon
    assert found is not None
    assert found > mechanism.epsilon


def test_glass_box_reads_the_gaussian_curve() -> None:
    """Log-ratios of a Gaussian pair are N(mu^2/2, mu^2) under either world; the truth is the analytic curve."""
    rng = np.random.default_rng(4)
    mu, delta = 1.5, 1e-2
    ratios = rng.normal(mu**2 / 2, mu, (2, 200_000))
    truth = GaussianDP(mu).epsilon(delta)
    found = glass_box(ratios[0], ratios[1], delta).epsilon
    assert found is not None
    assert 0.95 * truth <= found <= truth
    louder = rng.normal(2 * mu**2, 2 * mu, (2, 20_000))
    caught = glass_box(louder[0], louder[1], delta).epsilon
    assert caught is not None
    assert caught > truth


def test_gaussian_audit_is_close_and_below() -> None:
    rng = np.random.default_rng(5)
    found = gaussian(rng.normal(0.0, 2.0, 10**5), rng.normal(1.0, 2.0, 10**5), 1e-5).epsilon
    truth = GaussianDP(0.5).epsilon(1e-5)
    assert found is not None
    assert 0.93 * truth <= found <= truth
    halved = gaussian(rng.normal(0.0, 1.0, 10**5), rng.normal(1.0, 1.0, 10**5), 1e-5).epsilon
    assert halved is not None
    assert halved > truth


def test_too_few_samples_say_nothing() -> None:
    assert black_box([0] * 50, [1] * 50).epsilon is None
    assert glass_box(np.ones(5), np.ones(5), 1e-3).epsilon is None
    assert gaussian(np.zeros(5), np.ones(5), 1e-3).epsilon is None


def test_largest_ratio_over_exact_likelihoods() -> None:
    assert largest_ratio([(-1.0, -3.0), (-5.0, -4.0)]).epsilon == 2.0
    assert largest_ratio([(-1.0, -np.inf)]).epsilon == np.inf
    assert largest_ratio([(-np.inf, -np.inf)]).epsilon == 0.0
    with pytest.raises(InvalidValue, match="transcripts=0"):
        largest_ratio([])


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(InvalidValue, match="delta=2"):
        black_box([0] * 500, [1] * 500, delta=2.0)
    with pytest.raises(InvalidValue, match="confidence=1"):
        glass_box(np.ones(500), np.ones(500), 0.1, confidence=1.0)

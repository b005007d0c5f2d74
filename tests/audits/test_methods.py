"""Audits never see what is not there, come close to what is, and say so when they cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.audits.methods import black_box, gaussian, glass_box, largest_ratio
from hedgerow.core.errors import InvalidValue
from hedgerow.privacy.curves import GaussianDP
from hedgerow.privacy.mechanisms import ExponentialMechanism


@pytest.mark.parametrize("audits", [200, pytest.param(1500, marks=pytest.mark.long)])
def test_null_audits_raise_no_false_alarm(audits: int) -> None:
    """Identical worlds, many audits of each kind at 99.9 %: with fixed seeds, not one alarm."""
    rng = np.random.default_rng(5)
    for turn in range(audits):
        kinds, size = (
            (300, 2000) if turn % 5 == 0 else (6, 600)
        )  # with many outcomes an event judged by its own choice would alarm
        first, second = rng.integers(0, kinds, (2, size)).tolist()
        assert black_box(first, second).epsilon == 0.0
        shifted, still = rng.normal(size=(2, 400))
        assert gaussian(shifted, still, 1e-3).epsilon == 0.0
    assert glass_box(np.zeros(1000), np.zeros(1000), 1e-3).epsilon == 0.0


def false_alarms(audits: int, size: int, confidence: float) -> int:
    """How often a glass-box audit of a Gaussian pair shows more than the truth."""
    rng = np.random.default_rng(2)
    mu, delta = 1.0, 0.02
    truth = GaussianDP(mu).epsilon(delta)
    pairs = (rng.normal(mu**2 / 2, mu, (2, size)) for _ in range(audits))
    found = (glass_box(forward, backward, delta, confidence).epsilon for forward, backward in pairs)
    return sum(epsilon is not None and epsilon > truth for epsilon in found)


def test_glass_box_keeps_its_confidence_at_the_truth() -> None:
    """At 99.9 % never; at 50 % now and then, or the bound would be needlessly low."""
    assert false_alarms(60, 400, 0.999) == 0
    assert 1 <= false_alarms(60, 400, 0.5) <= 30


@pytest.mark.long
def test_glass_box_in_three_thousand_audits() -> None:
    assert false_alarms(3000, 400, 0.999) == 0
    assert 1 <= false_alarms(200, 400, 0.5) <= 100


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_black_box_is_within_three_percent(epsilon: float) -> None:
    """Randomised response, whose events have probability at least 0.05 in one world: the bound is
    below epsilon, and close.
    """
    rng = np.random.default_rng(int(10 * epsilon))
    mechanism = ExponentialMechanism("audit", 2 * epsilon)
    laws = [mechanism.probabilities(scores) for scores in ([0.0, 1.0], [1.0, 0.0])]
    truth = float(np.log(laws[0][0] / laws[1][0]))
    assert truth == pytest.approx(epsilon)
    samples = [rng.choice(2, 10**6, p=law).tolist() for law in laws]
    found = black_box(samples[0], samples[1]).epsilon
    assert found is not None
    assert 0.97 * truth <= found <= truth


@pytest.mark.parametrize(
    ("epsilon", "likely"), [(0.5, 0.4), (1.0, 0.2), (2.0, 0.15), (2.0, 0.3), (4.0, 0.2)]
)
def test_black_box_with_three_outcomes(epsilon: float, likely: float) -> None:
    """One telling outcome of this probability, its mirror image, and one that tells nothing."""
    rng = np.random.default_rng(int(100 * epsilon * likely))
    law = np.array([likely, likely * np.exp(-epsilon), 0.0])
    law[2] = 1 - law.sum()
    found = black_box(
        rng.choice(3, 10**6, p=law).tolist(), rng.choice(3, 10**6, p=law[[1, 0, 2]]).tolist()
    ).epsilon
    assert found is not None
    assert 0.97 * epsilon <= found <= epsilon


def test_black_box_keeps_its_confidence_at_the_truth() -> None:
    """True epsilon 1, shown more: never at 99.9 %, sometimes at 50 %, or the bound would be
    needlessly low.
    """
    rng = np.random.default_rng(7)
    law = np.array([0.5, 0.5 * np.exp(-1.0), 0.0])
    law[2] = 1 - law.sum()

    def alarms(confidence: float) -> int:
        pairs = (
            (rng.choice(3, 600, p=law), rng.choice(3, 600, p=law[[1, 0, 2]])) for _ in range(100)
        )
        found = (black_box(p.tolist(), q.tolist(), confidence=confidence).epsilon for p, q in pairs)
        return sum(epsilon is not None and epsilon > 1.0 for epsilon in found)

    assert alarms(0.999) == 0
    assert 1 <= alarms(0.5) <= 50


def test_half_the_noise_is_caught() -> None:
    rng = np.random.default_rng(3)
    mechanism = ExponentialMechanism("audit", 1.0)
    laws = [
        mechanism.scaled(0.5).probabilities(scores) for scores in ([0.0, 8.0, 8.0], [1.0, 7.0, 7.0])
    ]
    samples = [rng.choice(3, 10**6, p=law).tolist() for law in laws]
    found = black_box(samples[0], samples[1]).epsilon
    assert found is not None
    assert found > mechanism.epsilon


def test_glass_box_reads_the_gaussian_curve() -> None:
    """Log-ratios of a Gaussian pair are N(mu^2/2, mu^2) under either world; the truth is the
    analytic curve.
    """
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


def test_glass_box_without_delta_is_the_largest_ratio_seen() -> None:
    ratios = np.append(np.zeros(200), 1.25)
    assert glass_box(ratios, -ratios, 0.0).epsilon == 1.25
    assert glass_box(np.append(ratios, np.inf), -ratios, 0.0).epsilon == np.inf
    impossible = np.where(
        np.arange(400) % 4 == 0, np.inf, 0.0
    )  # a quarter of the outputs give everything away
    assert glass_box(impossible, -np.zeros(400), 0.01).epsilon == np.inf


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
    faint = np.random.default_rng(6).normal(0.005, 0.1, (2, 200))
    assert glass_box(faint[0], faint[1], 0.1).epsilon is None
    assert gaussian(np.zeros(5), np.ones(5), 1e-3).epsilon is None


def test_what_is_not_a_number_is_refused() -> None:
    with pytest.raises(InvalidValue, match="log-likelihoods"):
        largest_ratio([(0.0, 0.0), (np.nan, 0.0)])
    with pytest.raises(InvalidValue, match="log-ratios"):
        glass_box(np.append(np.ones(500), np.nan), np.ones(500), 0.0)
    with pytest.raises(InvalidValue, match="samples"):
        gaussian(np.append(np.ones(500), np.nan), np.ones(500), 1e-3)
    with pytest.raises(InvalidValue, match="confidence=2"):
        gaussian(np.ones(500), np.ones(500), 1e-3, confidence=2.0)


def test_audits_that_could_not_have_seen_it_say_so() -> None:
    assert (
        black_box(range(2000), range(2000, 4000)).epsilon is None
    )  # no output ever comes up again
    assert gaussian(np.zeros(500), np.ones(500), 1e-3).epsilon == np.inf
    told = black_box([0] * 200, [1] * 200)
    assert told.epsilon is not None
    assert 2.0 < told.epsilon <= told.most < 3.5


def test_largest_ratio_over_exact_likelihoods() -> None:
    assert largest_ratio([(-1.0, -3.0), (-5.0, -4.0)]).epsilon == 2.0
    assert largest_ratio([(-1.0, -np.inf)]).epsilon == np.inf
    assert largest_ratio([(-np.inf, -np.inf)]).epsilon is None
    with pytest.raises(InvalidValue, match="transcripts=0"):
        largest_ratio([])


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(InvalidValue, match="delta=2"):
        black_box([0] * 500, [1] * 500, delta=2.0)
    with pytest.raises(InvalidValue, match="confidence=1"):
        glass_box(np.ones(500), np.ones(500), 0.1, confidence=1.0)

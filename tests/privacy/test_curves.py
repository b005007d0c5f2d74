"""Every privacy curve against an integral, a closed form or a library that computes it in another
way.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import integrate, optimize, special, stats

from hedgerow.core.certificate import NoGuarantee, PrivacyCurve
from hedgerow.core.errors import InvalidValue
from hedgerow.privacy.composition.bounded_range import AdaptiveBoundedRange
from hedgerow.privacy.composition.groups import Grouped, group, of_one_person
from hedgerow.privacy.composition.random_draws import CoinThenDraws
from hedgerow.privacy.composition.steps import AfterPureStep, PureComposition
from hedgerow.privacy.curves import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    LaplaceDP,
    PureDP,
    Quoted,
    ZeroConcentratedDP,
    trade_off,
)
from hedgerow.privacy.search import closest
from hedgerow_papers.jacobsen2025.mixture import GaussianMixture

quick = settings(derandomize=True, deadline=None, database=None, max_examples=60)
CURVES: dict[str, PrivacyCurve] = {
    "pure": PureDP(1.2),
    "approximate": ApproximateDP(0.8, 1e-3),
    "gaussian": GaussianDP(0.9),
    "wide gaussian": GaussianDP(4.0),
    "mixture": GaussianMixture(((2.0, 0.25), (0.5, 0.5), (0.0, 0.25))),
    "zero-concentrated": ZeroConcentratedDP(0.3),
    "bounded range": BoundedRange(1.7),
    "laplace": LaplaceDP(1.1),
    "quoted": Quoted(GaussianDP(0.9), 1e-4),
}
each_curve = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())


def _hockey_stick(one: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(one - np.exp(epsilon) * other, 0.0).sum())


# What holds for all of them


@each_curve
def test_a_curve_falls_from_one_and_is_convex_in_the_exponential(curve: PrivacyCurve) -> None:
    epsilons = np.linspace(-6, 6, 400)
    deltas = np.array([curve.delta(e) for e in epsilons])
    assert isinstance(curve, PrivacyCurve)
    assert curve.words()
    assert (deltas >= np.maximum(0, -np.expm1(epsilons)) - 1e-15).all()
    assert (deltas <= 1).all()
    assert (np.diff(deltas) <= 1e-15).all()
    slopes = np.diff(deltas) / np.diff(np.exp(epsilons))
    if not isinstance(curve, ZeroConcentratedDP):  # a minimum of bounds, each convex
        assert (np.diff(slopes) >= -1e-9).all()
    assert (slopes >= -1 - 1e-9).all()


@each_curve
def test_both_directions_have_the_same_curve(curve: PrivacyCurve) -> None:
    for epsilon in (0.1, 0.5, 1.0, 3.0):
        assert curve.delta(-epsilon) == pytest.approx(
            1 - np.exp(-epsilon) + np.exp(-epsilon) * curve.delta(epsilon), rel=1e-12
        )


@each_curve
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3, 0.01, 0.1, 0.3, 0.9, 1.0])
def test_epsilon_is_the_least_with_that_delta(curve: PrivacyCurve, delta: float) -> None:
    epsilon = curve.epsilon(delta)
    assert epsilon >= 0
    if np.isfinite(epsilon):
        assert curve.delta(epsilon) <= delta * (1 + 1e-9)
        if epsilon > 1e-6:
            assert curve.delta(epsilon * (1 - 1e-6)) > delta
    else:
        assert curve.delta(500.0) > delta


@each_curve
@pytest.mark.parametrize("delta", [-0.1, 1.1, np.nan])
def test_a_delta_outside_its_range_is_refused(curve: PrivacyCurve, delta: float) -> None:
    with pytest.raises(InvalidValue, match=r"delta=.* in \[0"):
        curve.epsilon(delta)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: GaussianDP(-1.0), r"mu=-1\.0 >= 0"),
        (lambda: GaussianDP(np.inf), "mu=inf"),
        (lambda: GaussianMixture(((1.0, 0.5), (-1.0, 0.5))), r"mu=-1\.0 >= 0"),
        (lambda: GaussianMixture(((1.0, 0.5), (0.5, 0.4))), r"probabilities=0\.9 to be 1"),
        (lambda: GaussianMixture(((1.0, 0.0), (0.5, 1.0))), r"probability=0\.0 in \(0, 1"),
        (lambda: ZeroConcentratedDP(np.nan), "rho=nan >= 0"),
        (lambda: BoundedRange(-0.5), r"range=-0\.5 >= 0"),
        (lambda: ApproximateDP(-1.0, 0.1), r"at_epsilon=-1\.0 >= 0"),
        (lambda: ApproximateDP(1.0, 1.5), r"at_delta=1\.5 in \[0"),
        (lambda: trade_off(GaussianDP(1.0), [0.5, 1.5]), r"alpha=1\.5 in \[0"),
        (lambda: group(PureDP(1.0), 0), "k=0 to be a whole number >= 1"),
        (lambda: of_one_person(PureDP(1.0), -2), "k=-2 to be a whole number >= 1"),
    ],
)
def test_impossible_parameters_are_refused(make: Callable[[], Any], rule: str) -> None:
    with pytest.raises(InvalidValue, match=rule):
        make()


def test_no_privacy_loss_at_all() -> None:
    for curve in (
        PureDP(0.0),
        ApproximateDP(0.0, 0.0),
        GaussianDP(0.0),
        ZeroConcentratedDP(0.0),
        BoundedRange(0.0),
    ):
        assert (curve.delta(0.0), curve.epsilon(0.0), curve.epsilon(0.5)) == (0.0, 0.0, 0.0)
        assert curve.delta(-1.0) == pytest.approx(1 - np.exp(-1))


# Approximate


@quick
@given(st.floats(0, 6), st.floats(0, 1), st.floats(-8, 8))
def test_the_approximate_curve_is_that_of_its_worst_mechanism(
    bound: float, leak: float, epsilon: float
) -> None:
    """Four outcomes: tells world one, tells world two, and the two answers of randomised response."""
    truth = 1 / (1 + np.exp(-bound))
    one = np.array([leak, 0.0, (1 - leak) * truth, (1 - leak) * (1 - truth)])
    other = np.array([0.0, leak, (1 - leak) * (1 - truth), (1 - leak) * truth])
    assert ApproximateDP(bound, leak).delta(epsilon) == pytest.approx(
        _hockey_stick(one, other, epsilon), abs=1e-12
    )


def test_no_pair_with_the_approximate_claim_is_worse() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        one, other = rng.dirichlet(np.full(6, 0.4), 2)
        at = float(rng.uniform(0, 2))
        claim = ApproximateDP(at, max(_hockey_stick(one, other, at), _hockey_stick(other, one, at)))
        for epsilon in np.linspace(-3, 5, 30):
            assert (
                max(_hockey_stick(one, other, epsilon), _hockey_stick(other, one, epsilon))
                <= claim.delta(epsilon) + 1e-12
            )


def test_below_its_delta_the_approximate_curve_claims_nothing() -> None:
    curve = ApproximateDP(1.0, 0.01)
    assert curve.epsilon(0.0099) == np.inf
    assert curve.epsilon(0.01) == 1.0
    assert ApproximateDP(1.0, 1.0).epsilon(1.0) == 0.0
    assert curve.delta(50.0) == 0.01


# Gaussian


def _exact_gaussian(mu: float, epsilon: float) -> mpf:
    with mp.workdps(400):
        m, e = mpf(mu), mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


GAUSSIAN_MU = (1e-4, 3e-3, 0.1, 0.5, 1.0, 1.0 + 1e-9, 2.5, 10.0, 50.0)


@pytest.mark.parametrize("mu", GAUSSIAN_MU)
@pytest.mark.parametrize("place", [-0.5, -0.49, -0.2, 0.0, 1.0, 4.0, 10.0, 25.0, 30.5, 36.9])
def test_the_gaussian_curve_in_many_digits(mu: float, place: float) -> None:
    """At epsilon = mu (place + mu/2) delta is about the normal tail beyond `place`: down to 1e-300."""
    epsilon = mu * mu / 2 * (1 + 2 * place) if -0.5 <= place < 0 else mu * (place + mu / 2)
    for e in (epsilon, -epsilon):
        exact = _exact_gaussian(mu, e)
        assert abs(GaussianDP(mu).delta(e) / exact - 1) < 1e-10
    assert float(_exact_gaussian(mu, epsilon)) > 1e-306


@pytest.mark.parametrize("mu", GAUSSIAN_MU)
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-20, 1e-6, 1e-3, 0.3])
def test_the_gaussian_inverse_in_many_digits(mu: float, delta: float) -> None:
    """One Newton step in high precision from the answer must not move it."""
    epsilon = GaussianDP(mu).epsilon(delta)
    if float(_exact_gaussian(mu, 0.0)) <= delta:
        assert epsilon == 0.0
        return
    with mp.workdps(400):
        slope = -mpmath.exp(mpf(epsilon)) * mpmath.ncdf(-mpf(mu) / 2 - mpf(epsilon) / mpf(mu))
        step = (mpf(delta) - _exact_gaussian(mu, epsilon)) / slope
        assert abs(step / mpf(epsilon)) < 1e-10
    assert GaussianDP(mu).delta(epsilon) <= delta


@pytest.mark.parametrize(
    ("mu", "epsilon"), [(0.3, 0.0), (0.3, 0.4), (1.0, 1.0), (2.0, 3.0), (5.0, 10.0)]
)
def test_the_gaussian_curve_is_an_integral(mu: float, epsilon: float) -> None:
    def gain(x: float) -> float:
        return max(stats.norm.pdf(x - mu) - np.exp(epsilon) * stats.norm.pdf(x), 0.0)

    start = epsilon / mu + mu / 2
    assert GaussianDP(mu).delta(epsilon) == pytest.approx(
        integrate.quad(gain, start, start + 15, epsabs=1e-16)[0], rel=1e-8
    )


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 3.0, 12.0])
def test_the_gaussian_curve_agrees_with_dp_accounting(mu: float) -> None:
    for delta in (1e-12, 1e-6, 1e-3):
        theirs = dp_accounting.get_epsilon_gaussian(1 / mu, delta)
        assert GaussianDP(mu).epsilon(delta) == pytest.approx(theirs, rel=1e-6, abs=1e-9)
    for epsilon in (0.0, 0.3, 2.0):
        loss = GaussianPrivacyLoss(1 / mu)
        assert GaussianDP(mu).delta(epsilon) == pytest.approx(
            loss.get_delta_for_epsilon(epsilon), rel=1e-6, abs=1e-13
        )


def test_published_gaussian_scales() -> None:
    """The exact noise for (1, 1e-6), (0.5, 1e-3) and (2, 1e-3)."""
    for sigma, epsilon, delta in ((4.22468, 1.0, 1e-6), (4.610, 0.5, 1e-3), (1.445, 2.0, 1e-3)):
        assert GaussianDP(1 / sigma).epsilon(delta) == pytest.approx(epsilon, rel=1e-3)


def test_extreme_gaussian_curves() -> None:
    assert 0 < GaussianDP(1.0).delta(1e6) < 1e-300
    assert GaussianDP(1.0).delta(np.inf) == 0.0
    assert GaussianDP(1.0).epsilon(0.0) == np.inf
    assert GaussianDP(1e-300).delta(1.0) < 1e-300
    assert GaussianDP(1e-300).delta(0.0) == pytest.approx(1e-300 / np.sqrt(2 * np.pi))
    assert GaussianDP(60.0).delta(0.0) == 1.0
    with pytest.raises(InvalidValue, match="epsilon=nan to be a number"):
        GaussianDP(1.0).delta(np.nan)
    assert np.isfinite(GaussianDP(60.0).epsilon(1 - 1e-16))


@quick
@given(st.floats(1e-4, 50), st.floats(-300, 0))
def test_the_gaussian_inverse_always_answers_on_the_safe_side(mu: float, exponent: float) -> None:
    curve, delta = GaussianDP(mu), 10.0**exponent
    epsilon = curve.epsilon(delta)
    assert curve.delta(epsilon) <= delta
    assert epsilon == 0 or curve.delta(epsilon * (1 - 1e-9)) > delta * (1 - 1e-7)


# Mixtures of Gaussian curves

PARTS = tuple((1 / np.sqrt(size), 0.125) for size in (1, 2, 3, 5, 10, 100, 10_000, 0.04))


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.5, 1.0, 3.0, 12.0, 40.0])
def test_a_mixture_is_the_mean_of_its_parts_and_never_below(epsilon: float) -> None:
    with mp.workdps(40):
        e = mpf(epsilon)
        exact = mpmath.fsum(
            mpf(p)
            * (mpmath.ncdf(mpf(m) / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-mpf(m) / 2 - e / m))
            for m, p in PARTS
        )
        found = mpf(GaussianMixture(PARTS).delta(epsilon))
        assert exact <= found <= exact * (1 + mpf("1e-9"))


def test_a_mixture_lies_between_its_parts_and_has_their_trade_off() -> None:
    """Lemma 4.2.2 of Jacobsen and Fawaz: tests by the log-ratio s have both errors in the mean."""
    curve = GaussianMixture(PARTS)
    mu, probability = np.array(PARTS).T
    for s in (-1.0, 0.0, 0.5, 2.0, 5.0):
        alarms = probability @ special.ndtr(-s / mu - mu / 2)
        misses = probability @ special.ndtr(s / mu - mu / 2)
        assert curve.trade_off(alarms) == pytest.approx(misses, abs=1e-6)
    idle = GaussianMixture(((2.0, 0.25), (0.5, 0.5), (0.0, 0.25)))
    for mixed in (curve, idle):
        assert mixed.trade_off(ALPHA) == pytest.approx(trade_off(mixed, ALPHA), abs=2e-9)
    for epsilon in (0.0, 1.0, 2.0):
        least, *_, most = sorted(GaussianDP(m).delta(epsilon) for m, _ in PARTS)
        assert least < curve.delta(epsilon) < most
    assert GaussianMixture(((0.7, 1.0),)).delta(1.0) == pytest.approx(GaussianDP(0.7).delta(1.0))
    assert GaussianMixture(((0.0, 1.0),)).delta(0.0) == 0.0
    assert curve.epsilon(0.0) == np.inf


# Zero-concentrated


def _by_grid(rho: float, epsilon: float) -> float:
    orders = 1 + np.geomspace(1e-7, 1e7, 2_000_001)
    steps = orders - 1
    return float(
        np.exp(
            (
                steps * (orders * rho - epsilon) + steps * np.log1p(-1 / orders) - np.log(orders)
            ).min()
        )
    )


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.125, 1.0, 10.0])
@pytest.mark.parametrize("units", [0.5, 2.0, 6.0, 15.0])
def test_the_zero_concentrated_curve_is_the_best_order_of_a_dense_grid(
    rho: float, units: float
) -> None:
    epsilon = rho + units * np.sqrt(2 * rho)
    curve = ZeroConcentratedDP(rho)
    expected = min(_by_grid(rho, epsilon), np.sqrt(rho / 2), np.sqrt(-np.expm1(-rho)))
    assert curve.delta(epsilon) == pytest.approx(expected, rel=1e-7)
    assert curve.delta(epsilon) <= expected * (1 + 1e-12)


@pytest.mark.parametrize("rho", [1e-3, 0.02, 0.125, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
def test_the_zero_concentrated_inverse_agrees_with_dp_accounting(rho: float, delta: float) -> None:
    best = np.sqrt(-np.log(delta) / rho)
    orders = 1 + np.geomspace(best / 100, best * 2, 20_000)
    accountant = dp_accounting.rdp.RdpAccountant(orders=orders)
    theirs = accountant.compose(dp_accounting.ZCDpEvent(rho)).get_epsilon(delta)
    ours = ZeroConcentratedDP(rho).epsilon(delta)
    assert ours == pytest.approx(theirs, rel=1e-6)
    assert ZeroConcentratedDP(rho).delta(ours) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.125, 0.5, 2.0, 20.0])
def test_the_exact_gaussian_curve_is_tighter(rho: float) -> None:
    gaussian, concentrated = GaussianDP(np.sqrt(2 * rho)), ZeroConcentratedDP(rho)
    for epsilon in (0.0, 0.01, 0.3, 1.0, 4.0, 30.0):
        assert gaussian.delta(epsilon) <= concentrated.delta(epsilon)
    assert gaussian.epsilon(1e-6) < concentrated.epsilon(1e-6)


def test_the_detour_by_zero_concentration_costs_noise() -> None:
    """At (0.5, 1e-3) 1.14 times the standard deviation, and 1.64 times with the older conversion."""

    def root(cost: Callable[[float], float]) -> float:
        return float(optimize.brentq(lambda x: cost(x) - 0.5, 1e-6, 2.0))  # pyright: ignore[reportArgumentType]

    mu, rho = (
        root(lambda m: GaussianDP(m).epsilon(1e-3)),
        root(lambda r: ZeroConcentratedDP(r).epsilon(1e-3)),
    )
    older = root(lambda r: r + 2 * np.sqrt(r * np.log(1e3)))
    assert mu / np.sqrt(2 * rho) == pytest.approx(1.14, abs=0.005)
    assert mu / np.sqrt(2 * older) == pytest.approx(1.64, abs=0.005)


def test_no_pair_with_a_zero_concentrated_claim_is_worse() -> None:
    rng = np.random.default_rng(2)
    orders = 1 + np.geomspace(1e-4, 1e3, 4000)
    for _ in range(60):
        one, other = rng.dirichlet(np.full(4, 2.0), 2)
        loss = np.log(one / other)
        both = [
            (
                special.logsumexp(np.outer(orders, s * loss), b=np.where(s > 0, other, one), axis=1)
                / (orders - 1)
                / orders
            ).max()
            for s in (1, -1)
        ]
        curve = ZeroConcentratedDP(float(max(both)) * (1 + 1e-9))
        for epsilon in np.linspace(-1, 4, 30):
            assert (
                max(_hockey_stick(one, other, epsilon), _hockey_stick(other, one, epsilon))
                <= curve.delta(epsilon) + 1e-12
            )


def test_extreme_zero_concentrated_curves() -> None:
    assert ZeroConcentratedDP(1000.0).delta(0.0) == 1.0
    assert ZeroConcentratedDP(1e-8).delta(5.0) > 0
    assert ZeroConcentratedDP(1.0).epsilon(0.0) == np.inf
    assert ZeroConcentratedDP(1e-300).epsilon(1e-6) == 0.0
    assert 900 < ZeroConcentratedDP(1000.0).epsilon(1 - 1e-9) < 1000


# Bounded range


@quick
@given(st.floats(0.01, 8), st.floats(-1.2, 1.2))
def test_the_bounded_range_curve_is_the_worst_two_point_mechanism(
    width: float, place: float
) -> None:
    """Log-ratios t and t - range with the only probabilities that sum to one: the supremum over t,
    by brute force.
    """
    epsilon = place * width
    t = np.linspace(0, width, 20_001)
    high = np.clip(-np.expm1(t - width) / -np.expm1(-width), 0.0, 1.0)
    value = high * np.maximum(0, -np.expm1(epsilon - t)) + (1 - high) * np.maximum(
        0, -np.expm1(epsilon - t + width)
    )
    assert BoundedRange(width).delta(epsilon) == pytest.approx(value.max(), rel=1e-6, abs=1e-9)
    assert BoundedRange(width).delta(epsilon) >= value.max() - 1e-12


@quick
@given(st.floats(0.01, 6), st.integers(0, 10_000))
def test_no_exponential_mechanism_is_worse_than_its_range(width: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(5, 0.5))
    moved = weights * np.exp(rng.uniform(0, width, 5))
    moved /= moved.sum()
    for epsilon in np.linspace(-width, width, 9):
        assert (
            max(_hockey_stick(weights, moved, epsilon), _hockey_stick(moved, weights, epsilon))
            <= BoundedRange(width).delta(epsilon) + 1e-12
        )


def test_a_bounded_range_is_a_pure_guarantee_and_better() -> None:
    for width in (0.1, 1.0, 5.0):
        for epsilon in np.linspace(-width, 0.99 * width, 20):
            assert BoundedRange(width).delta(epsilon) <= PureDP(width).delta(epsilon) + 1e-15
        assert BoundedRange(width).delta(0.0) == pytest.approx(np.tanh(width / 4))
        assert BoundedRange(width).epsilon(0.0) == width
        assert PureDP(width).delta(0.0) == pytest.approx(np.tanh(width / 2))


# Trade-off functions


class _Plain:
    """The same curve under a type that has no closed form."""

    def __init__(self, curve: PrivacyCurve) -> None:
        self.delta, self.epsilon = curve.delta, curve.epsilon
        self.words, self.stated, self.of_records = curve.words, curve.stated, curve.of_records


ALPHA = np.array([0.0, 1e-6, 0.003, 0.05, 0.2, 0.5, 0.77, 0.95, 1.0])


@each_curve
def test_the_closed_trade_off_is_what_the_search_finds(curve: PrivacyCurve) -> None:
    assert trade_off(curve, ALPHA) == pytest.approx(trade_off(_Plain(curve), ALPHA), abs=2e-9)


@each_curve
def test_the_curve_comes_back_from_its_trade_off(curve: PrivacyCurve) -> None:
    """delta(epsilon) = sup over alpha of 1 - f(alpha) - e^epsilon alpha."""
    if isinstance(curve, ZeroConcentratedDP):
        pytest.skip("a minimum of bounds is not convex: the trade-off belongs to its convex hull")
    kink = float(optimize.brentq(lambda a: float(trade_off(curve, a)) - a, 0.0, 1.0, xtol=1e-15))  # pyright: ignore[reportArgumentType]
    alpha = np.unique([0.0, kink, 1 - curve.delta(50.0), *np.geomspace(1e-7, 1, 401)])
    f = trade_off(curve, alpha)
    for epsilon in (-1.0, 0.0, 0.4, 1.0, 2.0):
        best = int(np.argmax(1 - f - np.exp(epsilon) * alpha))  # of a concave function
        first, last = max(best - 1, 0), min(best + 1, len(alpha) - 1)
        near = np.linspace(alpha[first], alpha[last], 401)
        near = np.append(near, alpha[best])
        back = (1 - trade_off(curve, near) - np.exp(epsilon) * near).max()
        assert back == pytest.approx(curve.delta(epsilon), rel=1e-6, abs=1e-12)


@each_curve
def test_a_trade_off_is_convex_symmetric_and_below_chance(curve: PrivacyCurve) -> None:
    alpha = np.linspace(0, 1, 60)
    f = trade_off(curve, alpha)
    assert f.shape == alpha.shape
    assert (f <= 1 - alpha + 1e-12).all()
    assert (f >= 0).all()
    assert (np.diff(f) <= 1e-12).all()
    assert (np.diff(f, 2) >= -1e-7).all()
    back = trade_off(curve, np.clip(f[1:-1], 0, 1))
    inner = (f[1:-1] > 1e-3) & (back > 0)
    if not isinstance(curve, (ApproximateDP, ZeroConcentratedDP)):
        assert back[inner] == pytest.approx(alpha[1:-1][inner], abs=1e-6)


@pytest.mark.parametrize("delta", [0.9999999, 1 - 6e-13, 1 - 2.0**-53])
@pytest.mark.parametrize("mu", [1e-9, 1e-3, 0.3, 5.0, 12.0, 40.0])
def test_a_gaussian_curve_is_read_even_where_delta_is_nearly_one(mu: float, delta: float) -> None:
    curve = GaussianDP(mu)
    assert curve.delta(curve.epsilon(delta)) <= delta


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "curve",
    [PureDP(1e6), BoundedRange(1e6), LaplaceDP(1e6), ApproximateDP(1e6, 0.0), GaussianDP(1e6)],
)
def test_the_trade_off_of_a_budget_that_hides_nothing(curve: PrivacyCurve) -> None:
    assert trade_off(curve, [0.0, 1e-9, 0.5, 1.0]).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_the_gaussian_trade_off_is_that_of_the_best_test() -> None:
    alpha = np.array([0.01, 0.3, 0.9])
    assert trade_off(GaussianDP(1.5), alpha) == pytest.approx(
        stats.norm.cdf(stats.norm.isf(alpha) - 1.5), rel=1e-12
    )
    assert trade_off(GaussianDP(0.0), alpha) == pytest.approx(1 - alpha)
    assert trade_off(PureDP(np.inf), [0.0, 0.5, 1.0]).tolist() == [1.0, 0.0, 0.0]
    assert trade_off(NoGuarantee("raw data"), [0.0, 0.5]).tolist() == [0.0, 0.0]
    assert trade_off(GaussianDP(1.0), 0.5).shape == ()


# Several records


def _chain(
    make: Callable[[np.ndarray, np.random.Generator], np.ndarray],
    length: int,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    laws = [rng.dirichlet(np.full(4, 1.0))]
    for _ in range(length):
        laws.append(make(laws[-1], rng))
    return laws


@pytest.mark.parametrize("k", [2, 3, 5])
def test_group_curves_hold_on_random_chains_of_neighbours(k: int) -> None:
    """Each law is a neighbour of the next by its own measured claim; the ends must be within the
    group's curve.
    """
    rng = np.random.default_rng(k)
    for _ in range(60):
        laws = _chain(
            lambda law, rng: (w := law * np.exp(rng.uniform(-0.3, 0.3, 4))) / w.sum(), k, rng
        )
        losses = [np.log(a / b) for a, b in pairwise(laws)]
        pure = PureDP(float(max(np.abs(loss).max() for loss in losses)))
        ranged = BoundedRange(float(max(np.ptp(loss) for loss in losses)))
        at = 0.1
        leak = max(max(_hockey_stick(a, b, at), _hockey_stick(b, a, at)) for a, b in pairwise(laws))
        for claim in (pure, ranged, ApproximateDP(at, leak)):
            for epsilon in np.linspace(0, 1.5, 12):
                truth = max(
                    _hockey_stick(laws[0], laws[-1], epsilon),
                    _hockey_stick(laws[-1], laws[0], epsilon),
                )
                assert truth <= group(claim, k).delta(epsilon) + 1e-12


@pytest.mark.parametrize("k", [2, 7, 30])
def test_gaussian_groups_are_exact(k: int) -> None:
    """k records in one report move its mean k times as far."""
    mu = 0.3
    grown, concentrated = group(GaussianDP(mu), k), group(ZeroConcentratedDP(mu**2 / 2), k)
    assert grown == of_one_person(GaussianDP(mu), k)
    assert isinstance(grown, GaussianDP)
    assert grown.mu == pytest.approx(k * mu, rel=1e-14)
    assert isinstance(concentrated, ZeroConcentratedDP)
    assert concentrated.rho == pytest.approx((k * mu) ** 2 / 2, rel=1e-14)
    assert group(PureDP(0.3), k).epsilon(0.0) >= k * 0.3 - 1e-15
    assert group(BoundedRange(0.3), k).epsilon(0.0) == pytest.approx(k * 0.3)


def test_approximate_groups_are_attained() -> None:
    """The probability of one event along a chain of neighbours that uses all it is allowed at every
    step.
    """
    epsilon, delta, k = 0.4, 1e-3, 4
    chain = [1e-3]
    for _ in range(k):
        chain.append(np.exp(epsilon) * chain[-1] + delta)
    grown = group(ApproximateDP(epsilon, delta), k)
    assert grown.epsilon(
        1e-3 * np.expm1(k * epsilon) / np.expm1(epsilon) * (1 + 1e-12)
    ) == pytest.approx(k * epsilon)
    assert chain[-1] - np.exp(k * epsilon) * chain[0] == pytest.approx(
        grown.delta(k * epsilon), rel=1e-12
    )
    assert group(ApproximateDP(0.0, 1e-3), 5).delta(0.0) == pytest.approx(5e-3)
    assert group(ApproximateDP(300.0, 1e-3), 5).delta(0.0) == 1.0
    assert group(ApproximateDP(1.0, 0.0), 5) == ApproximateDP(5.0, 0.0)


def test_separate_gaussian_reports_add_in_squares_and_joint_ones_do_not() -> None:
    """The likelihood ratio of k reports of one person, simulated: its curve is that of sqrt(k) mu,
    far below k mu.
    """
    mu, k, epsilon = 0.5, 4, 1.0
    rng = np.random.default_rng(3)
    reports = mu + rng.standard_normal((400_000, k))
    loss = (mu * reports - mu**2 / 2).sum(axis=1)
    gains = np.maximum(0, -np.expm1(epsilon - loss))
    error = 5 * gains.std() / np.sqrt(len(gains))
    separate, joint = (
        of_one_person(GaussianDP(mu), k, separate_reports=True),
        of_one_person(GaussianDP(mu), k),
    )
    assert separate == GaussianDP(1.0)
    assert joint == GaussianDP(2.0)
    assert abs(gains.mean() - separate.delta(epsilon)) < error
    assert gains.mean() < joint.delta(epsilon) - 10 * error
    one_report = mu * k + rng.standard_normal(400_000)
    together = np.maximum(0, -np.expm1(epsilon - (mu * k * one_report - (mu * k) ** 2 / 2)))
    assert together.mean() > separate.delta(epsilon) + 10 * error


def test_other_separate_reports_compose() -> None:
    assert of_one_person(ZeroConcentratedDP(0.25), 4, separate_reports=True) == ZeroConcentratedDP(
        1.0
    )
    assert of_one_person(ApproximateDP(0.25, 1e-6), 4, separate_reports=True) == ApproximateDP(
        1.0, 4e-6
    )
    assert of_one_person(PureDP(0.25), 4, separate_reports=True) == PureComposition(0.25, 4)
    assert of_one_person(LaplaceDP(0.25), 4, separate_reports=True) == PureComposition(0.25, 4)
    assert of_one_person(PureDP(np.inf), 4, separate_reports=True) == PureDP(np.inf)
    assert of_one_person(BoundedRange(0.25), 4, separate_reports=True) == AdaptiveBoundedRange(
        0.25, 4
    )
    assert of_one_person(BoundedRange(60.0), 4, separate_reports=True) == PureDP(240.0)
    assert of_one_person(Quoted(GaussianDP(0.5), 1e-5), 4, separate_reports=True) == Quoted(
        GaussianDP(1.0), 1e-5
    )
    assert of_one_person(GaussianDP(0.3), 1) == GaussianDP(0.3)


@pytest.mark.parametrize("k", [2, 3, 5, 11])
def test_square_roots_round_up(k: int) -> None:
    from fractions import Fraction

    for mu in (0.1, 1 / 3, 7.7):
        grown = of_one_person(GaussianDP(mu), k, separate_reports=True)
        assert isinstance(grown, GaussianDP)
        assert Fraction(grown.mu) ** 2 >= k * Fraction(mu) ** 2
        assert Fraction(float(np.nextafter(grown.mu, 0))) ** 2 < k * Fraction(mu) ** 2


def test_separate_choices_have_no_bounded_range_of_their_sum() -> None:
    """Two reports of range r, the second one chosen after the first: the log-ratios of both
    together are 3r apart, not 2r.
    """
    r = 0.4
    first = np.array([0.9 * r, -0.1 * r])  # of the two answers
    second = {0: np.array([0.999 * r, -0.001 * r]), 1: np.array([0.001 * r, -0.999 * r])}
    together = np.concatenate([first[answer] + second[answer] for answer in (0, 1)])
    assert np.ptp(first) == pytest.approx(r)
    assert np.ptp(together) > 2.9 * r


def test_quoted_curves_keep_their_delta() -> None:
    assert group(Quoted(GaussianDP(0.5), 1e-5), 3) == Quoted(GaussianDP(1.5), 1e-5)
    assert (
        trade_off(Quoted(PureDP(1.0), 1e-5), ALPHA).tolist()
        == trade_off(PureDP(1.0), ALPHA).tolist()
    )
    assert group(LaplaceDP(0.5), 3) == LaplaceDP(1.5)


OTHERS: dict[str, PrivacyCurve] = {
    "bounded range": AdaptiveBoundedRange(0.2, 12),
    "pure": PureComposition(0.1, 20),
    "after a pure step": AfterPureStep(AdaptiveBoundedRange(0.1, 12), 0.3),
    "gaussian": _Plain(GaussianDP(0.4)),
    "flat tail": _Plain(ApproximateDP(0.2, 1e-4)),
}


@pytest.mark.parametrize("curve", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("k", [2, 5])
def test_any_curve_has_a_group_curve(curve: PrivacyCurve, k: int) -> None:
    grown = group(curve, k)
    assert isinstance(grown, Grouped)
    assert grown.epsilon(0.0) >= k * curve.epsilon(0.0)
    deltas = [grown.delta(epsilon) for epsilon in np.linspace(-1, 8, 60)]
    assert all(0 <= delta <= 1 for delta in deltas)
    assert all(a >= b * (1 - 1e-12) for a, b in pairwise(deltas))
    for epsilon in (0.1, 0.7, 2.0):
        growth = sum(np.exp(j * epsilon / k) for j in range(k))
        assert (
            curve.delta(epsilon)
            <= grown.delta(epsilon)
            <= growth * curve.delta(epsilon / k) * (1 + 1e-12)
        )
    for delta in (1e-9, 1e-3, 0.2):
        epsilon = grown.epsilon(delta)
        if np.isfinite(epsilon):
            assert grown.delta(epsilon) <= delta
    assert group(group(curve, 2), k) == Grouped(curve, 2 * k)
    assert grown.words()


@pytest.mark.parametrize("exact", [GaussianDP(0.2), BoundedRange(0.5), LaplaceDP(0.4)])
@pytest.mark.parametrize("k", [2, 10, 24, 100])
def test_the_group_curve_of_any_curve_is_nearly_exact(exact: Any, k: int) -> None:
    grown, closed = group(_Plain(exact), k), group(exact, k)
    for delta in (1e-10, 1e-6, 1e-3):
        truth = closed.epsilon(delta)
        assert truth * (1 - 1e-11) <= grown.epsilon(delta) <= truth * 1.001
    for epsilon in np.linspace(0, closed.epsilon(1e-12), 40):
        assert grown.delta(epsilon) >= closed.delta(epsilon) * (1 - 1e-11)


def _polygon(laws: list[Any]) -> Any:
    """The curve of the worst of some pairs of laws, in both directions."""

    def worst(epsilon: float) -> float:
        pairs = [pair for a, b in pairwise(laws) for pair in ((a, b), (b, a))]
        return max(_hockey_stick(a, b, epsilon) for a, b in pairs)

    class Worst(PureDP):
        def delta(self, epsilon: float) -> float:
            return worst(epsilon)

        def epsilon(self, delta: float) -> float:
            return closest(lambda e: worst(e) <= delta, self.bound, 0.0, 1e-12)

    return Worst(max(float(np.abs(np.log(a / b)).max()) for a, b in pairwise(laws)) * (1 + 1e-12))


@pytest.mark.parametrize("seed", range(20))
def test_no_chain_of_neighbours_leaves_the_group_curve(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    tilt = np.linspace(-1, 1, 6) * rng.uniform(0.1, 0.5)  # the same way, as an attack would
    laws = [rng.dirichlet(np.ones(6))]
    for _ in range(k):
        laws.append((w := laws[-1] * np.exp(tilt + rng.uniform(-0.05, 0.05, 6))) / w.sum())
    grown = Grouped(_polygon(laws), k)
    used = 0.0
    for epsilon in np.linspace(0, 0.9 * grown.pure, 30):
        truth = max(
            _hockey_stick(laws[0], laws[-1], epsilon), _hockey_stick(laws[-1], laws[0], epsilon)
        )
        assert truth <= grown.delta(epsilon) * (1 + 1e-9)
        used = max(used, truth / max(grown.delta(epsilon), 1e-12))
    assert used > 0.5  # the bound is not vacuous


def test_a_group_of_a_curve_with_a_floor_follows_the_whole_curve() -> None:
    """A dartboard reveals all with a chance of 3e-26; one point of its curve gives 3,743."""
    one = CoinThenDraws(0.005772954893, 0.00474195978, 0.009483919559, 16382, 0.05180258306)
    assert Grouped(one, 24).epsilon(1e-6) < 35.9
    assert Grouped(one, 10).epsilon(1e-6) < 12.46


def test_a_group_of_very_many_records_keeps_the_rule_of_one_line() -> None:
    one = AdaptiveBoundedRange(0.001, 4)
    few, many = (Grouped(one, k).epsilon(1e-6) for k in (1000, 1001))
    assert few < many < 1001 * one.epsilon(0.0) * (1 + 1e-12)


def test_other_records_may_differ_in_other_steps() -> None:
    """Why a composition of n steps for one record is no composition of n wider steps for two: here
    it is one of 2n steps.

    Each of 2n outputs belongs to one of two records, n to each: for one record n steps of range r,
    whoever it is. The two together
    are 2n steps, within the group's curve.
    """
    r, n = 0.5, 3
    t = r / 2
    q = np.expm1(t - r) / np.expm1(-r)
    one, other = np.array([q, 1 - q]), np.array([q * np.exp(-t), (1 - q) * np.exp(r - t)])
    p, w = np.ones(1), np.ones(1)
    for _ in range(2 * n):
        p, w = np.outer(p, one).ravel(), np.outer(w, other).ravel()
    grown = group(AdaptiveBoundedRange(r, n), 2)
    for epsilon in np.linspace(0, 2.5, 20):
        assert max(_hockey_stick(p, w, epsilon), _hockey_stick(w, p, epsilon)) <= grown.delta(
            epsilon
        )


def test_no_guarantee_stays_none() -> None:
    nothing = NoGuarantee("raw data")
    assert group(nothing, 3) is nothing


@pytest.mark.parametrize("make", [PureDP, LaplaceDP, BoundedRange])
def test_inverses_answer_on_the_safe_side(make: Any) -> None:
    """Also where delta is about as small as the rounding of epsilon: against exact arithmetic."""
    rng = np.random.default_rng(8)
    with mpmath.workprec(200):
        for bound, delta in zip(
            rng.uniform(0.05, 200, 300).tolist(),
            (10.0 ** rng.uniform(-18, -1, 300)).tolist(),
            strict=True,
        ):
            epsilon, b = mpmath.mpf(make(bound).epsilon(delta)), mpmath.mpf(bound)
            if make is PureDP:
                true = (1 - mpmath.exp(epsilon - b)) / (1 + mpmath.exp(-b))
            else:
                half = 1 - mpmath.exp((epsilon - b) / 2)
                true = half if make is LaplaceDP else half**2 / (1 - mpmath.exp(-b))
            assert epsilon == 0 or true <= delta * (1 + 1e-12)


@pytest.mark.parametrize(("width", "steps"), [(0.02, 500), (0.05, 100)])
def test_groups_see_beyond_the_end_of_a_table(width: float, steps: int) -> None:
    """A table ends near delta = 1e-17, and 24 records were charged the pure bound from there on."""
    group_of_24 = group(AdaptiveBoundedRange(width, steps), 24)
    rho = 24**2 * steps * width**2 / 8
    least = GaussianDP(24 * width * steps**0.5 / 2).epsilon(1e-6)  # of two-point steps, nearly
    assert 0.97 * least <= group_of_24.epsilon(1e-6) <= ZeroConcentratedDP(rho).epsilon(1e-6)

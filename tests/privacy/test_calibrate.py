"""Calibration against closed forms and quoted values of dp-accounting; what is returned always
fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, exp, inf, log, nan, sqrt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from hedgerow.core.certificate import NoGuarantee
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.rounding import root_down
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import (
    NothingFits,
    cost,
    fits,
    gaussian_scale,
    laplace_scale,
    largest_mu,
    largest_range,
    largest_rate,
    largest_rho,
    least_noise,
)
from hedgerow.privacy.composition.bounded_range import AdaptiveBoundedRange
from hedgerow.privacy.curves import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    PureDP,
    ZeroConcentratedDP,
)
from hedgerow.privacy.mechanisms import (
    AboveThreshold,
    AdditiveNoise,
    ExponentialMechanism,
    GaussianNoise,
    KNorm,
    NoisyMax,
)

quick = settings(derandomize=True, deadline=None, database=None, max_examples=60)


# Against other programs (`dp-accounting` 0.6.0, values quoted in the project's survey of libraries)


def test_gaussian_noise_agrees_with_dp_accounting() -> None:
    assert gaussian_scale(Budget(1.0, 1e-6)) == pytest.approx(4.2246789, rel=2e-8)
    assert cost(GaussianDP(0.5), 1e-6) == pytest.approx(2.2541, abs=5e-5)
    assert cost(GaussianDP(1.0), 1e-5) == pytest.approx(4.377, abs=5e-4)


@pytest.mark.parametrize(("rho", "epsilon"), [(0.125, 2.4191), (0.001, 0.1829), (10.0, 32.222)])
def test_concentrated_costs_agree_with_the_best_known_conversion(
    rho: float, epsilon: float
) -> None:
    assert cost(ZeroConcentratedDP(rho), 1e-6) == pytest.approx(epsilon, rel=3e-4)


def test_a_thousand_exponential_mechanisms_agree_with_dp_accounting() -> None:
    rate = largest_rate(
        lambda eta: ZeroConcentratedDP(1000 * eta * eta / 8), Budget(1.0, 1e-6), 1e-6, 1.0
    )
    assert rate == pytest.approx(0.013959, rel=1e-4)


def test_the_detour_by_rho_costs_noise() -> None:
    """At (0.5, 1e-3): 1.14 times by the best conversion of rho, 1.64 times by that of Bun and
    Steinke (2016).
    """
    budget = Budget(0.5, 1e-3)
    direct = gaussian_scale(budget)
    assert 1 / sqrt(2 * largest_rho(budget)) / direct == pytest.approx(1.1415, abs=1e-4)
    bun_steinke = (sqrt(log(1e3) + 0.5) - sqrt(log(1e3))) ** 2
    assert 1 / sqrt(2 * bun_steinke) / direct == pytest.approx(1.64, abs=0.005)


# Against closed forms


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-6, 1e-9])
def test_gaussian_noise_is_analytic(epsilon: float, delta: float) -> None:
    def excess(log_mu: float) -> float:
        mu = exp(log_mu)
        first, second = (
            stats.norm.cdf(mu / 2 - epsilon / mu),
            stats.norm.logcdf(-mu / 2 - epsilon / mu),
        )
        return float(first) - exp(epsilon + float(second)) - delta

    mu = exp(float(optimize.brentq(excess, -12, 6, xtol=1e-13)))  # pyright: ignore[reportArgumentType]
    assert gaussian_scale(Budget(epsilon, delta), 3.0) == pytest.approx(3 / mu, rel=1e-6)


@quick
@given(st.floats(1e-3, 50), st.floats(1e-12, 0.9))
def test_the_largest_parameters_fit_and_a_little_more_does_not(
    epsilon: float, delta: float
) -> None:
    budget = Budget(epsilon, delta)
    for largest, curve in ((largest_mu, GaussianDP), (largest_rho, ZeroConcentratedDP)):
        value = largest(budget)
        assert fits(curve(value), budget)
        assert not fits(curve(value * (1 + 1e-8)), budget)
    assert (
        largest_rho(budget) <= largest_mu(budget) ** 2 / 2
    )  # Gaussian noise is one mechanism with this rho


@quick
@given(st.floats(1e-6, 1e6), st.floats(1e-3, 1e3))
def test_exact_budgets_are_kept_exactly(value: float, sensitivity: float) -> None:
    scale = gaussian_scale(Budget(mu=value), sensitivity)
    assert Fraction(sensitivity) / Fraction(scale) <= Fraction(value)
    assert scale == pytest.approx(sensitivity / value, rel=1e-15)
    scale = gaussian_scale(Budget(rho=value), sensitivity)
    assert (Fraction(sensitivity) / Fraction(scale)) ** 2 <= 2 * Fraction(value)
    assert scale == pytest.approx(sensitivity / sqrt(2 * value), rel=1e-15)
    scale = laplace_scale(Budget(value), sensitivity)
    assert Fraction(sensitivity) / Fraction(scale) <= Fraction(value)
    assert scale == pytest.approx(sensitivity / value, rel=1e-15)
    root = root_down(Fraction(value))
    assert Fraction(root) ** 2 <= Fraction(value)
    assert root == pytest.approx(sqrt(value), rel=1e-15)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("delta", [0.2, 0.01, 1e-6])
def test_laplace_noise_has_its_own_delta(epsilon: float, delta: float) -> None:
    """The integral of (p - e^epsilon q)_+ for two Laplace laws one sensitivity apart is delta at
    the scale returned.
    """
    scale = laplace_scale(Budget(epsilon, delta), 2.0)
    shift = 2 / scale

    def excess(y: float) -> float:
        return max(0.0, exp(-abs(y)) / 2 - exp(epsilon - abs(y - shift)) / 2)

    edge = max(0.0, (shift - epsilon) / 2)
    total = sum(
        integrate.quad(excess, *piece, epsabs=1e-14)[0]
        for piece in ((-45.0, 0.0), (0.0, edge), (edge, edge + 1))
    )
    assert total == pytest.approx(delta, rel=1e-6)
    assert scale < 2 / epsilon


def test_laplace_noise_for_mu_and_rho() -> None:
    assert laplace_scale(Budget(rho=0.5)) == pytest.approx(1.0, rel=1e-12)
    assert laplace_scale(Budget(mu=1.0)) == pytest.approx(1.2533141, rel=1e-6)
    for budget in (Budget(rho=0.3), Budget(mu=0.7)):
        assert fits(PureDP(1 / laplace_scale(budget) * (1 - 1e-15)), budget)


# What calibration is for: the mechanism, by its own curve


BUDGETS = st.one_of(
    st.builds(Budget, st.floats(1e-3, 50), st.floats(1e-15, 0.9)),
    st.builds(Budget, st.floats(1e-3, 50)),
    st.builds(lambda mu: Budget(mu=mu), st.floats(1e-3, 10)),
    st.builds(lambda rho: Budget(rho=rho), st.floats(1e-5, 50)),
)
RATED: tuple[Callable[[float], Any], ...] = (
    lambda rate: KNorm("a", 1 / rate, 0.7),
    lambda rate: ExponentialMechanism("a", rate, 0.7),
    lambda rate: NoisyMax("a", "gumbel", rate, 0.7),
    lambda rate: NoisyMax("a", "exponential", rate, 0.7, monotone=True),
    lambda rate: AboveThreshold("exponential", 1 / rate, 2 / rate, 0.7),
)


@quick
@given(BUDGETS, st.floats(1e-3, 1e3))
def test_every_calibrated_mechanism_fits_its_budget_by_its_own_curve(
    budget: Budget, sensitivity: float
) -> None:
    laplace = AdditiveNoise("a", "laplace", laplace_scale(budget, sensitivity), sensitivity)
    assert fits(laplace.curve, budget)
    assert not fits(laplace.scaled(1 - 1e-6).curve, budget)
    if budget.epsilon is None or budget.failure > 0:
        assert fits(
            GaussianNoise("a", gaussian_scale(budget, sensitivity), sensitivity).curve, budget
        )
    for mechanism_at in RATED:
        rate = largest_rate(lambda at, made=mechanism_at: made(at).curve, budget, 1e-9, 1e6)
        assert fits(mechanism_at(rate).curve, budget)
    for steps in (1, 7):
        selection = (
            ExponentialMechanism("a", largest_range(steps, budget)) if budget.failure == 0 else None
        )
        assert selection is None or fits(AdaptiveBoundedRange(selection.curve.range, steps), budget)


def test_the_laplace_mechanism_of_the_review_fits() -> None:
    budget = Budget(1.0, 0.01)
    curve = AdditiveNoise("a", "laplace", laplace_scale(budget)).curve
    assert curve.epsilon(0.0) == pytest.approx(1.0201, abs=1e-4)
    assert fits(curve, budget)
    assert not fits(PureDP(curve.epsilon(0.0)), budget)


# The search


@quick
@given(
    st.floats(1e-2, 20),
    st.sampled_from([0.0, 1e-9, 1e-3, 0.2]),
    st.floats(1e-4, 1e4),
    st.sampled_from([0.0, 1e-9, 1e-3]),
)
def test_what_is_returned_fits_and_is_next_to_what_does_not(
    epsilon: float, delta: float, unit: float, tolerance: float
) -> None:
    budget = Budget(epsilon, delta)
    noise = least_noise(
        lambda scale: PureDP(unit / scale), budget, unit * 1e-6, unit * 1e6, tolerance
    )
    assert fits(PureDP(unit / noise), budget)
    assert not fits(PureDP(unit / (noise * (1 - 2 * tolerance - 1e-13))), budget)
    rate = largest_rate(
        lambda eta: BoundedRange(eta / unit), budget, unit * 1e-6, unit * 1e6, tolerance
    )
    assert fits(BoundedRange(rate / unit), budget)
    assert not fits(BoundedRange(rate * (1 + 2 * tolerance + 1e-13) / unit), budget)


def test_both_ways_meet() -> None:
    budget = Budget(1.0, 1e-6)
    noise = least_noise(lambda scale: GaussianDP(1 / scale), budget, 1e-3, 1e3, 1e-12)
    rate = largest_rate(GaussianDP, budget, 1e-3, 1e3, 1e-12)
    assert noise == pytest.approx(1 / rate, rel=1e-11)
    assert noise == pytest.approx(gaussian_scale(budget), rel=1e-11)
    assert noise >= gaussian_scale(budget) * (1 - 1e-15)


def test_a_jagged_curve_never_makes_the_search_return_a_failure() -> None:
    """Rounding up to whole releases makes real curves jagged: monotone on the whole, not
    everywhere.
    """

    def jagged(scale: float) -> PureDP:
        return PureDP(ceil(97 * scale) % 7 / 10 + 1 / scale)

    for high in (3.0, 5.0, 9.0, 15.0, 40.0):
        budget = Budget(jagged(high).bound)
        assert fits(jagged(least_noise(jagged, budget, 1e-3, high)), budget)


def test_the_bracket_is_returned_where_all_of_it_fits() -> None:
    assert least_noise(lambda scale: PureDP(1 / scale), Budget(1.0), 2.0, 3.0) == 2.0
    assert largest_rate(PureDP, Budget(1.0), 0.1, 0.5) == 0.5
    assert largest_rate(PureDP, Budget(1.0), 0.5, 0.5) == 0.5


def test_the_search_is_short() -> None:
    """Counted: a bracket of 600 powers of ten costs no more than 80 curves to the last digit."""
    asked: list[float] = []

    def curve(scale: float) -> PureDP:
        asked.append(scale)
        return PureDP(1 / scale)

    assert least_noise(curve, Budget(0.7), 1e-300, 1e300, 0.0) == pytest.approx(1 / 0.7, rel=1e-15)
    assert len(asked) < 80


# Errors


def test_nothing_fits() -> None:
    with pytest.raises(
        NothingFits,
        match=r"Nothing in \[0\.1, 0\.5\] fits the budget epsilon = 1, delta = 0: at 0\.5 the mechanism has epsilon = 2",
    ):
        least_noise(lambda scale: PureDP(1 / scale), Budget(1.0), 0.1, 0.5)
    with pytest.raises(NothingFits, match=r"at 2\.0 the mechanism has"):
        largest_rate(PureDP, Budget(1.0), 2.0, 3.0)
    with pytest.raises(NothingFits):
        least_noise(lambda _: NoGuarantee("raw"), Budget(1.0, 1e-6), 0.1, 10.0)
    with pytest.raises(NothingFits, match="no pure guarantee"):
        gaussian_scale(Budget(1.0))
    for budget in (Budget(1.0), Budget(mu=1.0)):
        with pytest.raises(NothingFits, match="does not imply"):
            largest_rho(budget)


def test_a_tail_that_underflows_is_no_pure_guarantee() -> None:
    assert not fits(GaussianDP(0.01), Budget(1e3))
    assert not fits(ZeroConcentratedDP(1e-6), Budget(1e3))
    with pytest.raises(NothingFits):
        least_noise(lambda scale: GaussianDP(1 / scale), Budget(100.0), 1.0, 1e6)


@dataclass(frozen=True)
class _Broken:
    """A curve that lost its number on the way."""

    def delta(self, epsilon: float) -> float:
        return nan * epsilon

    def epsilon(self, delta: float) -> float:
        return nan * delta

    def stated(self) -> tuple[float, float]:
        return self.epsilon(1e-6), 1e-6

    def words(self) -> str:
        return "nan"

    def of_records(self, count: int, separate: bool, at_delta: float = 0.0) -> _Broken:
        return self


def test_what_is_no_number_never_fits() -> None:
    assert not fits(_Broken(), Budget(1.0))
    assert not fits(_Broken(), Budget(1.0, 1e-6))
    with pytest.raises(InvalidValue, match="epsilon=nan"):
        cost(_Broken(), 1e-6)


def test_prices_decide_for_mu_and_rho() -> None:
    assert fits(PureDP(0.0), Budget(mu=1.0))
    assert not fits(PureDP(inf), Budget(mu=1.0))
    assert fits(BoundedRange(1.0), Budget(rho=0.125))
    assert not fits(BoundedRange(1.0000001), Budget(rho=0.125))
    assert fits(GaussianDP(1.0), Budget(mu=1.0))
    with pytest.raises(Unsupported, match="no proven price"):
        fits(ZeroConcentratedDP(0.1), Budget(mu=1.0))
    with pytest.raises(Unsupported, match="No rule"):
        fits(ApproximateDP(0.1, 1e-6), Budget(rho=1.0))


@pytest.mark.parametrize(
    ("low", "high", "tolerance", "message"),
    [
        (0.0, 1.0, 1e-9, r"low=0\.0 > 0"),
        (-1.0, 1.0, 1e-9, r"low=-1\.0"),
        (1.0, inf, 1e-9, "high=inf"),
        (2.0, 1.0, 1e-9, r"low=2\.0 <= high=1\.0"),
        (1.0, nan, 1e-9, "high=nan"),
        (1.0, 2.0, -1.0, "tolerance"),
        (1.0, 2.0, nan, "tolerance"),
    ],
)
def test_impossible_brackets_are_refused(
    low: float, high: float, tolerance: float, message: str
) -> None:
    with pytest.raises(InvalidValue, match=message):
        least_noise(lambda scale: PureDP(1 / scale), Budget(1.0), low, high, tolerance)


def test_impossible_questions_are_refused() -> None:
    for delta in (-0.1, 1.1, nan):
        with pytest.raises(InvalidValue, match="delta"):
            cost(PureDP(1.0), delta)
    for sensitivity in (0.0, -1.0, inf, nan):
        for scale in (gaussian_scale, laplace_scale):
            with pytest.raises(InvalidValue, match="sensitivity"):
                scale(Budget(1.0, 1e-6), sensitivity)
    assert cost(GaussianDP(1.0), 0.0) == inf
    assert cost(PureDP(1.0), 0.0) == 1.0


def test_a_calibrated_scale_is_quoted_within_its_budget_to_the_last_bit() -> None:
    """delta(epsilon) and epsilon(delta) round outward each for itself; neither may leave the
    budget, nor noise grow by more than that.
    """
    for epsilon, delta, sensitivity in product(
        (0.01, 1.0, 7.3), (1e-12, 1e-6, 0.5, 0.999), (1.0, 3**0.5)
    ):
        budget = Budget(epsilon, delta)
        scale = gaussian_scale(budget, sensitivity)
        curve = GaussianNoise("report", scale, sensitivity).curve
        assert curve.delta(epsilon) <= delta
        assert curve.epsilon(delta) <= epsilon
        assert (
            GaussianNoise("report", scale * (1 - 1e-9), sensitivity).curve.epsilon(delta) > epsilon
        )

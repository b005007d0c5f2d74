"""Composition rules against exact sums, closed forms and each other."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, exp, expm1, inf, sqrt

import numpy as np
import pytest

from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.privacy.composition.bounded_range import AdaptiveBoundedRange
from hedgerow.privacy.composition.fixed_plan import Numerical, fixed_plan
from hedgerow.privacy.composition.groups import group, of_one_person
from hedgerow.privacy.composition.steps import AfterPureStep, PureComposition, pure_sum
from hedgerow.privacy.curves import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    LaplaceDP,
    PureDP,
    WithFailure,
)


def exact_pure(bound: float, steps: int, epsilon: float) -> float:
    """The sum over all outcomes of k randomised responses, with probabilities as products."""
    r = 1 / (1 + exp(-bound))
    terms = [
        comb(steps, n)
        * max(0.0, r ** (steps - n) * (1 - r) ** n - exp(epsilon) * (1 - r) ** (steps - n) * r**n)
        for n in range(steps + 1)
    ]
    return sum(terms)


@pytest.mark.parametrize(
    ("bound", "steps"), [(0.1, 1), (0.1, 10), (1.0, 7), (0.3, 60), (3.0, 4), (0.02, 200)]
)
def test_pure_composition_against_binomial_sums(bound: float, steps: int) -> None:
    curve = PureComposition(bound, steps)
    for epsilon in np.linspace(-1.1, 0.99, 33) * bound * steps:
        exact = exact_pure(bound, steps, float(epsilon))
        assert curve.delta(float(epsilon)) == pytest.approx(exact, rel=1e-8, abs=1e-14)
    for delta in (1e-12, 1e-6, 1e-3, 0.1, 0.4):
        epsilon = curve.epsilon(delta)
        assert curve.delta(epsilon) <= delta
        if epsilon > 0:
            assert curve.delta(epsilon * (1 - 1e-7)) > delta


def test_pure_composition_against_all_bit_strings() -> None:
    """Without binomial coefficients: every string of answers on its own, in exact fractions for e^b
    = 3.
    """
    steps, ratio = 5, Fraction(3)
    for power in range(-5, 6):
        total = Fraction(0)
        for bits in product((0, 1), repeat=steps):
            ones = sum(bits)
            first = ratio**ones / (1 + ratio) ** steps
            second = ratio ** (steps - ones) / (1 + ratio) ** steps
            total += max(Fraction(0), first - Fraction(3) ** power * second)
        b = float(np.log(3.0))
        assert PureComposition(b, steps).delta(power * b) == pytest.approx(
            float(total), rel=1e-9, abs=1e-12
        )


def test_pure_composition_known_values() -> None:
    for bound, steps, value in [
        (0.1, 10, 0.9994),
        (0.1, 100, 4.7746),
        (0.1, 1000, 19.345),
        (0.01, 10000, 4.8855),
    ]:
        assert PureComposition(bound, steps).epsilon(1e-6) == pytest.approx(value, abs=6e-4)
    assert PureComposition(0.5, 100).epsilon(1e-6) == pytest.approx(
        33.319788, abs=1e-5
    )  # in 50-digit arithmetic


def test_pure_composition_ends() -> None:
    one = PureComposition(0.7, 1)
    for epsilon in (-2.0, -0.7, -0.1, 0.0, 0.3, 0.7, 1.0):
        assert one.delta(epsilon) == pytest.approx(PureDP(0.7).delta(epsilon), rel=1e-12, abs=1e-15)
    assert PureComposition(0.1, 3).epsilon(0.0) == pure_sum([PureDP(0.1)] * 3).bound
    assert PureComposition(0.1, 3).delta(inf) == 0.0
    assert PureComposition(0.1, 3).epsilon(1.0) == 0.0
    assert (PureComposition(0.0, 9).epsilon(0.0), PureComposition(0.5, 0).delta(0.0)) == (0.0, 0.0)
    assert PureComposition(30.0, 40).epsilon(1e-6) <= 1200.0
    with pytest.raises(InvalidValue, match="Expected bound=-1"):
        PureComposition(-1, 3)
    with pytest.raises(InvalidValue, match="Expected steps=-1"):
        PureComposition(1.0, -1)


def test_pure_steps_through_a_loop_of_distributions() -> None:
    """Looping, self-composing and the exact sum agree; the library's event that ignores its count
    is not used (defect D1).
    """
    single, looped = (
        fixed_plan([(PureDP(0.5), 1)], 0.005),
        fixed_plan([(PureDP(0.5), 1)] * 30, 0.005),
    )
    assert looped.epsilon(1e-6) > 10 * single.epsilon(1e-6)
    counted = fixed_plan([(PureDP(0.5), 30)], 0.005)
    exact = PureComposition(0.5, 30).epsilon(1e-6)
    assert exact * (1 - 1e-9) <= counted.epsilon(1e-6) <= exact * 1.001
    assert looped.epsilon(1e-6) == pytest.approx(counted.epsilon(1e-6), rel=1e-4)


def test_the_defect_that_is_avoided_is_a_defect() -> None:
    """If this fails, the library has repaired `RandomizedResponseDpEvent`; the rule in `fixed_plan`
    may then be relaxed.
    """
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    relation = accounting.NeighboringRelation.REPLACE_ONE
    event = accounting.RandomizedResponseDpEvent(2 / (1 + exp(0.5)), 2)
    reported = PLDAccountant(relation).compose(event, 100).get_epsilon(1e-6)
    assert reported < 1
    assert PureComposition(0.5, 100).epsilon(1e-6) > 33
    assert fixed_plan([(PureDP(0.5), 100)]).epsilon(1e-6) > 33


@pytest.mark.parametrize(
    "parts",
    [
        [(GaussianDP(0.3), 1), (GaussianDP(0.4), 1)],
        [(GaussianDP(0.05), 100)],
        [(GaussianDP(2.0), 3), (GaussianDP(0.1), 7)],
    ],
)
def test_gaussian_plans_against_the_closed_form(parts: list[tuple[GaussianDP, int]]) -> None:
    exact = GaussianDP(sqrt(sum(count * part.mu**2 for part, count in parts)))
    plan = fixed_plan(parts)
    for delta in (1e-9, 1e-6, 1e-3):
        assert exact.epsilon(delta) <= plan.epsilon(delta) <= exact.epsilon(delta) * 1.01
    for epsilon in (-0.5, 0.0, 0.5, 2.0):
        assert exact.delta(epsilon) <= plan.delta(epsilon) <= exact.delta(epsilon) * 1.01


def convolved(
    parts: list[tuple[PureDP | LaplaceDP | BoundedRange, float]], epsilon: float, gaussian: float
) -> float:
    """E (1 - e^(epsilon - L))_+ for one bounded part beside a Gaussian: integrate the Gaussian
    curve against the part's law.
    """
    ((part, bound),) = parts
    edges = np.linspace(-bound, bound, 20001)
    curve = np.array([part.delta(float(e)) for e in edges])
    slope = np.diff(curve) / np.diff(np.exp(edges))
    # Pr_Q(L > e) = - d delta / d e^e: masses of Q between neighbouring midpoints, and atoms at the
    # ends
    masses = np.diff(np.concatenate([[-1.0], slope, [0.0]]))
    losses = edges
    first = masses * np.exp(losses)
    return float(
        sum(
            p * GaussianDP(gaussian).delta(epsilon - loss)
            for p, loss in zip(first, losses, strict=True)
            if p > 0
        )
    )


@pytest.mark.parametrize("part", [PureDP(0.6), LaplaceDP(0.6), BoundedRange(0.6)])
def test_mixed_plans_against_an_integral(part: PureDP | LaplaceDP | BoundedRange) -> None:
    plan = fixed_plan([(part, 1), (GaussianDP(0.5), 1)])
    for epsilon in (0.3, 1.0):
        exact = convolved([(part, 0.6)], epsilon, 0.5)
        assert exact * (1 - 1e-4) <= plan.delta(epsilon) <= exact * 1.01


def test_single_parts_are_their_own_curves() -> None:
    for part in (PureDP(0.8), LaplaceDP(0.8), BoundedRange(0.8)):
        plan = fixed_plan([(part, 1)])
        for epsilon in (-0.9, -0.2, 0.0, 0.1, 0.5, 0.77):
            assert part.delta(epsilon) <= plan.delta(epsilon) <= part.delta(epsilon) * 1.01 + 1e-11
        assert plan.epsilon(0.0) == 0.8


def test_bounded_range_plans_match_the_notes_and_lie_above_the_recursion() -> None:
    assert fixed_plan([(BoundedRange(0.1), 10)]).epsilon(1e-6) == pytest.approx(0.686, abs=1e-3)
    assert fixed_plan([(BoundedRange(0.1), 100)]).epsilon(1e-6) == pytest.approx(2.612, abs=2e-3)
    plan = fixed_plan([(GaussianDP(0.1), 20), (LaplaceDP(0.05), 20), (BoundedRange(0.05), 20)])
    assert plan.epsilon(1e-6) == pytest.approx(2.324, abs=3e-3)


def test_a_plan_refuses_what_it_does_not_know() -> None:
    unknown: list[PrivacyCurve] = [
        ApproximateDP(1.0, 1e-6),
        PureComposition(0.1, 3),
        AdaptiveBoundedRange(0.1, 3),
        AfterPureStep(PureDP(0.1), 0.1),
    ]
    for part in unknown:
        with pytest.raises(Unsupported, match="Expected part="):
            fixed_plan([(PureDP(0.1), 1), (part, 1)])
    with pytest.raises(InvalidValue, match="finite bound"):
        fixed_plan([(PureDP(inf), 1)])
    with pytest.raises(InvalidValue, match="Expected count=-1"):
        fixed_plan([(PureDP(0.1), -1)])
    with pytest.raises(InvalidValue, match="Expected plan="):
        fixed_plan([])
    with pytest.raises(InvalidValue, match="Expected interval="):
        fixed_plan([(PureDP(0.1), 1)], interval=-1.0)


def test_small_deltas_of_a_plan_fall_back_to_the_pure_sum() -> None:
    bounded = fixed_plan([(PureDP(0.25), 4), (LaplaceDP(0.5), 1)])
    assert bounded.epsilon(0.0) == bounded.epsilon(1e-13) == 1.5
    assert bounded.delta(1.5) == 0.0
    assert fixed_plan([(GaussianDP(0.5), 1)]).epsilon(0.0) == inf
    assert isinstance(bounded, Numerical)
    assert "fixed in advance" in bounded.words()


def test_laplace_curve_against_an_integral() -> None:
    curve = LaplaceDP(1.3)
    x = np.linspace(-40, 41.3, 2_000_001)
    first, second = np.exp(-np.abs(x)) / 2, np.exp(-np.abs(x - 1.3)) / 2
    for epsilon in (-2.0, -0.5, 0.0, 0.4, 1.2):
        exact = float(np.trapezoid(np.maximum(0, first - exp(epsilon) * second), x))
        assert curve.delta(epsilon) == pytest.approx(exact, rel=1e-6)
    assert curve.delta(curve.epsilon(0.2)) == pytest.approx(0.2)


def test_a_pure_step_first_is_attained_by_randomised_response() -> None:
    """Randomised response, then a Gaussian: the mixture of the two conditional curves, exactly."""
    base, a = GaussianDP(1.0), 0.4
    curve, q = AfterPureStep(base, a), 1 / (1 + exp(-a))
    for epsilon in (-2.0, 0.0, 0.3, 1.7, 4.0):
        assert curve.delta(epsilon) == pytest.approx(
            q * base.delta(epsilon - a) + (1 - q) * base.delta(epsilon + a), rel=1e-12
        )
        x = np.linspace(-12, 13, 400_001)
        first, second = np.exp(-((x - 1) ** 2) / 2), np.exp(-(x**2) / 2)
        worlds = [np.maximum(0, p * first - exp(epsilon) * (1 - p) * second) for p in (q, 1 - q)]
        assert curve.delta(epsilon) == pytest.approx(
            float(np.trapezoid(sum(worlds), x)) / np.sqrt(2 * np.pi), rel=1e-6
        )


def test_a_pure_step_first_rounds_outward() -> None:
    base = GaussianDP(1.0)
    curve = AfterPureStep(base, 0.1)
    for delta in (1e-9, 1e-3, 0.3, 0.38):
        epsilon = curve.epsilon(delta)
        assert curve.delta(epsilon) <= delta
        assert curve.delta(epsilon * (1 - 1e-9)) > delta
        assert base.epsilon(delta) < epsilon < base.epsilon(delta) + 0.1
    assert curve.epsilon(0.42) == 0.0
    assert curve.epsilon(0.0) == inf
    assert (curve.delta(inf), curve.delta(-inf)) == (0.0, 1.0)
    assert AfterPureStep(PureDP(0.5), 0.25).epsilon(0.0) == 0.75
    assert AfterPureStep(base, 0.0).delta(0.7) == pytest.approx(base.delta(0.7), rel=1e-12)
    assert AfterPureStep(PureDP(0.3), 0.3).delta(0.1) == pytest.approx(
        PureComposition(0.3, 2).delta(0.1), rel=1e-12
    )
    assert "a step of epsilon = 0.1, then" in curve.words()
    for bad in (-0.1, inf, float("nan")):
        with pytest.raises(InvalidValue, match="Expected pure="):
            AfterPureStep(base, bad)


def test_a_pure_step_first_bounds_exact_adaptive_pairs() -> None:
    """A pure bit first; then one of two bounded-range steps, chosen by that bit: exact delta of the
    four leaves, both directions.
    """
    generator = np.random.default_rng(3)
    for _ in range(200):
        a, r = generator.uniform(0.05, 1.0, 2)
        first, losses = [], []
        bit = generator.uniform(0.02, 0.98)
        low, high = (
            max(bit * exp(-a), 1 - (1 - bit) * exp(a)),
            min(bit * exp(a), 1 - (1 - bit) * exp(-a)),
        )
        other = generator.uniform(low, high)
        for p, q in ((bit, other), (1 - bit, 1 - other)):
            t = generator.uniform(0, r)
            up = expm1(t - r) / expm1(-r)
            first += [p * up, p * (1 - up)]
            losses += [np.log(p / q) + t, np.log(p / q) + t - r]
        curve = AfterPureStep(AdaptiveBoundedRange(float(r), 1), float(a))
        p, loss = np.array(first), np.array(losses)
        for epsilon in (-0.4, 0.0, 0.3, 0.9):
            bound = curve.delta(epsilon) * (1 + 1e-12)
            assert np.maximum(0, p - exp(epsilon) * p * np.exp(-loss)).sum() <= bound
            assert np.maximum(0, p * np.exp(-loss) - exp(epsilon) * p).sum() <= bound


def _measured(losses: np.ndarray, epsilon: float) -> tuple[float, float]:
    """delta(epsilon) from drawn log-ratios of the first world, with five standard errors."""
    gained = np.maximum(0.0, -np.expm1(epsilon - losses))
    return float(gained.mean()), 5 * float(gained.std()) / sqrt(len(losses))


def test_separate_releases_cost_sqrt_k_mu_and_common_ones_k_mu() -> None:
    """Two records of one person with two Gaussian releases each, in turn (`#separate-releases`).

    The second record's shifts depend on the first release. On every path the squares of one
    record's shifts add up to mu^2. If both records enter one release, their shifts add up instead.
    """
    mu, draws, generator = 0.5, 200_000, np.random.default_rng(11)
    first = np.full(draws, 0.3)
    seen = first + generator.standard_normal(draws)
    second = np.where(seen > 0.3, 0.45, 0.1)
    shifts = [second, np.sqrt(mu**2 - first**2), np.sqrt(mu**2 - second**2)]
    apart = first * seen - first**2 / 2
    for shift in shifts:
        apart += shift * (shift + generator.standard_normal(draws)) - shift**2 / 2
    common = 2 * mu * (2 * mu + generator.standard_normal(draws)) - 2 * mu**2
    one, separate, together = (
        of_one_person(GaussianDP(mu), k, separate_reports=s)
        for k, s in ((1, False), (2, True), (2, False))
    )
    for epsilon in (0.0, 0.5, 1.0):
        measured, error = _measured(apart, epsilon)
        assert abs(measured - separate.delta(epsilon)) < error
        assert one.delta(epsilon) + error < measured < together.delta(epsilon) - error
        measured, error = _measured(common, epsilon)
        assert abs(measured - together.delta(epsilon)) < error
        assert measured > separate.delta(epsilon) + error


def test_a_group_can_fail_if_one_record_can() -> None:
    """At an infinite epsilon delta is what remains: not 0, and no less than the curve of one."""
    failing = group(WithFailure(GaussianDP(1.0), 0.01), 2)
    assert failing.delta(inf) == failing.delta(1e6) >= 0.01
    for curve in (AfterPureStep(GaussianDP(1.0), 0.5), AdaptiveBoundedRange(0.1, 5)):
        assert group(curve, 2).delta(inf) == 0.0

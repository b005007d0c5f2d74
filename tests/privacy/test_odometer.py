"""Odometer and filter: refusal exactly at the budget, adaptive adversaries by exact enumeration,
stored states, constant work.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from hashlib import blake2b
from math import ceil, cosh, exp, inf, log, nan, nextafter, pi, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.core.certificate import NoGuarantee, PrivacyCurve
from hedgerow.core.errors import HedgerowError, InvalidValue, Unsupported
from hedgerow.privacy.budget import (
    CURRENCIES,
    EVENTS,
    UNIT,
    Budget,
    Currency,
    amount,
    cost_of,
    event_of,
    price,
)
from hedgerow.privacy.composition.bounded_range import AdaptiveBoundedRange
from hedgerow.privacy.composition.fixed_plan import fixed_plan
from hedgerow.privacy.composition.steps import AfterPureStep, PureComposition
from hedgerow.privacy.curves import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    LaplaceDP,
    PureDP,
    Quoted,
    ZeroConcentratedDP,
)
from hedgerow.privacy.odometer import BudgetSpent, DamagedState, Filter, Odometer, capacity

quick = settings(derandomize=True, deadline=None, database=None, max_examples=60)


# Budgets


def test_a_budget_says_what_it_is() -> None:
    assert Budget(1.0) == Budget(1.0, 0.0) == Budget(epsilon=1.0)
    assert [b.words() for b in (Budget(2.0, 1e-6), Budget(mu=0.5), Budget(rho=0.125))] == [
        "epsilon = 2, delta = 1e-06",
        "mu = 0.5 (Gaussian DP)",
        "rho = 0.125 (zero-concentrated DP)",
    ]
    assert [
        b.currency for b in (Budget(1.0), Budget(1.0, 1e-6), Budget(mu=1.0), Budget(rho=1.0))
    ] == [
        "pure",
        "concentrated",
        "gaussian",
        "concentrated",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "one of epsilon"),
        ({"epsilon": 1.0, "mu": 1.0}, "got epsilon, mu"),
        ({"delta": 1e-6}, "got none"),
        ({"mu": 1.0, "delta": 1e-6}, "delta=1e-06 to be absent with mu"),
        ({"epsilon": 0.0}, r"epsilon=0\.0 > 0"),
        ({"epsilon": inf}, "epsilon=inf"),
        ({"mu": nan}, "mu=nan"),
        ({"rho": -1.0}, r"rho=-1\.0 > 0"),
        ({"rho": 1e30}, r"rho=1e\+30 <= 2\^60"),
        ({"epsilon": 1.0, "delta": 1.0}, r"delta=1\.0 >= 0 and < 1"),
        ({"epsilon": 1.0, "delta": -1e-9}, "delta=-1e-09"),
        ({"epsilon": 1.0, "delta": nan}, "delta=nan"),
    ],
)
def test_impossible_budgets_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Budget(**arguments)


# Prices


def _renyi(pair: np.ndarray, order: float) -> float:
    return float(
        np.logaddexp.reduce(order * np.log(pair[0]) + (1 - order) * np.log(pair[1])) / (order - 1)
    )


def _two_points(spread: float, top: float) -> np.ndarray:
    """The pair with log-ratios `top` and `top - spread` and nothing else: generalised randomised
    response.
    """
    high = (1 - exp(top - spread)) / (1 - exp(-spread))
    one = np.array([high, 1 - high])
    return np.array([one, one * np.exp([-top, spread - top])])


@pytest.mark.parametrize("spread", [0.01, 0.3, 1.0, 3.0, 9.0, 20.0])
def test_the_price_of_a_bounded_range_covers_every_pair_that_has_it(spread: float) -> None:
    rho = float(amount(price(BoundedRange(spread), "concentrated")))
    gaussian = GaussianDP(sqrt(price(BoundedRange(spread), "gaussian") / UNIT))
    assert rho == pytest.approx(min(spread, spread**2 / 8), rel=1e-15)
    for top in np.linspace(0, spread, 23)[1:-1]:
        pair = _two_points(spread, top)
        for order in (1.001, 1.1, 2.0, 5.0, 40.0):
            assert _renyi(pair, order) <= rho * order * (1 + 1e-9)
        for epsilon in np.linspace(-spread, spread, 21):
            assert (
                np.maximum(pair[0] - exp(epsilon) * pair[1], 0).sum()
                <= gaussian.delta(epsilon) + 1e-12
            )


@pytest.mark.parametrize("bound", [0.01, 0.5, 1.0, 4.0])
def test_the_price_of_a_pure_release_covers_randomised_response(bound: float) -> None:
    rho = float(amount(price(PureDP(bound), "concentrated")))
    assert rho == pytest.approx(min(bound, bound**2 / 2), rel=1e-15)
    gaussian = GaussianDP(sqrt(price(PureDP(bound), "gaussian") / UNIT))
    assert gaussian.mu == pytest.approx(bound * sqrt(pi / 2), rel=1e-6)
    for order in (1.01, 2.0, 9.0):
        assert log(cosh((order - 0.5) * bound) / cosh(bound / 2)) / (order - 1) <= rho * order * (
            1 + 1e-12
        )
    for epsilon in np.linspace(-bound, bound, 41):
        assert PureDP(bound).delta(epsilon) <= gaussian.delta(epsilon) + 1e-12


def test_prices_are_exact_or_rounded_up() -> None:
    third = Fraction(0.3)
    assert amount(price(PureDP(0.3), "pure")) == third
    assert amount(price(PureDP(0.3), "concentrated")) == third**2 / 2
    assert amount(price(BoundedRange(0.3), "pure")) == third
    assert amount(price(GaussianDP(0.3), "gaussian")) == third**2
    assert amount(price(GaussianDP(0.3), "concentrated")) == third**2 / 2
    assert (
        price(ZeroConcentratedDP(1e-300), "concentrated")
        == price(GaussianDP(1e-100), "gaussian")
        == 1
    )
    assert 0 <= price(PureDP(0.3), "gaussian") - third**2 * Fraction(355, 226) * UNIT < 1


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_survives_the_ledger(name: str) -> None:
    assert event_of(cost_of(name, 0.25)) == (name, 0.25)


@pytest.mark.parametrize(
    ("cost", "currency"),
    [
        (GaussianDP(0.1), "pure"),
        (ZeroConcentratedDP(0.1), "pure"),
        (ZeroConcentratedDP(0.1), "gaussian"),
        (ApproximateDP(0.1, 1e-9), "concentrated"),
        (NoGuarantee("raw"), "pure"),
    ],
)
def test_what_has_no_proven_price_is_refused(cost: PrivacyCurve, currency: Currency) -> None:
    with pytest.raises(Unsupported):
        price(cost, currency)
    without = {"pure": Budget(9.0), "concentrated": Budget(rho=9.0), "gaussian": Budget(mu=9.0)}
    for ask in (Filter(without[currency]).spend, Filter(without[currency]).would_exceed):
        with pytest.raises(Unsupported, match="no proven price"):
            ask(cost)


def test_an_odometer_refuses_what_protects_nothing() -> None:
    for currency in CURRENCIES:
        with pytest.raises(Unsupported, match=r"no guarantee \(raw\) has no proven price"):
            Odometer(currency).record(NoGuarantee("raw"))


@pytest.mark.parametrize(
    ("budget", "currency"),
    [(Budget(1.0), "concentrated"), (Budget(mu=1.0), "concentrated"), (Budget(rho=1.0), "pure")],
)
def test_what_a_currency_does_not_imply_is_refused(budget: Budget, currency: Currency) -> None:
    with pytest.raises(Unsupported, match="cannot be counted"):
        Filter(budget, currency)


# Refusal


@pytest.mark.parametrize(
    "filtered",
    [
        Filter(Budget(1.0)),
        Filter(Budget(0.3)),
        Filter(Budget(rho=0.7)),
        Filter(Budget(mu=0.9)),
        Filter(Budget(rho=0.7), "gaussian"),
        Filter(Budget(1.0, 1e-6)),
        Filter(Budget(1.0, 1e-6), "gaussian"),
    ],
)
@pytest.mark.parametrize("count", [1, 3, 10, 1000])
def test_equal_shares_fill_the_budget_and_one_more_is_refused(filtered: Filter, count: int) -> None:
    share = filtered.share(count)
    after = filtered
    for _ in range(count):
        assert not after.would_exceed(share)
        after = after.spend(share)
    assert after.odometer.units <= filtered.capacity
    assert after.odometer.units >= filtered.capacity * (1 - Fraction(1, 2**50))
    assert after.would_exceed(share)
    before = after.to_bytes()
    with pytest.raises(BudgetSpent, match=r"The release costs .* Release at most"):
        after.spend(share)
    assert after.to_bytes() == before


def test_the_budget_is_reached_exactly() -> None:
    """Powers of two: nothing is lost, the last release fits and the smallest further one does not."""
    pure = Filter(Budget(1.0))
    for _ in range(4):
        pure = pure.spend(PureDP(0.25))
    assert pure.odometer.units == pure.capacity
    assert pure.left == PureDP(0.0)
    assert pure.spent == PureDP(1.0)
    assert pure.would_exceed(PureDP(5e-324))
    half = Filter(Budget(mu=1.0)).spend(GaussianDP(0.5)).spend(GaussianDP(0.5))
    assert Fraction(sqrt(0.5)) ** 2 > Fraction(1, 2)
    assert half.would_exceed(GaussianDP(sqrt(0.5)))
    assert not half.would_exceed(GaussianDP(nextafter(sqrt(0.5), 0.0)))
    assert half.left == GaussianDP(nextafter(sqrt(0.5), 0.0))
    mixed = (
        Filter(Budget(rho=0.5))
        .spend(PureDP(0.5))
        .spend(GaussianDP(0.5))
        .spend(BoundedRange(1.0))
        .spend(ZeroConcentratedDP(0.125))
    )
    assert mixed.odometer.units == mixed.capacity
    assert mixed.releases == 4


def test_a_float_above_the_decimal_it_prints_as_is_not_given_away() -> None:
    """0.1 is a little more than a tenth: ten of them exceed 1.

    The share is a little less, and ten of those fit.
    """
    tenth = Filter(Budget(1.0))
    for _ in range(9):
        tenth = tenth.spend(PureDP(0.1))
    assert tenth.would_exceed(PureDP(0.1))
    assert Filter(Budget(1.0)).share(10) == PureDP(0.09999999999999999)


def test_the_message_names_what_was_asked_and_what_is_left() -> None:
    with pytest.raises(BudgetSpent) as refusal:
        Filter(Budget(1.0, 0.0)).spend(PureDP(0.75)).spend(PureDP(0.5))
    assert str(refusal.value) == (
        "The release costs epsilon = 0.5, but 0.75 of 1 is already spent in 1 release "
        "(budget: epsilon = 1, delta = 0). Release at most epsilon = 0.25."
    )
    assert isinstance(refusal.value, HedgerowError)


@pytest.mark.parametrize("currency", CURRENCIES)
def test_a_composition_is_charged_as_its_steps(currency: Currency) -> None:
    composed = Quoted(AfterPureStep(AdaptiveBoundedRange(0.1, 20), 0.5), 1e-6)
    by_hand = Odometer(currency).record(PureDP(0.5))
    for _ in range(20):
        by_hand = by_hand.record(BoundedRange(0.1))
    assert Odometer(currency).record(composed) == by_hand
    assert price(composed, currency) == by_hand.units
    assert price(PureComposition(0.25, 8), currency) == 8 * price(PureDP(0.25), currency)
    assert price(LaplaceDP(0.25), currency) == price(PureDP(0.25), currency)
    assert price(fixed_plan([(LaplaceDP(0.1), 3), (BoundedRange(0.2), 2)]), currency) == sum(
        count * price(step, currency) for step, count in ((PureDP(0.1), 3), (BoundedRange(0.2), 2))
    )
    budget = {"pure": Budget(2.6), "concentrated": Budget(rho=0.2), "gaussian": Budget(mu=0.7)}[
        currency
    ]
    filtered = Filter(budget).spend(composed)
    assert filtered.releases == 21
    with pytest.raises(BudgetSpent, match="in 21 releases"):
        filtered.spend(composed)


@pytest.mark.parametrize(
    "cost",
    [PureDP(inf), PureDP(1e30), GaussianDP(1e30), ApproximateDP(1e30, 1e-9)],
)
def test_costs_that_are_no_costs_are_refused(cost: PrivacyCurve) -> None:
    filtered = Filter(Budget(1.0, 1e-6), reserve=5e-7)
    for ask in (filtered.spend, filtered.would_exceed, Odometer("concentrated").record):
        with pytest.raises(InvalidValue, match="Expected the cost"):
            ask(cost)


@pytest.mark.parametrize(
    ("event", "value"),
    [
        ("shuffled", 0.1),
        ("Gaussian", 0.1),
        ("", 0.1),
        ("pure", -1.0),
        ("pure", False),
        ("gaussian", nan),
        ("gaussian", inf),
    ],
)
def test_a_ledger_with_an_unknown_event_or_an_impossible_cost_is_refused(
    event: str, value: float
) -> None:
    filtered = Filter(Budget(1.0, 1e-6))
    with pytest.raises(InvalidValue):
        filtered.replay([("gaussian", 0.01), (event, value)])
    assert filtered.replay([("gaussian", 0.01), ("pure", 0.01)]) == filtered.spend(
        GaussianDP(0.01)
    ).spend(PureDP(0.01))


CURVES = st.one_of(
    st.builds(PureDP, st.floats(1e-9, 2)),
    st.builds(BoundedRange, st.floats(1e-9, 2)),
    st.builds(GaussianDP, st.floats(1e-9, 2)),
)


@quick
@given(
    st.lists(CURVES, max_size=60),
    st.sampled_from([Budget(1.0, 1e-3), Budget(rho=1.7), Budget(3.0, 0.1)]),
)
def test_whatever_is_asked_the_exact_sum_stays_within_the_budget(
    asked: list[PrivacyCurve], budget: Budget
) -> None:
    """An adversary who goes on after refusals: what was granted never exceeds the budget, and
    nothing is refused that fitted.
    """
    filtered, exact = Filter(budget), Fraction(0)
    for cost in asked:
        event, value = event_of(cost)
        x = Fraction(value)
        rho = {
            "pure": min(x, x * x / 2),
            "bounded_range": min(x, x * x / 8),
            "gaussian": x * x / 2,
        }[event]
        if filtered.would_exceed(cost):
            assert (exact + rho) * UNIT > filtered.capacity
            with pytest.raises(BudgetSpent):
                filtered.spend(cost)
        else:
            filtered, exact = filtered.spend(cost), exact + rho
        assert exact * UNIT == filtered.odometer.units <= filtered.capacity
    claimed = filtered.spent
    assert isinstance(claimed, ZeroConcentratedDP)
    assert claimed.rho >= exact
    if budget.epsilon is not None:
        assert claimed.delta(budget.epsilon) <= budget.failure


# Constant work


@pytest.mark.parametrize("count", [10**4, pytest.param(10**6, marks=pytest.mark.long)])
def test_many_releases_fill_the_budget_and_leave_a_state_of_the_same_size(count: int) -> None:
    filtered = Filter(Budget(mu=1.0))
    share = filtered.share(count)
    after: dict[int, Filter] = {}
    for release in range(1, count + 1):
        filtered = filtered.spend(share)
        if release in (10**2, 10**3, count):
            after[release] = filtered
    assert (
        filtered.odometer.units
        <= filtered.capacity
        < filtered.odometer.units + price(share, "gaussian")
    )
    assert filtered.would_exceed(share)
    assert filtered.releases == count
    assert len({len(state.to_bytes()) for state in after.values()}) == 1
    assert max(f.odometer.units.bit_length() for f in after.values()) <= 256 + 1
    assert Filter.from_bytes(filtered.to_bytes()) == filtered


def test_the_number_of_operations_does_not_grow() -> None:
    """Counted, not timed: function calls per release behind 10^2 and behind 10^5 others."""
    import sys

    def calls(filtered: Filter) -> int:
        count = 0

        def tick(_frame: object, event: str, _argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(tick)
        try:
            filtered.would_exceed(cost)
            filtered.spend(cost)
        finally:
            sys.setprofile(before)
        return count

    cost = ZeroConcentratedDP(1e-9)
    short = Filter(Budget(rho=1.0)).replay([("concentrated", 1e-9)] * 10**2)
    long = short.replay([("concentrated", 1e-9)] * 10**4)
    assert calls(short) == calls(long) < 60


# Adaptive adversaries, by exact enumeration


MENU = (1, 2, 4)  # randomised response at these multiples of a step


def _best_adversary(filtered: Filter, epsilon: float, step: float) -> float:
    """sup over all adaptive strategies on the menu of E_P(1 - e^(epsilon - loss))_+, the filter
    deciding what is allowed.

    Losses are whole multiples of the step, so states meet again and the supremum over all
    strategies is computed exactly.
    """

    @cache
    def value(loss: int, used: int) -> float:
        best = max(0.0, 1 - exp(epsilon - loss * step))
        at = Filter(filtered.budget, filtered.currency, Odometer(filtered.currency, 1.0, used))
        for size in MENU:
            cost = PureDP(size * step)
            if not at.would_exceed(cost):
                after = at.spend(cost).odometer.units
                truth = 1 / (1 + exp(-size * step))
                best = max(
                    best,
                    truth * value(loss + size, after) + (1 - truth) * value(loss - size, after),
                )
        return best

    return value(0, 0)


@pytest.mark.parametrize("budget", [Budget(1.5), Budget(0.9)])
def test_no_adaptive_strategy_beats_the_pure_filter(budget: Budget) -> None:
    assert budget.epsilon is not None
    for epsilon in np.arange(0.0, budget.epsilon + 0.3, 0.1):
        worst = _best_adversary(Filter(budget), float(epsilon), 0.125)
        assert worst <= PureDP(budget.epsilon).delta(float(epsilon)) + 1e-12
    assert _best_adversary(Filter(budget), budget.epsilon, 0.125) <= 1e-15


@pytest.mark.parametrize(("rho", "step"), [(0.3, 0.125), (1.0, 0.25)])
def test_no_adaptive_strategy_beats_the_concentrated_filter(rho: float, step: float) -> None:
    for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0):
        worst = _best_adversary(Filter(Budget(rho=rho)), epsilon, step)
        assert 0 < worst <= ZeroConcentratedDP(rho).delta(epsilon)


def test_randomised_response_of_this_rho_is_worse_than_gaussian_noise_of_this_rho() -> None:
    """Why a pure release costs pi/2 times as much in the Gaussian currency, and why rho has no
    price there at all.
    """
    assert _best_adversary(Filter(Budget(rho=0.3)), 0.5, 0.125) > 1.1 * GaussianDP(sqrt(0.6)).delta(
        0.5
    )
    assert _best_adversary(Filter(Budget(rho=0.3), "gaussian"), 0.5, 0.125) < GaussianDP(
        sqrt(0.6)
    ).delta(0.5)


@pytest.mark.parametrize("budget", [Budget(1.0, 0.05), Budget(2.0, 0.01), Budget(3.0, 1e-3)])
@pytest.mark.parametrize("currency", ["concentrated", "gaussian"])
def test_no_adaptive_strategy_beats_an_approximate_budget(
    budget: Budget, currency: Currency
) -> None:
    assert budget.epsilon is not None
    worst = _best_adversary(
        Filter(budget, currency), budget.epsilon, 0.0625 if currency == "concentrated" else 0.125
    )
    assert 0 < worst <= budget.failure
    if currency == "concentrated":
        assert worst > budget.failure / 20


RULES: dict[str, Callable[[float, float], float]] = {
    "all at once when lucky": lambda loss, left: left if loss > 0 else 0.0,
    "all at once when unlucky": lambda loss, left: left if loss < 0.3 else 0.0,
    "half, then more the luckier": lambda loss, left: left * min(1.0, max(0.0, 0.5 + loss)),
    "always all": lambda loss, left: left,
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5, 3.0])
def test_adaptive_gaussian_steps_stay_within_the_gaussian_filter(rule: str, epsilon: float) -> None:
    """The first step's loss decides the size of the second: integrated exactly over the first,
    closed form for the second.
    """
    filtered = Filter(Budget(mu=1.2))
    first = GaussianDP(0.7)
    once = filtered.spend(first)
    left = once.left
    assert isinstance(left, GaussianDP)
    middle, deviation = first.mu**2 / 2, first.mu
    losses = np.linspace(middle - 9 * deviation, middle + 9 * deviation, 4001)
    values = []
    for loss in losses:
        square = RULES[rule](float(loss), left.mu**2)
        second = GaussianDP(min(left.mu, sqrt(square)))
        if second.mu:
            once.spend(second)
        values.append(second.delta(epsilon - float(loss)))
    density = np.exp(-(((losses - middle) / deviation) ** 2) / 2) / (deviation * sqrt(2 * pi))
    realised = float(np.trapezoid(np.array(values) * density, losses))
    claim = GaussianDP(1.2).delta(epsilon)
    assert realised <= claim + 1e-9
    if rule == "always all":
        assert realised == pytest.approx(claim, abs=1e-7)


# The odometer


def test_the_odometer_adds() -> None:
    pure = Odometer("pure").record(PureDP(0.1)).record(BoundedRange(0.2))
    assert isinstance(pure.spent, PureDP)
    assert Fraction(pure.spent.bound) >= Fraction(0.1) + Fraction(0.2)
    assert pure.realised(0.0) == pure.spent.bound
    gaussian = Odometer("gaussian").record(GaussianDP(3.0)).record(GaussianDP(4.0))
    assert gaussian.spent == GaussianDP(5.0)
    assert Odometer("gaussian").spent == GaussianDP(0.0)
    assert Odometer("concentrated").realised(1e-6) == 0.0
    assert gaussian.releases == 2


def test_the_realised_bound_is_a_little_above_that_of_a_plan() -> None:
    for currency, total in (
        ("concentrated", ZeroConcentratedDP(0.125)),
        ("gaussian", GaussianDP(0.5)),
    ):
        meter = Odometer(currency, expected=0.125).record(total)  # pyright: ignore[reportArgumentType]
        plan = ZeroConcentratedDP(0.125).epsilon(1e-6)
        assert plan < meter.realised(1e-6) < 1.4 * plan
    for delta in (0.0, 1.0, -1.0, nan):
        with pytest.raises(InvalidValue, match="delta"):
            Odometer("gaussian").record(GaussianDP(1.0)).realised(delta)


@pytest.mark.parametrize("delta", [0.2, 0.02])
def test_no_adaptive_strategy_makes_the_loss_cross_the_realised_bound_too_often(
    delta: float,
) -> None:
    """The largest probability that the loss is ever above the odometer's figure, over all adaptive
    strategies on the menu.
    """
    step = 0.25

    @cache
    def crossed(loss: int, units: int) -> bool:
        return loss * step > Odometer("concentrated", 1.0, units).realised(delta)

    @cache
    def value(loss: int, units: int, left: int) -> float:
        if crossed(loss, units):
            return 1.0
        if not left:
            return 0.0
        best = 0.0
        for size in MENU:
            truth = 1 / (1 + exp(-size * step))
            after = units + price(PureDP(size * step), "concentrated")
            best = max(
                best,
                truth * value(loss + size, after, left - 1)
                + (1 - truth) * value(loss - size, after, left - 1),
            )
        return best

    assert value(0, 0, 16) <= delta


# Stored states


STATES = [
    Filter(Budget(1.0)).spend(PureDP(0.3)),
    Filter(Budget(1.0, 1e-6)).spend(GaussianDP(0.1)).spend(BoundedRange(0.01)),
    Filter(Budget(mu=1.0)),
    Filter(Budget(rho=0.3), "gaussian").spend(PureDP(0.1)),
]


@pytest.mark.parametrize("filtered", STATES)
def test_a_stored_filter_goes_on_as_if_never_stored(filtered: Filter) -> None:
    again = Filter.from_bytes(filtered.to_bytes())
    assert again == filtered
    assert again.to_bytes() == filtered.to_bytes()
    assert again.spend(PureDP(0.01)) == filtered.spend(PureDP(0.01))
    assert Odometer.from_bytes(filtered.odometer.to_bytes()) == filtered.odometer


def test_every_truncation_every_extension_and_every_flipped_bit_is_found() -> None:
    state = STATES[1].to_bytes()
    for length in range(len(state)):
        with pytest.raises(DamagedState):
            Filter.from_bytes(state[:length])
    with pytest.raises(DamagedState):
        Filter.from_bytes(state + b"\0")
    for bit in range(8 * len(state)):
        altered = bytearray(state)
        altered[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedState):
            Filter.from_bytes(bytes(altered))


def _resealed(state: bytes, at: int, new: bytes) -> bytes:
    body = bytearray(state[:-32])
    body[at : at + len(new)] = new
    return bytes(body) + blake2b(bytes(body), digest_size=32).digest()


def test_states_with_a_right_checksum_and_wrong_contents_are_refused() -> None:
    state = STATES[1].to_bytes()
    entries = len(state) - 32 - 9 * len(EVENTS)
    assert Filter.from_bytes(_resealed(state, 0, b"")) == STATES[1]
    for at, new, message in [
        (0, b"another", "begins with"),
        (17, struct.pack(">H", 3), "version 1 or 2, got version 3"),
        (17, struct.pack(">H", 2), "Expected 4 events"),
        (19, b"\x09", "currency"),
        (20, struct.pack(">d", -1.0), "no odometer has"),
        (28, struct.pack(">d", -1.0), "no odometer has"),
        (60, b"\xff" * 8, "no filter has"),
        (entries - 1, b"\x05", "Expected 5 events"),
        (entries, b"\x2a", "unknown event 42"),
        (entries, b"\x01", "events"),
    ]:
        with pytest.raises(DamagedState, match=message):
            Filter.from_bytes(_resealed(state, at, new))
    with pytest.raises(DamagedState, match="got the state of a filter"):
        Odometer.from_bytes(state)
    with pytest.raises(DamagedState, match="got the state of an odometer"):
        Filter.from_bytes(STATES[1].odometer.to_bytes())


def test_a_filter_cannot_be_made_from_an_overspent_or_foreign_odometer() -> None:
    with pytest.raises(InvalidValue, match="within the budget"):
        Filter(Budget(1.0), odometer=Odometer("pure").record(PureDP(2.0)))
    with pytest.raises(InvalidValue, match="currency"):
        Filter(Budget(1.0), "pure", Odometer("gaussian"))
    with pytest.raises(InvalidValue, match="currency"):
        Odometer("shuffled")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match="expected"):
        Odometer("pure", expected=0.0)
    with pytest.raises(InvalidValue, match="releases"):
        Filter(Budget(1.0)).share(0)
    with pytest.raises(InvalidValue, match="to hold at least"):
        Filter(Budget(mu=1e-100))


def test_an_approximate_budget_keeps_a_margin_and_few_digits() -> None:
    for budget in (Budget(0.01, 1e-12), Budget(1.0, 1e-6), Budget(30.0, 0.3)):
        assert budget.epsilon is not None
        rho, square = amount(capacity(budget, "concentrated")), amount(capacity(budget, "gaussian"))
        assert ZeroConcentratedDP(float(rho)).delta(budget.epsilon) <= budget.failure
        assert GaussianDP(sqrt(square)).delta(budget.epsilon) <= budget.failure
        assert 2 * rho < square
        assert rho.numerator.bit_length() <= 36
        assert ceil(square) >= 1


def test_an_odometer_never_starts_below_zero() -> None:
    wrongs: list[dict[str, Any]] = [
        {"units": -1},
        {"units": 1.5},
        {"counts": (-3, 0, 0, 0)},
        {"counts": (0,)},
    ]
    for wrong in wrongs:
        with pytest.raises(InvalidValue, match=r"Expected (units|counts)"):
            Odometer("pure", **wrong)
    for state in ("abc", None):
        with pytest.raises(DamagedState):
            Filter.from_bytes(state)  # pyright: ignore[reportArgumentType]

"""The privacy budget, and the exact price of a release in the currency of a budget.

Three currencies have a proven rule for parameters chosen during the run (`proofs/odometer.md`).
The pure bound epsilon adds, rho of zero-concentrated DP adds, and mu^2 of Gaussian DP adds.
Prices are whole numbers of `1 / UNIT`. Sums of whole numbers are exact, so a million releases cause
no drift. Other prices are rounded up, so rounding never favours the spender.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Literal

from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.validate import expect, positive
from hedgerow.privacy.curves import (
    BoundedRange,
    GaussianDP,
    LaplaceDP,
    PureDP,
    Quoted,
    ZeroConcentratedDP,
)
from hedgerow.privacy.curves.base import Composed

Currency = Literal["pure", "concentrated", "gaussian"]
CURRENCIES: tuple[Currency, ...] = ("pure", "concentrated", "gaussian")

# The kinds of cost. The index of a name is its code in a stored state: add names only at the end.
EVENTS = ("pure", "bounded_range", "concentrated", "gaussian")

# Every float above 2^-203, and the square of every float above 2^-75, is a whole number of units.
# Prices in practical use are therefore exact.
UNIT_BITS = 256
UNIT = 1 << UNIT_BITS

# The largest budget and the largest cost. A sum of 2^64 prices then fits a state of fixed length.
LARGEST = 2.0**60

# pi/8 is the squared Gaussian parameter of one unit of bounded range.
# 355/113 is above pi by 3e-7, so this fraction is above pi/8.
_PI_OVER_EIGHT = (355, 904)


@dataclass(frozen=True)
class Budget:
    """The total privacy loss that may be spent.

    Give exactly one of `epsilon`, `mu` and `rho`. Each is > 0 and at most 2^60.

    Parameters
    ----------
    epsilon
        Budget in (epsilon, delta)-DP; without `delta` the budget is pure.
    delta
        In [0, 1), only with `epsilon`. Default: 0.
    mu
        Budget in Gaussian DP.
    rho
        Budget in zero-concentrated DP.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.Budget(1.0, 1e-6).words()
    'epsilon = 1, delta = 1e-06'
    >>> hr.Budget(mu=0.5).words()
    'mu = 0.5 (Gaussian DP)'
    >>> hr.Budget(mu=-0.5)
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Expected mu=-0.5 > 0 and finite.
    """

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("epsilon", "mu", "rho") if getattr(self, name) is not None]
        if len(given) != 1:
            named = f"got {', '.join(given)}" if given else "got none"
            raise InvalidValue(
                "Expected exactly one of epsilon (with an optional delta), mu and rho in a budget, "
                f"{named}."
            )
        positive(given[0], getattr(self, given[0]))
        expect(getattr(self, given[0]) <= LARGEST, given[0], getattr(self, given[0]), "<= 2^60")
        if self.epsilon is None:
            expect(
                self.delta is None,
                "delta",
                self.delta,
                f"to be absent with {given[0]}: only epsilon has a delta",
            )
        else:
            object.__setattr__(self, "delta", 0.0 if self.delta is None else self.delta)
            expect(
                isfinite(self.failure) and 0 <= self.failure < 1,
                "delta",
                self.delta,
                ">= 0 and < 1",
            )

    @property
    def kind(self) -> Literal["epsilon", "mu", "rho"]:
        """The name of the parameter that is set."""
        return "epsilon" if self.epsilon is not None else "mu" if self.mu is not None else "rho"

    @property
    def failure(self) -> float:
        """delta, or 0 if the budget has none."""
        return 0.0 if self.delta is None else self.delta

    @property
    def currency(self) -> Currency:
        """The currency that can price the most kinds of releases."""
        if self.mu is not None:
            return "gaussian"
        return "concentrated" if self.rho is not None or self.failure > 0 else "pure"

    def words(self) -> str:
        """The budget as text."""
        if self.mu is not None:
            return f"mu = {self.mu:.6g} (Gaussian DP)"
        if self.rho is not None:
            return f"rho = {self.rho:.6g} (zero-concentrated DP)"
        return f"epsilon = {self.epsilon:.6g}, delta = {self.failure:.6g}"


_ONE_STEP = (PureDP, BoundedRange, ZeroConcentratedDP, GaussianDP, LaplaceDP)


def whole_units(numerator: int, denominator: int) -> int:
    """numerator / denominator in units, rounded up."""
    return -((-numerator << UNIT_BITS) // denominator)


def event_of(cost: PrivacyCurve) -> tuple[str, float]:
    """The name and the parameter of the cost of one step.

    Laplace noise counts by its pure bound. A curve without a proven adaptive rule is refused.

    >>> event_of(PureDP(0.5))
    ('pure', 0.5)
    """
    match cost:
        case PureDP() | LaplaceDP():
            return "pure", cost.bound
        case BoundedRange():
            return "bounded_range", cost.range
        case ZeroConcentratedDP():
            return "concentrated", cost.rho
        case GaussianDP():
            return "gaussian", cost.mu
        case _:
            raise Unsupported(
                f"No rule for adaptive composition is proven for {cost!r}. "
                f"Known: {', '.join(EVENTS)}."
            )


def cost_of(event: str, value: float) -> PrivacyCurve:
    """The cost that a ledger stores as a name and a number: the inverse of `event_of`.

    >>> cost_of("shuffled", 0.5)
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Expected event='shuffled' to be one of pure, bounded_range,
    concentrated, gaussian.
    """
    expect(event in EVENTS, "event", event, f"to be one of {', '.join(EVENTS)}")
    positive(f"the cost {event}", value)
    return (PureDP, BoundedRange, ZeroConcentratedDP, GaussianDP)[EVENTS.index(event)](value)


def steps_of(cost: PrivacyCurve) -> tuple[tuple[PrivacyCurve, int], ...]:
    """The steps of a release, and how often each occurs.

    Most releases are one step. A `Composed` curve lists its steps. Steps of one release may be
    chosen adaptively, like releases themselves, so their prices add.

    >>> from hedgerow.privacy.composition.steps import AfterPureStep, PureComposition
    >>> steps_of(AfterPureStep(PureComposition(0.1, 20), 0.5))
    ((PureDP(bound=0.5), 1), (PureDP(bound=0.1), 20))
    """
    if isinstance(cost, _ONE_STEP):  # the common case first: this runs for every release
        return ((cost, 1),)
    if isinstance(cost, Quoted):
        return steps_of(cost.curve)
    if not isinstance(cost, Composed):
        return ((cost, 1),)
    return tuple(
        (step, count * times)
        for part, times in cost.composed_of()
        for step, count in steps_of(part)
    )


def charge(cost: PrivacyCurve, currency: Currency) -> tuple[str, int]:
    """The event of a one-step release and its price in units, exact or rounded up.

    A pure bound b is a bounded range of 2b. A bounded range R has rho = R^2/8 and mu^2 = pi R^2/8.
    rho is never more than the pure bound itself (`proofs/odometer.md#concentrated-filter`,
    `proofs/odometer.md#gaussian-filter`).
    """
    event, value = event_of(cost)
    # tested here first, so that the message is not built for every release
    if not 0 < value <= LARGEST:
        positive(f"the cost {event}", value)
        expect(value <= LARGEST, f"the cost {event}", value, "<= 2^60")
    top, bottom = float(value).as_integer_ratio()
    if event in ("pure", "bounded_range"):
        linear = whole_units(top, bottom)
        if currency == "pure":
            return event, linear
        square = (4 if event == "pure" else 1) * top * top
        if currency == "concentrated":
            return event, min(linear, whole_units(square, 8 * bottom * bottom))
        above, below = _PI_OVER_EIGHT
        return event, whole_units(above * square, below * bottom * bottom)
    if event == "concentrated" and currency == "concentrated":
        return event, whole_units(top, bottom)
    if event == "gaussian" and currency != "pure":
        return event, whole_units(top * top, (1 if currency == "gaussian" else 2) * bottom * bottom)
    raise Unsupported(f"A release with {cost.words()} has no proven price in a {currency} budget.")


def price(cost: PrivacyCurve, currency: Currency) -> int:
    """The price of a release in units.

    >>> price(PureDP(0.5), "concentrated") / UNIT, price(GaussianDP(0.5), "concentrated") / UNIT
    (0.125, 0.125)
    """
    return sum([count * charge(step, currency)[1] for step, count in steps_of(cost)])


def amount(units: int) -> Fraction:
    """Convert units to an exact number."""
    return Fraction(units, UNIT)

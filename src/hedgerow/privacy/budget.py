"""The privacy budget, and the exact price of a release in the currency of a budget.

Three currencies have a proven rule for parameters chosen during the run (`proofs/odometer.md`).
The pure bound epsilon adds, rho of zero-concentrated DP adds, and mu^2 of Gaussian DP adds.
A release that is only (epsilon, delta)-DP costs its epsilon in the currency, and its delta beside
it. Prices are whole numbers of `1 / UNIT`. Sums of whole numbers are exact, so a million releases
cause no drift. Other prices are rounded up, so rounding never favours the spender.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite
from typing import Literal, NamedTuple

from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.validate import at_least, positive
from hedgerow.privacy.curves import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    LaplaceDP,
    PureDP,
    Quoted,
    ZeroConcentratedDP,
    promise,
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
        if not getattr(self, given[0]) <= LARGEST:
            raise InvalidValue(f"Expected {given[0]}={getattr(self, given[0])!r} <= 2^60.")
        if self.epsilon is None:
            if self.delta is not None:
                raise InvalidValue(
                    f"Expected delta={self.delta!r} to be absent with {given[0]}: only epsilon has "
                    "a delta."
                )
        else:
            object.__setattr__(self, "delta", 0.0 if self.delta is None else self.delta)
            if not isfinite(self.failure) or not 0 <= self.failure < 1:
                raise InvalidValue(f"Expected delta={self.delta!r} >= 0 and < 1.")

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


ONE_STEP = (PureDP, BoundedRange, ZeroConcentratedDP, GaussianDP, LaplaceDP)
Steps = tuple[tuple[PrivacyCurve, int], ...]  # costs of one step each, and how often they occur
Entry = tuple[str, float] | tuple[str, float, float]  # of a ledger: event, value, delta if any


def given_budget(epsilon: float | None, delta: float | None, mu: float | None) -> Budget | None:
    """Return the budget that the parameters of an algorithm name; None for mu = inf: no noise.

    >>> given_budget(None, None, 0.5)
    Budget(epsilon=None, delta=None, mu=0.5, rho=None)
    >>> given_budget(None, None, inf)
    """
    if mu == inf and epsilon is None and delta is None:
        return None
    return Budget(epsilon=epsilon, delta=delta, mu=mu)


class Bill(NamedTuple):
    """What one release costs: units of the currency, units of delta, and the steps charged."""

    units: int
    failure: int
    counts: tuple[int, ...]  # of each of `EVENTS`
    steps: Steps


_ONCE = {each: tuple(int(each == event) for event in EVENTS) for each in EVENTS}


def whole_units(numerator: int, denominator: int) -> int:
    """numerator / denominator in units, rounded up."""
    return -((-numerator << UNIT_BITS) // denominator)


def event_of(cost: PrivacyCurve) -> tuple[str, float]:
    """The name and the parameter of the cost of one step.

    Laplace noise counts by its pure bound. A curve that has no parameter that adds is refused.

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


def entry_of(step: PrivacyCurve) -> Entry:
    """The entry of a ledger for the cost of one step, with the delta of an approximate cost.

    >>> entry_of(PureDP(0.5)), entry_of(ApproximateDP(0.5, 1e-6))
    (('pure', 0.5), ('pure', 0.5, 1e-06))
    """
    if isinstance(step, ApproximateDP):
        return "pure", step.at_epsilon, step.at_delta
    return event_of(step)


def cost_of(event: str, value: float, delta: float = 0.0) -> PrivacyCurve:
    """The cost that a ledger stores as a name and a number: the inverse of `entry_of`.

    >>> cost_of("pure", 0.5, 1e-6)
    ApproximateDP(at_epsilon=0.5, at_delta=1e-06)
    >>> cost_of("shuffled", 0.5)
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Expected event='shuffled' to be one of pure, bounded_range,
    concentrated, gaussian.
    """
    if event not in EVENTS:
        raise InvalidValue(f"Expected event={event!r} to be one of {', '.join(EVENTS)}.")
    if value != 0 or isinstance(value, bool):
        positive(f"the cost {event}", value)
    if delta != 0:
        if event != "pure":
            raise InvalidValue(
                f"Expected delta={delta!r} to be absent with {event}: only pure has a delta."
            )
        if not 0 < delta < 1:
            raise InvalidValue(f"Expected delta={delta!r} >= 0 and < 1.")
        return ApproximateDP(value, delta)
    return (PureDP, BoundedRange, ZeroConcentratedDP, GaussianDP)[EVENTS.index(event)](value)


def steps_of(cost: PrivacyCurve) -> Steps:
    """The steps of a release, and how often each occurs.

    Most releases are one step. A `Composed` curve lists its steps. Steps of one release may be
    chosen adaptively, like releases themselves, so their prices add. A count below 1 would refund
    what others have spent, and no step at all would be free, so both are refused.

    >>> from hedgerow.privacy.composition.steps import AfterPureStep, PureComposition
    >>> steps_of(AfterPureStep(PureComposition(0.1, 20), 0.5))
    ((PureDP(bound=0.5), 1), (PureDP(bound=0.1), 20))
    """
    if isinstance(cost, ONE_STEP):  # the common case first: this runs for every release
        return ((cost, 1),)
    if isinstance(cost, Quoted):
        return steps_of(cost.curve)
    if isinstance(cost, ApproximateDP) and cost.at_delta == 0:
        return ((PureDP(cost.at_epsilon), 1),)
    if not isinstance(cost, Composed):
        return ((cost, 1),)
    parts, kind = cost.composed_of(), type(cost).__name__
    if len(parts) == 0:
        raise InvalidValue(f"Expected the steps of {kind}={parts!r} to be at least one.")
    for part, times in parts:
        at_least(f"the count of a step ({part.words()}) of {kind}", times, 1)
    return tuple((step, count * times) for part, times in parts for step, count in steps_of(part))


def charge(cost: PrivacyCurve, currency: Currency) -> tuple[str, int]:
    """The event of a one-step release and its price in units, exact or rounded up.

    A pure bound b is a bounded range of 2b. A bounded range R has rho = R^2/8 and mu^2 = pi R^2/8.
    rho is never more than the pure bound itself (`proofs/odometer.md#concentrated-filter`,
    `proofs/odometer.md#gaussian-filter`).
    """
    event, value = event_of(cost)
    # tested here first, so that the message is not built for every release
    if not 0 <= value <= LARGEST:
        if not isfinite(value) or not value >= 0:
            raise InvalidValue(f"Expected the cost {event}={value!r} >= 0 and finite.")
        if not value <= LARGEST:
            raise InvalidValue(f"Expected the cost {event}={value!r} <= 2^60.")
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
    """The price of a release that needs no delta, in units; others are refused.

    >>> price(PureDP(0.5), "concentrated") / UNIT, price(GaussianDP(0.5), "concentrated") / UNIT
    (0.125, 0.125)
    """
    return sum([count * charge(step, currency)[1] for step, count in steps_of(cost)])


def bill(steps: Steps, currency: Currency) -> Bill:
    """What steps cost together; raises `Unsupported` if one has no price in the currency.

    An approximate step costs what a pure step with its epsilon costs, and its delta, rounded up
    (`proofs/odometer.md#approximate-costs`).

    >>> both = bill(((ApproximateDP(0.5, 0.25), 2), (PureDP(1.0), 1)), "pure")
    >>> both.units / UNIT, both.failure / UNIT, both.counts
    (2.0, 0.5, (3, 0, 0, 0))
    """
    units = failure = 0
    counts: dict[str, int] = dict.fromkeys(EVENTS, 0)
    for step, count in steps:
        if isinstance(step, ApproximateDP):
            event, each = charge(PureDP(step.at_epsilon), currency)
            failure += count * whole_units(*float(step.at_delta).as_integer_ratio())
        else:
            event, each = charge(step, currency)
        units += count * each
        counts[event] += count
    return Bill(units, failure, tuple(counts.values()), steps)


def bill_without_delta(cost: PrivacyCurve, currency: Currency) -> Bill | None:
    """The cost of a release that is charged without any delta; None if that is not possible.

    It is charged as its steps if each has a price in the currency. Otherwise it is one pure step,
    if the curve has a pure bound.
    """
    try:
        if isinstance(cost, ONE_STEP):  # the common case first: this runs for every release
            event, units = charge(cost, currency)
            return Bill(units, 0, _ONCE[event], ((cost, 1),))
        found = bill(steps_of(cost), currency)
        if found.failure == 0:
            return found
    except Unsupported:
        pass
    bound = cost.epsilon(0.0)
    return bill(((PureDP(bound), 1),), currency) if 0 <= bound < inf else None


def bills_with_delta(cost: PrivacyCurve, currency: Currency) -> list[Bill]:
    """The ways to charge a release by an epsilon and a delta.

    One takes the quoted epsilon and delta of the whole curve. The other charges it step by step,
    and quotes only the steps that have no price in the currency.
    """
    steps = steps_of(cost)
    parts = [(_with_price(step, currency), count) for step, count in steps]
    ways = [[(_quoted(cost), 1)], *([] if steps == ((cost, 1),) else [parts])]
    return [
        bill(tuple((step, count) for step, count in way if step is not None), currency)
        for way in ways
        if all(step is not None for step, _ in way)
    ]


def _with_price(step: PrivacyCurve, currency: Currency) -> PrivacyCurve | None:
    try:
        bill(((step, 1),), currency)
    except Unsupported:
        return _quoted(step)
    return step


def _quoted(cost: PrivacyCurve) -> PrivacyCurve | None:
    """The quoted epsilon and delta as a cost, unless they promise nothing."""
    epsilon, delta = cost.stated()
    if not 0 <= delta < 1:
        return None
    epsilon = max(epsilon, cost.epsilon(delta))
    if not 0 <= epsilon < inf:
        return None
    return promise(epsilon, delta)


def amount(units: int) -> Fraction:
    """Convert units to an exact number."""
    return Fraction(units, UNIT)

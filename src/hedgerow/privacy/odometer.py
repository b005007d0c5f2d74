"""Odometer and filter: what an adaptive stream of releases has spent, and whether one more fits.

Both keep one exact whole number and a few counts, whatever the number of releases. The millionth
release therefore takes as much time as the first. Only rules proven for parameters chosen during
the run are used (`proofs/odometer.md`): pure bounds add, rho adds, mu^2 adds, and deltas add beside
them in a second whole number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from math import ceil, isnan, log, log1p, sqrt
from operator import add
from typing import Any

from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.errors import HedgerowError, InvalidValue, Unsupported
from hedgerow.core.rounding import root_down, root_up, round_down, round_up
from hedgerow.core.validate import at_least, positive
from hedgerow.privacy.budget import (
    CURRENCIES,
    EVENTS,
    ONE_STEP,
    UNIT,
    UNIT_BITS,
    Bill,
    Budget,
    Currency,
    Entry,
    amount,
    bill_without_delta,
    bills_with_delta,
    cost_of,
    entry_of,
)
from hedgerow.privacy.calibrate import exact_capacity, largest_mu, largest_rho
from hedgerow.privacy.curves import (
    ApproximateDP,
    GaussianDP,
    PureDP,
    WithFailure,
    ZeroConcentratedDP,
)

_NAMES = {"pure": "epsilon", "concentrated": "rho", "gaussian": "mu^2"}
_STEP = 1.25  # the ratio of the thresholds of the odometer


class BudgetSpent(HedgerowError):
    """A release was refused because it would exceed the budget; nothing was charged.

    Examples
    --------
    >>> from hedgerow.privacy import Budget, BudgetSpent, Filter, PureDP
    >>> try:
    ...     Filter(Budget(1.0)).spend(PureDP(2.0))
    ... except BudgetSpent:
    ...     print("refused")
    refused
    """


class DamagedState(InvalidValue):
    """A stored odometer or filter cannot be trusted.

    It was truncated or altered, has another version, or contains an unknown event.
    """


@dataclass(frozen=True, slots=True)
class Odometer:
    """The running sum of what has been spent, without a limit.

    `spent` is the sum as a curve. If the costs were fixed in advance, it is the guarantee of the
    whole. If they were chosen during the run, only the pure sum is a guarantee. For the other
    currencies use a `Filter`, with a limit set in advance, or `realised`, which is larger because
    no limit was set.

    Every curve that protects has a cost. A release that the currency cannot count without a delta
    is charged by its quoted epsilon and delta (`proofs/odometer.md#approximate-costs`).

    Parameters
    ----------
    currency
        What is added up: "pure" (epsilon), "concentrated" (rho) or "gaussian" (mu^2).
    expected
        A public guess at the final sum in rho (mu^2 / 2 for Gaussian DP), set in advance.
        `realised` is sharpest near it. Default: 1.
    units
        The sum so far, in units of 2^-256. Default: 0.
    counts
        The number of steps so far of each kind: pure, bounded range, concentrated, Gaussian. An
        approximate step counts as pure.
    failure
        The sum of the deltas so far, in units of 2^-256. Default: 0.

    Examples
    --------
    >>> from hedgerow.privacy import ApproximateDP, Odometer, PureDP
    >>> Odometer("pure").record(PureDP(0.25)).record(PureDP(0.5)).spent
    PureDP(bound=0.75)
    >>> Odometer("pure").record(PureDP(0.25)).record(ApproximateDP(0.5, 1e-6)).spent
    ApproximateDP(at_epsilon=0.75, at_delta=1e-06)
    """

    currency: Currency
    expected: float = 1.0
    units: int = 0
    counts: tuple[int, ...] = (0,) * len(EVENTS)
    failure: int = 0

    def __post_init__(self) -> None:
        if self.currency not in CURRENCIES:
            raise InvalidValue(
                f"Expected currency={self.currency!r} to be one of {', '.join(CURRENCIES)}."
            )
        positive("expected", self.expected)
        at_least("units", self.units, 0)
        at_least("failure", self.failure, 0)
        if len(self.counts) != len(EVENTS):
            raise InvalidValue(
                f"Expected counts={self.counts!r} to hold one number for each of "
                f"{', '.join(EVENTS)}."
            )
        for count in self.counts:
            at_least("counts", count, 0)

    @property
    def releases(self) -> int:
        """The number of releases so far, with every step of a composition counted."""
        return sum(self.counts)

    def record(self, cost: PrivacyCurve) -> Odometer:
        """The odometer after one more release; a composition is counted as its steps.

        The release is charged without a delta if it can be, and otherwise with the least delta.
        """
        bill = bill_without_delta(cost, self.currency)
        if bill is None:
            ways = bills_with_delta(cost, self.currency)
            if not ways:
                raise _no_price(cost, self.currency)
            bill = min(ways, key=lambda way: (way.failure, way.units))
        return self._after(bill)

    def _after(self, bill: Bill) -> Odometer:
        after = object.__new__(Odometer)  # what the constructor checks has not changed
        after._set(
            self.currency,
            self.expected,
            self.units + bill.units,
            tuple(map(add, self.counts, bill.counts)),
            self.failure + bill.failure,
        )
        return after

    def _set(
        self,
        currency: Currency,
        expected: float,
        units: int,
        counts: tuple[int, ...],
        failure: int,
    ) -> None:
        object.__setattr__(self, "currency", currency)
        object.__setattr__(self, "expected", expected)
        object.__setattr__(self, "units", units)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "failure", failure)

    @property
    def delta(self) -> float:
        """The sum of the deltas of approximate releases, rounded up to a float, at most 1."""
        return min(1.0, round_up(amount(self.failure)))

    @property
    def spent(self) -> PrivacyCurve:
        """The running sum, rounded up to floats."""
        whole = _curve_above(self.units, self.currency)
        if self.failure == 0:
            return whole
        if isinstance(whole, PureDP):
            return ApproximateDP(whole.bound, self.delta)
        return WithFailure(whole, self.delta)

    def realised(self, delta: float) -> float:
        """Bound the privacy loss so far, at all times at once, except with probability `delta`.

        Pure: the sum itself, on every path and with no exception. Otherwise a threshold of a
        geometric grid is fixed in advance for every size of the sum, and each gets its share of
        `delta` (`proofs/odometer.md#odometer`). This bounds the loss of the transcript for a reader
        at any time, even at a time chosen after looking at the transcript. The deltas of
        approximate releases (the property `delta`) come on top.

        >>> one = Odometer("concentrated", expected=0.02).record(ZeroConcentratedDP(0.01))
        >>> round(one.realised(1e-6), 3), round(ZeroConcentratedDP(0.01).epsilon(1e-6), 3)
        (0.858, 0.622)
        """
        if self.currency == "pure":
            return round_up(amount(self.units))
        if not 0 < delta < 1:
            raise InvalidValue(f"Expected delta={delta!r} > 0 and < 1.")
        if self.units == 0:
            return 0.0
        rho = amount(self.units) / (2 if self.currency == "gaussian" else 1)
        index = ceil(log(rho / Fraction(self.expected)) / log(_STEP))
        while (threshold := self.expected * _STEP**index) < rho * (1 + Fraction(1, 2**40)):
            index += 1
        place = 2 * index if index >= 0 else -2 * index - 1
        tail = log(1 / delta) + log1p(place) + log(place + 2)
        return (threshold + 2 * sqrt(threshold * tail)) * (1 + 1e-12)

    def to_bytes(self) -> bytes:
        """The whole state with a checksum."""
        return _pack(self, None, None)

    @classmethod
    def from_bytes(cls, state: bytes) -> Odometer:
        """Read a state; raises `DamagedState` if it cannot be trusted."""
        odometer, budget, _ = _unpack(state)
        if budget is not None:
            raise DamagedState("Expected the state of an odometer, got the state of a filter.")
        return odometer


@dataclass(frozen=True, slots=True, init=False)
class Filter:
    """A budget that charges every release in advance and refuses one that would exceed it.

    A filter is a value: `spend` returns the next filter and does not change this one. Keep exactly
    one filter, and store it before the release is published.

    A release is charged as its steps. A filter that keeps a reserve of delta may also charge the
    quoted epsilon and delta of a curve: it takes what costs the currency least and still fits. A
    release that cannot be charged without a delta needs such a reserve. A release that protects
    completely (epsilon = 0) costs nothing and is counted.

    Parameters
    ----------
    budget
        The limit for all releases together.
    currency
        How costs are added: "pure", "concentrated" or "gaussian". It is part of the claim and set
        in advance. By default an (epsilon, delta) budget with delta > 0 is counted in rho, which
        takes every kind of release; "gaussian" is sharper if all releases are Gaussian.
    odometer
        What is already spent. Default: nothing.
    reserve
        The part of the budget's delta that is kept for releases with a delta, set in advance. The
        rest converts rho or mu^2 to epsilon. Default: 0, and all of delta in the pure currency,
        which needs no conversion. Half of delta is a good choice for a mixture.

    Guarantee
    ---------
    Everything released before and after the first refusal is within `budget`, however the costs
    depend on earlier answers (`proofs/odometer.md#pure-filter`, `#concentrated-filter`,
    `#gaussian-filter`, `#approximate-costs`).

    Examples
    --------
    >>> from hedgerow.privacy import Budget, Filter, PureDP
    >>> one = Filter(Budget(1.0)).spend(PureDP(0.75))
    >>> one.would_exceed(PureDP(0.25)), one.would_exceed(PureDP(0.26))
    (False, True)
    >>> one.spend(PureDP(0.5))
    Traceback (most recent call last):
    ...
    hedgerow.privacy.odometer.BudgetSpent: The release costs epsilon = 0.5, but 0.75 of 1 is already
    spent in 1 release (budget: epsilon = 1, delta = 0). Release at most epsilon = 0.25.
    >>> both = Filter(Budget(2.0, 1e-5), reserve=5e-6)
    >>> both.spend(GaussianDP(0.1)).spend(ApproximateDP(0.125, 1e-6)).odometer.delta
    1e-06
    """

    budget: Budget
    odometer: Odometer
    reserve: float
    capacity: int = field(repr=False)  # the whole budget in units of the currency, rounded down

    def __init__(
        self,
        budget: Budget,
        currency: Currency | None = None,
        odometer: Odometer | None = None,
        reserve: float | None = None,
    ) -> None:
        if odometer is None:
            odometer = Odometer(budget.currency if currency is None else currency)
        if currency not in (None, odometer.currency):
            raise InvalidValue(
                f"Expected currency={currency!r} to be that of the odometer, {odometer.currency!r}."
            )
        kept = _default_reserve(budget, odometer.currency) if reserve is None else reserve
        whole = capacity(budget, odometer.currency, kept)
        if not odometer.units <= whole:
            raise InvalidValue(
                f"Expected the odometer's sum={float(amount(odometer.units))!r} within the budget "
                f"{budget.words()}."
            )
        if not amount(odometer.failure) <= Fraction(kept):
            raise InvalidValue(
                f"Expected the odometer's delta={odometer.delta!r} within the reserve {kept:.6g}."
            )
        self._set(budget, odometer, kept, whole)

    def _set(self, budget: Budget, odometer: Odometer, reserve: float, whole: int) -> None:
        object.__setattr__(self, "budget", budget)
        object.__setattr__(self, "odometer", odometer)
        object.__setattr__(self, "reserve", reserve)
        object.__setattr__(self, "capacity", whole)

    @property
    def currency(self) -> Currency:
        """How costs are added."""
        return self.odometer.currency

    @property
    def releases(self) -> int:
        """The number of releases so far, with every step of a composition counted."""
        return self.odometer.releases

    @property
    def spent(self) -> PrivacyCurve:
        """The running sum: how much of the budget is used. The claim is the whole budget."""
        return self.odometer.spent

    @property
    def left(self) -> PrivacyCurve:
        """The largest release without a delta that still fits, as a curve of the currency."""
        return _curve_below(Fraction(self.capacity - self.odometer.units, UNIT), self.currency)

    @property
    def delta_left(self) -> float:
        """The part of the reserve that is not yet spent, rounded down to a float."""
        return round_down(Fraction(self.reserve) - amount(self.odometer.failure))

    def share(self, releases: int) -> PrivacyCurve:
        """The largest cost of each of `releases` equal releases that still fit together.

        >>> Filter(Budget(1.0)).share(4)
        PureDP(bound=0.25)
        """
        at_least("releases", releases, 1)
        return _curve_below(
            Fraction((self.capacity - self.odometer.units) // releases, UNIT), self.currency
        )

    def would_exceed(self, cost: PrivacyCurve) -> bool:
        """Whether this release would be refused."""
        return not self._fits(self._bill(cost))

    def spend(self, cost: PrivacyCurve) -> Filter:
        """The filter after this release; raises `BudgetSpent` if it does not fit."""
        bill = self._bill(cost)
        if not self._fits(bill):
            raise self._refusal(bill)
        later = self.odometer._after(bill)
        after = object.__new__(Filter)  # the checks of the constructor hold by construction
        after._set(self.budget, later, self.reserve, self.capacity)
        return after

    def entries(self, cost: PrivacyCurve) -> tuple[Entry, ...]:
        """What `spend` charges for this release, as entries of a ledger for `replay`.

        >>> Filter(Budget(1.0, 1e-6), "pure").entries(ApproximateDP(0.5, 1e-7))
        (('pure', 0.5, 1e-07),)
        """
        steps = self._bill(cost).steps
        return tuple(entry_of(step) for step, count in steps for _ in range(count))

    def _bill(self, cost: PrivacyCurve) -> Bill:
        """The cheapest way in the currency that fits, or the cheapest way if none does.

        Of ways that cost nearly the same (within 1 %), the one with the least delta.
        """
        plain = bill_without_delta(cost, self.currency)
        if plain is not None and (self.reserve == 0 or isinstance(cost, ONE_STEP)):
            return plain
        others = bills_with_delta(cost, self.currency)
        if plain is None and (self.reserve == 0 or not others):
            raise _no_price(cost, self.currency, self.budget if others else None)
        ways = others if plain is None else [plain, *others]
        able = [bill for bill in ways if self._fits(bill)] or ways
        least = min(bill.units for bill in able)
        nearly = [bill for bill in able if 100 * bill.units <= 101 * least]
        return min(nearly, key=lambda bill: (bill.failure, bill.units))

    def _fits(self, bill: Bill) -> bool:
        meter = self.odometer
        return meter.units + bill.units <= self.capacity and (
            bill.failure == 0 or amount(meter.failure + bill.failure) <= Fraction(self.reserve)
        )

    def _refusal(self, bill: Bill) -> BudgetSpent:
        meter = self.odometer
        name, sums = _NAMES[self.currency], (bill.units, meter.units, self.capacity)
        if meter.units + bill.units <= self.capacity:
            name, sums = "delta", (bill.failure, meter.failure, int(Fraction(self.reserve) * UNIT))
        asked, used, whole = sums
        asked, used, whole, left = (
            f"{float(amount(each)):.6g}" for each in (asked, used, whole, whole - used)
        )
        releases = f"{meter.releases} release{'' if meter.releases == 1 else 's'}"
        return BudgetSpent(
            f"The release costs {name} = {asked}, but {used} of {whole} is already spent in "
            f"{releases} (budget: {self.budget.words()}). Release at most {name} = {left}."
        )

    def replay(self, ledger: Iterable[Entry]) -> Filter:
        """The filter after every (event, value) or (event, value, delta) of a ledger.

        A ledger with an unknown event, or one that overspends, is refused.
        """
        after = self
        for event, value, *delta in ledger:
            after = after.spend(cost_of(event, value, *delta))
        return after

    def to_bytes(self) -> bytes:
        """The whole state with a checksum, of the same length after any number of releases.

        The checksum detects accidents, not forgery. Sign the bytes if forgery is a risk.
        """
        usual = self.reserve == _default_reserve(self.budget, self.currency)
        return _pack(self.odometer, self.budget, None if usual else self.reserve)

    @classmethod
    def from_bytes(cls, state: bytes) -> Filter:
        """Read a state; raises `DamagedState` if it cannot be trusted."""
        odometer, budget, reserve = _unpack(state)
        if budget is None:
            raise DamagedState("Expected the state of a filter, got the state of an odometer.")
        try:
            return cls(budget, odometer.currency, odometer, reserve)
        except HedgerowError as problem:
            raise DamagedState(f"The state holds values that no filter has: {problem}") from problem


def _default_reserve(budget: Budget, currency: Currency) -> float:
    """The pure currency has no other use for delta; the others convert with all of it."""
    return budget.failure if currency == "pure" else 0.0


def _no_price(cost: PrivacyCurve, currency: Currency, budget: Budget | None = None) -> Unsupported:
    """Say why a release cannot be charged; `budget` is given if only a delta is missing."""
    text = f"A release with {cost.words()} has no proven price in a {currency} budget"
    if budget is None:
        return Unsupported(f"{text}.")
    if budget.failure == 0:
        return Unsupported(
            f"{text} without a delta, and the budget ({budget.words()}) has none. "
            "Use a budget of epsilon with a delta > 0, or a release without a delta."
        )
    return Unsupported(
        f"{text} without a delta, and this filter keeps none of its delta = {budget.failure:.6g} "
        "for such releases. Start it with a reserve, for example "
        f"Filter(budget, {currency!r}, reserve={budget.failure / 2:.6g})."
    )


@lru_cache(maxsize=1024)
def capacity(budget: Budget, currency: Currency, reserve: float = 0.0) -> int:
    """How many units of a currency a budget holds, rounded down.

    A currency that does not imply the budget is refused. The reserve is taken from delta first.
    """
    top = "<= " if currency == "pure" or budget.failure == 0 else "< "
    if not 0 <= reserve <= budget.failure or (not reserve < budget.failure and top != "<= "):
        raise InvalidValue(
            f"Expected reserve={reserve!r} >= 0 and {top}{budget.failure:.6g}, the delta of the "
            "budget."
        )
    if {"epsilon": "pure", "rho": "concentrated", "mu": "gaussian"}[budget.kind] == currency:
        units = exact_capacity(budget)
    elif budget.rho is not None and currency == "gaussian":
        units = 2 * exact_capacity(budget)
    elif budget.failure > 0 and currency != "pure":
        if reserve > 0:
            rest = round_down(Fraction(budget.failure) - Fraction(reserve))
            return capacity(Budget(budget.epsilon, rest), currency)
        value = (
            Fraction(largest_rho(budget))
            if currency == "concentrated"
            else Fraction(largest_mu(budget)) ** 2
        )
        # The curve is computed in floating point. Giving up 2^-30 of the budget, far more than its
        # error, and keeping few digits gives the same capacity on every machine.
        units = int(value * (1 - Fraction(1, 2**30)) * UNIT)
        cut = max(0, units.bit_length() - 36)
        units = units >> cut << cut
    else:
        raise Unsupported(
            f"A budget of {budget.words()} cannot be counted in the {currency} currency."
        )
    if not units > 0:
        raise InvalidValue(
            f"Expected budget={budget.words()!r} to hold at least 2^-{UNIT_BITS} of the {currency} "
            "currency."
        )
    return units


def _curve_above(units: int, currency: Currency) -> PrivacyCurve:
    if currency == "gaussian":
        return GaussianDP(root_up(amount(units)))
    return (PureDP if currency == "pure" else ZeroConcentratedDP)(round_up(amount(units)))


def _curve_below(exact: Fraction, currency: Currency) -> PrivacyCurve:
    if currency == "gaussian":
        return GaussianDP(root_down(exact))
    return (PureDP if currency == "pure" else ZeroConcentratedDP)(round_down(exact))


# The stored state: a fixed layout, then a checksum of everything before it. Version 2 adds the
# reserve and the sum of the deltas. It is written only if there is one of them.
_MAGIC, _VERSIONS = b"hedgerow odometer", (1, 2)
_HEAD = struct.Struct(">17sHBd4d64sB")
_ENTRY = struct.Struct(">BQ")
_DELTAS = struct.Struct(">d64s")
_DIGEST = 32
_ABSENT = float("nan")


def _pack(odometer: Odometer, budget: Budget | None, reserve: float | None) -> bytes:
    parts: list[Any] = (
        [None] * 4 if budget is None else [budget.epsilon, budget.delta, budget.mu, budget.rho]
    )
    numbers = [_ABSENT if part is None else part for part in parts]
    units, failure = (each.to_bytes(64, "big") for each in (odometer.units, odometer.failure))
    deltas = odometer.failure > 0 or reserve is not None
    head = _HEAD.pack(
        _MAGIC,
        2 if deltas else 1,
        CURRENCIES.index(odometer.currency),
        odometer.expected,
        *numbers,
        units,
        len(EVENTS),
    )
    body = head + b"".join(_ENTRY.pack(code, count) for code, count in enumerate(odometer.counts))
    if deltas:
        body += _DELTAS.pack(_ABSENT if reserve is None else reserve, failure)
    return body + blake2b(body, digest_size=_DIGEST).digest()


def _unpack(state: bytes) -> tuple[Odometer, Budget | None, float | None]:
    if not isinstance(state, bytes | bytearray | memoryview):
        raise DamagedState(f"Expected the bytes of a state, got {type(state).__name__}.")
    state = bytes(state)
    if not state.startswith(_MAGIC):
        raise DamagedState(
            f"Expected a state that begins with {_MAGIC!r}, got {bytes(state[: len(_MAGIC)])!r}."
        )
    if len(state) < _HEAD.size + _DIGEST:
        raise DamagedState(
            f"Expected a state of at least {_HEAD.size + _DIGEST} bytes, got {len(state)}. "
            "It was truncated. Restore the latest state: an older one would forget releases."
        )
    body, digest = state[:-_DIGEST], state[-_DIGEST:]
    if blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise DamagedState(
            "The checksum of the state does not match: it was truncated or altered. "
            "Restore the latest state: an older one would forget releases."
        )
    _, version, currency, expected, *numbers, units, entries = _HEAD.unpack_from(body)
    if version not in _VERSIONS:
        known = " or ".join(map(str, _VERSIONS))
        raise DamagedState(f"Expected a state of version {known}, got version {version}.")
    end = len(body) - (_DELTAS.size if version == 2 else 0)
    if end != _HEAD.size + entries * _ENTRY.size:
        raise DamagedState(
            f"Expected {entries} events in the state, got {end - _HEAD.size} bytes of events."
        )
    reserve, failure = _DELTAS.unpack_from(body, end) if version == 2 else (_ABSENT, b"")
    found = dict(_ENTRY.unpack_from(body, _HEAD.size + i * _ENTRY.size) for i in range(entries))
    unknown = sorted(code for code in found if code >= len(EVENTS))
    if unknown:
        raise DamagedState(
            f"The state counts releases of an unknown event {unknown[0]}. "
            f"Known: {', '.join(EVENTS)}."
        )
    if len(found) != entries or len(found) != len(EVENTS) or currency >= len(CURRENCIES):
        raise DamagedState(
            "The state lists its events or its currency in a form that this version does not write."
        )
    given = [None if isnan(number) else number for number in numbers]
    counts = tuple(found[code] for code in range(len(EVENTS)))
    try:
        budget = None if all(number is None for number in given) else Budget(*given)
        odometer = Odometer(
            CURRENCIES[currency],
            expected,
            int.from_bytes(units, "big"),
            counts,
            int.from_bytes(failure, "big"),
        )
        return odometer, budget, None if isnan(reserve) else reserve
    except HedgerowError as problem:
        raise DamagedState(f"The state holds values that no odometer has: {problem}") from problem

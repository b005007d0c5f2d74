"""Odometer and filter: what an adaptive stream of releases has spent, and whether one more fits.

Both keep one exact whole number and a few counts, whatever the number of releases. The millionth
release therefore takes as much time as the first. Only rules proven for parameters chosen during
the run are used (`proofs/odometer.md`): pure bounds add, rho adds, mu^2 adds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from math import ceil, isnan, log, log1p, sqrt
from typing import Any

from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.errors import HedgerowError, InvalidValue, Unsupported
from hedgerow.core.rounding import root_down, root_up, round_down, round_up
from hedgerow.core.validate import at_least, expect, positive
from hedgerow.privacy.budget import (
    CURRENCIES,
    EVENTS,
    UNIT,
    UNIT_BITS,
    Budget,
    Currency,
    amount,
    charge,
    cost_of,
    price,
    steps_of,
)
from hedgerow.privacy.calibrate import exact_capacity, largest_mu, largest_rho
from hedgerow.privacy.curves import GaussianDP, PureDP, ZeroConcentratedDP

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
        The number of steps so far of each kind: pure, bounded range, concentrated, Gaussian.

    Examples
    --------
    >>> from hedgerow.privacy import Odometer, PureDP
    >>> Odometer("pure").record(PureDP(0.25)).record(PureDP(0.5)).spent
    PureDP(bound=0.75)
    """

    currency: Currency
    expected: float = 1.0
    units: int = 0
    counts: tuple[int, ...] = (0,) * len(EVENTS)

    def __post_init__(self) -> None:
        expect(
            self.currency in CURRENCIES,
            "currency",
            self.currency,
            f"to be one of {', '.join(CURRENCIES)}",
        )
        positive("expected", self.expected)
        at_least("units", self.units, 0)
        expect(
            len(self.counts) == len(EVENTS),
            "counts",
            self.counts,
            f"to hold one number for each of {', '.join(EVENTS)}",
        )
        for count in self.counts:
            at_least("counts", count, 0)

    @property
    def releases(self) -> int:
        """The number of releases so far, with every step of a composition counted."""
        return sum(self.counts)

    def record(self, cost: PrivacyCurve) -> Odometer:
        """The odometer after one more release; a composition is counted as its steps."""
        after = self
        for step, count in steps_of(cost):
            after = after._after(*charge(step, self.currency), count)
        return after

    def _after(self, event: str, units: int, count: int) -> Odometer:
        at = EVENTS.index(event)
        counts = (*self.counts[:at], self.counts[at] + count, *self.counts[at + 1 :])
        after = object.__new__(Odometer)  # what the constructor checks has not changed
        after._set(self.currency, self.expected, self.units + count * units, counts)
        return after

    def _set(
        self, currency: Currency, expected: float, units: int, counts: tuple[int, ...]
    ) -> None:
        object.__setattr__(self, "currency", currency)
        object.__setattr__(self, "expected", expected)
        object.__setattr__(self, "units", units)
        object.__setattr__(self, "counts", counts)

    @property
    def spent(self) -> PrivacyCurve:
        """The running sum, rounded up to a float."""
        return _curve_above(self.units, self.currency)

    def realised(self, delta: float) -> float:
        """Bound the privacy loss so far, at all times at once, except with probability `delta`.

        Pure: the sum itself, on every path and with no exception. Otherwise a threshold of a
        geometric grid is fixed in advance for every size of the sum, and each gets its share of
        `delta` (`proofs/odometer.md#odometer`). This bounds the loss of the transcript for a reader
        at any time, even at a time chosen after looking at the transcript.

        >>> one = Odometer("concentrated", expected=0.02).record(ZeroConcentratedDP(0.01))
        >>> round(one.realised(1e-6), 3), round(ZeroConcentratedDP(0.01).epsilon(1e-6), 3)
        (0.858, 0.622)
        """
        if self.currency == "pure":
            return round_up(amount(self.units))
        expect(0 < delta < 1, "delta", delta, "> 0 and < 1")
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
        return _pack(self, None)

    @classmethod
    def from_bytes(cls, state: bytes) -> Odometer:
        """Read a state; raises `DamagedState` if it cannot be trusted."""
        odometer, budget = _unpack(state)
        if budget is not None:
            raise DamagedState("Expected the state of an odometer, got the state of a filter.")
        return odometer


@dataclass(frozen=True, slots=True, init=False)
class Filter:
    """A budget that charges every release in advance and refuses one that would exceed it.

    A filter is a value: `spend` returns the next filter and does not change this one. Keep exactly
    one filter, and store it before the release is published.

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

    Guarantee
    ---------
    Everything released before and after the first refusal is within `budget`, however the costs
    depend on earlier answers (`proofs/odometer.md#pure-filter`, `#concentrated-filter`,
    `#gaussian-filter`).

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
    """

    budget: Budget
    odometer: Odometer
    capacity: int = field(repr=False)  # the whole budget in units of the currency, rounded down

    def __init__(
        self, budget: Budget, currency: Currency | None = None, odometer: Odometer | None = None
    ) -> None:
        if odometer is None:
            odometer = Odometer(budget.currency if currency is None else currency)
        expect(
            currency in (None, odometer.currency),
            "currency",
            currency,
            f"to be that of the odometer, {odometer.currency!r}",
        )
        whole = capacity(budget, odometer.currency)
        expect(
            odometer.units <= whole,
            "the odometer's sum",
            float(amount(odometer.units)),
            f"within the budget {budget.words()}",
        )
        self._set(budget, odometer, whole)

    def _set(self, budget: Budget, odometer: Odometer, whole: int) -> None:
        object.__setattr__(self, "budget", budget)
        object.__setattr__(self, "odometer", odometer)
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
        """The largest release that still fits, as a curve of the currency."""
        return _curve_below(Fraction(self.capacity - self.odometer.units, UNIT), self.currency)

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
        return self.odometer.units + price(cost, self.currency) > self.capacity

    def spend(self, cost: PrivacyCurve) -> Filter:
        """The filter after this release; raises `BudgetSpent` if it does not fit."""
        meter, later = self.odometer, self.odometer.record(cost)
        if later.units > self.capacity:
            sums = (
                self.capacity - meter.units,
                later.units - meter.units,
                meter.units,
                self.capacity,
            )
            left, asked, used, whole = (f"{float(amount(each)):.6g}" for each in sums)
            name = _NAMES[self.currency]
            releases = f"{meter.releases} release{'' if meter.releases == 1 else 's'}"
            raise BudgetSpent(
                f"The release costs {name} = {asked}, but {used} of {whole} is already spent in "
                f"{releases} (budget: {self.budget.words()}). Release at most {name} = {left}."
            )
        after = object.__new__(Filter)  # the checks of the constructor hold by construction
        after._set(self.budget, later, self.capacity)
        return after

    def replay(self, ledger: Iterable[tuple[str, float]]) -> Filter:
        """The filter after every (event, value) of a ledger.

        A ledger with an unknown event, or one that overspends, is refused.
        """
        after = self
        for event, value in ledger:
            after = after.spend(cost_of(event, value))
        return after

    def to_bytes(self) -> bytes:
        """The whole state with a checksum, of the same length after any number of releases.

        The checksum detects accidents, not forgery. Sign the bytes if forgery is a risk.
        """
        return _pack(self.odometer, self.budget)

    @classmethod
    def from_bytes(cls, state: bytes) -> Filter:
        """Read a state; raises `DamagedState` if it cannot be trusted."""
        odometer, budget = _unpack(state)
        if budget is None:
            raise DamagedState("Expected the state of a filter, got the state of an odometer.")
        try:
            return cls(budget, odometer.currency, odometer)
        except HedgerowError as problem:
            raise DamagedState(f"The state holds values that no filter has: {problem}") from problem


@lru_cache(maxsize=1024)
def capacity(budget: Budget, currency: Currency) -> int:
    """How many units of a currency a budget holds, rounded down.

    A currency that does not imply the budget is refused.
    """
    if {"epsilon": "pure", "rho": "concentrated", "mu": "gaussian"}[budget.kind] == currency:
        units = exact_capacity(budget)
    elif budget.rho is not None and currency == "gaussian":
        units = 2 * exact_capacity(budget)
    elif budget.failure > 0 and currency != "pure":
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
    expect(
        units > 0,
        "budget",
        budget.words(),
        f"to hold at least 2^-{UNIT_BITS} of the {currency} currency",
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


# The stored state: a fixed layout, then a checksum of everything before it.
_MAGIC, _VERSION = b"hedgerow odometer", 1
_HEAD = struct.Struct(">17sHBd4d64sB")
_ENTRY = struct.Struct(">BQ")
_DIGEST = 32
_ABSENT = float("nan")


def _pack(odometer: Odometer, budget: Budget | None) -> bytes:
    parts: list[Any] = (
        [None] * 4 if budget is None else [budget.epsilon, budget.delta, budget.mu, budget.rho]
    )
    numbers = [_ABSENT if part is None else part for part in parts]
    units = odometer.units.to_bytes(64, "big")
    head = _HEAD.pack(
        _MAGIC,
        _VERSION,
        CURRENCIES.index(odometer.currency),
        odometer.expected,
        *numbers,
        units,
        len(EVENTS),
    )
    body = head + b"".join(_ENTRY.pack(code, count) for code, count in enumerate(odometer.counts))
    return body + blake2b(body, digest_size=_DIGEST).digest()


def _unpack(state: bytes) -> tuple[Odometer, Budget | None]:
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
    if version != _VERSION:
        raise DamagedState(f"Expected a state of version {_VERSION}, got version {version}.")
    if len(body) != _HEAD.size + entries * _ENTRY.size:
        raise DamagedState(
            f"Expected {entries} events in the state, got {len(body) - _HEAD.size} bytes of events."
        )
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
        return Odometer(
            CURRENCIES[currency], expected, int.from_bytes(units, "big"), counts
        ), budget
    except HedgerowError as problem:
        raise DamagedState(f"The state holds values that no odometer has: {problem}") from problem

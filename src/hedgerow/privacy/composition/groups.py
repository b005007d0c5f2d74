"""Curves of several records of one person or of several people, and of several runs.

Only rules proven in `proofs/mechanisms.md#curves` are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp, expm1, inf, isfinite

import numpy as np

from hedgerow.core.certificate import Certificate, Event, Guarantee, NoGuarantee, PrivacyCurve
from hedgerow.core.rounding import root_up, round_down, round_up
from hedgerow.core.validate import at_least, between, expect
from hedgerow.privacy.composition.bounded_range import WIDEST, AdaptiveBoundedRange
from hedgerow.privacy.composition.steps import PureComposition, pure_sum
from hedgerow.privacy.curves import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    LaplaceDP,
    PureDP,
    Quoted,
    ZeroConcentratedDP,
)
from hedgerow.privacy.curves.base import Symmetric
from hedgerow.privacy.search import closest

_UP = 1 + 2.0**-50  # covers the rounding of the few operations below
_FARTHEST = 1e4  # the search for epsilon ends here


def _times(count: int, value: float) -> float:
    return value if value == inf else round_up(count * Fraction(value))


def group(curve: PrivacyCurve, k: int) -> PrivacyCurve:
    """The curve between inputs that differ in k records, however the mechanism uses them.

    Pure: k epsilon. Bounded range: k range. Laplace: k bound. Gaussian: k mu. Zero-concentrated:
    k^2 rho. Approximate: k epsilon with delta (e^(k epsilon) - 1) / (e^epsilon - 1). By arrival:
    the same for the uniform curve. Any other curve: `Grouped`, a bound from the curve alone.

    Parameters
    ----------
    curve
        The curve of one record.
    k
        The number of records, >= 1.

    Examples
    --------
    >>> from hedgerow.privacy import GaussianDP, PureDP, ZeroConcentratedDP, group
    >>> group(PureDP(0.5), 3), group(ZeroConcentratedDP(0.5), 3), group(GaussianDP(0.5), 3)
    (PureDP(bound=1.5), ZeroConcentratedDP(rho=4.5), GaussianDP(mu=1.5))
    """
    at_least("k", k, 1)
    if k == 1 or isinstance(curve, NoGuarantee):
        return curve
    match curve:
        case PureDP(bound):
            grown = PureDP(_times(k, bound))
        case BoundedRange(width):
            grown = BoundedRange(_times(k, width))
        case LaplaceDP(bound):
            grown = LaplaceDP(_times(k, bound))
        case GaussianDP(mu):
            grown = GaussianDP(_times(k, mu))
        case ZeroConcentratedDP(rho):
            grown = ZeroConcentratedDP(_times(k * k, rho))
        case ApproximateDP(epsilon, delta):
            grown = ApproximateDP(_times(k, epsilon), _group_delta(epsilon, delta, k))
        case Quoted():
            grown = Quoted(group(curve.curve, k), curve.at_delta)
        case Grouped():
            grown = Grouped(curve.curve, k * curve.records)
        case _:
            grown = Grouped(curve, k)
    return grown


def _group_delta(epsilon: float, delta: float, k: int) -> float:
    """delta (1 + e^epsilon + ... + e^((k - 1) epsilon)), at most 1, rounded up."""
    if delta == 0:
        return 0.0
    if k * epsilon > 700:
        return 1.0
    rounding = _UP * (1 + k * epsilon * 2.0**-51)  # of the exponents
    return min(
        1.0,
        rounding
        * delta
        * (k if epsilon == 0 else exp(epsilon * (k - 1)) * expm1(-k * epsilon) / expm1(-epsilon)),
    )


@dataclass(frozen=True)
class Grouped(Symmetric):
    """The curve of `records` records, from the curve of one record alone.

    delta(epsilon) = (1 + e^e + ... + e^((records - 1) e)) curve.delta(e) with
    e = epsilon / records, or with a smaller e if that gives less. A composition of n steps for one
    record is not a composition of n wider steps for several records: another record may differ in
    other steps.

    >>> curve = Grouped(AdaptiveBoundedRange(0.125, 8), 2)
    >>> curve.epsilon(0.0), round(curve.epsilon(1e-6), 2)
    (2.0, 1.48)
    """

    curve: PrivacyCurve
    records: int

    @property
    def pure(self) -> float:
        return _times(self.records, self.curve.epsilon(0.0))

    def _delta(self, epsilon: float) -> float:
        if self.pure < inf and epsilon >= self.pure:
            return 0.0
        if epsilon == inf:  # a curve that never fails has delta 0 there; else any bound holds
            return self._bound(self._turn) if self.curve.delta(inf) > 0 else 0.0
        each = round_down(Fraction(epsilon) / self.records)
        return min(self._bound(each), self._bound(min(each, self._turn)))

    def _bound(self, each: float) -> float:
        return _group_delta(each, self.curve.delta(each), self.records)

    @cached_property
    def _turn(self) -> float:
        """Where the bound is about least; beyond it the curve falls too slowly to help."""
        return min((2 ** (power / 4) for power in range(-40, 41)), key=self._bound)

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        pure, high = self.pure, max(_times(self.records, self.curve.epsilon(delta)), 1e-9)
        if self._delta(0.0) <= delta:
            return 0.0
        while high < pure and self._delta(high) > delta:
            high = 1.5 * high if high < _FARTHEST else inf
        return (
            closest(lambda at: self._delta(at) <= delta, min(high, pure), 0.0, 1e-12)
            if isfinite(high) and delta > 0
            else pure
        )

    def words(self) -> str:
        return f"{self._quote()} ({self.records} records; for one: {self.curve.words()})"


def appearances(curve: PrivacyCurve, k: int, *, separate_reports: bool = False) -> PrivacyCurve:
    """The curve of a person with at most k records.

    This is `group(curve, k)`, or less if every record has its own report. Separate reports compose:
    pure and bounded range by their optimal composition, Gaussian sqrt(k) mu, zero-concentrated
    k rho, approximate (k epsilon, k delta). One Gaussian report with all k records costs k mu.

    Parameters
    ----------
    curve
        The curve of one record.
    k
        The largest number of records of one person, >= 1.
    separate_reports
        True only if each record enters one report with fresh noise, the report has this curve given
        all earlier reports, and nothing else is computed from the record. A report may be several
        releases (`proofs/mechanisms.md#separate-releases`). Default: False.

    Examples
    --------
    >>> from hedgerow.privacy import GaussianDP, appearances
    >>> appearances(GaussianDP(0.5), 4, separate_reports=True), appearances(GaussianDP(0.5), 4)
    (GaussianDP(mu=1.0), GaussianDP(mu=2.0))
    """
    at_least("k", k, 1)
    if not separate_reports or k == 1:
        return group(curve, k)
    match curve:
        case PureDP(bound) | LaplaceDP(bound) if isfinite(bound):
            all_reports = PureComposition(bound, k)
        case BoundedRange(width):
            all_reports = (
                AdaptiveBoundedRange(width, k) if width <= WIDEST else PureDP(_times(k, width))
            )
        case GaussianDP(mu):
            all_reports = GaussianDP(root_up(k * Fraction(mu) ** 2))
        case ZeroConcentratedDP(rho):
            all_reports = ZeroConcentratedDP(_times(k, rho))
        case ApproximateDP(epsilon, delta):
            all_reports = ApproximateDP(_times(k, epsilon), min(1.0, _times(k, delta)))
        case Quoted():
            all_reports = Quoted(appearances(curve.curve, k, separate_reports=True), curve.at_delta)
        case _:
            all_reports = group(curve, k)
    return all_reports


def of_records(certificate: Certificate, guarantee: Guarantee, k: int) -> PrivacyCurve:
    """The curve of a person with at most k records, from the guarantee of one record.

    Parameters
    ----------
    certificate
        The certificate; it says whether the records enter separate releases.
    guarantee
        One of its guarantees. Its unit is one record, unless k is 1.
    k
        The largest number of records of one person, at all clients together, >= 1.

    Examples
    --------
    >>> import hedgerow as hr
    >>> from hedgerow.privacy import of_records
    >>> certificate = hr.SparseVector(epsilon=0.5).build(hr.Setting(10, 100, 512)).certificate
    >>> of_records(certificate, certificate.public, 3)
    PureDP(bound=1.5)
    """
    unit = guarantee.unit
    expect(k == 1 or isinstance(unit, Event), "k", k, f"to be 1: the unit is {unit.words()}")
    return appearances(guarantee.curve, k, separate_reports=certificate.separate)


def repeated(curve: PrivacyCurve, runs: int) -> PrivacyCurve:
    """The curve of several runs on the same data.

    Each run has fresh noise, and has this curve whatever the earlier runs released. Exact for pure
    (the sum, `proofs/composition.md#pure-sum`), bounded-range, Gaussian and zero-concentrated
    guarantees (`groups.appearances`, where a run is a report). For every other curve the quoted
    (epsilon, delta) is added.

    >>> repeated(PureDP(0.5), 3), repeated(GaussianDP(0.5), 4)
    (PureDP(bound=1.5), GaussianDP(mu=1.0))
    >>> repeated(ApproximateDP(0.5, 2.0**-20), 4)
    ApproximateDP(at_epsilon=2.0, at_delta=3.814697265625e-06)
    """
    at_least("runs", runs, 1)
    if runs == 1 or isinstance(curve, NoGuarantee):
        return curve
    match curve:
        case PureDP() | LaplaceDP():
            total = pure_sum([curve] * runs)
        case AdaptiveBoundedRange(width, steps):
            total = AdaptiveBoundedRange(width, steps * runs)
        case GaussianDP() | ZeroConcentratedDP() | BoundedRange():
            total = appearances(curve, runs, separate_reports=True)
        case Quoted(
            curve=AdaptiveBoundedRange() | BoundedRange() | GaussianDP() | ZeroConcentratedDP()
        ):
            total = Quoted(repeated(curve.curve, runs), curve.at_delta)
        case _:
            total = appearances(ApproximateDP(*curve.stated()), runs, separate_reports=True)
    return total


Corner = tuple[float, float]  # false alarms, detections


def group_attacks(corners: Sequence[Corner], records: int) -> list[Corner]:
    """The corners of a polygon that bounds every attack on `records` records.

    `corners` are those of such a polygon for one record. The polygon g from (0, g(0)) to (1, 1) is
    concave and does not fall. For k records it is g(g(...g(alarms))), k times. This is again
    concave and piecewise linear, with a corner wherever an inner value meets a corner of g.

    >>> randomised_response = [(0.0, 0.0), (0.25, 0.75), (1.0, 1.0)]
    >>> [(round(a, 4), round(found, 4)) for a, found in group_attacks(randomised_response, 2)]
    [(0.0, 0.0), (0.0833, 0.75), (0.25, 0.9167), (1.0, 1.0)]
    """
    at_least("records", records, 1)
    alarms, found = np.asarray(corners, float).T
    rising = np.concatenate([[True], np.diff(found) > 0])  # where g can be inverted
    after = [alarms]  # detections at the corners, for 0, 1, ... records
    for _ in range(records):
        after.append(np.interp(after[-1], alarms, found))
    grown, before, ends = set(), alarms, np.arange(len(alarms))
    for step in range(records):
        grown.update(zip(before.tolist(), after[records - step][ends].tolist(), strict=True))
        reached = before >= found[0]  # lower values are detected without any false alarm
        before, ends = np.interp(before[reached], found[rising], alarms[rising]), ends[reached]
    return sorted(grown)

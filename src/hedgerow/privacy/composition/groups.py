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
import numpy.typing as npt

from hedgerow.core.certificate import Certificate, Guarantee, NoGuarantee, PrivacyCurve
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.rounding import root_up, round_down, round_up
from hedgerow.core.units import Event
from hedgerow.core.validate import at_least, between
from hedgerow.privacy.budget import amount, price
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
from hedgerow.privacy.curves.base import Composed, Symmetric
from hedgerow.privacy.curves.wrapped import SmallestOf
from hedgerow.privacy.search import closest

_UP = 1 + 2.0**-50  # covers the rounding of the few operations below
_FARTHEST = 1e4  # the search for epsilon ends here
_FOLLOWED = 1000  # use the whole trade-off up to this many records
_LINES, _STARTS = 400, 8000  # how many points of one curve, and of that of a group, are used
_LEVELS = (1e-2, 1e-8, 1e-16, 1e-20, 1e-25, 1e-50, 1e-150, 1e-300)  # points are close up to these
_STEEPEST, _LAST = 500.0, 700.0  # the largest epsilons of one curve, and of that of a group

Values = npt.NDArray[np.float64]


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
    """The curve of `records` records, from the curve of one record alone: its trade-off, repeated.

    With real e_1, ..., e_k of sum <= epsilon, delta(epsilon) is at most the sum over i of
    curve.delta(e_i) exp(e_(i+1) + ... + e_k). The least such sum is that of the k-fold trade-off;
    no rule that uses the curve alone has less (`proofs/mechanisms.md#curves`). A composition of n
    steps for one record is not a composition of n wider steps for several records: another record
    may differ in other steps.

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
        at, found = self._points
        if epsilon == inf:  # a curve that never fails has delta 0 there; else any bound holds
            return float(found[-1]) if self.curve.delta(inf) > 0 else 0.0
        each = round_down(Fraction(epsilon) / self.records)
        equal = _group_delta(each, self.curve.delta(each), self.records)
        right = int(np.searchsorted(at, epsilon))
        if right == len(at):
            return min(equal, float(found[-1]))
        if right == 0:
            return equal
        # a chord of a function that is convex in e^epsilon lies above it
        part = exp(epsilon - at[right]) * expm1(at[right - 1] - epsilon)
        part = max(0.0, min(1.0, part / expm1(at[right - 1] - at[right]) * (1 - 2.0**-40)))
        low, high = float(found[right - 1]), float(found[right])
        return min(equal, (high + (1 - part) * (low - high)) * _UP)

    @cached_property
    def _points(self) -> tuple[Values, Values]:
        """Pairs (epsilon, delta), rounded upward; epsilon rises and delta does not.

        From one record to the next, the best line multiplies what an attack detects by e^e and adds
        curve.delta(e). The lines of all records make one line; every first rate gives a pair.
        """
        lines, offsets = _lines(_with_tail(self.curve))
        if self.records > _FOLLOWED:  # the same line for every record
            above = lines >= 0
            pairs = zip(lines[above].tolist(), offsets[above].tolist(), strict=True)
            total = self.records * lines[above] * _UP
            raised = np.array([_group_delta(e, d, self.records) for e, d in pairs])
        else:
            logs = np.linspace(-745.0, 0.0, 1000)
            total, raised = _chains(lines, offsets, self.records, np.exp(logs))
            used = total[(total >= 0) & (raised > 1e-150)]
            aims = np.linspace(0.0, used.max(initial=0.0), _STARTS)
            starts = np.exp(np.interp(aims, total[::-1], logs[::-1]))
            more = _chains(lines, offsets, self.records, starts)
            total, raised = np.append(total, more[0]), np.append(raised, more[1])
        at = np.append(total, self.pure)
        found = np.minimum(1.0, np.append(raised, 0.0))
        order = np.lexsort((found, at))
        order = order[at[order] < _LAST]
        kept = order[_below(np.exp(at[order]), found[order])]
        return at[kept], found[kept]

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


def _below(x: Values, y: Values) -> list[int]:
    """Which points bound a set of points from below and from the left: x rises, y falls, convex."""
    kept, turns = [0], [inf]
    for i in range(1, len(x)):
        if not (y[i] < y[kept[-1]] and x[i] > x[kept[-1]]):
            continue
        while (turn := (y[kept[-1]] - y[i]) / (x[i] - x[kept[-1]])) >= turns[-1]:
            kept.pop()
            turns.pop()
        kept.append(i)
        turns.append(turn)
    return kept


def _with_tail(curve: PrivacyCurve) -> PrivacyCurve:
    """A curve of steps, and the zero-concentrated one of the same steps: tables end at 1e-17."""
    if not isinstance(curve, Composed):
        return curve
    try:
        rho = round_up(amount(price(curve, "concentrated")))
    except HedgerowError:  # a step has none
        return curve
    return SmallestOf((curve, ZeroConcentratedDP(rho)))


def _lines(curve: PrivacyCurve) -> tuple[Values, Values]:
    """The epsilons at which a curve is read, rising, and its deltas there.

    They lie close together where delta is not tiny. Lines that are nowhere the lowest are left out.
    """
    ends = [curve.stated()[0], *(curve.epsilon(delta) for delta in (0.0, *_LEVELS))]
    ends = [min(end, _STEEPEST) for end in ends]
    above = np.unique(np.concatenate([np.linspace(0.0, end, _LINES) for end in ends]))
    lines = np.concatenate([-above[:0:-1], above])
    offsets = np.array([curve.delta(float(line)) for line in lines])
    kept = _below(np.exp(lines), offsets)
    return lines[kept], offsets[kept]


def _chains(lines: Values, offsets: Values, count: int, found: Values) -> tuple[Values, Values]:
    """The best line of each record in turn, from some false-alarm rates: their sums and offsets."""
    slopes = np.exp(lines) * _UP
    turns = (-np.diff(offsets) / np.diff(slopes))[::-1]
    total, size, raised = (np.zeros(len(found)) for _ in range(3))
    with np.errstate(over="ignore", under="ignore"):
        for _ in range(count):
            best = len(turns) - np.searchsorted(turns, found)
            found = np.minimum(1.0, slopes[best] * found + offsets[best])
            total, size = total + lines[best], size + np.abs(lines[best])
            raised = (slopes[best] * raised + offsets[best]) * _UP * _UP
    return total + size * count * 2.0**-52, raised


def of_one_person(curve: PrivacyCurve, k: int, *, separate_reports: bool = False) -> PrivacyCurve:
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
    >>> from hedgerow.privacy import GaussianDP, of_one_person
    >>> of_one_person(GaussianDP(0.5), 4, separate_reports=True), of_one_person(GaussianDP(0.5), 4)
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
            all_reports = Quoted(
                of_one_person(curve.curve, k, separate_reports=True), curve.at_delta
            )
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
    if k != 1 and not isinstance(unit, Event):
        raise InvalidValue(f"Expected k={k!r} to be 1: the unit is {unit.words()}.")
    return of_one_person(guarantee.curve, k, separate_reports=certificate.separate)


def repeated(curve: PrivacyCurve, runs: int) -> PrivacyCurve:
    """The curve of several runs on the same data.

    Each run has fresh noise, and has this curve whatever the earlier runs released. Exact for pure
    (the sum, `proofs/composition.md#pure-sum`), bounded-range, Gaussian and zero-concentrated
    guarantees (`groups.of_one_person`, where a run is a report). For every other curve the quoted
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
            total = of_one_person(curve, runs, separate_reports=True)
        case Quoted(
            curve=AdaptiveBoundedRange() | BoundedRange() | GaussianDP() | ZeroConcentratedDP()
        ):
            total = Quoted(repeated(curve.curve, runs), curve.at_delta)
        case _:
            total = of_one_person(ApproximateDP(*curve.stated()), runs, separate_reports=True)
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

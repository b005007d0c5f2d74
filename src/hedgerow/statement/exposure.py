"""How well attacks can do on a person with one record or several, from the recorded curve."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Protocol

import numpy as np

from hedgerow.core.mechanism import PrivacyCurve
from hedgerow.privacy.composition.groups import group, group_attacks, of_one_person
from hedgerow.privacy.curves import promise
from hedgerow.records.build import STEEPEST, curve_of, curve_record
from hedgerow.records.schema import Attack, CurveRecord, Total

SHOWN_ALARMS = (0.01, 0.05, 0.1)
LARGE = 1e-3  # from this delta on, the outline may give a smaller one
FOLLOWED = 1000  # use the whole curve up to this many records; beyond, nothing is left


class Point(Protocol):
    """The (epsilon, delta) of a curve or of the total of several runs."""

    @property
    def epsilon(self) -> float: ...

    @property
    def delta(self) -> float: ...


@dataclass(frozen=True)
class Quote:
    """An (epsilon, delta) to print."""

    epsilon: float
    delta: float


def _grown(point: Point, records: int) -> Quote:
    return Quote(*group(promise(point.epsilon, point.delta), records).stated())


def _whole(
    curve: CurveRecord, total: Total | None, records: int, separate: bool
) -> PrivacyCurve | None:
    """The curve of this many records in all runs, from the whole curve of one record.

    Only if the records enter separate releases: then those of all runs compose.
    """
    runs = 1 if total is None else total.runs
    one = curve_of(curve) if separate and records * runs > 1 else None
    return None if one is None else of_one_person(one, records * runs, separate_reports=True)


def exposure_outline(
    curve: CurveRecord, total: Total | None, records: int, separate: bool = False
) -> list[Attack]:
    """Corners of a polygon; no attack on a person with this many records lies above it."""
    whole = _whole(curve, total, records, separate)
    if whole is not None and (drawn := curve_record(whole)) is not None:
        return drawn.outline
    if total is None and records <= FOLLOWED:
        one = curve.outline
    else:
        one = _two_lines(_grown(total or curve, records if records > FOLLOWED else 1))
    if records == 1 or records > FOLLOWED:
        return one
    return [
        Attack(*corner)
        for corner in group_attacks([(a.false_alarms, a.detections) for a in one], records)
    ]


def _two_lines(point: Point) -> list[Attack]:
    """All that one (epsilon, delta) says: found <= delta + e^epsilon alarms, and its mirror."""
    left = 1 - point.delta
    even = left / (1 + exp(min(point.epsilon, STEEPEST)))
    corners = {0.0: point.delta, even: 1 - even, left: 1.0, 1.0: 1.0}
    return [Attack(alarms, found) for alarms, found in sorted(corners.items())]


def _quoted(one: CurveRecord, whole: PrivacyCurve) -> Quote:
    """The point by which the curve of several records is quoted."""
    return Quote(*whole.stated()) if one.delta > 0 else Quote(whole.epsilon(0.0), 0.0)


def of_records(
    curve: CurveRecord, total: Total | None, records: int, separate: bool = False
) -> Quote:
    """The (epsilon, delta) of a person with this many records.

    It comes from the whole curve if the records enter separate releases. Otherwise it comes from
    the quoted point and, if that delta has grown large, from the outline. A pure guarantee stays
    pure.
    """
    whole = _whole(curve, total, records, separate)
    if whole is not None:
        return _quoted(curve, whole)
    quoted = _grown(total or curve, records)
    if quoted.delta < LARGE:
        return quoted
    growth = exp(min(quoted.epsilon, STEEPEST))
    possible = max(
        a.detections - growth * a.false_alarms for a in exposure_outline(curve, total, records)
    )
    return Quote(quoted.epsilon, min(quoted.delta, possible))


@dataclass(frozen=True)
class Exposure:
    """How well the best attack on a person with `records` records can do, at most.

    `even_guess` is how often an even bet is won; `found` is how often the truth is found at each
    rate of false alarms in `SHOWN_ALARMS`.
    """

    records: int
    epsilon: float
    delta: float
    even_guess: float
    found: tuple[float, ...]


def exposure(
    curve: CurveRecord, total: Total | None, records: int, separate: bool = False
) -> Exposure:
    """The exposure of a person with this many records; see `Certificate.separate`.

    An even bet is won most often at a corner of the outline.
    """
    whole, shown, point = _whole(curve, total, records, separate), None, Quote(0.0, 1.0)
    if whole is not None:
        shown, point = curve_record(whole), _quoted(curve, whole)
    elif records == 1 and total is None:
        shown, point = curve, Quote(curve.epsilon, curve.delta)
    if shown is not None:
        found = tuple(map(shown.detections, SHOWN_ALARMS))
        return Exposure(records, point.epsilon, point.delta, shown.even_guess, found)
    corners = exposure_outline(curve, total, records, separate)
    found = np.interp(
        SHOWN_ALARMS, [a.false_alarms for a in corners], [a.detections for a in corners]
    )
    even_guess = (1 + max(a.detections - a.false_alarms for a in corners)) / 2
    point = of_records(curve, total, records, separate)
    return Exposure(records, point.epsilon, point.delta, even_guess, tuple(found.tolist()))

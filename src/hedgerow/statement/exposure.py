"""How well attacks can do on a person with one record or several, from the recorded curve."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Protocol

import numpy as np

from hedgerow.privacy.composition.groups import group, group_attacks
from hedgerow.privacy.curves import ApproximateDP, PureDP
from hedgerow.records.build import STEEPEST
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
    curve = PureDP(point.epsilon) if point.delta == 0 else ApproximateDP(point.epsilon, point.delta)
    return Quote(*group(curve, records).stated())


def outline(curve: CurveRecord, total: Total | None, records: int) -> list[Attack]:
    """Corners of a polygon; no attack on a person with this many records lies above it."""
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


def of_records(curve: CurveRecord, total: Total | None, records: int) -> Quote:
    """The (epsilon, delta) of a person with this many records.

    It comes from the quoted point and, if that delta has grown large, from the outline.
    """
    quoted = _grown(total or curve, records)
    if quoted.delta < LARGE:
        return quoted
    growth = exp(min(quoted.epsilon, STEEPEST))
    possible = max(a.detections - growth * a.false_alarms for a in outline(curve, total, records))
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


def exposure(curve: CurveRecord, total: Total | None, records: int) -> Exposure:
    """The exposure of a person with this many records.

    An even bet is won most often at a corner of the outline.
    """
    if records == 1 and total is None:
        return Exposure(
            1,
            curve.epsilon,
            curve.delta,
            curve.even_guess,
            tuple(map(curve.detections, SHOWN_ALARMS)),
        )
    corners = outline(curve, total, records)
    found = np.interp(
        SHOWN_ALARMS, [a.false_alarms for a in corners], [a.detections for a in corners]
    )
    even_guess = (1 + max(a.detections - a.false_alarms for a in corners)) / 2
    point = of_records(curve, total, records)
    return Exposure(records, point.epsilon, point.delta, even_guess, tuple(found.tolist()))

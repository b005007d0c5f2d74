"""An algorithm for a larger unit: the budget of one record, and the certificate of the unit.

The budget of the user is that of the unit. One record gets the part with which the rule for several
records (`PrivacyCurve.of_records`) gives the unit what was asked; so any algorithm can protect any
unit that its game can hold (`proofs/mechanisms.md#units`).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import exp, expm1
from typing import TYPE_CHECKING, Any

from hedgerow.core.certificate import OTHER_CLIENTS, Certificate, Guarantee
from hedgerow.core.errors import HedgerowError, Unsupported
from hedgerow.core.rounding import round_down
from hedgerow.core.setting import Setting
from hedgerow.core.units import Event, Part, Person, Unit
from hedgerow.core.validate import parameters

if TYPE_CHECKING:
    from hedgerow.core.protocol import Algorithm, AlgorithmSpec

CLOSE = 1e-3  # how far the certified epsilon may stay below what was asked
TRIES = 12
LARGE = 500.0  # from here on e^epsilon - 1 is e^epsilon, and may be no float


def protecting(spec: AlgorithmSpec, unit: Unit, setting: Setting) -> Algorithm:
    """The algorithm of a spec whose budget is that of `unit`."""
    count, name = unit.size(setting), type(spec).__name__
    if isinstance(unit, Part):
        raise Unsupported(
            f"{name} has no noise for a declared part. Choose a unit of whole records, such as "
            f"unit={unit.of.text()!r}."
        )
    one: Any = replace(spec, unit=None)
    built: Algorithm = one.resolve(setting)
    if not any(guarantee.protects for guarantee in built.certificate.guarantees):
        raise Unsupported(
            f"{name} protects nobody with these choices, so unit={unit.text()!r} has no meaning. "
            "Leave it out, or choose a private algorithm (`hedgerow list algorithms`)."
        )
    own = [_whole(g.unit) for g in built.certificate.guarantees]
    other = next((found for found in own if found != Event(record=found.record)), None)
    if other is not None:
        raise Unsupported(
            f"{name} protects {other.words()} with these choices, so it cannot have "
            f"unit={unit.text()!r} too. Choose one of them."
        )
    if count == 1:
        return _certified(built, unit, 1, 0.0)
    given = parameters(one)
    if (mu := given.get("mu")) is not None:
        root = count**0.5 if built.certificate.separate else count
        part = mu / root * (1 - 2.0**-50)
        return _certified(replace(one, mu=part).resolve(setting), unit, count, 0.0)
    epsilon, delta = spec.traits.epsilon, spec.traits.delta
    asked = given.get(epsilon or "")
    if all(g.curve.epsilon(0.0) == 0 for g in built.certificate.guarantees if g.protects):
        return _certified(built, unit, count, 0.0)
    if epsilon is None or asked is None:
        raise Unsupported(
            f"{name} has no budget that could be divided among {count} records. Choose another "
            "algorithm for this unit, or leave `unit` out."
        )
    failure = given.get(delta or "") or 0.0
    choices = {epsilon: round_down(Fraction(asked) / count)}
    if not failure:
        return _certified(replace(one, **choices).resolve(setting), unit, count, 0.0)
    choices[str(delta)] = _least_failure(asked, failure, count)

    def at(share: float) -> tuple[float, Algorithm]:
        found = replace(one, **{**choices, epsilon: share}).resolve(setting)
        found = _certified(found, unit, count, failure)
        costs = [g.curve.epsilon(failure) for g in found.certificate.guarantees if g.protects]
        return max(costs), found

    return _largest(at, asked / count, asked)


def with_own_pattern(spec: AlgorithmSpec, unit: Unit, setting: Setting) -> Algorithm:
    """The algorithm of a spec whose noise is already for all records of `unit`."""
    return _certified(spec.resolve(setting), unit, 1, 0.0)


def _largest(at: Any, share: float, asked: float) -> Algorithm:
    """The algorithm with nearly the largest share whose unit gets at most what was asked."""
    spent, best = at(share)
    while spent > asked:  # by rounding, in general
        share *= min(1 - 1e-9, asked / spent)
        spent, best = at(share)
    good, bad = (share, spent), (0.0, 0.0)
    for _ in range(TRIES):
        if good[1] >= asked * (1 - CLOSE):
            break
        aim = good[0] * asked / good[1] * (1 - CLOSE / 3)
        if bad[0]:  # between the two, where a line meets what was asked
            part = (asked * (1 - CLOSE / 3) - good[1]) / (bad[1] - good[1])
            aim = good[0] + (bad[0] - good[0]) * min(max(part, 0.05), 0.95)
        try:
            cost, found = at(aim)
        except HedgerowError:  # more than the algorithm can have
            cost, found = 2 * asked, best
        if cost <= asked:
            good, best = (aim, cost), found
        else:
            bad = (aim, cost)
    return best


def _least_failure(asked: float, failure: float, count: int) -> float:
    """The delta of one record with which `count` records of epsilon / count have `failure`."""
    if asked < LARGE:
        return failure * expm1(asked / count) / expm1(asked)
    return max(failure * exp(asked / count - asked), failure * 1e-250)


def _certified(built: Algorithm, unit: Unit, count: int, at_delta: float) -> Algorithm:
    """The same algorithm with the guarantees that `count` records have."""
    found, separate = built.certificate, built.certificate.separate
    entered = None if found.entered is None else found.entered * count
    guarantees = tuple(_guarantee(g, unit, count, separate, at_delta) for g in found.guarantees)
    certificate: Certificate = replace(found, guarantees=guarantees, entered=entered, grown=count)
    return replace(built, certificate=certificate)


def _whole(unit: Unit) -> Unit:
    """What a declared part is a part of; a person with one record has one record."""
    found = unit.of if isinstance(unit, Part) else unit
    one = isinstance(found, Person) and found.records == 1
    return Event(record=found.record) if one else found


def _guarantee(g: Guarantee, unit: Unit, count: int, separate: bool, at_delta: float) -> Guarantee:
    whole = replace(unit, record=_whole(g.unit).record)
    if isinstance(g.unit, Part):  # what is declared about one record holds for each
        whole = replace(g.unit, of=whole)
    stays = g.adjacency.removeprefix(g.unit.adjacency())
    elsewhere = isinstance(unit, Person) and unit.clients > 1
    return replace(
        g,
        unit=whole,
        adjacency=whole.adjacency() + stays,
        curve=g.curve.of_records(count, separate, at_delta),
        claimed=None if count > 1 else g.claimed,
        assumes=g.assumes | {OTHER_CLIENTS} if elsewhere and g.protects else g.assumes,
    )

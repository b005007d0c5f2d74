"""Units: which covers which, and how an account writes its own."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite

from hedgerow.core.certificate import Event, Part, Person, Site, Unit
from hedgerow.core.errors import InvalidValue
from hedgerow.core.record import LOSS_VECTOR, Record

RECORD = Record("record", "r", "", "what one client reports about one round")
"""The record of an account: all that a client reports in one round, whatever a study calls it."""
UNITS = "event, event:NUMBER or part:NUMBER"


def covers(unit: Unit, other: Unit) -> bool:
    """Whether every change that `other` allows is one that `unit` allows.

    If it does, a guarantee for `unit` holds for `other` too. The answer is True only where this is
    known: a declared part covers no whole, a record that is one of several covers no whole record,
    and a unit of another kind covers nothing.

    >>> covers(Person(3, may_span_clients=True), Event()), covers(Event(), Site())
    (True, False)
    >>> person = Person(1, may_span_clients=True)
    >>> covers(Part(person, 1e-6, 1e-6), Event())
    False
    """
    if isinstance(unit, Part) or isinstance(other, Part):
        return (
            isinstance(unit, Part)
            and isinstance(other, Part)
            and _scale(unit) == _scale(other)
            and unit.least >= other.most
            and covers(unit.of, other.of)
        )
    own, theirs = _places(unit), _places(other)
    return (
        own is not None
        and theirs is not None
        and unit.record.each in (1, other.record.each)
        and own[0] >= theirs[0]
        and own[1] >= theirs[1]
    )


def _scale(part: Part) -> tuple[str, tuple[float, float]]:
    """What the declared numbers are measured in."""
    return part.record.charge, part.record.bounds


def _places(unit: Unit) -> tuple[float, bool] | None:
    """The most records of a unit, and whether they may be at several clients; None: not known."""
    kind = type(unit)  # a subclass may be about less
    if kind is Person and isinstance(unit, Person):
        return unit.appearances, unit.may_span_clients and unit.appearances > 1
    return {Event: (1, False), Site: (inf, False)}.get(kind)


def parse_unit(text: str) -> Unit:
    """The unit that an account writes as `text`.

    >>> parse_unit("event").words()
    'one record of one client in one round'
    >>> parse_unit("event:8").words()
    'one of the 8 records of one client in one round'
    >>> parse_unit("part:0.001").words()[:51]
    'one person with one record that moves the losses of'
    >>> parse_unit("everything")
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Expected unit='everything' to be event, event:NUMBER or ...
    """
    kind, _, number = text.partition(":")
    try:
        if text == "event":
            return Event(record=RECORD)
        if kind == "event" and (each := int(number)) > 1:
            return Event(record=replace(RECORD, each=each))
        if kind == "part" and isfinite(moves := float(number)) and moves > 0:
            person = Person(1, may_span_clients=True, record=RECORD)
            return Part(person, moves, moves, record=LOSS_VECTOR)
    except ValueError:
        pass
    raise InvalidValue(
        f"Expected unit={text!r} to be {UNITS}, such as event:8 (a round has 8 records, at least "
        "2) or part:0.001 (more than 0)."
    )


def unit_text(unit: Unit) -> str | None:
    """The account's unit that this unit covers, as short text; None: an account has none such.

    >>> unit_text(Event()), unit_text(Part(Person(1, may_span_clients=True), 0.5, 0.75))
    ('event', 'part:0.5')
    """
    match unit:
        case Part():
            text = f"part:{unit.least!r}"
        case Event() if unit.record.each > 1:
            text = f"event:{unit.record.each}"
        case _:
            text = "event"
    return text if covers(unit, parse_unit(text)) else None

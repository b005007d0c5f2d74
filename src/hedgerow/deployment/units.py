"""How an account writes its unit."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

from hedgerow.core.errors import InvalidValue
from hedgerow.core.record import LOSS_VECTOR, Record
from hedgerow.core.units import Event, Part, Person, Unit, covers

RECORD = Record("record", "r", "", "what one client reports about one round")
"""The record of an account: all that a client reports in one round, whatever a study calls it."""
UNITS = "event, event:NUMBER or part:NUMBER"


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
            person = Person(1, record=RECORD)
            return Part(person, moves, moves, record=LOSS_VECTOR)
    except ValueError:
        pass
    raise InvalidValue(
        f"Expected unit={text!r} to be {UNITS}, such as event:8 (a round has 8 records, at least "
        "2) or part:0.001 (more than 0)."
    )


def unit_text(unit: Unit) -> str | None:
    """The account's unit that this unit covers, as short text; None: an account has none such.

    >>> unit_text(Event()), unit_text(Part(Person(1), 0.5, 0.75))
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
